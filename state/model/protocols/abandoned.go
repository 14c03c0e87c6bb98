// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/state/model/internal/checker"
)

// An abandoned is a model of how a holder learns that the one before it died, or
// lost the lock, while it was inside, so that what the lock protects may be half
// done. It is opt-in, for an exclusive lock.
//
// The protocol, step by step:
//
//  1. A mark M is a persistent node of its own, <root>/.held/<the lock's name>. It is
//     not the data of the lock's directory: any client that queues by one request
//     empties that.
//  2. When the process is granted the lock, and before any caller is told, one
//     transaction checks the process's node in the queue and creates M with that
//     node's unique name. That is one write more for each grant, and proves the
//     session. If M exists, the process reads it. If the name is its own (the answer
//     was lost), that is fine. If not, the last holder was interrupted: one
//     transaction checks the node and writes into M the own name, and that M was
//     taken over. The caller is told that the lock was abandoned. That M says so
//     outlives a lost answer.
//  3. A release or a downgrade deletes M in the transaction that deletes the node. If
//     the holder was told of an interruption and did not say that it has recovered
//     from it, M stays, and the next holder is told, too.
//  4. Clients that do not take part neither set nor clear M. Readers do not set it;
//     they may read it, for one request more. A lock with a mark does not linger. A
//     holder that dies between making M and being told, or after its last step and
//     before the release, is reported although it did no harm.
//  5. With a lock-delay d, the heir waits for d before it is told, first in line,
//     whenever M says that a holder was interrupted. What that holder had sent to
//     other services before its session ended has arrived by then, or never will.
//     The wait begins when the heir has taken M over, or has found its own M that
//     says so. If it gives up during the wait, it deletes its node, and M stays.
//
// How it is modelled. Each client queues some times, loses its session or dies at
// any moment, and any answer to a write may be lost. Two ghosts keep the truth:
// whether a holder was interrupted since the last clean release, and whether one
// may have been.
type abandoned struct {
	rules   abandonedRules
	clients []abandonedClient
}

// The invariants of the mark.
const (
	// Two sessions are never inside together.
	abandonedExclusion = "exclusion"
	// A holder is told if one before it was interrupted, and none has recovered.
	abandonedHidden = "an interrupted holder was not reported"
	// A holder is told only if one before it may have been interrupted.
	abandonedFalse = "an interrupted holder was reported although there was none"
	// With a lock-delay, a holder is told only when nothing of an interrupted one can
	// arrive any more.
	abandonedEarly = "a holder was told before the lock-delay was over"
)

// abandonedRules has the bounds of a search, and the wrong readings.
type abandonedRules struct {
	rounds  uint8 // of each client
	deaths  uint8 // of processes
	losses  uint8 // of sessions; the process lives on
	answers bool  // answers may be lost
	delay   bool  // there is a lock-delay

	// From here on, each is a wrong reading.

	// tellFirst tells the caller before it makes M. The holder dies in between:
	// abandonedHidden.
	tellFirst bool
	// twoRequests deletes the node first and M then. The next holder finds M:
	// abandonedFalse.
	twoRequests bool
	// inDirectory keeps M in the data of the lock's directory, which the next to
	// queue empties: abandonedHidden.
	inDirectory bool
	// noCheck makes M without a check of the own node. A late request of a session
	// that has ended makes an M that nothing deletes: abandonedFalse.
	noCheck bool
	// anyName takes every M that exists for another's: abandonedFalse.
	anyName bool
	// deleteAgain deletes M again when the answer to the release was lost. By then
	// it may be the next holder's, who dies: abandonedHidden.
	deleteAgain bool
	// forgetTaken does not write into M that it was taken over. The answer to that
	// is lost, and the process finds its own name: abandonedHidden.
	forgetTaken bool
	// alwaysClear deletes M whether the holder has recovered or not:
	// abandonedHidden.
	alwaysClear bool
	// delayFromMark counts the lock-delay from the last change of M. That was when the
	// holder that died had been granted the lock, long ago: abandonedEarly.
	delayFromMark bool
	// ownMarkSkipsDelay has a process that finds its own M, taken over, not wait. The
	// answer to the takeover was lost, not the time waited: abandonedEarly.
	ownMarkSkipsDelay bool
	// giveUpClears deletes M when the heir gives up during the delay: abandonedHidden.
	giveUpClears bool
}

