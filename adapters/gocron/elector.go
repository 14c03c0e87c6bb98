// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
)

var _ gocron.Elector = (*Elector)(nil)

// An Elector is a gocron.Elector: one of the processes that stand for an election runs all
// jobs. All methods may be called concurrently.
type Elector struct {
	name    string
	current atomic.Pointer[election.Leadership] // the present or last one; nil if there was none
	refused atomic.Pointer[error]               // why it could not stand, until it stands again
	cancel  context.CancelFunc
	done    chan struct{} // closed when run has ended, after err was set
	err     error
}

// The pauses after which an Elector stands again that could not: each is twice as long.
const minPause, maxPause = 100 * time.Millisecond, 10 * time.Second

// NewElector has this process stand for e, at once, and again whenever it has lost the
// leadership, or, after a pause of 10 s at most, whenever ZooKeeper has refused it. It returns without waiting. Call Close in the end.
func NewElector(e *election.Election) *Elector {
	ctx, cancel := context.WithCancel(context.Background())
	el := &Elector{name: e.Name(), cancel: cancel, done: make(chan struct{})}
	go el.run(ctx, e) // Close joins it
	return el
}

func (el *Elector) run(ctx context.Context, e *election.Election) {
	defer close(el.done)
	pause := minPause
	for {
		l, err := e.Campaign(ctx)
		switch {
		case ctx.Err() != nil && l == nil:
			return
		case errors.Is(err, manager.ErrClosed):
			el.err = err
			return
		case err != nil:
			el.refused.Store(&err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				el.err = err
				return
			}
			pause = min(2*pause, maxPause)
			el.refused.Store(nil)
			continue
		}
		pause = minPause
		el.current.Store(l)
		select {
		case <-l.Lost():
		case <-ctx.Done():
		}
		err = l.Resign(context.WithoutCancel(ctx)) // or ErrLost
		if ctx.Err() != nil {
			el.err = err
			return
		}
	}
}

// IsLeader returns nil if this process leads at this moment. It does not block; it reads the
// clock. The error wraps election.ErrNotElected if another process may lead,
// election.ErrResigned after Close, or says why the process cannot stand: for good if it wraps
// manager.ErrClosed, and else until it stands again.
func (el *Elector) IsLeader(context.Context) error {
	select {
	case <-el.done:
		if el.err != nil {
			return el.err
		}
		return fmt.Errorf("gocron: the elector for %q is closed: %w", el.name, election.ErrResigned)
	default:
	}
	if err := el.refused.Load(); err != nil {
		return *err
	}
	if l := el.current.Load(); l != nil && l.Err() == nil {
		return nil
	}
	return fmt.Errorf("gocron: another process may lead %q: %w", el.name, election.ErrNotElected)
}

// Leadership returns the present leadership, the last one if there is none, or nil if there
// never was one. A job gets a context from it that ends when the leadership is lost, and
// its fencing token. Leadership does not block.
func (el *Elector) Leadership() *election.Leadership { return el.current.Load() }

// Close has this process resign, so that another one can lead, and blocks until ZooKeeper
// has confirmed that, for one session timeout at most, or until ctx ends. Shut the
// scheduler down before. The error is that of election.Leadership.Resign, or says why the
// process could not stand.
func (el *Elector) Close(ctx context.Context) error {
	el.cancel()
	select {
	case <-el.done:
		return el.err
	case <-ctx.Done():
		return fmt.Errorf("gocron: closing the elector for %q: %w", el.name, context.Cause(ctx))
	}
}
