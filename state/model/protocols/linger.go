// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/holdfast-go/holdfast/state/model/internal/checker"
)

// A linger is a model of lingering: when the last goroutine of a process releases a
// lock that no other process wants, the process keeps it, idle, for a time D or for
// ever. The next goroutine enters without a request. But as soon as another
// contender comes, it must get the lock as if nothing lingered.
//
// The protocol, step by step:
//
//  1. The last Release swaps the word to RETAINED/0 if no contender is noted, the
//     gate and the manager's stage are open, and the lease is in force. Otherwise it
//     ends the round as before, with RELEASING/0. Unlock returns, the future of the
//     release waits.
//  2. After that swap the leaver looks again: at the note and the gate, at the
//     stage, at the process's other kind of lock (its writer, if it reads). If one
//     of them wants the lock, it swaps RETAINED/0 to RELEASING/0. Those who want it
//     say so first, then try the same swap. So one of the two sees the other.
//  3. Then the leaver wakes the round's worker. If no watch on the queue is armed,
//     or an event came that no list has answered, the worker lists and watches at
//     once, however recent the last list was. If a contender is there, the worker
//     notes it, then tries the swap.
//  4. The timer of D tries the swap, too, and Shutdown does for every lock. If the
//     lease or the session is lost, the round ends as one with holders does.
//  5. A newcomer that has entered looks at the clock before it is told. If the lease
//     has lapsed, it leaves again, ends the round if it is the last, and tries the
//     next one. Nothing else may have noticed yet that an idle lock is lost.
//
// A contender waits for two requests at most, a list and a deletion. It waits for
// one only if the watch has been armed since the grant, and an event ends an idle
// round without a list. A process that is cut off keeps the lock until its session
// ends. TryLock of another process fails meanwhile.
//
// How it is modelled. There is one round, and each access to shared memory is a
// step: by two goroutines that come and go, the worker, the event of the watch, the
// timer, Shutdown, the loss of the session, the process's own writer, and one
// contender. What follows RELEASED is in rounds.pml.
type linger struct{ rules lingerRules }

// The invariants of lingering.
const (
	// A holder and a contender are never inside together, while the lease is in force.
	lingerExclusion = "exclusion"
	// No goroutine is told that it has the lock after the lease has lapsed.
	lingerLapsed = "a grant after the lease has lapsed"
	// A round with a holder ends only if the lease was lost.
	lingerEnded = "the round of a holder was ended"
	// The word counts those who are inside.
	lingerCount = "the count is wrong"
	// If nothing is inside, a contender does not wait for a timer.
	lingerContenderWaits = "a contender waits for a timer although the lock is idle"
	// Nor does the process's own writer.
	lingerWriterWaits = "the own writer waits for a timer although the lock is idle"
	// Nor does Shutdown.
	lingerShutdownWaits = "Shutdown waits for a timer although the lock is idle"
	// If nothing is inside, a contender waits for no more requests than promised.
	lingerRequests = "a contender waits for too many requests although the lock is idle"
)

// lingerRules has the bounds of a search, and the wrong readings.
type lingerRules struct {
	visits   uint8 // of each goroutine
	loss     bool  // the session may be lost
	lapse    bool  // the lease may lapse, and the session end, before that is noticed
	shutdown bool  // Shutdown may come
	writer   bool  // the process's own writer may come
	forever  bool  // D is infinite

	maxRequests uint8 // that a contender may have to wait for; 0: any number
	armed       bool  // the grant armed the watch
	endUnlisted bool  // an event ends an idle round without a list

	// From here on, each is a wrong reading.

	// entersBlindly has a newcomer not look at the clock: lingerLapsed.
	entersBlindly bool
	// noSecondLook has the leaver not look at the note and the gate again. A
	// contender was noted between its look and its swap: lingerContenderWaits.
	noSecondLook bool
	// noWake has the leaver not wake the worker. No watch is armed, so a contender
	// remains unseen: lingerContenderWaits.
	noWake bool
	// throttled has events of an idle round wait as long as those of a held one,
	// whose looks are rationed: lingerContenderWaits.
	throttled bool
	// timerEndsAll has the timer end the round without asking whether it is idle:
	// lingerEnded.
	timerEndsAll bool
	// shutdownWaits has Shutdown set the stage, but not try the swap:
	// lingerShutdownWaits.
	shutdownWaits bool
	// noStageLook has the leaver not look at the stage again. Shutdown found the
	// lock held just before: lingerShutdownWaits.
	noStageLook bool
	// writerLooksFirst has the own writer look at the idle round before its own
	// round can be seen. The leaver comes in between: lingerWriterWaits.
	writerLooksFirst bool
	// noteLate has the worker try the swap before it notes the contender. The
	// leaver comes in between: lingerContenderWaits.
	noteLate bool
	// ignoreNote has the last Release linger although a contender is noted, and
	// nothing looks again: lingerContenderWaits.
	ignoreNote bool
	// watchLate has the worker list first and watch then. A contender comes in
	// between: lingerContenderWaits.
	watchLate bool
}

