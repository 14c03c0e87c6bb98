// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
	"github.com/holdfast-go/holdfast/stress/internal/plan"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
	"github.com/holdfast-go/holdfast/stress/internal/register"
	"github.com/holdfast-go/holdfast/stress/internal/watchdog"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A worker is a goroutine that contends for the locks. It performs the steps of
// its plan and checks every result.
type worker struct {
	id       int
	child    *child
	plan     *plan.Plan
	activity watchdog.Activity[*contended]
	first    atomic.Uint64 // token; for the sabotages OldToken and BelievesOldNews

	records  journal.Records // what it writes into the history
	register register.Client // its connection to the register
	former   formerGrants    // with which it will write again, too late
}

// A locker is a lock that workers contend for: a manager.Lock, or a manager.Mutex, which
// excludes the workers of one process, too.
type locker interface {
	Name() string
	Acquire(ctx context.Context) manager.Hold
	Lock(ctx context.Context) (manager.Hold, error)
	TryLock(ctx context.Context) (manager.Hold, error)
	Do(ctx context.Context, fn func(ctx context.Context, h manager.Hold) error) error
	ReleaseIdle() *futures.Future[struct{}]
	State() (state.Phase, int)
	Stats() manager.Stats
}

// A contended is one of the locks, with its referee. A read/write lock is two of
// them, with the same referee.
type contended struct {
	index   int // of the lock, or of the pair
	lock    locker
	referee *referee.Referee
	kind    manager.Kind
	mode    history.Mode    // in the history; empty: that of kind
	ledger  *referee.Ledger // of interrupted holders; nil if the lock does not report them
	recipe  recipe          // of the workloads of recipes, which use nothing else; or nil
	reader  *contended      // the read lock of a write lock
	third   *contended      // the upgradable read lock of a write lock; nil if it is not used
	writer  *contended      // the write lock of the other two
}