type abandonedClient struct {
	marks bool // it takes part
	name  string
}

const abandonedClients = 3

type abandonedState struct {
	at     [abandonedClients]abandonedPlace
	inLine [abandonedClients]uint8 // the node's place; 0 is none
	round  [abandonedClients]uint8 // begun

	told      [abandonedClients]bool // that the lock was abandoned
	recovered [abandonedClients]bool // it has said so
	keeps     [abandonedClients]bool // its release keeps M
	late      [abandonedClients]bool // its session has ended, and its request to make M is on its way

	mark      uint8 // whose it is, from 1; 0: there is none
	markRound uint8
	taken     bool // the mark says that it was taken over

	// Ghosts.
	interrupted bool // a holder was
	perhaps     bool // one may have been
	aftermath   bool // what one has sent may still arrive; only if there is a lock-delay

	deaths, losses uint8
}

// An abandonedPlace is what a client does next.
type abandonedPlace uint8

const (
	abAway      abandonedPlace = iota
	abQueued                   //
	abMark                     // make M
	abRead                     // M was there, or the answer was lost: read it
	abTake                     // take another's M over
	abDelay                    // first in line, M taken over: wait for the lock-delay
	abInside                   //
	abTold                     // tellFirst: inside, M is to be made
	abRelease                  //
	abAsk                      // the answer to the release was lost
	abClearMark                // twoRequests: M is to be deleted
	abGone                     //
	abDead                     //
)

// newAbandoned returns a model with the given clients: M for one that marks, o for
// one of another program.
func newAbandoned(clients string, rules abandonedRules) checker.Model[abandonedState] {
	a := &abandoned{rules: rules}
	for i, letter := range clients {
		c := abandonedClient{letter == 'M', fmt.Sprintf("client %d", i)}
		if !c.marks {
			c.name = fmt.Sprintf("other client %d", i)
		}
		a.clients = append(a.clients, c)
	}
	if len(a.clients) > abandonedClients {
		panic("abandoned: the state has no room for " + clients)
	}
	return checker.Model[abandonedState]{Next: a.next, Invariant: a.invariant, Done: a.done, Show: a.show}
}

func (s *abandonedState) over(c int) bool { return s.at[c] == abGone || s.at[c] == abDead }

// ownMark reports whether M has the name of client c's present node.
func (s *abandonedState) ownMark(c int) bool {
	return s.mark == uint8(c+1) && s.markRound == s.round[c]
}

// setMark makes M client c's.
func (s *abandonedState) setMark(c int) { s.mark, s.markRound = uint8(c+1), s.round[c] }

func (s *abandonedState) deleteMark() { s.mark, s.markRound, s.taken = 0, 0, false }

// last returns the last place in line.
func (s *abandonedState) last() uint8 {
	last := uint8(0)
	for _, p := range s.inLine {
		last = max(last, p)
	}
	return last
}

// first reports whether client c is first in line.
func (s *abandonedState) first(c int) bool {
	for _, p := range s.inLine {
		if p != 0 && p < s.inLine[c] {
			return false
		}
	}
	return s.inLine[c] != 0
}

// normalize numbers the places in line anew.
func (s *abandonedState) normalize() {
	var ranks [abandonedClients]uint8
	for c, own := range s.inLine {
		if own == 0 {
			continue
		}
		ranks[c] = 1
		for _, p := range s.inLine {
			if p != 0 && p < own {
				ranks[c]++
			}
		}
	}
	s.inLine = ranks
}

func (a *abandoned) invariant(s abandonedState) string {
	inside := 0
	for c := range a.clients {
		if s.at[c] == abInside && s.inLine[c] != 0 {
			inside++
		}
	}
	if inside > 1 {
		return abandonedExclusion
	}
	return ""
}

