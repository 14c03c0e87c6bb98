// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

const (
	maxID        = 1 << 10
	defaultGrace = time.Minute
)

var (
	// ErrEnded says that the schedule has no planned time any more.
	ErrEnded = errors.New("the schedule has ended")
	// ErrRunning says that a call of Run or RunDue of the same Manager runs this job already. The
	// goroutines of a Manager share its locks, so both would run it.
	ErrRunning = errors.New("this Manager runs the job already")
	// ErrInterrupted is for a job to return, in an error that wraps it: its run was interrupted, or is to
	// be run again for another reason, although its context has not ended. See Options.Attempts.
	ErrInterrupted = errors.New("the run was interrupted")
	// ErrNoRecord says that the job was never planned, or that its record was deleted.
	ErrNoRecord = errors.New("there is no record")
)

// Options say when a job is planned. All processes of a job must have the same Schedule, Location,
// Missed, Grace and Attempts: those of the process that runs the job count.
type Options struct {
	// Schedule says when the job is planned. There is no default.
	Schedule Schedule

	// Location is that of the times which the Schedule is asked for and the job gets. A cron expression
	// such as "0 3 * * *" means three o'clock there.
	// On days on which the clocks change there, local times are repeated or left out: of robfig/cron's
	// expressions, "30 1 * * *" may run twice, and "30 2 * * *" not at all.
	// Defaults to UTC, and not to the location of the machine, on which processes may disagree.
	Location *time.Location

	// Missed says what becomes of planned times that are past.
	// Defaults to RunLatest.
	Missed Missed

	// Grace is by how much a planned time may be past before Skip passes over it.
	// Defaults to one minute.
	Grace time.Duration

	// Attempts is how often the run of a planned time is begun at most. With 1, a planned time whose
	// run was interrupted, by the end of the process or the loss of the lock, counts as run. With
	// more, it counts as not run, until there are as many attempts. A run whose job returned an error
	// before its context had ended has ended, too, unless the error wraps ErrInterrupted.
	// Defaults to 1.
	Attempts int

	// ID names this process in the record. Defaults to its process id and host name, such as 4711@db7.
	ID string

	// OnEvent is told of failed runs and of missed planned times, on the goroutine of Run or RunDue
	// and between two runs, so it must return soon. A Cron tells it the same once, however often RunDue is
	// called.
	// Defaults to a line in the log, by slog.Warn.
	OnEvent func(Event)

	// Now is the clock that decides whether a planned time has come; for tests.
	// Defaults to time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() (Options, error) {
	e, isEvery := o.Schedule.(every)
	switch {
	case o.Schedule == nil:
		return o, fmt.Errorf("%w: there is no Schedule", manager.ErrBadConfig)
	case isEvery && e <= 0:
		return o, fmt.Errorf("%w: a schedule of every %v", manager.ErrBadConfig, time.Duration(e))
	case o.Missed > Skip:
		return o, fmt.Errorf("%w: Missed is %d", manager.ErrBadConfig, o.Missed)
	case o.Grace < 0, o.Attempts < 0:
		return o, fmt.Errorf("%w: Grace and Attempts must not be negative", manager.ErrBadConfig)
	case len(o.ID) > maxID:
		return o, fmt.Errorf("%w: an ID of %d bytes; at most %d are allowed", manager.ErrBadConfig, len(o.ID), maxID)
	}
	if o.Location == nil {
		o.Location = time.UTC
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	o.Attempts = max(o.Attempts, 1)
	if o.ID == "" {
		host, _ := os.Hostname()
		o.ID = fmt.Sprintf("%d@%s", os.Getpid(), host)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// A Cron runs a job once for each planned time, on one of the processes that have a Cron of the same
// name. All methods may be called concurrently.
type Cron struct {
	access manager.Access
	lock   *manager.Lock
	name   string
	record string // the path of the record
	opts   Options

	told told // belongs to the call of Run or RunDue that is under way: see enter
}

// New returns the Cron of this name, a slash-separated path under Config.Root of the Manager. It
// does no I/O. The errors are [manager.ErrBadName], [manager.ErrBadConfig] for bad options,
// [manager.ErrKind] and, once the Manager shuts down, [manager.ErrClosed].
func New(m *manager.Manager, name string, o Options) (*Cron, error) {
	a := m.Access()
	dir, err := a.Path(name)
	if err == nil {
		o, err = o.withDefaults()
	}
	if err != nil {
		return nil, access.Error(a, "cron", name, err)
	}
	lock, err := m.Exclusive(name + "/lock")
	if err != nil {
		return nil, err
	}
	if err := lock.SetLinger(0); err != nil { // one that has released the lock runs nothing
		return nil, err
	}
	return &Cron{access: a, lock: lock, name: name, record: dir + "/record", opts: o}, nil
}

// Name returns the name.
func (c *Cron) Name() string { return c.name }

// Lock returns the lock whose holder runs the job. By [manager.Lock.Holder] any process learns which
// one that is, and [manager.Lock.Revoke] has another process run the job: the holder gives the lock
// up when no run is under way, and queues again.
func (c *Cron) Lock() *manager.Lock { return c.lock }

// Begin has the schedule begin now, unless there is a record: what is planned from now on is due. It is for
// programs that call RunDue; the first call of Run or RunDue does the same. It blocks until ZooKeeper has
// answered, ctx ends or the Manager closes. The errors are those, or what ZooKeeper refuses.
func (c *Cron) Begin(ctx context.Context) error {
	text, err := Record{Planned: c.now().UTC(), State: StateNew, ID: c.opts.ID}.text()
	if err != nil {
		return c.error("begin", err)
	}
	err = access.Do(ctx, c.access, func(s *zkio.Session) error {
		create := func() error { return s.Create(c.record, text, c.access.ACL()) }
		// If there is a record, it is of another process, or ours, and the answer was lost.
		return access.Unless(access.InDir(c.access, s, path.Dir(c.record), create), zkio.ErrNodeExists)
	})
	return c.error("begin", err)
}

// Last returns the record: what became of the newest planned time that was run. It blocks until a
// server has answered, which may lag behind the others, ctx ends or the Manager closes. The errors
// are those, [ErrNoRecord], [ErrBadRecord], or what ZooKeeper refuses.
func (c *Cron) Last(ctx context.Context) (Record, error) {
	data, err := access.Ask(ctx, c.access, func(s *zkio.Session) ([]byte, error) {
		data, _, err := s.Get(c.record)
		return data, err
	})
	var r Record
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		err = fmt.Errorf("%w: %w", ErrNoRecord, err)
	case err == nil:
		r, err = parseRecord(c.record, data)
	}
	return r, c.error("read", err)
}

func (c *Cron) error(op string, err error) error { return access.Error(c.access, op, c.name, err) }

// now returns the time of the wall clock only: see Options.next.
func (c *Cron) now() time.Time { return c.opts.Now().Round(0) }

// running has the place of each call of Run and RunDue: see ErrRunning.
var running sync.Map

// A place is where a Manager runs a job.
type place struct {
	access manager.Access
	record string
}

// enter notes that a call runs the job, until leave is called.
func (c *Cron) enter() (leave func(), err error) {
	here := place{c.access, c.record}
	if _, other := running.LoadOrStore(here, true); other {
		return nil, fmt.Errorf("%w: wait until that call has returned, or give this one a Manager of its own", ErrRunning)
	}
	return func() { running.Delete(here) }, nil
}