// queue returns l, and the other locks of a read/write lock.
func (l *contended) queue() (all []*contended) {
	for _, l := range []*contended{l, l.reader, l.third} {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
}

// Name returns the lock's name.
func (l *contended) Name() string { return l.lock.Name() }

// Mode returns what a history calls a kind of lock.
func (l *contended) Mode() history.Mode {
	return cmp.Or(l.mode, modes[l.kind])
}

var modes = map[manager.Kind]history.Mode{
	manager.KindExclusive:  history.Exclusive,
	manager.KindRead:       history.Read,
	manager.KindWrite:      history.WriteMode,
	manager.KindUpgradable: history.Upgradable,
}

// String names the lock, for reports.
func (l *contended) String() string {
	if l.kind == manager.KindExclusive {
		return fmt.Sprintf("lock %q", l.lock.Name())
	}
	return fmt.Sprintf("%v lock %q", l.kind, l.lock.Name())
}

func (w *worker) run(ctx context.Context) {
	defer w.register.Close()
	for {
		s := w.plan.Next()
		if !pause.For(ctx, s.Think, nil) {
			return
		}
		w.writeLate()
		l := w.child.locks[s.Lock]
		switch {
		case s.Third:
			l = l.third
		case s.Read:
			l = l.reader
		}
		switch {
		case w.believes(ctx, s, l):
		case l.recipe != nil:
			w.goThrough(ctx, s, l)
		case s.Panics:
			w.interrupted(ctx, s, l)
		case s.Group.Nest:
			w.nest(ctx, s)
		case s.Group.N > 0:
			w.lockAll(ctx, s)
		default:
			w.perform(ctx, s, l)
		}
		w.records.End()
		w.activity.None()
	}
}

// stay is a pause inside. It ends early if the lock is lost, and late if the parent says so.
func (w *worker) stay(ctx context.Context, d time.Duration, l *contended, lost <-chan struct{}) {
	switch {
	case w.sabotages(wire.IgnoresLease):
		ctx, d, lost = w.child.run, thawAfter, nil
	case w.sabotages(wire.IgnoresRevocation):
		d = 30 * w.child.settings.SessionTimeout
	}
	defer w.activity.BeginFor("staying inside", l, d)()
	pause.For(ctx, d, lost)
	w.child.stays[l.index%wire.Thirds].Wait(ctx, lost)
}

// perform performs a step: it acquires the lock, works, and releases it.
func (w *worker) perform(run context.Context, s plan.Step, l *contended) {
	switch s.Way {
	case plan.ByOnDone:
		w.onDone(run, s, l)

	case plan.ByWait:
		w.acquire(run, s, l, func(h manager.Hold) error {
			_, err := h.Granted().Wait(run)
			return err
		})

	case plan.BySelect:
		w.acquire(run, s, l, func(h manager.Hold) error {
			select {
			case <-h.Granted().Done():
				_, err, _ := h.Granted().Poll()
				return err
			case <-run.Done():
				return run.Err()
			}
		})

	case plan.ByCancel, plan.ByWithdrawal:
		ctx, cancel := context.WithCancel(run)
		defer cancel()
		t := time.AfterFunc(s.Bound, cancel)
		defer t.Stop()
		w.acquire(ctx, s, l, func(h manager.Hold) error {
			if s.Way == plan.ByCancel {
				_, err := h.Granted().Wait(ctx)
				return err
			}
			// The future settles even if ctx ends first: with the grant if
			// other callers still wait, otherwise with an error.
			<-h.Granted().Done()
			_, err, _ := h.Granted().Poll()
			return err
		})

	case plan.ByGivingUp:
		w.givingUp(run, s, l)

	case plan.ByLock:
		w.call(run, s, l, "Lock", l.lock.Lock)

	case plan.ByDeadline:
		ctx, cancel := context.WithTimeout(run, s.Bound)
		defer cancel()
		w.call(ctx, s, l, "Lock with a deadline", l.lock.Lock)

	case plan.ByTry:
		w.call(run, s, l, "TryLock", l.lock.TryLock)

	case plan.ByDo:
		w.do(run, s, l)
	}
}

// acquire performs a step that calls Acquire and awaits the grant by wait.
func (w *worker) acquire(ctx context.Context, s plan.Step, l *contended, wait func(manager.Hold) error) {
	h, settled := w.begin(ctx, s, l)
	settled(w.during("Acquire and wait", l, func() error { return wait(h) }))
}

// during makes a call that may block, which the watchdog watches.
func (w *worker) during(what string, l *contended, call func() error) error {
	defer w.activity.Begin(what, l)()
	return call()
}

// begin calls Acquire and checks whether this process held the lock already. The caller
// passes the error of the grant's future, or nil, to settled, which goes on with the step.
func (w *worker) begin(ctx context.Context, s plan.Step, l *contended) (h manager.Hold, settled func(error)) {
	w.asks(l)
	start := time.Now()
	h = l.lock.Acquire(ctx)
	kind := wire.Waited
	if _, _, settled := h.Granted().Poll(); settled {
		kind = wire.Entered
	}
	return h, func(err error) {
		if err == nil {
			// The future is shared by all callers of the round. If ctx ended before
			// it settled, this hold was withdrawn all the same.
			err = h.Err()
		}
		if err != nil {
			h.Release()
			w.refused(ctx, "Acquire", l, err)
			return
		}
		w.child.latency.Record(kind, time.Since(start))
		w.inside(ctx, s, l, h)
	}
}

// onDone performs a step in a callback of the grant's future.
func (w *worker) onDone(run context.Context, s plan.Step, l *contended) {
	h, settled := w.begin(run, s, l)
	end := w.activity.Begin("Acquire and OnDone", l)
	done := make(chan struct{})
	stop := h.Granted().OnDone(func(_ manager.Grant, err error) {
		defer close(done)
		end()
		settled(err)
	})
	select {
	case <-done:
		return
	case <-run.Done():
	}
	if stop() {
		end()
		h.Release()
	} else {
		<-done
	}
}

// givingUp performs a step that releases its hold if it is not granted in time.
func (w *worker) givingUp(run context.Context, s plan.Step, l *contended) {
	ctx, cancel := context.WithTimeout(run, s.Bound)
	defer cancel()
	h, settled := w.begin(run, s, l)
	err := w.during("Acquire and wait", l, func() error {
		_, err := h.Granted().Wait(ctx)
		return err
	})
	if err == nil || ctx.Err() == nil {
		settled(err)
		return
	}
	// Other callers may still wait for the round's future, or be granted.
	w.settlesPending(ctx, l, h)
	if run.Err() == nil {
		w.child.count(func(n *wire.Counts) { n.Cancels++ })
	}
}

func (w *worker) call(ctx context.Context, s plan.Step, l *contended, what string, call func(context.Context) (manager.Hold, error)) {
	w.asks(l)
	if h, ok := get(ctx, w, what, l, call); ok {
		w.inside(ctx, s, l, h)
	}
}

// get makes a call that waits for something, and reports whether w got it. It checks and
// counts the error of the call.
func get[T any](ctx context.Context, w *worker, what string, l *contended, call func(context.Context) (T, error)) (got T, ok bool) {
	start := time.Now()
	err := w.during(what, l, func() (err error) {
		got, err = call(ctx)
		return err
	})
	if err != nil {
		w.refused(ctx, what, l, err)
		return got, false
	}
	w.child.latency.Record(wire.Called, time.Since(start))
	return got, true
}

func (w *worker) do(run context.Context, s plan.Step, l *contended) {
	w.asks(l)
	start := time.Now()
	end := w.activity.Begin("Do", l)
	ran := false
	err := l.lock.Do(run, func(ctx context.Context, h manager.Hold) error {
		end()
		ran = true
		w.child.latency.Record(wire.Called, time.Since(start))
		w.visit(run, s, l, h)
		end = w.activity.Begin("the end of Do", l)
		return nil
	})
	end()
	switch {
	case err == nil:
	case ran && errors.Is(err, manager.ErrLost):
		w.child.count(func(n *wire.Counts) { n.LostHolds++ })
	case ran && errors.Is(err, manager.ErrUnconfirmed): // the work was protected
	default:
		w.refused(run, "Do", l, err)
	}
}

// refused checks and counts the error of an acquisition.
func (w *worker) refused(ctx context.Context, what string, l *contended, err error) {
	w.records.Find(l, journal.Asked).Refused(err.Error())
	switch {
	case w.child.stopping():
		// The end of the run ended the wait, most likely.
	case what == "TryLock" && errors.Is(err, manager.ErrLocked):
		w.child.count(func(n *wire.Counts) { n.Refusals++ })
	case errors.Is(err, manager.ErrLost):
		w.child.count(func(n *wire.Counts) { n.LostHolds++ }) // granted, and lost at once
	case ctx.Err() == nil:
		w.unexpected(what, l, err)
	case errors.Is(err, context.DeadlineExceeded):
		w.child.count(func(n *wire.Counts) { n.Timeouts++ })
	case errors.Is(err, context.Canceled), errors.Is(err, manager.ErrReleased), errors.Is(err, manager.ErrNotGranted):
		// The context ended and withdrew the hold (ErrReleased). If no other
		// caller waited, the round ended, too (ErrNotGranted).
		w.child.count(func(n *wire.Counts) { n.Cancels++ })
	default:
		w.unexpected(what, l, err)
	}
}

func (w *worker) inside(ctx context.Context, s plan.Step, l *contended, h manager.Hold) {
	lost := w.visit(ctx, s, l, h)
	w.give(s, l, h, lost)
}

// visit works under h: it enters the referee, uses further handles, stays for a
// while, and leaves. It reports whether h was lost. It releases h only if the step
// says to do so before another handle of the same holder is released.
func (w *worker) visit(ctx context.Context, s plan.Step, l *contended, h manager.Hold) (lost bool) {
	g, leave, ok := w.goIn("Grant", l, h)
	if !ok {
		return closed(h.Lost())
	}
	w.checkAbandoned(s, l, h, g)
	w.writeNow(l)
	w.sabotageInside()

	// While the hold is valid, the lock is RETAINED. The state is read first, so
	// that a hold that is valid afterwards was valid then.
	phase, holders := l.lock.State()
	if h.Err() == nil && (phase != state.Retained || holders < 1) {
		w.unexpected("State", l, fmt.Errorf("a holder sees it as %v with %d holders", phase, holders))
	}

	if s.Turn && l.kind == manager.KindWrite {
		w.downgrade(ctx, s, l, h, g, leave)
		return closed(h.Lost())
	}
	if s.Turn && l.kind == manager.KindRead {
		w.upgrade(ctx, s, l, h)
	}
	if s.Turn && l.kind == manager.KindUpgradable {
		w.upgradeInPlace(ctx, s, l, h, g)
	}
	switch s.Nested {
	case plan.Plain:
		w.stay(ctx, s.Hold, l, h.Lost())
		w.records.Find(l, journal.Inside).Valid(h)
		w.writeNow(l) // without a check: it may be too late
		leave()
	case plan.ByReenter:
		w.reenter(ctx, s, l, h, leave)
	case plan.ByContext, plan.ByAcquireInside, plan.ByTryInside:
		w.enterAgain(ctx, s, l, h, g, leave)
	case plan.ByShare:
		if l.referee.Alone {
			w.unshared(l, h)
			leave()
			break
		}
		w.share(ctx, s, l, h, leave)
	}
	return closed(h.Lost())
}

// lostWithin waits until the process learns that it has lost h, and reports whether it does within d.
func lostWithin(h manager.Hold, d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-h.Lost():
		return true
	case <-late.C:
		return false
	}
}

