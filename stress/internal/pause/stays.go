// SPDX-License-Identifier: Apache-2.0

package pause

import (
	"context"
	"sync"
)

// Most holds are short. Few would be lost in a fault, and many faults would hit a process
// that holds nothing, if they ended as planned. So a moment before a fault hits a process,
// the parent tells it to stay inside with a third of the locks, and another process to stay
// inside with another third: then both hold locks and wait for locks. With the last third
// all go on.
//
// A fault in three comes without that, while all locks change hands: see
// nemesis.Injection. What happens between a release and the next grant is what a fault
// upsets most easily.

// Stays are the times at which workers that are inside with one of a third of the locks
// stay there. The methods may be called concurrently.
type Stays struct {
	mu   sync.Mutex    // protects what follows
	n    int           // faults that go on
	over chan struct{} // closed when n is 0 again; nil while it is
}

// Begin begins one stay.
func (s *Stays) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n++; s.n == 1 {
		s.over = make(chan struct{})
	}
}

// End ends one stay. A process that was started during a fault has none to end.
func (s *Stays) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return
	}
	if s.n--; s.n == 0 {
		close(s.over)
		s.over = nil
	}
}

// Wait waits while workers are to stay inside, until ctx ends or the lock is lost.
func (s *Stays) Wait(ctx context.Context, lost <-chan struct{}) {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over == nil {
		return
	}
	select {
	case <-over:
	case <-ctx.Done():
	case <-lost:
	}
}
