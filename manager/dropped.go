// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// reportDropped is called when a slot has become unreachable. A released handle
// is of no interest: the pool gave it up. Nor is one whose round is over: there
// is nothing left to release.
func reportDropped(h *handle) {
	if h.withdrawn.Load() != nil || h.share == nil || h.word.Load().FirstReleased() {
		return
	}
	s := h.share.home()
	l, w := s.lock, s.word.Load()
	over := w.Phase() > state.Retained
	if over {
		if t := s.promises().turn(); t == nil || !t.isInside() {
			return
		}
	}
	omitted, ok := l.m.journal.drops.allow(droppedHold{l.Name(), over}, time.Now())
	if !ok {
		return
	}
	args := []any{"lock", l.Name(), "state", w.String()}
	if omitted > 0 {
		args = append(args, "not logged since the last", omitted)
	}
	if over {
		l.m.cfg.Logger.Error("holdfast: the lock of a Mutex was lost, and its Hold was dropped without a Release: this process's goroutines wait for it for ever", args...)
	} else {
		l.m.cfg.Logger.Error("holdfast: a Hold was dropped without a Release: the lock stays held until the session ends", args...)
	}
}