func (a *abandoned) done(s abandonedState) bool {
	for c := range a.clients {
		if !s.over(c) {
			return false
		}
	}
	return true
}

func (a *abandoned) show(s abandonedState) string {
	var b strings.Builder
	for c := range a.clients {
		if s.inLine[c] != 0 {
			fmt.Fprintf(&b, "%s is number %d in line", a.clients[c].name, s.inLine[c])
			if s.at[c] == abInside || s.at[c] == abTold {
				b.WriteString(", inside")
			}
			b.WriteString("; ")
		}
	}
	switch {
	case s.mark == 0:
		b.WriteString("no mark")
	case s.taken:
		fmt.Fprintf(&b, "mark of client %d's round %d, taken over", s.mark-1, s.markRound)
	default:
		fmt.Fprintf(&b, "mark of client %d's round %d", s.mark-1, s.markRound)
	}
	if s.interrupted {
		b.WriteString("; a holder was interrupted")
	}
	return b.String()
}

// An abandonedMove takes the steps of one client that are possible in a state.
type abandonedMove struct {
	*abandoned
	c    int
	old  abandonedState // the state
	take func(checker.Step[abandonedState])
}

func (a *abandoned) next(s abandonedState, take func(checker.Step[abandonedState])) {
	for c, client := range a.clients {
		if s.over(c) {
			continue
		}
		m := abandonedMove{a, c, s, take}
		if !client.marks {
			m.other()
			continue
		}
		m.misfortunes()
		m.proceed()
	}
}

func (m *abandonedMove) step(s abandonedState, kind checker.Kind, action, violates string) {
	s.normalize()
	m.take(checker.Step[abandonedState]{Actor: m.clients[m.c].name, Action: action, To: s, Kind: kind, Violates: violates})
}

func (m *abandonedMove) must(s abandonedState, action string) {
	m.step(s, checker.Mandatory, action, "")
}

func (m *abandonedMove) may(s abandonedState, action string) {
	m.step(s, checker.Optional, action, "")
}

// queue puts the client at the end of the line.
func (m *abandonedMove) queue(s *abandonedState) {
	s.round[m.c]++
	s.inLine[m.c] = s.last() + 1
	s.at[m.c] = abQueued
}

// end ends a round of the client.
func (m *abandonedMove) end(s *abandonedState) {
	c := m.c
	s.told[c], s.recovered[c], s.keeps[c], s.late[c] = false, false, false, false
	s.at[c] = abAway
	if s.round[c] == m.rules.rounds {
		s.at[c] = abGone
	}
}

// endVainly ends a round in which the client was not inside, and which it repeats.
func (m *abandonedMove) endVainly(s *abandonedState) {
	s.round[m.c]--
	m.end(s)
}

// other takes the next step of a client that does not take part. Its own death does
// not count: it promised nothing.
func (m *abandonedMove) other() {
	c, s := m.c, m.old
	switch s.at[c] {
	case abAway:
		m.queue(&s)
		m.must(s, "queues")
	case abQueued:
		if s.first(c) {
			s.at[c] = abInside
			m.must(s, "enters")
		}
	case abInside:
		s.inLine[c] = 0
		m.end(&s)
		m.must(s, "leaves, or dies")
	default:
		panic("abandoned: another client does not mark")
	}
}

// misfortunes are deaths, and losses of the session.
func (m *abandonedMove) misfortunes() {
	c, place := m.c, m.old.at[m.c]
	if place == abAway || place == abClearMark {
		return
	}
	if m.old.deaths < m.rules.deaths {
		s := m.old
		s.deaths++
		m.endSession(&s)
		s.at[c] = abDead
		m.may(s, "dies")
	}
	if m.old.losses < m.rules.losses && !m.old.late[c] {
		s := m.old
		s.losses++
		m.endSession(&s)
		switch place {
		case abMark:
			s.late[c] = true
		case abInside, abTold, abRelease, abAsk:
			m.end(&s)
		default:
			m.endVainly(&s)
		}
		m.may(s, "loses its session")
	}
}