func (w *worker) entered(l *contended) {
	w.child.count(func(n *wire.Counts) {
		n.Entries++
		switch l.kind {
		case manager.KindRead:
			n.ReadEntries++
		case manager.KindWrite:
			n.WriteEntries++
		case manager.KindUpgradable:
			n.UpgradableEntries++
		}
	})
}

// downgrade takes the read lock under the write hold h, releases h, and continues
// under the read lock.
func (w *worker) downgrade(ctx context.Context, s plan.Step, l *contended, h manager.Hold, g manager.Grant, leave func()) {
	inside, cancel := h.Context(ctx)
	defer cancel()
	w.stay(ctx, s.Hold/4, l, h.Lost())
	end := w.activity.Begin("taking the read lock under the write lock", l.reader)
	read, err := l.reader.lock.Lock(inside)
	end()
	var granted manager.Grant
	if err == nil {
		granted, err = read.Grant()
	}
	if err != nil {
		leave()
		read.Release()
		if ctx.Err() == nil { // else the end of the run has ended inside, too
			w.noLonger("taking the read lock under the write lock", l, h, err)
		}
		return
	}
	if granted.Token != g.Token && !lostWithin(h, time.Second) { // its node may have been deleted a moment ago
		w.unexpected("taking the read lock under the write lock", l.reader, fmt.Errorf("its token is %d, but the write lock's is %d", granted.Token, g.Token))
	}
	_, leaveRead, ok := w.goIn("taking the read lock under the write lock", l.reader, read)
	if !ok {
		leave()
		read.Release()
		return
	}
	w.child.count(func(n *wire.Counts) { n.Downgrades++ })
	w.stay(ctx, s.Hold/4, l, h.Lost()) // under both
	leave()
	w.settles("Release after a downgrade", l, h, closed(h.Lost()))
	if w.sabotages(wire.LosesRead) {
		w.settles("Release of a downgraded hold", l.reader, read, closed(read.Lost()))
		pause.For(ctx, wire.CaughtWithin, nil)
		leaveRead()
		return
	}
	w.stay(ctx, s.Hold/2, l.reader, read.Lost())
	w.stillHeld("Err of a downgraded hold", l.reader, read)
	leaveRead()
	w.settles("Release of a downgraded hold", l.reader, read, closed(read.Lost()))
}