type lingerState struct {
	word      lingerPhase
	count     uint8
	goroutine [lingerGoroutines]lingerGoroutine
	visits    [lingerGoroutines]uint8 // left
	loaded    [lingerGoroutines]uint8 // the count, when it was loaded
	ends      [lingerGoroutines]bool  // it will end the round if it is the last
	refused   [lingerGoroutines]bool  // it has entered after the lease's end, and has to leave

	// What the round and its manager know.
	contended bool // the note
	gate      bool
	lapsed    bool // the lease, by the clock
	lost      bool // and that was noticed
	stage     lingerStage
	timer     bool // running

	// ZooKeeper.
	node  bool // the lock's own
	watch bool // armed, on the queue
	event bool // on its way

	contender lingerContender

	worker  lingerWorker
	due     bool // the worker is to run
	unheard bool // an event came that no list has answered
	later   bool // a list that was put off is due later

	writer lingerWriter

	requests uint8 // that a contender waited for while the lock was idle
}

const lingerGoroutines = 2

type lingerPhase uint8

const (
	lingerRetained lingerPhase = iota
	lingerReleasing
	lingerReleased
)

// A lingerGoroutine is what a goroutine does next.
type lingerGoroutine uint8

const (
	goAway      lingerGoroutine = iota
	goEntering                  // it has loaded the word to enter
	goInside                    //
	goLeaving                   // it has loaded the word to leave
	goLookClock                 // it has entered; look at the lease
	goLookNote                  // it has swapped to RETAINED/0; look at the note again
	goLookStage                 // look at the stage
	goLookOther                 // look at the own writer
	goWake                      // wake the worker
	goHome                      // it does not come back
)

type lingerStage uint8

const (
	stageOpen   lingerStage = iota
	stageSet                // Shutdown has set the stage
	stageLooked             // and has looked at the round
)

type lingerContender uint8

const (
	contenderAway lingerContender = iota
	contenderWaits
	contenderInside
	contenderLeft
)

// A lingerWorker is what the worker does next.
type lingerWorker uint8

const (
	workerIdle   lingerWorker = iota
	workerLook                // at the word
	workerList                //
	workerNote                // the contender that it found
	workerSwap                // to RELEASING/0
	workerWatch               // watchLate: arm the watch that came without the list
	workerDelete              // the node
)

type lingerWriter uint8

const (
	writerAway   lingerWriter = iota
	writerSeen                // its round can be seen; look at the idle round
	writerWaits               //
	writerInside              //
	writerLeft                //
	writerLooked              // writerLooksFirst: it has looked, but cannot be seen yet
)

func newLinger(rules lingerRules) checker.Model[lingerState] {
	l := &linger{rules}
	// One goroutine is inside.
	start := lingerState{count: 1, node: true, watch: rules.armed}
	start.goroutine[0] = goInside
	start.visits = [lingerGoroutines]uint8{rules.visits - 1, rules.visits}
	return checker.Model[lingerState]{Start: start, Next: l.next, Invariant: l.invariant, Done: l.done, Idle: l.idle, Show: l.show}
}

// isIdle reports whether the round lingers.
func (s *lingerState) isIdle() bool { return s.word == lingerRetained && s.count == 0 }

