// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/state/model/internal/checker"
)

// A mutex is a model of Mutex, which excludes goroutines as well as processes: a
// FIFO of the goroutines of one process over one hold of a private lock.
//
// The protocol, step by step:
//
//  1. The goroutines that wait stand in a FIFO, and the process stands in line for
//     them. When it is granted the lock, the head of the FIFO has it. A Release with
//     the gate open hands over to the next goroutine, in the same round. With the
//     gate closed it acquires the next round, then releases this one: one
//     transaction deletes the node and creates the next, and the FIFO stays as it
//     is. With an empty FIFO it releases.
//  2. A holder that has lost the lock still counts in its process until it releases;
//     until then the process does not queue. If it never releases, its process's
//     goroutines wait for ever, and the other processes go on.
//  3. If the process loses its node otherwise, it queues again for those in the
//     FIFO. A goroutine gives up or is handed the lock, never both. The last to give
//     up withdraws the node. A TryLock fails at once if a goroutine has the lock or
//     waits for it; if it fails later, because another process is ahead, it leaves
//     the node to goroutines that came to wait meanwhile.
//  4. A hold's token is the pair (Token, Turn): the round's fencing token, and a
//     number that rises with every goroutine that gets the lock in this round. A
//     resource compares the pair. The Token alone protects between processes only.
//
// How it is modelled. A sync.Mutex protects the FIFO, so what a goroutine does with
// it is one step. Requests, grants and losses are steps of their own. There are
// three goroutines and two contenders of other processes.
type mutex struct {
	rules      mutexRules
	goroutines int
}

// The invariants of Mutex.
const (
	// One goroutine at a time is inside, be it that it has lost the lock.
	mutexLocal = "two goroutines are inside"
	// A holder that has not lost the lock is alone among all processes.
	mutexExclusion = "exclusion"
	// The pairs (Token, Turn) rise.
	mutexTokens = "the tokens do not rise"
	// With the gate closed, the lock goes to other processes first.
	mutexGate = "a hand-over in spite of the closed gate"
	// The lock is granted only in a round that the process has not lost.
	mutexLost = "a grant in a round that was lost"
	// A TryLock that fails leaves the others their place in line.
	mutexPlace = "a failed TryLock costs others their place"
)

// mutexRules has the bounds of a search, and the wrong readings.
type mutexRules struct {
	visits  uint8 // of each goroutine
	losses  uint8 // how often the session may be lost
	tries   bool  // goroutines may call TryLock
	giveUp  bool  // goroutines that wait may give up
	greedy  bool  // two goroutines that come back at once, for ever; the end: the contenders have been inside
	forever bool  // a holder that has lost the lock may never release it; the end is the same

	// From here on, each is a wrong reading.

	// noTenure never closes the gate. With greedy goroutines a contender waits for
	// ever: checker.Trap.
	noTenure bool
	// ignoreGate hands over locally although the gate is closed: mutexGate.
	ignoreGate bool
	// grantBesideLost grants to the next goroutine while the one that has lost the
	// lock is still inside: mutexLocal.
	grantBesideLost bool
	// queueBesideLost has the process queue while the one that has lost the lock is
	// still inside. Its turn comes, and it keeps all others waiting for a goroutine
	// that may never release: checker.Deadlock.
	queueBesideLost bool
	// racyHandOver hands over to a goroutine that gives up at that moment. Nothing
	// ever releases the lock: checker.Deadlock.
	racyHandOver bool
	// tryTakesNode has a TryLock that fails withdraw the node although others came
	// to wait for it: mutexPlace.
	tryTakesNode bool
	// forgetLoss has the process not queue again when it has lost its node:
	// checker.Deadlock.
	forgetLoss bool
	// blindHandOver does not look whether the round is still there: mutexLost.
	blindHandOver bool
	// token chooses the token.
	token mutexToken
}

type mutexToken uint8

const (
	tokenPair mutexToken = iota
	// tokenAlone is the round's token without the turn, which is wrong: all
	// goroutines of a round have the same: mutexTokens.
	tokenAlone
	// tokenFresh is a new transaction's number for each hand-over, which is wrong:
	// it is above that of a contender that queued before: mutexTokens.
	tokenFresh
)