// endSession deletes the client's node, and keeps the ghosts.
func (m *abandonedMove) endSession(s *abandonedState) {
	c := m.c
	s.inLine[c] = 0
	switch s.at[c] {
	case abInside, abTold:
		s.interrupted = true
		s.aftermath = m.rules.delay
	case abMark, abRead, abTake, abRelease, abAsk:
		if s.ownMark(c) {
			s.perhaps = true
		}
	}
}

// enter tells the client that it has the lock, and whether it was abandoned. It
// returns what is violated.
func (s *abandonedState) enter(c int, told bool) string {
	s.told[c] = told
	s.at[c] = abInside
	switch {
	case s.interrupted && !told:
		return abandonedHidden
	case s.aftermath:
		return abandonedEarly
	case told && !s.interrupted && !s.perhaps:
		return abandonedFalse
	}
	return ""
}

// proceed takes the next step of a client that marks.
func (m *abandonedMove) proceed() {
	c, s := m.c, m.old
	switch s.at[c] {
	case abAway:
		m.queue(&s)
		if m.rules.inDirectory {
			s.deleteMark()
		}
		m.must(s, "queues")
	case abQueued:
		if !s.first(c) {
			return
		}
		if m.rules.tellFirst {
			violates := s.enter(c, s.mark != 0)
			s.at[c] = abTold
			m.step(s, checker.Mandatory, "enters, and is to make the mark", violates)
			return
		}
		s.at[c] = abMark
		m.must(s, "is first in line")
	case abTold:
		s.at[c] = abInside
		s.setMark(c)
		m.must(s, "makes the mark")
	case abMark:
		m.mark()
	case abRead:
		switch {
		case s.mark == 0:
			s.at[c] = abMark
			m.must(s, "finds no mark")
		case s.ownMark(c):
			told := s.taken && !m.rules.forgetTaken
			if told && m.rules.delay && !m.rules.ownMarkSkipsDelay {
				s.at[c] = abDelay
				m.must(s, "finds its own mark, which was taken over")
				return
			}
			violates := s.enter(c, told)
			m.step(s, checker.Mandatory, "finds its own mark, enters", violates)
		default:
			s.at[c] = abTake
			m.must(s, "finds another's mark")
		}
	case abTake:
		// While its node is first in line, no other client can be here.
		s.setMark(c)
		s.taken = true
		unanswered := s
		if m.rules.delay && !m.rules.delayFromMark {
			s.at[c] = abDelay
			m.must(s, "takes the mark over, has to wait")
		} else {
			violates := s.enter(c, true)
			m.step(s, checker.Mandatory, "takes the mark over, enters", violates)
		}
		if m.rules.answers {
			unanswered.at[c] = abRead
			m.may(unanswered, "takes the mark over, and the answer is lost")
		}
	case abDelay:
		s.aftermath = false // nothing was sent under the lock since the wait began
		violates := s.enter(c, true)
		m.step(s, checker.Timer, "has waited for the lock-delay, enters", violates)
		s = m.old
		s.inLine[c] = 0
		if m.rules.giveUpClears {
			s.deleteMark()
		}
		m.endVainly(&s)
		m.may(s, "gives up during the lock-delay")
	case abInside:
		if s.told[c] && !s.recovered[c] {
			s.recovered[c] = true
			m.must(s, "says that it has recovered")
			s = m.old
		}
		s.keeps[c] = s.told[c] && !s.recovered[c] && !m.rules.alwaysClear
		s.at[c] = abRelease
		m.must(s, "ends its work")
	case abRelease:
		m.release()
	case abAsk:
		if m.rules.deleteAgain {
			s.deleteMark()
		}
		m.end(&s)
		m.must(s, "finds its node gone: released")
	case abClearMark:
		s.deleteMark()
		m.end(&s)
		m.must(s, "deletes the mark")
	case abGone, abDead:
	}
}

