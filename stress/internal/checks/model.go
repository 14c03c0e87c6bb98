// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// The sequential specification of a lock, at the level of what processes have: a process
// acquires the lock in a mode, may change the mode, and gives it up. It must not acquire it
// while another process has it in a mode that excludes this one, nor with a token that is
// not above those of the earlier grants that exclude it.

// An Action is the input of an operation.
type Action struct {
	what       verb
	possession int // number
	process    scene.ID
	Mode       history.Mode  // acquire, change
	fence      history.Fence // acquire
	place      place         // acquire
}

// A place says how many acquisitions of a window come before this one, by modes, because
// they have lower tokens. As the tokens rise, this adds nothing to the specification, but
// it spares the checker to try the others first: there would be far too many ways.
type place struct {
	ordered     bool // the acquisition has a token
	least, most counts
}

// classes are the modes that matter to tokens: those that a process has for itself count as
// writes.
var classes = [...]history.Mode{history.WriteMode, history.Upgradable, history.Read}

// classOf returns the index of a mode's class.
func classOf(m history.Mode) int { return max(0, slices.Index(classes[:], m)) }

// counts are numbers of acquisitions, by class.
type counts [len(classes)]int

// put sets the places of all acquisitions of a window.
func put(actions []*operation) {
	var all []*operation
	for _, op := range actions {
		if op.what == acquire && op.fence.Token != 0 {
			all = append(all, op)
		}
	}
	slices.SortStableFunc(all, func(a, b *operation) int { return a.fence.Compare(b.fence) })
	var before counts
	for len(all) > 0 {
		same := 1
		for same < len(all) && all[same].fence == all[0].fence {
			same++
		}
		with := before
		for _, op := range all[:same] {
			with[classOf(op.Mode)]++
		}
		for _, op := range all[:same] {
			op.place = place{true, before, with}
		}
		before, all = with, all[same:]
	}
}

// allows reports whether an acquisition in that mode can have this place after those.
func (p place) allows(m history.Mode, done counts) bool {
	if !p.ordered {
		return true
	}
	for i, other := range classes {
		if !scene.Together(m, other) && (done[i] < p.least[i] || done[i] > p.most[i]) {
			return false
		}
	}
	return true
}

type verb int

const (
	acquire verb = iota
	change
	giveUp
)

// A lockState is a state of the specification. States are never changed.
type lockState struct {
	owners []owner // by their numbers
	last   tops
	done   counts // acquisitions with tokens, in the window
}

// An owner is a process that has the lock.
type owner struct {
	possession int
	process    scene.ID
	mode       history.Mode
}

// tops are the highest tokens so far.
type tops struct {
	of     [len(classes)]history.Fence // by class
	writer scene.ID                    // that got the highest write token
}

// specification is the model for the checker.
var specification = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		next, ok := state.(lockState).step(input.(Action))
		return ok, next
	},
	Equal: func(a, b any) bool {
		x, y := a.(lockState), b.(lockState)
		return x.last == y.last && x.done == y.done && slices.Equal(x.owners, y.owners)
	},
	Hash: func(state any) uint64 {
		s := state.(lockState)
		h := s.last.of[0].Turn << 32
		for i, top := range s.last.of {
			h ^= top.Token << i
		}
		for _, o := range s.owners {
			h = h*31 + uint64(o.possession)
		}
		return h
	},
	DescribeOperation: func(input, _ any) string { return input.(Action).String() },
	DescribeState:     func(state any) string { return state.(lockState).String() },
}

// from returns the specification with another initial state.
func from(s lockState) porcupine.Model {
	m := specification
	m.Init = func() any { return s }
	return m
}

// step returns the state after a, or false if a is impossible.
func (s lockState) step(a Action) (lockState, bool) {
	at := slices.IndexFunc(s.owners, func(o owner) bool { return o.possession == a.possession })
	switch a.what {
	case giveUp:
		if at < 0 {
			return s, false
		}
		s.owners = slices.Delete(slices.Clone(s.owners), at, at+1)
		return s, true
	case change:
		if at < 0 || !s.admits(a) {
			return s, false
		}
		s.owners = slices.Clone(s.owners)
		s.owners[at].mode = a.Mode
		return s, true
	}
	if at >= 0 || !a.place.allows(a.Mode, s.done) || !s.admits(a) || !s.last.allow(a) {
		return s, false
	}
	s.owners = append(slices.Clone(s.owners), owner{a.possession, a.process, a.Mode})
	s.last = s.last.with(a)
	if a.place.ordered {
		s.done[classOf(a.Mode)]++
	}
	return s, true
}

// admits reports whether the mode of a is compatible with the other owners.
func (s lockState) admits(a Action) bool {
	for _, o := range s.owners {
		switch {
		case o.possession == a.possession:
		case o.process == a.process:
			if o.mode == history.Mutex && a.Mode == history.Mutex {
				return false
			}
		case !scene.Together(o.mode, a.Mode):
			return false
		}
	}
	return true
}

// allow reports whether the token of a is above those that it must be above. A process
// may get the lock again under the token that it has.
func (t tops) allow(a Action) bool {
	f := a.fence
	if f.Token == 0 {
		return true
	}
	for i, top := range t.of {
		x := f.Compare(top)
		again := x == 0 && (t.writer == a.process || slices.Contains(t.of[1:], top)) && a.Mode != history.Mutex
		if !scene.Together(a.Mode, classes[i]) && x <= 0 && !again {
			return false
		}
	}
	return true
}

// with returns the tops after a.
func (t tops) with(a Action) tops {
	class := classOf(a.Mode)
	if a.fence.Compare(t.of[class]) > 0 {
		t.of[class] = a.fence
		if class == 0 {
			t.writer = a.process
		}
	}
	return t
}

func (a Action) String() string {
	who := fmt.Sprintf("process %d", a.process.Number)
	switch a.what {
	case giveUp:
		return who + " gives it up"
	case change:
		return fmt.Sprintf("%s: now %s", who, a.Mode)
	}
	return fmt.Sprintf("%s: %s, %v", who, a.Mode, a.fence)
}

func (s lockState) String() string {
	if len(s.owners) == 0 {
		return "free"
	}
	var all []string
	for _, o := range s.owners {
		all = append(all, fmt.Sprintf("process %d: %s", o.process.Number, o.mode))
	}
	return strings.Join(all, ", ")
}