const (
	mutexGoroutines = 3
	mutexContenders = 2
)

type mutexState struct {
	goroutine [mutexGoroutines]mutexGoroutine
	visits    [mutexGoroutines]uint8 // done
	fifo      [mutexGoroutines]uint8 // goroutines, from 1; 0 is none
	try       uint8                  // the one of them, from 1, that called TryLock

	// The process's hold of the private lock.
	round  mutexRound
	gate   bool  // closed
	place  uint8 // its node's in line; 0 is none
	lost   bool  // it was lost, and the FIFO has not heard of it
	late   uint8 // hand-overs since the gate was closed
	losses uint8

	contender [mutexContenders]mutexContender
	inLine    [mutexContenders]uint8 // their places

	now uint8 // the last transaction that matters

	// The last grant's pair, or, with tokenFresh, the highest token and the number of
	// hand-overs in this round.
	token, turn, highest uint8
}

// A mutexGoroutine is what a goroutine does.
type mutexGoroutine uint8

const (
	mxAway mutexGoroutine = iota
	mxWaits
	mxHolds
	mxHoldsLost // inside, but the lock is lost
	mxGone
)

// A mutexRound is the state of the process's hold.
type mutexRound uint8

const (
	roundNone    mutexRound = iota
	roundCreate             // a node is to be created
	roundQueued             //
	roundGranted            //
	roundLeave              // the node is to be deleted
	roundNext               // it is to be deleted and another created, in one transaction
)

type mutexContender uint8

const (
	remoteAway mutexContender = iota
	remoteWaits
	remoteInside
	remoteLeft
)

// mostTurns is where turns stop being counted; a search needs no more.
const mostTurns = 3

func newMutex(rules mutexRules) checker.Model[mutexState] {
	x := &mutex{rules, mutexGoroutines}
	if rules.greedy {
		x.goroutines = 2
	}
	return checker.Model[mutexState]{Next: x.next, Invariant: x.invariant, Done: x.done, Show: x.show}
}

// holder returns the goroutine that has the lock, or -1.
func (s *mutexState) holder() int { return slices.Index(s.goroutine[:], mxHolds) }

// hasLostHolder reports whether one is inside that has lost the lock.
func (s *mutexState) hasLostHolder() bool { return slices.Contains(s.goroutine[:], mxHoldsLost) }

// waiting reports whether goroutines wait.
func (s *mutexState) waiting() bool { return s.fifo[0] != 0 }

// push puts goroutine i at the end of the FIFO.
func (s *mutexState) push(i int) { s.fifo[slices.Index(s.fifo[:], 0)] = uint8(i + 1) }

// drop takes goroutine i out of the FIFO.
func (s *mutexState) drop(i int) {
	at := slices.Index(s.fifo[:], uint8(i+1))
	copy(s.fifo[at:], s.fifo[at+1:])
	s.fifo[mutexGoroutines-1] = 0
	if s.try == uint8(i+1) {
		s.try = 0
	}
}

// startRound forgets what belonged to the last round.
func (s *mutexState) startRound() { s.gate, s.late, s.lost = false, 0, false }

// first reports whether no other process is ahead of ours.
func (s *mutexState) first() bool {
	return !slices.ContainsFunc(s.inLine[:], func(p uint8) bool { return p != 0 && p < s.place })
}

// acquire has the process queue if goroutines wait, and nothing forbids it.
func (x *mutex) acquire(s *mutexState) {
	if s.waiting() && s.round == roundNone && s.holder() < 0 && (!s.hasLostHolder() || x.rules.queueBesideLost) {
		s.round = roundCreate
	}
}

// grant gives the lock to the head of the FIFO, and returns what is violated.
func (x *mutex) grant(s *mutexState) string {
	i := int(s.fifo[0]) - 1
	s.drop(i)
	s.goroutine[i] = mxHolds
	if s.gate {
		s.late++
	}
	if s.lost {
		return mutexLost
	}
	if x.rules.token == tokenFresh {
		token := s.place
		if s.turn > 0 {
			s.now++
			token = s.now
		}
		s.turn = min(s.turn+1, mostTurns)
		return s.use(token)
	}
	turn := uint8(0)
	if s.token == s.place {
		turn = s.turn + 1
	}
	return x.grantPair(s, s.place, turn)
}