// upgrade asks for the write lock with a context that carries the read hold h,
// which must be refused at once.
func (w *worker) upgrade(ctx context.Context, s plan.Step, l *contended, h manager.Hold) {
	inside, cancel := h.Context(ctx)
	defer cancel()
	const what = "going from read to write"
	defer w.activity.Begin(what, l.writer)()
	var write manager.Hold
	var err error
	switch s.Giving {
	case plan.ByRelease:
		write = l.writer.lock.Acquire(inside)
		var ok bool
		if _, err, ok = write.Granted().Poll(); !ok {
			err = errors.New("it was not refused at once")
		}
	case plan.ByReleaseWait:
		write, err = l.writer.lock.TryLock(inside)
	default:
		write, err = l.writer.lock.Lock(inside)
	}
	write.Release() // also if refused
	switch {
	case errors.Is(err, manager.ErrUpgrade):
		w.child.count(func(n *wire.Counts) { n.RefusedUpgrades++ })
	case closed(h.Lost()): // then it was no upgrade
	case inside.Err() != nil && errors.Is(err, inside.Err()): // the step is over: its context carries no hold any more
	default:
		w.unexpected(what, l.writer, cmp.Or(err, errors.New("it was not refused")))
	}
}

// asks writes into the history that the worker asks for l.
func (w *worker) asks(l *contended) *journal.Record {
	return w.records.Add(w.child.journal.Request(w.id, l))
}

