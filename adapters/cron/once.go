// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"context"
	"errors"
	"fmt"
	"time"

	robfig "github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/cron"
)

// A Once has one job run once for each planned time, over all processes that have a Once of the same
// name. All methods may be called concurrently.
type Once struct {
	cron   *cron.Cron
	logger robfig.Logger
}

// New returns the Once of this name, a slash-separated path under Config.Root of the Manager. Schedule is
// that of the entry which the job is added to. In o, Schedule must be nil. Location must be that of
// the robfig Cron, and defaults, as that does, to time.Local: all machines must have the same one.
// Logger is told what keeps a job from running, and what o.OnEvent would be told if that is nil; it
// defaults to robfig's DefaultLogger.
//
// New blocks until ZooKeeper says that the schedule has begun, now or before, ctx ends or the Manager
// closes. What is planned from then on is run. The errors are those of New and Begin of package
// recipes/cron.
func New(ctx context.Context, m *manager.Manager, name string, schedule robfig.Schedule, logger robfig.Logger, o cron.Options) (*Once, error) {
	if o.Schedule != nil {
		return nil, fmt.Errorf("%w: %q: the options have a Schedule; pass it as an argument", manager.ErrBadConfig, name)
	}
	if schedule != nil {
		o.Schedule = schedule
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	if logger == nil {
		logger = robfig.DefaultLogger
	}
	if o.OnEvent == nil {
		o.OnEvent = func(e cron.Event) { tell(logger, name, e) }
	}
	c, err := cron.New(m, name, o)
	if err != nil {
		return nil, err
	}
	if err := c.Begin(ctx); err != nil {
		return nil, err
	}
	return &Once{cron: c, logger: logger}, nil
}

// tell tells the logger of e.
func tell(logger robfig.Logger, name string, e cron.Event) {
	if e.Kind == cron.EventFailed {
		logger.Error(e.Err, "failed", "job", name, "planned", e.Tick.Planned, "attempt", e.Tick.Attempt)
		return
	}
	logger.Info(e.String(), "job", name)
}

// Wrap returns a job that runs j once for each planned time. It is a JobWrapper: pass once.Wrap to
// robfig's NewChain, behind Recover if that is there, so that a panic releases the lock first. J gets no
// context: it learns neither the planned time nor that the lock was lost. So prefer Job.
func (o *Once) Wrap(j robfig.Job) robfig.Job {
	return o.Job(func(context.Context, cron.Tick) error { j.Run(); return nil })
}

// Job returns a job that calls fn once for each planned time, as Run of package recipes/cron does: ctx
// ends when the lock is lost, and with Close of the Manager, but not with Shutdown, which waits for fn. An error of fn goes to Options.OnEvent.
func (o *Once) Job(fn func(ctx context.Context, t cron.Tick) error) robfig.Job {
	return robfig.FuncJob(func() {
		ran, err := o.cron.RunDue(context.Background(), fn) // the Manager ends it
		switch {
		case err == nil:
		case ran > 0 && (errors.Is(err, manager.ErrLost) || errors.Is(err, manager.ErrClosed)):
			o.logger.Error(err, "the lock was lost after the run began", "job", o.cron.Name())
		case ran > 0:
			o.logger.Error(err, "failed after the run began", "job", o.cron.Name())
		case errors.Is(err, manager.ErrLocked), errors.Is(err, cron.ErrRunning), errors.Is(err, manager.ErrClosed):
			o.logger.Info("skip", "job", o.cron.Name(), "why", err)
		default:
			o.logger.Error(err, "not run", "job", o.cron.Name())
		}
	})
}

// Cron returns what the Once is made of: its Last says what was run last.
func (o *Once) Cron() *cron.Cron { return o.cron }
