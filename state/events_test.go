// SPDX-License-Identifier: Apache-2.0

package state

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestEvents(t *testing.T) {
	var a AtomicEvents
	for _, step := range []struct {
		what        string
		raise, take Events
		first       bool
		taken       Events
		left        Events
	}{
		{"nothing is raised", 0, OwnDue, true, 0, 0},
		{"an event", OwnTouched, 0, true, 0, OwnTouched},
		{"again", OwnTouched, 0, false, 0, OwnTouched},
		{"another", QueueDue, 0, true, 0, OwnTouched | QueueDue},
		{"one of two is new", QueueDue | BehindDue, 0, false, 0, OwnTouched | QueueDue | BehindDue},
		{"only what is asked for is taken", 0, OwnTouched | OwnDue, true, OwnTouched, QueueDue | BehindDue},
		{"and only once", 0, OwnTouched, true, 0, QueueDue | BehindDue},
		{"the rest", 0, QueueDue | BehindDue | WriterDue, true, QueueDue | BehindDue, 0},
	} {
		if first := a.Raise(step.raise); first != step.first {
			t.Errorf("%s: first %t", step.what, first)
		}
		if taken := a.Take(step.take); taken != step.taken || a.Load() != step.left {
			t.Errorf("%s: took %b, left %b; want %b, %b", step.what, taken, a.Load(), step.taken, step.left)
		}
	}
	if both := OwnTouched | OwnDue; !both.Has(OwnDue) || !both.Has(both) || OwnDue.Has(both) {
		t.Error("Has does not ask for all")
	}
}

// Of several goroutines that raise an event one is first, until it is taken.
func TestEventsRace(t *testing.T) {
	var a AtomicEvents
	var firsts, takes atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20_000 {
				if a.Raise(FetchTimer) {
					firsts.Add(1)
				}
				if a.Take(FetchTimer).Has(FetchTimer) {
					takes.Add(1)
				}
			}
		})
	}
	all.Wait()
	if firsts.Load() != takes.Load() {
		t.Errorf("%d goroutines were first, %d took the event", firsts.Load(), takes.Load())
	}
}