// goIn has the worker be inside with h, which was granted: it enters, and counts the entry. It reports
// false if the hold has been lost by then, or if the worker cannot enter.
func (w *worker) goIn(what string, l *contended, h manager.Hold) (g manager.Grant, leave func(), ok bool) {
	g, err := h.Grant() // checks the lease
	if err != nil {
		w.noLonger(what, l, h, err)
		return g, nil, false
	}
	if leave, ok = w.enter(l, g, h); ok {
		w.entered(l)
	}
	return g, leave, ok
}

// enter enters the referee, and writes into the history that the worker is inside. The
// worker must have the granted hold h until it calls leave. If it has not asked for h, it
// shares the hold of another worker, or has a second one.
func (w *worker) enter(l *contended, g manager.Grant, h manager.Hold) (leave func(), ok bool) {
	r := w.records.Find(l, journal.Asked)
	if r == nil {
		r = w.asks(l)
	}
	if w.sabotages(wire.OldToken) && !w.first.CompareAndSwap(0, g.Token) {
		g.Token = w.first.Load()
	}
	if w.sabotages(wire.BelievesOldNews) {
		w.first.CompareAndSwap(0, g.Token)
	}
	r.Granted(g, w.seenBy(h))
	leaveReferee, ok := w.enterReferee(l, g, h.Lost())
	if !ok {
		r.Release()
		return nil, false
	}
	leave = func() {
		r.Release()
		leaveReferee()
		w.leaves(r, closed(h.Lost()))
	}
	if w.sabotages(wire.Lingers) {
		honest := leave
		leave = func() { time.AfterFunc(20*time.Millisecond, honest) }
	}
	return leave, true
}

// enterReferee enters the referee. The worker must have a granted hold until it calls
// leave.
func (w *worker) enterReferee(l *contended, g manager.Grant, lost <-chan struct{}) (leave func(), ok bool) {
	out, err := l.referee.EnterTurn(l.kind, g.Token, g.Turn, lost)
	if err != nil {
		w.child.fatal(err)
		return nil, false
	}
	return func() { w.child.fatal(out()) }, true
}

// reenter works with a second handle of the holder, which it releases before or
// after the first.
func (w *worker) reenter(ctx context.Context, s plan.Step, l *contended, h manager.Hold, leave func()) {
	second, err := h.Reenter()
	if err != nil {
		leave()
		w.noLonger("Reenter", l, h, err)
		return
	}
	w.child.count(func(n *wire.Counts) { n.Reentries++ })
	w.depth(l, h, 2)
	w.stay(ctx, s.Hold/2, l, h.Lost())
	if s.Order {
		second.Release()
		w.depth(l, h, 1)
		w.stay(ctx, s.Hold/2, l, h.Lost())
		leave()
		return
	}
	// Release the first handle; the second one still holds the lock.
	w.settles("Release of the first handle", l, h, closed(h.Lost()))
	w.depth(l, second, 1)
	w.stillHeld("Err of a second handle", l, second)
	w.stay(ctx, s.Hold/2, l, h.Lost())
	leave()
	w.settles("Release of the second handle", l, second, closed(h.Lost()))
}