// end ends the round.
func (s *lingerState) end() { s.word, s.count, s.due = lingerReleasing, 0, true }

// endIfIdle is the swap from RETAINED/0 to RELEASING/0.
func (s *lingerState) endIfIdle() {
	if s.isIdle() {
		s.end()
	}
}

// fire sends an event if the watch is armed.
func (s *lingerState) fire() {
	if s.watch {
		s.watch, s.event = false, true
	}
}

// request counts a request, if a contender waits for it while the lock is idle.
func (s *lingerState) request() {
	if (s.word != lingerRetained || s.count == 0) && s.contender == contenderWaits {
		s.requests++
	}
}

// counted reports whether goroutine i is one of those that the word counts.
func (s *lingerState) counted(i int) bool {
	switch s.goroutine[i] {
	case goInside, goLeaving, goLookClock:
		return true
	}
	return false
}

func (l *linger) invariant(s lingerState) string {
	count := uint8(0)
	for i := range s.goroutine {
		switch {
		case !s.counted(i):
		case s.word == lingerRetained:
			count++
		case s.word == lingerReleasing && !s.lost:
			return lingerEnded
		}
	}
	switch {
	case count > 0 && s.contender == contenderInside && !s.lapsed:
		return lingerExclusion
	case s.word == lingerRetained && s.count != count:
		return lingerCount
	}
	return ""
}

// idle: only timers go on. None of those who want an idle lock may wait for one.
func (l *linger) idle(s lingerState) string {
	switch {
	case !s.isIdle():
		return ""
	case s.contender == contenderWaits:
		return lingerContenderWaits
	case s.writer == writerSeen || s.writer == writerWaits:
		return lingerWriterWaits
	case s.stage != stageOpen:
		return lingerShutdownWaits
	}
	return ""
}

func (l *linger) done(s lingerState) bool {
	switch s.contender {
	case contenderAway:
		return s.word == lingerReleased || s.isIdle() && l.rules.forever
	case contenderLeft:
		return s.word == lingerReleased
	}
	return false
}

func (l *linger) show(s lingerState) string {
	word := [...]string{"RETAINED", "RELEASING", "RELEASED"}[s.word]
	text := fmt.Sprintf("%s/%d", word, s.count)
	for _, flag := range []struct {
		on   bool
		name string
	}{
		{s.watch, "watch armed"},
		{s.event, "event on its way"},
		{s.unheard, "event not answered"},
		{s.contended, "contender noted"},
		{s.contender == contenderWaits, "contender waits"},
		{s.contender == contenderInside, "contender inside"},
		{s.writer == writerSeen || s.writer == writerWaits, "own writer waits"},
		{s.stage != stageOpen, "Shutdown"},
	} {
		if flag.on {
			text += ", " + flag.name
		}
	}
	return text
}

// A lingerMove takes the steps that are possible in a state.
type lingerMove struct {
	*linger
	old  lingerState // the state
	take func(checker.Step[lingerState])
}

func (l *linger) next(s lingerState, take func(checker.Step[lingerState])) {
	m := lingerMove{l, s, take}
	for i := range s.goroutine {
		m.goroutine(i)
	}
	m.worker()
	m.event()
	m.timers()
	m.contender()
	m.shutdown()
	m.ownWriter()
	m.lose()
}

func (m *lingerMove) step(s lingerState, kind checker.Kind, actor, action string) {
	m.violate(s, kind, actor, action, "")
}

// violate takes a step that violates an invariant, if that is not "".
func (m *lingerMove) violate(s lingerState, kind checker.Kind, actor, action, violates string) {
	if m.rules.maxRequests > 0 && s.requests > m.rules.maxRequests {
		violates = lingerRequests
	}
	waits := s.contender == contenderWaits || s.writer == writerWaits
	if s.count > 0 && s.word == lingerRetained || !waits {
		s.requests = 0
	}
	m.take(checker.Step[lingerState]{Actor: actor, Action: action, To: s, Kind: kind, Violates: violates})
}

func (m *lingerMove) must(s lingerState, actor, action string) {
	m.step(s, checker.Mandatory, actor, action)
}

