// SPDX-License-Identifier: Apache-2.0

// Package checker searches all states that a model can reach, breadth first.
//
// A [Model] is a program of several actors, written as a state and the steps that
// are possible in it. In every reachable state the checker asks three questions:
//
//   - Is an invariant violated, by the state or by a step out of it?
//   - Can the run still end? The end must be reachable by steps that are sure to
//     happen. A state without such a step is a deadlock, one from which no such
//     path leads to the end is a trap.
//   - Does an actor wait in vain? A model may say what must not be the case while
//     only timers can go on.
//
// A model may also have steps that count as progress. Then no fair run may go on for
// ever without one: see [Model.MustProgress].
//
// The first violation ends the search. As the search is breadth first, its trace
// is one of the shortest.
//
// The search is exact. States are compared byte by byte; a hash only says where to
// look, so no collision can hide a state. A search that reaches its limit is never
// taken for a proof: see [Result.Complete].
package checker

import "math"

// A Kind says when a step happens.
type Kind uint8

const (
	// Mandatory steps are taken sooner or later, at once by a human's measure.
	Mandatory Kind = iota
	// Optional steps may never happen: a crash, a caller that gives up.
	Optional
	// Timer steps are sure to happen, but late.
	Timer
)

// A Step leads from one state to another.
type Step[S comparable] struct {
	Actor, Action string // for traces: "writer 1", "lists"
	To            S
	Kind          Kind

	// Violates is the invariant that the step itself breaks, or "". Steps may
	// add details after a colon, as Invariant may.
	Violates string

	// Progress marks what some actor waited for. See Model.MustProgress.
	Progress bool
}

// A Model describes all runs of a protocol. S must contain no pointers.
type Model[S comparable] struct {
	Start S

	// Next calls take for each step that is possible in s. Its steps and their
	// order must depend on s only.
	Next func(s S, take func(Step[S]))

	// Invariant returns the invariant that s violates, or "". Details follow a
	// colon.
	Invariant func(s S) string

	// Done reports whether a run may end in s.
	Done func(s S) bool

	// Idle returns what is wrong if nothing but a timer goes on from s, or "".
	// It may be nil.
	Idle func(s S) string

	// MustProgress forbids fair runs that go on for ever, by steps of any kind,
	// without a step that is marked as progress. A run is fair if no actor that is
	// able to go on from some time on, by steps that are sure to happen, is left out
	// for ever (weak fairness).
	MustProgress bool

	// Show describes s in traces.
	Show func(s S) string
}

// What a search can find besides the violation of a model's own invariants.
const (
	// Deadlock: nothing that is sure to happen is possible, and the run may not
	// end here.
	Deadlock = "deadlock"
	// Trap: steps that are sure to happen can go on, but never reach the end.
	Trap = "trap"
	// Livelock: a fair run can go on for ever without progress.
	Livelock = "livelock"
)

// A Result is what a search found.
type Result struct {
	States int // that were reached

	// Violated is the first violation that was found, or "".
	Violated string
	// Trace leads to it.
	Trace []Event

	// Complete reports whether all reachable states were searched. Only then an
	// empty Violated shows anything.
	Complete bool
}

// An Event is one line of a trace.
type Event struct {
	Actor, Action string
	State         string // after it
}

// Search searches the states of m, but at most limit of them; 0 means no limit.
func (m Model[S]) Search(limit int) Result {
	if limit == 0 {
		limit = math.MaxInt32
	}
	s := search[S]{Model: m, states: newStore[S]()}
	s.find(m.Start, none)
	for i := int32(0); i < s.states.len(); i++ {
		if s.expand(i); s.result.Violated != "" {
			break
		}
		if int(s.states.len()) > limit {
			s.result.States = int(s.states.len())
			return s.result
		}
	}
	s.result.States = int(s.states.len())
	if s.result.Violated == "" {
		s.result.Complete = true
		s.checkEnds()
	}
	if s.result.Violated == "" && m.MustProgress {
		s.checkProgress()
	}
	return s.result
}

// none stands for no state.
const none int32 = -1