// enterAgain acquires the lock again with a context that carries h, which must be
// granted at once, to the same holder.
func (w *worker) enterAgain(ctx context.Context, s plan.Step, l *contended, h manager.Hold, g manager.Grant, leave func()) {
	inside, cancel := h.Context(ctx)
	defer cancel()
	var second manager.Hold
	var err error
	end := w.activity.Begin("acquiring again by context", l)
	switch s.Nested {
	case plan.ByContext:
		second, err = l.lock.Lock(inside)
	case plan.ByTryInside:
		second, err = l.lock.TryLock(inside)
	default:
		second = l.lock.Acquire(inside)
		var ok bool
		if _, err, ok = second.Granted().Poll(); !ok {
			w.unexpected("Acquire by a holder", l, errors.New("it was not granted at once"))
		}
	}
	end()
	if err != nil {
		leave()
		second.Release()
		if ctx.Err() == nil { // else the end of the run has ended inside, too
			w.noLonger("acquiring again by context", l, h, err)
		}
		return
	}
	w.child.count(func(n *wire.Counts) { n.Reentries++ })
	w.depth(l, h, 2)
	if again, err := second.Grant(); err != nil {
		w.noLonger("Grant of a second handle", l, second, err)
	} else if again.Abandoned = again.Abandoned || g.Abandoned; again != g { // a worker may have called Recovered
		w.unexpected("acquiring again by context", l, fmt.Errorf("the grant is %+v, and was %+v before", again, g))
	}
	w.stay(inside, s.Hold, l, nil) // inside ends if the lock is lost
	if s.Order {
		second.Release()
		leave()
		w.settles("Release of the first handle", l, h, closed(h.Lost()))
	} else {
		w.settles("Release of the first handle", l, h, closed(h.Lost()))
		leave()
		w.settles("Release of the second handle", l, second, closed(h.Lost()))
	}
	// A context ends when its hold does.
	if inside.Err() == nil {
		w.unexpected("Context", l, errors.New("the context did not end when its hold was released"))
	} else if cause := context.Cause(inside); ctx.Err() == nil && !errors.Is(cause, manager.ErrReleased) && !closed(h.Lost()) {
		w.unexpected("Context", l, fmt.Errorf("the cause of the context's end is %w, not that its hold was released", cause))
	}
}

// share gives another goroutine a hold of its own. That goroutine works beside this
// one and may stay longer.
func (w *worker) share(ctx context.Context, s plan.Step, l *contended, h manager.Hold, leave func()) {
	shared, err := h.Share()
	if err != nil {
		leave()
		w.noLonger("Share", l, h, err)
		return
	}
	w.child.count(func(n *wire.Counts) { n.Shares++ })
	done := make(chan struct{})
	join := func() {
		defer w.activity.BeginFor("waiting for the goroutine with the shared hold", l, s.Hold)()
		<-done
	}
	go func() {
		defer close(done)
		g, err := shared.Grant()
		if err != nil {
			shared.Release()
			w.noLonger("Grant of a shared hold", l, shared, err)
			return
		}
		if leave, ok := w.enter(l, g, shared); ok {
			pause.For(ctx, s.Hold, shared.Lost())
			leave()
		}
		w.settles("Release of a shared hold", l, shared, closed(shared.Lost()))
	}()
	if s.Order { // this goroutine leaves first
		w.stay(ctx, s.Hold/2, l, h.Lost())
		leave()
		w.settles("Release beside a shared hold", l, h, closed(h.Lost()))
		join()
		return
	}
	join()
	leave()
}

// unshared asks for a second holder of a mutex, which must be refused.
func (w *worker) unshared(l *contended, h manager.Hold) {
	second, err := h.Share()
	switch {
	case errors.Is(err, manager.ErrNotShared):
		w.child.count(func(n *wire.Counts) { n.RefusedShares++ })
	case err == nil:
		second.Release()
		w.unexpected("Share", l, errors.New("it was not refused"))
	default:
		w.noLonger("Share", l, h, fmt.Errorf("sharing the hold of a mutex: %w", err))
	}
}

// stillHeld checks that h is held, unless it was lost.
func (w *worker) stillHeld(what string, l *contended, h manager.Hold) {
	if err := h.Err(); err != nil {
		w.noLonger(what, l, h, err)
	}
}

// noLonger checks the error of an operation on a granted hold. The only correct one
// is that the hold was lost.
func (w *worker) noLonger(what string, l *contended, h manager.Hold, err error) {
	switch {
	case !errors.Is(err, manager.ErrLost):
		w.unexpected(what, l, err)
	case !lostWithin(h, time.Second): // a call may know of the loss a moment before the channel closes
		w.unexpected(what, l, fmt.Errorf("the channel Lost is not closed a second later, but the error is: %w", err))
	}
}

