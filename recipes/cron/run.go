// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

const (
	// lookEvery is for how long a process sleeps at most before it looks at the clock again, which
	// may have been set meanwhile.
	lookEvery = time.Second

	// tooFarAhead is by how much the last planned time may be in the future before it is told.
	tooFarAhead = time.Minute

	// readEvery is how often a record is read again that is that far in the future.
	readEvery = 10 * time.Second

	// A write whose outcome is unknown is repeated after minPause, and after twice as long each time, up
	// to maxPause.
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// A Tick is one run of a job.
type Tick struct {
	// Planned is the time for which the run is planned, in Options.Location. No two runs have the same
	// one, unless Attempt says so.
	Planned time.Time

	// Token is the fencing token of the process that runs the job: it rises from process to process, and
	// stays while a process goes on. A resource that refuses a lower pair of Token and Planned
	// than the highest that it has seen lets no late write pass: see docs/fencing.md.
	Token uint64

	// Attempt is 1, or more if the runs of this planned time before were interrupted.
	Attempt int

	// Missed is how many planned times were passed over right before this one: see [Missed]. It counts
	// to 1000.
	Missed int

	// Hold is the hold of the lock under which the job runs. Do not release it.
	Hold manager.Hold
}

type tickKey struct{}

// TickOf returns the Tick of the job that ctx, or a context that it stems from, was given to. It
// does not block.
func TickOf(ctx context.Context) (Tick, bool) {
	t, ok := ctx.Value(tickKey{}).(Tick)
	return t, ok
}

// These end the work under a hold.
var (
	errRevoked = errors.New("another process asks for the lock")
	errChanged = errors.New("another client has changed the record")
)

// Run waits until this process is the one that runs the job, and runs it at each planned time, on the
// caller's goroutine, one run after the other. It blocks until ctx ends, until Shutdown or Close of
// the Manager begins, or until the job cannot be run any more. Then it waits for the run that is under
// way, and until another process can have the lock, for a session timeout at most.
//
// The ctx of the job ends with ctx, and when the lock is lost; a [Tick] is in it: see [TickOf]. The
// job must return then: another process may be about to begin the next run. A job that is to be
// finished when ctx ends makes a context of its own, by [manager.Hold.Context] of Tick.Hold with
// context.WithoutCancel(ctx), which ends with the lock only. Shutdown of the Manager does not end
// the job's context, but waits for it. Run gives the lock up when the job has returned, and not
// before. If the lock is lost, Run queues again. If the job panics, the lock is released, the
// planned time counts as interrupted, and the panic goes on.
//
// The error is a [*manager.Error] that wraps what ended Run: ctx.Err() and context.Cause(ctx),
// [manager.ErrClosed], [ErrEnded], [ErrBadRecord], [ErrBadSchedule], [ErrRunning], or what ZooKeeper
// refuses. It is never nil. The errors of the job go to Options.OnEvent.
func (c *Cron) Run(ctx context.Context, job func(ctx context.Context, t Tick) error) error {
	leave, err := c.enter()
	if err != nil {
		return c.error("run", err)
	}
	defer leave()
	for {
		h, err := c.lock.Lock(ctx)
		if err == nil {
			err = c.under(ctx, h, job, (*runner).follow)
		}
		switch {
		case !errors.Is(err, manager.ErrLost) && !errors.Is(err, errRevoked):
			return err
		case ctx.Err() != nil:
			return c.error("run", ctxerr.Of(ctx))
		}
	}
}

// RunDue runs the job for the planned times that are past when it has the lock, as Run would do, and returns
// how often it did, which is seldom more than once. It is for programs that have a timer of their own, on several
// machines: the first that calls RunDue after a planned time runs the job, and the others find nothing to
// do. If there is no record yet, the schedule begins now, and nothing is due: see [Cron.Begin].
//
// RunDue does not wait for other processes: it fails with [manager.ErrLocked] if another one runs the job
// at the moment, or holds the lock by Run. If the lock is lost, it fails with [manager.ErrLost].
// Otherwise it blocks, and fails, as Run does.
func (c *Cron) RunDue(ctx context.Context, job func(ctx context.Context, t Tick) error) (ran int, err error) {
	leave, err := c.enter()
	if err != nil {
		return 0, c.error("run", err)
	}
	defer leave()
	h, err := c.lock.TryLock(ctx)
	if err != nil {
		return 0, err
	}
	until := c.now() // and not before, since in an outage TryLock waits
	err = c.under(ctx, h, func(ctx context.Context, t Tick) error { ran++; return job(ctx, t) }, func(r *runner, ctx context.Context) error {
		r.until = until
		return r.catchUp(ctx)
	})
	if errors.Is(err, errRevoked) {
		err = nil // it has given the lock up, and that is all
	}
	return ran, err
}

// under has work done under h, and releases it.
func (c *Cron) under(ctx context.Context, h manager.Hold, job func(context.Context, Tick) error, work func(*runner, context.Context) error) error {
	panicked := true
	defer func() {
		if panicked {
			h.Release() // and let the panic go on
			return
		}
		// It waits until another process can have the lock, or for the session timeout. If that is not
		// confirmed, the end of the session frees the lock.
		_ = h.Unlock(context.WithoutCancel(ctx))
	}()
	g, err := h.Grant()
	if err == nil {
		r := &runner{Cron: c, hold: h, token: g.Token, job: job, stop: ctx.Done()}
		err = work(r, ctx)
		if errors.Is(err, manager.ErrUnknownOutcome) && h.Err() == nil {
			if why := r.over(ctx); why != nil { // it would have gone on otherwise
				err = fmt.Errorf("%w: %w", why, err)
			}
		}
	}
	panicked = false
	return err
}

// A runner runs the job for as long as its process has the lock. It belongs to one goroutine.
type runner struct {
	*Cron
	hold  manager.Hold
	token uint64
	job   func(context.Context, Tick) error
	stop  <-chan struct{} // closes when the ctx of Run or RunDue ends

	until   time.Time // of RunDue: later planned times are not due; else zero
	last    Record    // what the record says
	version int32     // of the record's node
	loaded  bool      // last and version are those of the node
	read    time.Time // when the node was read last
}

// follow runs the job at each planned time, until that is over.
func (r *runner) follow(ctx context.Context) error {
	for {
		wait, err := r.step(ctx)
		if err != nil {
			return err
		}
		if wait == 0 {
			continue
		}
		timer := time.NewTimer(min(wait, lookEvery))
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-r.hold.Lost():
		case <-r.hold.Revoked():
		case <-r.access.Accepting().Done():
		}
		timer.Stop()
	}
}