// A search is a running search. It numbers the states in the order in which it
// found them.
type search[S comparable] struct {
	Model[S]
	states *store[S]
	from   []int32 // the state that each was first reached from

	// The steps that are sure to happen, as a graph: those of state i lead to
	// sure[sureAt[i]:sureAt[i+1]], the last state's to the end of sure.
	sure   []int32
	sureAt []int

	// The steps that are no progress, whatever their kind, likewise. They are kept
	// only if the model asks for progress.
	vain   []int32
	vainAt []int

	result Result
}

// find returns the number of a state, which was reached from the state from.
func (s *search[S]) find(state S, from int32) int32 {
	i, added := s.states.add(state)
	if added {
		s.from = append(s.from, from)
	}
	return i
}

// expand checks state i and takes all steps out of it.
func (s *search[S]) expand(i int32) {
	state := s.states.at(i)
	if why := s.Invariant(state); why != "" {
		s.fail(why, i)
		return
	}
	s.sureAt = append(s.sureAt, len(s.sure))
	s.vainAt = append(s.vainAt, len(s.vain))
	idle := true
	s.Next(state, func(step Step[S]) {
		if s.result.Violated != "" {
			return
		}
		if step.Violates != "" {
			s.fail(step.Violates, i)
			s.result.Trace = append(s.result.Trace, s.event(step))
			return
		}
		j := s.find(step.To, i)
		if s.MustProgress && !step.Progress {
			s.vain = append(s.vain, j)
		}
		if j == i {
			return // a step that changes nothing brings nothing closer
		}
		if step.Kind != Optional {
			s.sure = append(s.sure, j)
		}
		if step.Kind == Mandatory {
			idle = false
		}
	})
	if s.result.Violated != "" {
		return
	}
	if idle && s.Idle != nil {
		if why := s.Idle(state); why != "" {
			s.fail(why, i)
			return
		}
	}
	if len(s.sure) == s.sureAt[i] && !s.Done(state) {
		s.fail(Deadlock, i)
	}
}

// checkEnds looks for states from which the end cannot be reached. It goes
// backwards from the ends.
func (s *search[S]) checkEnds() {
	n := s.states.len()
	before, beforeAt := reverse(s.sure, s.sureAt)
	ends := make([]bool, n)
	var open []int32
	for i := range n {
		if s.Done(s.states.at(i)) {
			ends[i] = true
			open = append(open, i)
		}
	}
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		for _, j := range before[beforeAt[i]:beforeAt[i+1]] {
			if !ends[j] {
				ends[j] = true
				open = append(open, j)
			}
		}
	}
	for i := range n {
		if !ends[i] {
			s.fail(Trap, i)
			return
		}
	}
}

// edges returns where the edges of state i lead.
func edges(to []int32, at []int, i int32) []int32 {
	if int(i)+1 < len(at) {
		return to[at[i]:at[i+1]]
	}
	return to[at[i]:]
}

// reverse turns the edges of a graph around. Those of state i come from
// from[start[i]:start[i+1]].
func reverse(to []int32, at []int) (from []int32, start []int) {
	start = make([]int, len(at)+1)
	for _, j := range to {
		start[j+1]++
	}
	for i := range at {
		start[i+1] += start[i]
	}
	from = make([]int32, len(to))
	free := make([]int, len(at))
	copy(free, start)
	for i := range at {
		for _, j := range edges(to, at, int32(i)) {
			from[free[j]] = int32(i)
			free[j]++
		}
	}
	return from, start
}

// fail notes a violation, and the way to state i.
func (s *search[S]) fail(why string, i int32) {
	s.result.Violated = why
	s.result.Trace = s.trace(i)
}

// trace returns the way to state i. It takes the steps again, as only states were
// kept.
func (s *search[S]) trace(i int32) []Event {
	state := s.states.at(i)
	if s.from[i] == none {
		return []Event{{Action: "start", State: s.Show(state)}}
	}
	events := s.trace(s.from[i])
	found := false
	s.Next(s.states.at(s.from[i]), func(step Step[S]) {
		if step.To == state && !found {
			found = true
			events = append(events, s.event(step))
		}
	})
	return events
}

func (s *search[S]) event(step Step[S]) Event {
	return Event{Actor: step.Actor, Action: step.Action, State: s.Show(step.To)}
}
