// SPDX-License-Identifier: Apache-2.0

package checker

import "slices"

// checkProgress looks for fair runs that go on for ever without progress. Such a run
// ends up in a strongly connected component of the steps without progress: it comes
// back to each of its states again and again. It can be fair if every actor takes a
// step in that component, or is unable to in one of its states.
func (s *search[S]) checkProgress() {
	for _, component := range components(s.vain, s.vainAt) {
		if s.isFair(component) {
			first := slices.Min(component)
			s.fail(Livelock, first)
			s.appendCycle(first, component)
			return
		}
	}
}

// isFair reports whether a run can stay in the component for ever, and be fair.
func (s *search[S]) isFair(component []int32) bool {
	inside := set(component)
	able := map[string]int{} // in how many states the actor is sure to go on
	acts := map[string]bool{}
	for _, i := range component {
		ableHere := map[string]bool{}
		s.Next(s.states.at(i), func(step Step[S]) {
			if step.Kind != Optional {
				ableHere[step.Actor] = true
			}
			if j := s.number(step.To); !step.Progress && inside[j] {
				acts[step.Actor] = true
			}
		})
		for actor := range ableHere {
			able[actor]++
		}
	}
	for actor, n := range able {
		if n == len(component) && !acts[actor] {
			return false // it would go on, and leave the component
		}
	}
	return len(acts) > 0 // a single state need not have a step to itself
}

// appendCycle appends to the trace a way from state i, in the component, back to a
// state that it has come by. A fair run may need more than this one cycle.
func (s *search[S]) appendCycle(i int32, component []int32) {
	inside := set(component)
	seen := map[int32]bool{}
	for !seen[i] {
		seen[i] = true
		next := none
		s.Next(s.states.at(i), func(step Step[S]) {
			if j := s.number(step.To); next == none && !step.Progress && inside[j] {
				next = j
				s.result.Trace = append(s.result.Trace, s.event(step))
			}
		})
		i = next
	}
}

// number returns the number of a state that was found before.
func (s *search[S]) number(state S) int32 {
	i, _ := s.states.add(state)
	return i
}

func set(states []int32) map[int32]bool {
	in := map[int32]bool{}
	for _, i := range states {
		in[i] = true
	}
	return in
}

// components returns the strongly connected components of a graph, by Tarjan's
// algorithm with a stack of its own: runs may be longer than Go's stack is deep.
func components(to []int32, at []int) (found [][]int32) {
	type visit struct {
		state int32
		edge  int // the next to follow
	}
	const unseen = 0
	order := make([]int32, len(at)) // in which states were seen, from 1
	low := make([]int32, len(at))   // the lowest order that is known to be reached
	onPath := make([]bool, len(at))
	var path []int32
	var visits []visit
	last := int32(0)
	enter := func(i int32) {
		last++
		order[i], low[i], onPath[i] = last, last, true
		path = append(path, i)
		visits = append(visits, visit{state: i})
	}
	for root := range int32(len(at)) {
		if order[root] != unseen {
			continue
		}
		enter(root)
		for len(visits) > 0 {
			v := &visits[len(visits)-1]
			i := v.state
			if next := edges(to, at, i); v.edge < len(next) {
				j := next[v.edge]
				v.edge++
				if order[j] == unseen {
					enter(j)
				} else if onPath[j] {
					low[i] = min(low[i], order[j])
				}
				continue
			}
			visits = visits[:len(visits)-1]
			if len(visits) > 0 {
				parent := visits[len(visits)-1].state
				low[parent] = min(low[parent], low[i])
			}
			if low[i] == order[i] {
				start := slices.Index(path, i)
				component := slices.Clone(path[start:])
				path = path[:start]
				for _, j := range component {
					onPath[j] = false
				}
				found = append(found, component)
			}
		}
	}
	return found
}