// catchUp runs the job for the planned times that are past, until there is none.
func (r *runner) catchUp(ctx context.Context) error {
	for {
		if wait, err := r.step(ctx); wait > 0 || err != nil {
			return err
		}
	}
}

// over returns why no run must begin any more, or nil.
func (r *runner) over(ctx context.Context) error {
	if ctx.Err() != nil {
		return r.error("run", ctxerr.Of(ctx))
	}
	if err := r.hold.Err(); err != nil { // by the clock, after a pause, too
		return err
	}
	select {
	case <-r.access.Accepting().Done():
		return r.error("run", manager.ErrClosed)
	case <-r.hold.Revoked():
		return errRevoked
	default:
		return nil
	}
}

// step runs the job once, if a planned time is past; otherwise it returns how long that will take.
func (r *runner) step(ctx context.Context) (wait time.Duration, err error) {
	if err := r.over(ctx); err != nil {
		return 0, err
	}
	if !r.loaded {
		return 0, r.load(ctx)
	}
	now := r.now()
	if !r.until.IsZero() && now.After(r.until) {
		now = r.until // a job that takes longer than to the next planned time must not hold RunDue for ever
	}
	p, err := r.opts.plan(r.last, now)
	if err != nil {
		return 0, r.error("plan", err)
	}
	ahead := r.last.Planned.Sub(now) > tooFarAhead
	if !ahead {
		r.told.ahead = time.Time{}
	} else if !r.told.ahead.Equal(r.last.Planned) {
		r.told.ahead = r.last.Planned
		r.tell(Event{Kind: EventAhead, Tick: r.lastTick()})
	}
	if ahead && time.Since(r.read) >= readEvery {
		if changed, err := r.look(ctx); changed || err != nil {
			return 0, err
		}
	}
	r.tellMissed(p)
	switch {
	case p.at.IsZero():
		return 0, r.error("plan", fmt.Errorf("%w: there is no planned time after %v", ErrEnded, r.last.Planned))
	case p.at.After(now):
		return p.at.Sub(now), nil
	}
	before := r.last
	claim := Record{Planned: p.at.UTC(), State: StateBegun, Token: r.token, Attempt: p.attempt, ID: r.opts.ID}
	if err := r.put(ctx, claim); err != nil {
		return 0, r.reload(err)
	}
	if err := r.over(ctx); err != nil {
		// The job was not begun, so the planned time is given back. If that fails, it counts as
		// interrupted.
		_ = r.put(context.WithoutCancel(ctx), before)
		return 0, err
	}
	return 0, r.run(ctx, Tick{Planned: p.at, Token: r.token, Attempt: p.attempt, Missed: p.missed, Hold: r.hold})
}