func (w *worker) depth(l *contended, h manager.Hold, want int) {
	if got := h.Depth(); got != want {
		w.unexpected("Depth", l, fmt.Errorf("it is %d instead of %d", got, want))
	}
}

// give releases h in the way that the step says, and checks the result.
func (w *worker) give(s plan.Step, l *contended, h manager.Hold, lost bool) {
	if lost {
		w.child.count(func(n *wire.Counts) { n.LostHolds++ })
	}
	switch {
	case h.Depth() == 0: // visit has released it
	case s.Giving == plan.ByUnlock:
		err := w.during("Unlock", l, func() error { return h.Unlock(context.Background()) })
		w.settled("Unlock", l, err, lost)
	case s.Giving == plan.ByReleaseWait && (l.kind == manager.KindRead || w.child.settings.Linger > 0):
		// The round can last as long as any reader is inside, and one of a lock that
		// lingers until another process wants it. If all workers waited for its end,
		// they would run out. So wait for a while only.
		released := h.Released()
		w.settles("Release", l, h, lost)
		end := w.activity.BeginFor("waiting for a release, for a while", l, s.Think)
		pause.For(w.child.run, s.Think, released.Done())
		end()
	case s.Giving == plan.ByReleaseWait:
		end := w.activity.Begin("waiting for a release", l)
		_, err := h.Release().Wait(context.Background())
		end()
		w.settled("Release", l, err, lost)
	default:
		w.settles("Release", l, h, lost)
	}
	if s.Again {
		// A second release is refused, no matter when.
		if _, err, _ := h.Release().Poll(); !errors.Is(err, manager.ErrReleased) {
			w.unexpected("a second Release", l, cmp.Or(err, errors.New("it was not refused")))
		}
	}
}

// settles releases h and checks the result in a callback. The child waits for all
// these callbacks at its end.
func (w *worker) settles(what string, l *contended, h manager.Hold, lost bool) {
	r := w.records.Take(l)
	w.release(h, func(err error) {
		r.Released(err)
		w.settled(what, l, err, lost)
	})
}

// settlesPending is settles for a hold that was pending when its ctx ended. It may have
// been granted since.
func (w *worker) settlesPending(ctx context.Context, l *contended, h manager.Hold) {
	w.release(h, func(err error) {
		switch {
		case errors.Is(err, manager.ErrNotGranted):
		case errors.Is(err, manager.ErrReleased) && w.child.stopping():
			// The end of the run withdrew it.
		case errors.Is(err, ctx.Err()):
			// It was refused: ctx had ended before the call.
		default:
			w.settled("Release of a pending hold", l, err, false)
		}
	})
}

func (w *worker) release(h manager.Hold, look func(error)) {
	w.child.releases.Add(1)
	h.Release().OnDone(func(_ struct{}, err error) {
		defer w.child.releases.Add(-1)
		look(err)
	})
}

// settled checks the result of a release. lost tells that the hold was known to be
// lost before.
func (w *worker) settled(what string, l *contended, err error, lost bool) {
	switch {
	case err == nil && lost:
		w.unexpected(what, l, errors.New("it reported no loss, but the lock was lost"))
	case err == nil:
	case errors.Is(err, manager.ErrLost):
		if !lost { // else it has been counted
			w.child.count(func(n *wire.Counts) { n.LostHolds++ })
		}
	case errors.Is(err, manager.ErrUnconfirmed) && !lost: // the work was protected
	default:
		w.unexpected(what, l, err)
	}
}

// unexpected reports a result that the API does not allow.
func (w *worker) unexpected(what string, l *contended, err error) {
	w.child.fail(wire.Failure{Text: fmt.Sprintf("worker %d: %s on %v: %v", w.id, what, l, err)})
}

// sabotages reports whether this worker is to misbehave in the way s.
func (w *worker) sabotages(s wire.Sabotage) bool {
	return w.id == 0 && w.child.settings.Sabotage == s
}

func (w *worker) sabotageInside() {
	switch {
	case w.sabotages(wire.GetsStuck):
		w.activity.Begin("a wait that never ends", w.child.locks[0])
		select {}
	case w.sabotages(wire.Crashes):
		os.Exit(3)
	case w.sabotages(wire.Complains):
		w.unexpected("sabotage", w.child.locks[0], errors.New("on purpose"))
	}
}

// closed reports whether c is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