// goroutine takes the next step of a goroutine that comes and goes.
func (m *lingerMove) goroutine(i int) {
	s, name := m.old, [...]string{"goroutine 0", "goroutine 1"}[i]
	own := &s.goroutine[i]
	switch *own {
	case goAway:
		if s.visits[i] == 0 || s.word != lingerRetained || s.gate || s.stage != stageOpen {
			*own, s.visits[i] = goHome, 0
			m.must(s, name, "goes home, or to the next round")
			return
		}
		*own, s.loaded[i], s.ends[i] = goEntering, s.count, false
		m.must(s, name, "loads the word to enter")
		s = m.old
		*own, s.visits[i] = goHome, 0
		m.step(s, checker.Optional, name, "stays away")
	case goEntering:
		if s.word == lingerRetained && s.count == s.loaded[i] {
			s.count++
			s.visits[i]--
			*own = goInside
			if m.rules.lapse && !m.rules.entersBlindly {
				*own = goLookClock
			}
			violates := ""
			if *own == goInside && s.lapsed {
				violates = lingerLapsed
			}
			m.violate(s, checker.Mandatory, name, "enters", violates)
		} else {
			*own = goAway
			m.must(s, name, "lost the race to enter")
		}
	case goLookClock:
		if s.word != lingerRetained {
			*own = goAway
			m.must(s, name, "learns that the lock was lost")
			return
		}
		if s.lapsed {
			*own, s.loaded[i], s.ends[i], s.refused[i], s.visits[i] = goLeaving, s.count, true, true, 0
			m.must(s, name, "finds the lease lapsed, has to leave")
			return
		}
		*own = goInside
		m.must(s, name, "finds the lease in force")
	case goInside:
		if s.word != lingerRetained {
			*own = goAway
			m.must(s, name, "learns that the lock was lost")
			return
		}
		*own, s.loaded[i] = goLeaving, s.count
		s.ends[i] = s.contended && !m.rules.ignoreNote || s.gate || s.stage != stageOpen || s.lapsed || s.lost
		m.must(s, name, "loads the word and the flags to leave")
	case goLeaving:
		m.leave(i, name)
	case goLookNote:
		*own = goLookStage
		if s.contended || s.gate {
			s.endIfIdle()
		}
		m.must(s, name, "looks at the note and the gate again")
	case goLookStage:
		*own = goLookOther
		if s.stage != stageOpen && !m.rules.noStageLook {
			s.endIfIdle()
		}
		m.must(s, name, "looks at the stage")
	case goLookOther:
		*own = goWake
		if s.writer == writerSeen || s.writer == writerWaits {
			s.endIfIdle()
		}
		m.must(s, name, "looks at the own writer")
	case goWake:
		*own = goAway
		if !m.rules.noWake {
			s.due = true
		}
		if m.rules.throttled && s.later {
			s.due = false
		}
		m.must(s, name, "wakes the worker")
	case goHome:
	}
}

// leave is a goroutine's Release, which has loaded the word.
func (m *lingerMove) leave(i int, name string) {
	s := m.old
	own := &s.goroutine[i]
	*own = goAway
	switch {
	case s.word != lingerRetained:
		m.must(s, name, "leaves a round that is over")
	case s.count != s.loaded[i]:
		*own = goInside
		if s.refused[i] {
			*own = goLookClock
		}
		m.must(s, name, "lost the race to leave")
	case s.count > 1:
		s.count--
		m.must(s, name, "leaves")
	case s.ends[i]:
		s.end()
		m.must(s, name, "leaves and ends the round")
	default:
		s.count = 0
		s.timer = !m.rules.forever
		*own = goLookNote
		if m.rules.noSecondLook {
			*own = goLookStage
		}
		m.must(s, name, "leaves, the lock lingers")
	}
}