// grantPair checks and notes the pair of a grant.
func (x *mutex) grantPair(s *mutexState, token, turn uint8) string {
	rises := token > s.token
	if x.rules.token == tokenPair {
		rises = rises || token == s.token && turn > s.turn
	}
	if !rises {
		return mutexTokens
	}
	s.token, s.turn = token, min(turn, mostTurns)
	return ""
}

// use checks and notes a single token.
func (s *mutexState) use(token uint8) string {
	if token <= s.highest {
		return mutexTokens
	}
	s.highest = token
	return ""
}

// normalize numbers the transactions anew.
func (s *mutexState) normalize() {
	numbers := [...]*uint8{&s.place, &s.token, &s.highest, &s.inLine[0], &s.inLine[1]}
	var used [16]bool
	for _, p := range numbers {
		used[*p] = true
	}
	var renumbered [16]uint8
	s.now = 0
	for p := 1; p < len(used); p++ {
		if used[p] {
			s.now++
			renumbered[p] = s.now
		}
	}
	for _, p := range numbers {
		*p = renumbered[*p]
	}
}

func (x *mutex) invariant(s mutexState) string {
	inside := 0
	for _, g := range s.goroutine {
		if g == mxHolds || g == mxHoldsLost {
			inside++
		}
	}
	contenders := 0
	for _, c := range s.contender {
		if c == remoteInside {
			contenders++
		}
	}
	valid := s.holder() >= 0 && !s.lost
	switch {
	case inside > 1:
		return mutexLocal
	case contenders > 1 || contenders == 1 && valid:
		return mutexExclusion
	case s.late > 0:
		return mutexGate
	}
	return ""
}

func (x *mutex) done(s mutexState) bool {
	for _, c := range s.contender {
		if c != remoteLeft {
			return false
		}
	}
	if x.rules.greedy || x.rules.forever {
		return true
	}
	for _, g := range s.goroutine {
		if g != mxGone {
			return false
		}
	}
	return s.round == roundNone && s.place == 0
}

func (x *mutex) show(s mutexState) string {
	var b strings.Builder
	for i := range x.goroutines {
		fmt.Fprintf(&b, "%s %s, ", goroutineName(i), [...]string{"away", "waits", "holds", "holds though lost", "gone"}[s.goroutine[i]])
	}
	b.WriteString("process " + [...]string{"away", "to queue", "queued", "granted", "to leave", "to requeue"}[s.round])
	if s.gate {
		b.WriteString(", gate closed")
	}
	for i, c := range s.contender {
		fmt.Fprintf(&b, ", contender %d %s", i, [...]string{"away", "waits", "inside", "gone"}[c])
	}
	return b.String()
}

// goroutineName returns what traces call a goroutine.
func goroutineName(i int) string { return [...]string{"a", "b", "c"}[i] }

// A mutexMove takes the steps that are possible in a state.
type mutexMove struct {
	*mutex
	old  mutexState // the state
	take func(checker.Step[mutexState])
}

func (x *mutex) next(s mutexState, take func(checker.Step[mutexState])) {
	m := mutexMove{x, s, take}
	for i := range x.goroutines {
		m.goroutine(i)
	}
	m.process()
	m.closeGate()
	m.lose()
	for i := range s.contender {
		m.contender(i)
	}
}

func (m *mutexMove) step(s mutexState, kind checker.Kind, actor, action, violates string) {
	s.normalize()
	m.take(checker.Step[mutexState]{Actor: actor, Action: action, To: s, Kind: kind, Violates: violates})
}

func (m *mutexMove) must(s mutexState, actor, action string) {
	m.step(s, checker.Mandatory, actor, action, "")
}