// mark is the transaction that makes M.
func (m *abandonedMove) mark() {
	c, s := m.c, m.old
	if s.late[c] {
		if m.rules.noCheck && s.mark == 0 {
			s.setMark(c)
		}
		m.endVainly(&s)
		m.must(s, "finds its node gone, will queue again")
		return
	}
	if s.mark != 0 {
		s.at[c] = abRead
		if m.rules.anyName {
			s.at[c] = abTake
		}
		m.must(s, "cannot make the mark: there is one")
		return
	}
	s.setMark(c)
	unanswered := s
	violates := s.enter(c, false)
	m.step(s, checker.Mandatory, "makes the mark, enters", violates)
	if m.rules.answers {
		m.may(unanswered, "makes the mark, and the answer is lost")
	}
}

// release is the transaction that deletes the node, and M unless that is kept.
func (m *abandonedMove) release() {
	c, s := m.c, m.old
	s.inLine[c] = 0
	if !s.keeps[c] {
		if !m.rules.twoRequests {
			s.deleteMark()
		}
		if !s.told[c] || s.recovered[c] {
			s.interrupted, s.perhaps = false, false
		}
	}
	if m.rules.twoRequests && !s.keeps[c] {
		s.at[c] = abClearMark
		m.must(s, "deletes its node")
		return
	}
	unanswered := s
	m.end(&s)
	m.must(s, "releases")
	if m.rules.answers {
		unanswered.at[c] = abAsk
		m.may(unanswered, "releases, and the answer is lost")
	}
}

func abandonedSearches() []search {
	all := abandonedRules{rounds: 2, losses: 2, deaths: 2, answers: true}
	wrong := func(clients string, change func(*abandonedRules)) checker.Model[abandonedState] {
		rules := abandonedRules{rounds: 2}
		change(&rules)
		return newAbandoned(clients, rules)
	}
	return []search{
		holds("three clients", newAbandoned("MMM", all)).large(),
		holds("two clients and another program's", newAbandoned("MMo", all)),
		holds("three clients, a lock-delay", newAbandoned("MMM", abandonedRules{rounds: 2, losses: 2, deaths: 2, answers: true, delay: true})).large(),
		holds("two clients, a lock-delay", newAbandoned("MM", abandonedRules{rounds: 3, losses: 2, deaths: 2, answers: true, delay: true})),
		holds("two clients, three rounds", newAbandoned("MM", abandonedRules{rounds: 3, losses: 3, deaths: 1, answers: true})),

		fails("told before the mark is made", abandonedHidden, wrong("MM", func(r *abandonedRules) { r.deaths, r.tellFirst = 1, true })),
		fails("node and mark deleted by two requests", abandonedFalse, wrong("MM", func(r *abandonedRules) { r.deaths, r.twoRequests = 1, true })),
		fails("the mark is the directory's data", abandonedHidden, wrong("MM", func(r *abandonedRules) { r.deaths, r.inDirectory = 1, true })),
		fails("no check of the own node", abandonedFalse, wrong("MM", func(r *abandonedRules) { r.losses, r.noCheck = 1, true })),
		fails("any mark is another's", abandonedFalse, wrong("M", func(r *abandonedRules) { r.answers, r.anyName = true, true })),
		fails("the mark deleted again after a lost answer", abandonedHidden, wrong("MM", func(r *abandonedRules) { r.deaths, r.answers, r.deleteAgain = 1, true, true })),
		fails("the mark does not say that it was taken over", abandonedHidden, wrong("MM", func(r *abandonedRules) { r.deaths, r.answers, r.forgetTaken = 1, true, true })),
		fails("the lock-delay counted from the mark", abandonedEarly, wrong("MM", func(r *abandonedRules) { r.deaths, r.delay, r.delayFromMark = 1, true, true })),
		fails("no lock-delay after a lost answer", abandonedEarly, wrong("MM", func(r *abandonedRules) { r.deaths, r.answers, r.delay, r.ownMarkSkipsDelay = 1, true, true, true })),
		fails("giving up during the lock-delay clears it", abandonedHidden, wrong("MM", func(r *abandonedRules) { r.deaths, r.delay, r.giveUpClears = 1, true, true })),
		fails("a release clears it without a recovery", abandonedHidden, wrong("MM", func(r *abandonedRules) { r.deaths, r.alwaysClear = 1, true })),
	}
}