// worker takes the worker's next step.
func (m *lingerMove) worker() {
	const name = "worker"
	s := m.old
	contender := s.contender == contenderWaits
	switch s.worker {
	case workerIdle:
		if s.due {
			s.due, s.worker = false, workerLook
			m.must(s, name, "runs")
		}
	case workerLook:
		// A watch that has fired is armed as far as the worker knows, until the event
		// is here.
		mustList := !s.watch && !s.event || s.unheard
		switch {
		case s.word == lingerReleasing:
			s.worker = workerDelete
			m.must(s, name, "finds the round at its end")
		case s.isIdle() && s.unheard && m.rules.endUnlisted:
			s.unheard, s.contended, s.worker = false, true, workerSwap
			m.must(s, name, "finds the lock idle, and an event")
		case s.isIdle() && mustList:
			s.worker = workerList
			m.must(s, name, "finds the lock idle, and has to list")
		default:
			s.worker = workerIdle
			m.must(s, name, "finds nothing to do")
		}
	case workerList:
		s.unheard = false
		s.request()
		s.watch = !m.rules.watchLate || s.watch
		switch {
		case contender:
			s.worker = workerNote
		case m.rules.watchLate:
			s.worker = workerWatch
		default:
			s.worker = workerLook
		}
		m.must(s, name, "lists")
	case workerWatch:
		s.watch, s.worker = true, workerLook
		s.request()
		m.must(s, name, "arms the watch")
	case workerNote:
		s.worker = workerSwap
		if m.rules.noteLate {
			s.endIfIdle()
			m.must(s, name, "tries to end the idle round")
			return
		}
		s.contended = true
		m.must(s, name, "notes the contender")
	case workerSwap:
		s.worker = workerLook
		if m.rules.noteLate {
			s.contended = true
			m.must(s, name, "notes the contender")
			return
		}
		s.endIfIdle()
		m.must(s, name, "tries to end the idle round")
	case workerDelete:
		s.node = false
		s.request()
		s.word, s.worker = lingerReleased, workerIdle
		s.fire()
		m.must(s, name, "deletes the node")
	}
}

// event delivers the watch's event, and looks at the queue while the lock is held.
func (m *lingerMove) event() {
	if s := m.old; s.event {
		s.event = false
		if s.word == lingerRetained {
			s.unheard = true
			if m.rules.throttled {
				s.later = true
			} else {
				s.due = true
			}
		}
		m.must(s, "dispatcher", "delivers the event")
	}
	if s := m.old; s.later {
		s.later, s.due = false, true
		m.step(s, checker.Timer, "throttle", "lets the list through")
	}
	if s := m.old; s.word == lingerRetained && s.count > 0 && s.worker == workerIdle && s.unheard {
		s.unheard, s.watch = false, true
		if s.contender == contenderWaits {
			s.contended = true
		}
		m.must(s, "worker", "lists while the lock is held")
	}
}

func (m *lingerMove) timers() {
	s := m.old
	if !s.timer {
		return
	}
	s.timer = false
	if m.rules.timerEndsAll && s.word == lingerRetained {
		s.end()
	} else {
		s.endIfIdle()
	}
	m.step(s, checker.Timer, "timer", "fires")
}

func (m *lingerMove) contender() {
	const name = "contender"
	s := m.old
	switch s.contender {
	case contenderAway:
		s.contender = contenderWaits
		s.fire()
		m.step(s, checker.Optional, name, "queues")
	case contenderWaits:
		if !s.node {
			s.contender = contenderInside
			m.must(s, name, "enters")
		}
	case contenderInside:
		s.contender = contenderLeft
		m.must(s, name, "leaves")
	case contenderLeft:
	}
}

func (m *lingerMove) shutdown() {
	s := m.old
	switch {
	case !m.rules.shutdown:
	case s.stage == stageOpen:
		s.stage = stageSet
		m.step(s, checker.Optional, "Shutdown", "sets the stage")
	case s.stage == stageSet:
		s.stage = stageLooked
		if !m.rules.shutdownWaits {
			s.endIfIdle()
		}
		m.must(s, "Shutdown", "tries to end the idle round")
	}
}

