// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/contender"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
	"github.com/holdfast-go/holdfast/stress/internal/plan"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// In a run with a contender, the locks are another library's. The worker process has started a
// program that uses it, in its own process group, so that signals hit both; the workers are the
// program's clients. What the program says of its sessions and locks goes into the history as what
// a Manager says does. So the referee, the register and the judge see no difference, and the judge
// makes of it what it can: a program that never says that a lock is lost is one whose holders were
// not told.

// contendAbroad starts the contender and runs the workers.
func (c *child) contendAbroad(start <-chan struct{}, stderr io.Writer) int {
	s := c.settings
	told := func(n contender.Notice) {
		c.journal.Write(history.Event{Kind: history.Session, Session: journal.SessionName(int64(n.Session)), Text: n.What}) //nolint:gosec // its bits
	}
	p, err := contender.Start(s.Program, s.Servers, s.SessionTimeout, stderr, told, c.fatal)
	if err == nil {
		err = c.openAbroad(p, stderr)
	}
	return c.conduct(start, err, func(ended bool) (clean bool) {
		if err := p.Close(s.Patience / 4); err != nil {
			c.fail(wire.Failure{Text: err.Error()})
		}
		for _, l := range c.locks {
			if err := l.referee.Close(); ended && err != nil { // else a worker may be inside
				c.fail(wire.Failure{Text: err.Error()})
			}
		}
		return ended
	})
}

func (c *child) openAbroad(p *contender.Program, stderr io.Writer) error {
	complaints := new(atomic.Int32)
	for i, v := range c.settings.Venues() {
		r, err := referee.New(v.Name, filepath.Join(c.settings.Dir, v.Name), c.settings.Process, c.violation)
		if err != nil {
			return err
		}
		path, err := manager.LockPath(c.settings.Root, v.Name)
		if err != nil {
			return err
		}
		f := foreign{program: p, path: path, stderr: stderr, complaints: complaints}
		l := &contended{index: i, lock: noLock{name: v.Name}, referee: r, kind: manager.KindExclusive, mode: history.Mutex, recipe: f}
		if v.ReadWrite {
			r.Apart = true
			f.shared = true
			l.kind, l.mode = manager.KindWrite, ""
			l.reader = &contended{index: i, lock: l.lock, referee: r, kind: manager.KindRead, recipe: f, writer: l}
		}
		c.locks = append(c.locks, l)
	}
	return nil
}

// A foreign is a lock of the contender's: one for its only holder, or for its shared holders.
type foreign struct {
	program    *contender.Program
	path       string
	shared     bool
	stderr     io.Writer
	complaints *atomic.Int32 // about all locks
}

// mostComplaints is how many errors of the contender a process shows. Each is in the history.
const mostComplaints = 3

// complain shows one of the first errors: a contender that gets no lock at all says why.
func (f foreign) complain(worker int, what string, err error) {
	if n := f.complaints.Add(1); n <= mostComplaints {
		fmt.Fprintf(f.stderr, "client w%d, %s %s: %v\n", worker, what, f.path, err)
	}
}

// step waits for the lock for as long as it takes: many clients know no other way. If the
// contender has no fencing token, the moment of the grant serves as one. So the register refuses
// what a holder writes that another one has followed.
func (f foreign) step(run, _ context.Context, w *worker, s plan.Step, l *contended) {
	rec := w.asks(l)
	client := f.program.Client(fmt.Sprintf("w%d", w.id))
	acquire := client.Acquire
	if f.shared {
		acquire = client.AcquireShared
	}
	start := time.Now()
	g, err := acquire(run, f.path)
	if err != nil {
		rec.Refused(err.Error())
		switch {
		case w.child.stopping():
		case errors.Is(err, contender.ErrOver):
			w.child.fatal(fmt.Errorf("worker %d: %w", w.id, err))
		default:
			f.complain(w.id, "acquire", err)
		}
		return
	}
	w.child.latency.Record(wire.Called, time.Since(start))
	token := g.Token
	if token == 0 {
		token = uint64(w.child.journal.Now()) //nolint:gosec // it is positive
	}
	w.use(run, s, l, rec, given{Watched: g, session: g.Session, token: token, alone: true, fenced: true, giveUp: func(ctx context.Context) error {
		if err := g.Release(ctx); err != nil {
			f.complain(w.id, "release", err)
			return fmt.Errorf("%w: %w", manager.ErrUnconfirmed, err)
		}
		return nil
	}})
}