func (m *mutexMove) goroutine(i int) {
	s := m.old
	switch s.goroutine[i] {
	case mxAway:
		m.lock(i)
	case mxWaits:
		m.wait(i)
	case mxHolds:
		m.release(i)
	case mxHoldsLost:
		s.goroutine[i] = mxAway
		m.acquire(&s)
		kind := checker.Mandatory
		if m.rules.forever {
			kind = checker.Optional
		}
		m.step(s, kind, goroutineName(i), "releases the lock that it has lost", "")
	case mxGone:
	}
}

// lock is Lock or TryLock by goroutine i.
func (m *mutexMove) lock(i int) {
	s := m.old
	if s.visits[i] == m.rules.visits && !m.rules.greedy {
		s.goroutine[i] = mxGone
		m.must(s, goroutineName(i), "goes home")
		return
	}
	if !m.rules.greedy {
		s.visits[i]++
	}
	arrived := s
	s.goroutine[i] = mxWaits
	s.push(i)
	m.acquire(&s)
	m.must(s, goroutineName(i), "calls Lock")

	if !m.rules.tries {
		return
	}
	s = arrived
	if s.waiting() || s.holder() >= 0 || s.hasLostHolder() || s.round != roundNone {
		m.must(s, goroutineName(i), "calls TryLock, ErrLocked")
		return
	}
	s.goroutine[i], s.try = mxWaits, uint8(i+1)
	s.push(i)
	m.acquire(&s)
	m.must(s, goroutineName(i), "calls TryLock")
}

// wait has goroutine i leave the FIFO without the lock.
func (m *mutexMove) wait(i int) {
	s := m.old
	isTry := s.try == uint8(i+1)
	s.goroutine[i] = mxAway
	s.drop(i)
	if !s.waiting() || isTry && m.rules.tryTakesNode {
		switch s.round {
		case roundCreate:
			s.round = roundNone
		case roundQueued, roundNext:
			s.round = roundLeave
		case roundNone, roundGranted, roundLeave:
		}
	}
	switch {
	case isTry && m.old.round == roundQueued && !s.first():
		violates := ""
		if s.round == roundLeave && s.waiting() {
			violates = mutexPlace
		}
		m.step(s, checker.Mandatory, goroutineName(i), "sees a contender ahead, ErrLocked", violates)
	case m.rules.giveUp:
		m.step(s, checker.Optional, goroutineName(i), "gives up", "")
	}
}

// release is Release by goroutine i, which has the lock.
func (m *mutexMove) release(i int) {
	s := m.old
	s.goroutine[i] = mxAway
	if m.rules.greedy {
		s.goroutine[i] = mxWaits
		s.push(i)
	}
	violates := ""
	switch {
	case s.lost && !m.rules.blindHandOver:
		s.round = roundNone
		s.startRound()
		m.acquire(&s)
	case !s.waiting():
		s.round = roundLeave
	case s.gate && !m.rules.ignoreGate:
		s.round = roundNext
	default:
		if m.rules.racyHandOver {
			s := s
			heir := int(s.fifo[0]) - 1
			s.drop(heir)
			s.goroutine[heir] = mxAway
			s.turn = min(s.turn+1, mostTurns)
			m.step(s, checker.Optional, goroutineName(i), "hands over to "+goroutineName(heir)+", which has given up", "")
		}
		violates = m.grant(&s)
	}
	m.step(s, checker.Mandatory, goroutineName(i), "calls Release", violates)
}

// process takes the next step of the process's hold.
func (m *mutexMove) process() {
	const actor = "process"
	s := m.old
	switch s.round {
	case roundCreate, roundNext:
		s.now++
		s.place = s.now
		s.round = roundQueued
		s.startRound()
		if m.rules.token == tokenFresh {
			s.turn = 0
		}
		m.must(s, actor, "creates its node")
	case roundQueued:
		switch {
		case !s.first():
		case !s.waiting():
			s.round = roundLeave
			m.must(s, actor, "is granted the lock that no goroutine wants")
		case !s.hasLostHolder() || m.rules.grantBesideLost:
			s.round = roundGranted
			violates := m.grant(&s)
			m.step(s, checker.Mandatory, actor, "is granted the lock", violates)
		}
	case roundLeave:
		s.place, s.round = 0, roundNone
		s.startRound()
		m.acquire(&s)
		m.must(s, actor, "deletes its node")
	case roundNone, roundGranted:
	}
}