// run runs the job, whose planned time is claimed, and notes that it has ended.
func (r *runner) run(ctx context.Context, t Tick) error {
	inside, cancel := r.hold.Context(context.WithValue(ctx, tickKey{}, t))
	defer cancel()
	err := r.job(inside, t)
	if err != nil {
		r.tell(Event{Kind: EventFailed, Tick: t, Err: err})
		if inside.Err() != nil || errors.Is(err, ErrInterrupted) { // the record says so as it is
			return r.over(ctx)
		}
	}
	claim, done := r.last, r.last
	done.State = StateDone
	ctx = context.WithoutCancel(ctx) // it has ended perhaps, and the job has not been interrupted
	for r.last.sameRun(claim) {
		if err := r.put(ctx, done); !errors.Is(err, errChanged) {
			return err
		}
		if err := r.load(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tellMissed tells which planned times are passed over, without those that were told before, unless there
// are too many to count.
func (r *runner) tellMissed(p plan) {
	from, n := p.from, p.missed
	if r.last.sameRun(r.told.missed) && (n < maxMissed || n == r.told.n) {
		from, n = r.told.to, n-r.told.n
	}
	if n > 0 {
		r.told.missed, r.told.n, r.told.to = r.last, p.missed, p.at
		r.tell(Event{Kind: EventMissed, From: from, To: p.at, N: n})
	}
}

// lastTick returns the run that the record is of.
func (r *runner) lastTick() Tick {
	return Tick{Planned: r.last.Planned.In(r.opts.Location), Token: r.last.Token, Attempt: r.last.Attempt}
}

// reload has the next step read the record if err says that it has changed.
func (r *runner) reload(err error) error {
	if errors.Is(err, errChanged) {
		r.loaded = false
		return nil
	}
	return err
}

// older reports whether rec has the schedule begin before what this process has read or written
// already: the record was deleted, and another process, whose clock is behind, has made a new one. To
// take that for the truth would repeat planned times.
func (r *runner) older(rec Record) bool {
	return rec.State == StateNew && rec.Planned.Before(r.last.Planned)
}

// load reads the record. If there is none, or a new one that would repeat planned times, it writes what
// this process knows that the record said before; if it knows nothing, the schedule begins now.
func (r *runner) load(ctx context.Context) error {
	r.read = time.Now()
	data, stat, err := r.hold.Get(ctx, r.record)
	if errors.Is(err, zkio.ErrNoNode) {
		rec := r.last
		if rec.State == "" {
			rec = Record{Planned: r.now().UTC(), State: StateNew, ID: r.opts.ID}
		}
		r.version = -1
		if err := r.put(ctx, rec); err != nil {
			return r.reload(err)
		}
		r.loaded = true
		return nil
	}
	if err != nil {
		return err
	}
	last, err := parseRecord(r.record, data)
	if err != nil {
		return r.error("run", err)
	}
	r.version = stat.Version
	if r.older(last) {
		if err := r.put(ctx, r.last); err != nil {
			return r.reload(err)
		}
		r.loaded = true
		return nil
	}
	r.take(last)
	return nil
}

// look reads the record again, since another client may have set it back, and reports whether it has
// changed. It writes nothing: if the record is gone, the schedule is to begin anew when another process
// gets the lock.
func (r *runner) look(ctx context.Context) (changed bool, err error) {
	r.read = time.Now()
	data, stat, err := r.hold.Get(ctx, r.record)
	if err != nil {
		return false, access.Unless(err, zkio.ErrNoNode)
	}
	rec, err := parseRecord(r.record, data)
	if err != nil {
		return false, r.error("run", err)
	}
	if r.older(rec) || stat.Version == r.version && rec.sameRun(r.last) {
		return false, nil
	}
	r.version = stat.Version
	r.take(rec)
	return true, nil
}

// take notes what the record says.
func (r *runner) take(rec Record) {
	r.last, r.loaded = rec, true
	if rec.State == StateBegun && rec.Token != r.token && !rec.sameRun(r.told.interrupted) {
		r.told.interrupted = rec
		r.tell(Event{Kind: EventInterrupted, Tick: r.lastTick()})
	}
}

// tries are the requests of one put.
type tries struct {
	last time.Duration // the last pause between two of them
	end  time.Time     // when there are no more of them; put off for as long as the job is to go on
}

// pause waits before the next try, or until the lock is lost, and reports whether there is to be one: for
// as long as the job is to go on, and for a session timeout more.
func (r *runner) pause(t *tries) bool {
	stopping := false
	select {
	case <-r.stop:
		stopping = true
	case <-r.access.Accepting().Done():
		stopping = true
	default:
	}
	if !stopping || t.end.IsZero() {
		t.end = time.Now().Add(r.access.Session().Timeout())
	}
	t.last = min(max(2*t.last, minPause), maxPause)
	timer := time.NewTimer(t.last)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.hold.Lost():
	}
	return time.Now().Before(t.end)
}

// put writes rec in place of the record that was read or written last. It takes effect only while this
// process has the lock, and if no other client has changed the record: else it fails with
// errChanged. An error that wraps [manager.ErrUnknownOutcome] says that it may have taken effect or
// may still do so; any other one, that it has not.
func (r *runner) put(ctx context.Context, rec Record) error {
	text, err := rec.text()
	if err != nil {
		return r.error("run", err)
	}
	op, version := zkio.SetOp(r.record, text, r.version), r.version+1
	if r.version < 0 {
		op = zkio.CreateOp(r.record, text, r.access.ACL())
	}
	unknown := false
	var t tries
	for {
		_, err := r.hold.Guard(ctx, op)
		switch {
		case err == nil:
			r.last, r.version = rec, version
			return nil
		case errors.Is(err, manager.ErrUnknownOutcome):
			// The caller must know whether the planned time is claimed, even if ctx has ended. A second
			// request decides that: the version lets one of the two take effect.
			again := r.pause(&t)
			if over := r.hold.Err(); over != nil {
				return fmt.Errorf("%w: %w", over, err)
			}
			if !again {
				return err
			}
			unknown, ctx = true, context.WithoutCancel(ctx)
		case errors.Is(err, zkio.ErrBadVersion), errors.Is(err, zkio.ErrNoNode), errors.Is(err, zkio.ErrNodeExists):
			if !unknown {
				return errChanged
			}
			// No other process writes while we have the lock, so this text is ours.
			data, stat, err := r.hold.Get(ctx, r.record)
			switch {
			case err != nil && !errors.Is(err, zkio.ErrNoNode):
				return err
			case err != nil, !bytes.Equal(data, text):
				return errChanged
			}
			r.last, r.version = rec, stat.Version
			return nil
		default:
			return err
		}
	}
}