func (m *lingerMove) ownWriter() {
	const name = "own writer"
	s := m.old
	if !m.rules.writer {
		return
	}
	switch s.writer {
	case writerAway:
		if m.rules.writerLooksFirst {
			s.endIfIdle()
			s.writer = writerLooked
			m.step(s, checker.Optional, name, "tries to end the idle round")
			return
		}
		s.writer = writerSeen
		m.step(s, checker.Optional, name, "starts its round")
	case writerLooked:
		s.writer = writerSeen
		m.must(s, name, "starts its round, too late")
	case writerSeen:
		s.writer = writerWaits
		if !m.rules.writerLooksFirst {
			s.endIfIdle()
		}
		m.must(s, name, "tries to end the idle round")
	case writerWaits:
		if !s.node {
			s.writer = writerInside
			m.must(s, name, "enters")
		}
	case writerInside:
		s.writer = writerLeft
		m.must(s, name, "leaves")
	case writerLeft:
	}
}

// lose is the end of the session, or of the lease before it.
func (m *lingerMove) lose() {
	if s := m.old; m.rules.loss && !s.lost && s.word == lingerRetained {
		s.lost = true
		s.end()
		m.step(s, checker.Optional, "session", "is lost")
	}
	if s := m.old; m.rules.lapse && !s.lapsed && s.word == lingerRetained {
		s.lapsed = true
		m.step(s, checker.Optional, "lease", "lapses")
	}
	if s := m.old; s.lapsed && s.node {
		s.node, s.watch = false, false
		m.step(s, checker.Optional, "server", "ends the session")
	}
	if s := m.old; s.lapsed && !s.lost && s.word == lingerRetained {
		s.lost = true
		s.end()
		m.must(s, "lease", "is seen to have lapsed")
	}
}

func lingerSearches() []search {
	with := func(change func(*lingerRules)) checker.Model[lingerState] {
		rules := lingerRules{visits: 2}
		change(&rules)
		return newLinger(rules)
	}
	return []search{
		holds("a contender", with(func(r *lingerRules) { r.visits = 3 })),
		holds("a contender, for ever", with(func(r *lingerRules) { r.visits, r.forever = 3, true })),
		holds("a contender, Shutdown, own writer, loss", with(func(r *lingerRules) { r.shutdown, r.writer, r.loss = true, true, true })).large(),
		holds("a contender, Shutdown, the lease lapses", with(func(r *lingerRules) { r.shutdown, r.lapse = true, true })).large(),
		holds("a contender, the lease lapses", with(func(r *lingerRules) { r.lapse = true })).large(),
		holds("at most two requests", with(func(r *lingerRules) { r.maxRequests, r.forever = 2, true })),
		holds("at most one: armed since the grant, ended unlisted", with(func(r *lingerRules) { r.maxRequests, r.forever, r.armed, r.endUnlisted = 1, true, true, true })),

		fails("a newcomer does not look at the clock", lingerLapsed, with(func(r *lingerRules) { r.lapse, r.entersBlindly = true, true })),
		fails("at most one request, ended after a list", lingerRequests, with(func(r *lingerRules) { r.maxRequests, r.armed = 1, true })),
		fails("at most one request, not armed at the grant", lingerRequests, with(func(r *lingerRules) { r.maxRequests = 1 })),
		fails("no second look at the note", lingerContenderWaits, with(func(r *lingerRules) { r.noSecondLook = true })),
		fails("no wake of the worker", lingerContenderWaits, with(func(r *lingerRules) { r.noWake = true })),
		fails("events are throttled", lingerContenderWaits, with(func(r *lingerRules) { r.throttled = true })),
		fails("the timer ends rounds with holders", lingerEnded, with(func(r *lingerRules) { r.timerEndsAll = true })),
		fails("Shutdown leaves idle rounds alone", lingerShutdownWaits, with(func(r *lingerRules) { r.shutdown, r.shutdownWaits = true, true })),
		fails("no second look at the stage", lingerShutdownWaits, with(func(r *lingerRules) { r.shutdown, r.noStageLook = true, true })),
		fails("the own writer looks before it can be seen", lingerWriterWaits, with(func(r *lingerRules) { r.writer, r.writerLooksFirst = true, true })),
		fails("the note comes after the swap", lingerContenderWaits, with(func(r *lingerRules) { r.noteLate = true })),
		fails("the last Release ignores the note", lingerContenderWaits, with(func(r *lingerRules) { r.ignoreNote, r.noSecondLook = true, true })),
		fails("list first, watch then", lingerContenderWaits, with(func(r *lingerRules) { r.watchLate = true })),
	}
}