// closeGate is the tenure's end, when a contender waits.
func (m *mutexMove) closeGate() {
	s := m.old
	if s.round == roundGranted && !s.gate && !m.rules.noTenure && slices.Contains(s.contender[:], remoteWaits) {
		s.gate = true
		m.step(s, checker.Timer, "process", "closes its gate", "")
	}
}

// lose is the loss of the session.
func (m *mutexMove) lose() {
	s := m.old
	if s.losses == m.rules.losses || s.place == 0 {
		return
	}
	s.losses++
	s.place = 0
	holder := s.holder()
	switch {
	case s.round == roundGranted && m.rules.blindHandOver:
		s.lost = true
	case s.round == roundGranted:
		s.goroutine[holder] = mxHoldsLost
		s.round = roundNone
		s.startRound()
		m.acquire(&s)
	default:
		forgets := s.round == roundQueued && m.rules.forgetLoss
		s.round = roundNone
		s.startRound()
		if !forgets {
			m.acquire(&s)
		}
	}
	m.step(s, checker.Optional, "session", "is lost", "")
}

// contender takes the next step of another process.
func (m *mutexMove) contender(i int) {
	s, actor := m.old, [...]string{"contender 0", "contender 1"}[i]
	switch s.contender[i] {
	case remoteAway:
		s.now++
		s.inLine[i] = s.now
		s.contender[i] = remoteWaits
		m.must(s, actor, "queues")
	case remoteWaits:
		own, other := s.inLine[i], s.inLine[1-i]
		if s.place != 0 && s.place < own || other != 0 && other < own {
			return
		}
		s.contender[i] = remoteInside
		var violates string
		if m.rules.token == tokenFresh {
			violates = s.use(own)
		} else {
			violates = m.grantPair(&s, own, 0)
		}
		m.step(s, checker.Mandatory, actor, "enters", violates)
	case remoteInside:
		s.contender[i], s.inLine[i] = remoteLeft, 0
		m.must(s, actor, "leaves")
	case remoteLeft:
	}
}

func mutexSearches() []search {
	b := mutexRules{visits: 2}
	with := func(change func(*mutexRules)) checker.Model[mutexState] {
		rules := b
		change(&rules)
		return newMutex(rules)
	}
	return []search{
		holds("Lock only", newMutex(b)),
		holds("two losses, TryLock, giving up", with(func(r *mutexRules) { r.losses, r.tries, r.giveUp = 2, true, true })),
		holds("greedy goroutines", with(func(r *mutexRules) { r.greedy = true })),
		holds("a holder that lost the lock never releases", with(func(r *mutexRules) { r.losses, r.forever = 1, true })),

		fails("greedy goroutines, no tenure", checker.Trap, with(func(r *mutexRules) { r.greedy, r.noTenure = true, true })),
		fails("local hand-over although the gate is closed", mutexGate, with(func(r *mutexRules) { r.ignoreGate = true })),
		fails("grants while the one that lost it is inside", mutexLocal, with(func(r *mutexRules) { r.losses, r.grantBesideLost, r.queueBesideLost = 1, true, true })),
		fails("queues while the one that lost it is inside", checker.Deadlock, with(func(r *mutexRules) { r.losses, r.queueBesideLost, r.forever = 1, true, true })),
		fails("hand-over to one that gives up", checker.Deadlock, with(func(r *mutexRules) { r.racyHandOver, r.giveUp = true, true })),
		fails("a failed TryLock takes the node away", mutexPlace, with(func(r *mutexRules) { r.tries, r.tryTakesNode = true, true })),
		fails("a loss in line is not made good", checker.Deadlock, with(func(r *mutexRules) { r.losses, r.forgetLoss = 1, true })),
		fails("hand-over without a look at the lease", mutexLost, with(func(r *mutexRules) { r.losses, r.blindHandOver = 1, true })),
		fails("the Token without the Turn", mutexTokens, with(func(r *mutexRules) { r.token = tokenAlone })),
		fails("a fresh token for each hand-over", mutexTokens, with(func(r *mutexRules) { r.token = tokenFresh })),
	}
}
