// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
	"github.com/holdfast-go/holdfast/stress/internal/plan"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// Locks that are broken on purpose, for -self-test: a worker of process 0 believes
// something that is not so, as it would if the lock had that defect. It goes on as workers
// do, and the harness must notice.

// A blind is a hold whose loss the lock does not tell of.
type blind struct{ manager.Hold }

func (blind) Err() error            { return nil }
func (blind) Lost() <-chan struct{} { return nil }

// A deaf hold does not tell that the lock is asked for.
type deaf struct{ manager.Hold }

func (deaf) Revoked() <-chan struct{} { return nil }

// An invented is a hold of which ZooKeeper does not know.
type invented struct{}

func (invented) Err() error            { return nil }
func (invented) Lost() <-chan struct{} { return nil }

// seenBy returns h as the worker sees it.
func (w *worker) seenBy(h manager.Hold) journal.Watched {
	switch {
	case w.sabotages(wire.IgnoresLease):
		return blind{h}
	case w.sabotages(wire.IgnoresRevocation):
		return deaf{h}
	default:
		return h
	}
}

// believes performs a step of a worker whose lock grants what it must not grant. It reports
// false if the worker's lock does nothing of that kind now.
func (w *worker) believes(run context.Context, s plan.Step, l *contended) bool {
	switch {
	case w.sabotages(wire.ForgetsWaiter):
		w.asks(l)
		defer w.activity.Begin("Acquire and wait", l)()
		<-run.Done() // the grant was not told
		return true
	case w.sabotages(wire.GrantsTwice):
		// Granted without regard for which process holds the lock, with a token from the
		// clock.
		w.pretend(run, s, l, manager.Grant{Token: uint64(time.Now().UnixNano())})
		return true
	case w.sabotages(wire.BelievesOldNews):
		// The grant of an earlier round is taken for one of this round.
		if token := w.first.Load(); token != 0 {
			w.pretend(run, s, l, manager.Grant{Token: token})
			return true
		}
	}
	return false
}

// pretend works under a grant that ZooKeeper has not given.
func (w *worker) pretend(run context.Context, s plan.Step, l *contended, g manager.Grant) {
	r := w.asks(l)
	r.Granted(g, invented{})
	leave, ok := w.enterReferee(l, g, nil)
	if !ok {
		return
	}
	w.entered(l)
	w.writeNow(l)
	w.stay(run, max(s.Hold, 5*time.Millisecond), l, nil)
	r.Release()
	leave()
}

// The server hears nothing of a process from freezeAfter to thawAfter since it was started.
const (
	freezeAfter = 1500 * time.Millisecond
	thawAfter   = 5 * time.Second
)
