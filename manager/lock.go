// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/oneline"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Lock is a lock that a process owns and all its goroutines share. It excludes
// processes: while this process holds it, no other process does (for a read lock:
// no other process holds the write lock), and any number of goroutines of this
// process may hold it together.
//
// A Manager has one *Lock per name; get it from [Manager.Exclusive], or the two
// of a read/write lock from [Manager.ReadWrite]. All methods may be called
// concurrently.
//
// Goroutines of this process that wait for the lock share one entry in
// ZooKeeper's queue and one future. While the process owns the lock, a caller
// enters by a few atomic operations. When the last holder leaves, the process gives
// the lock up; later callers queue again, behind the processes that are waiting. With
// Config.Linger, it keeps an idle lock until another process wants it.
type Lock struct {
	line
	rw *RWLock // the pair that it belongs to; nil for an exclusive lock

	// cur is the present round. It moves forward only, and only the releaser
	// of the round that it points to moves it.
	cur    atomic.Pointer[round]
	handed atomic.Pointer[handed] // what the round before cur has left to it; see handed
	homes

	observer memory // of its directory's holder

	counters
	fetches   errand.Entry       // its entry in the pool's queue of fetches …
	refetches errand.Entry       // … and in that of refetches
	noted     state.AtomicEvents // what state.Events says "of a lock"
	linger    lingerTime         // see SetLinger
}

// Exclusive returns the exclusive lock called name: a slash-separated path under
// Config.Root, of which one leading slash is ignored. It does no I/O and does not
// block. As long as a *Lock is busy or referenced, the same name gives the same
// *Lock.
//
// The errors are [ErrBadName] (see [Escape] for names from elsewhere), [ErrKind]
// if this process uses the name for a read/write lock or a mutex, and [ErrClosed].
func (m *Manager) Exclusive(name string) (*Lock, error) {
	e, err := m.open("exclusive", name, func(e *locks, path string) bool {
		if *e == (locks{}) {
			e.lock = newLock(m, path, queue.Exclusive)
		}
		return e.lock != nil && !e.lock.latch
	})
	return e.lock, err
}

func newLock(m *Manager, path string, kind queue.Kind) *Lock {
	l := new(Lock)
	l.init(m, path, kind)
	return l
}

func (l *Lock) init(m *Manager, path string, kind queue.Kind) {
	l.m, l.path, l.kind = m, path, kind
	r := newRound(l)
	r.flags.Set(state.PrevReleased) // no round comes before it
	l.cur.Store(r)
}

// Name returns the lock's name, without a leading slash.
func (l *Lock) Name() string { return l.m.nameOf(l.path) }

// Path returns the directory in ZooKeeper in which the lock's contenders queue.
func (l *Lock) Path() string { return l.path }

// Acquire asks for the lock and returns a Hold at once. It never blocks and does
// no I/O. If this process owns the lock, the Hold is granted, unless other
// processes have to be let in first (see Config.Tenure). Otherwise it is pending,
// and [Hold.Ready] settles when the process gets the lock. Release the Hold in
// either case.
//
// If ctx ends before the grant, this Hold is withdrawn as if it had been
// released, and Ready settles with an error. Other callers of this process keep
// waiting; when the last one gives up, the process leaves the queue. After the grant,
// ctx has no effect. [Hold.Granted] is a future that these callers share: it settles
// with the grant, too, but does not know ctx.
//
// If ctx comes from [Hold.Context] of a live Hold of this lock and has not ended, Acquire
// reenters: it returns another handle of the same holder. Any other caller is a newcomer.
// Newcomers may have to wait behind other processes, which get the lock only
// after all its present holders have left. So a goroutine that holds the lock and
// acquires it again without such a ctx may wait for itself.
//
// If Acquire refuses (the manager is closed, ctx has ended, there are too many
// holders, the call is an upgrade), it returns a Hold whose Ready has failed.
// Acquire does not read the clock, unless the lock may linger; see [Hold] for the methods
// that do.
//
// A grant synchronizes before the return of every Acquire that shares it, and so
// do the Releases of earlier grants in this process.
func (l *Lock) Acquire(ctx context.Context) Hold {
	return l.acquire(ctx, opAcquire)
}

// acquire makes a Hold for the operation op. It is the fast path: a newcomer
// enters a round that this process owns. In any other case it changes nothing and
// calls acquireSlow.
//
// The fast path is a handful of atomic operations in a row, here and in giveUp. A
// processor gets little done behind such an operation before that completes, so
// nothing stands between two of them that can come before or after.
func (l *Lock) acquire(ctx context.Context, op string) Hold {
	if l.noted.Load().Has(state.InContexts) && mayInherit(ctx, l) || l.m.closing() || ctx.Err() != nil {
		return l.acquireSlow(ctx, op)
	}
	r := l.cur.Load()
	for lost := 0; ; lost++ {
		w := r.word.Load()
		// Between the load of the word and its swap: see round.arrive.
		f := r.flags.Load() & (state.GrantTold | state.GateClosed | state.Lingers)
		if f != state.GrantTold || !w.Admits() {
			l.noteRaces(lost)
			if f == state.GrantTold|state.Lingers {
				return l.acquireLingering(ctx, op, r)
			}
			return l.acquireSlow(ctx, op)
		}
		if r.word.Enter(w) {
			//holdfast:reached-if lost > 0: arrival: lost a race
			l.noteRaces(lost)
			break
		}
	}
	//holdfast:reached-if r.flags.Load().Has(state.GateClosed): gate: a newcomer slipped past it as it closed
	if hm := l.home.Load(); hm != nil {
		if gen, ok := hm.word.Take(); ok { // as enter begins, inlined
			return hm.hold(&r.share, gen)
		}
	}
	return l.enter(&r.share)
}

// acquireSlow is acquire for callers that reenter, wait or are refused.
func (l *Lock) acquireSlow(ctx context.Context, op string) Hold {
	h, pass, done := l.inherit(ctx, op)
	switch {
	case done:
	case l.m.closing():
		return deadHold(l, &Error{Op: op, Name: l.Name(), Err: ErrClosed})
	case ctx.Err() != nil:
		return deadHold(l, l.ended(ctx, op))
	default:
		h = l.arrive(op, pass)
	}
	// Lock and TryLock wait, and see for themselves when ctx ends.
	if op == opAcquire && ctx.Done() != nil && h.share.word.Load().Phase() == state.Fetching {
		stop := context.AfterFunc(ctx, h.withdrawal(ctx).run)
		h.slot.onReleaseDo(h.gen, func() { stop() })
	}
	return h
}

// inherit looks for holds in ctx, and reenters if one is of this lock. If done is
// false the caller is a newcomer, and pass says whether it may pass a closed
// gate.
func (l *Lock) inherit(ctx context.Context, op string) (h Hold, pass, done bool) {
	if h, done := l.reenterIn(ctx, op); done {
		return h, false, true
	}
	switch l.kind {
	case queue.Write, queue.Upgradable:
		for other := range l.rw.locks() {
			if _, ok := other.heldIn(ctx); ok && other != l {
				return deadHold(l, upgradeError(l, op, other.kind)), false, true
			}
		}
	case queue.Read:
		if u := l.rw.third.Load(); u != nil {
			if h, done := u.reenterIn(ctx, op); done {
				return h, false, true // it reads, too
			}
		}
		// A holder of the write lock enters beside it, whatever else waits.
		var write Hold
		if write, pass = l.rw.writer.heldIn(ctx); pass && write.share.promises().place() != nil {
			// A group's write lock has no place beside it. Reenter that lock.
			if h, err := write.reenter(op); err == nil {
				return h, false, true
			}
		}
	}
	return Hold{}, pass, false
}

// upgradeError is the error of a caller that has a Hold of the pair's lock of kind held and asks
// for l.
func upgradeError(l *Lock, op string, held queue.Kind) *Error {
	advice := "release that before, or acquire RWLock.Upgradable in its place"
	if held == queue.Upgradable {
		advice = "call Hold.Upgrade in place of that"
	}
	return &Error{Op: op, Name: l.Name(), Err: fmt.Errorf("%w: it holds the %s lock and asks for the %s lock; %s", ErrUpgrade, held, l.kind, advice)}
}

// reenterIn reenters the innermost hold of l in ctx. If done is false there is none that
// is alive.
func (l *Lock) reenterIn(ctx context.Context, op string) (h Hold, done bool) {
	outer, ok := l.heldIn(ctx)
	if !ok {
		return Hold{}, false
	}
	h, err := outer.reenter(op)
	switch {
	case err == nil:
		return h, true
	case errors.Is(err, ErrTooManyHolders):
		return deadHold(l, err), true
	}
	return Hold{}, false // it was released just now
}

// arrive makes a new holder; pass says whether it may pass a closed gate.
func (l *Lock) arrive(op string, pass bool) Hold {
	r, e, lost := l.cur.Load().arrive(pass)
	l.noteRaces(lost)
	switch e {
	case state.Entered:
		return l.entered(r)
	case state.Started:
		l.rounds.Add(1)
	case state.Joined:
		l.joins.Add(1)
	case state.Full:
		return deadHold(l, &Error{Op: op, Name: l.Name(), Err: ErrTooManyHolders})
	}
	// Shutdown and Close set the stage before they look for rounds that wait; this caller
	// is counted in one before it looks at the stage. At least one sees the other.
	if l.m.closing() {
		r.failPending(r.error("shutdown", ErrClosed))
	}
	return newHold(&r.share)
}

// entered makes the Hold of a new holder that was counted in r, which this process owns.
func (l *Lock) entered(r *round) Hold {
	// The granter may be between its CAS and settling the future, which the new hold
	// needs now.
	r.io().settleGrant()
	if !r.flags.Load().Has(state.GrantTold) {
		r.io().incumbent().entered()
		r.flags.Set(state.GrantTold)
	}
	return l.enter(&r.share)
}

// Lock acquires the lock. It blocks until the lock is granted or ctx ends. If ctx
// ends first, Lock leaves no node behind and returns an [*Error] that wraps
// ctx.Err() and context.Cause(ctx). Its field Holder names the contender that holds the
// lock, if that is known. If holders of this process hold it, and newcomers have to let
// other processes go first, the error wraps [ErrYielding] as well.
//
// Like [Lock.Acquire] it reenters if ctx carries a live Hold of this lock. It reads
// the clock before it returns a Hold: if the lock was lost in that moment, the
// error is [ErrLost].
func (l *Lock) Lock(ctx context.Context) (Hold, error) {
	return l.await(ctx, l.acquire(ctx, opLock), opLock)
}

// await waits for h's grant and checks it. On an error it releases h.
func (l *Lock) await(ctx context.Context, h Hold, op string) (Hold, error) {
	granted := h.Granted()
	_, err := granted.Wait(ctx)
	if err == nil {
		err = h.check(op)
	}
	if err == nil {
		return h, nil
	}
	if _, _, settled := granted.Poll(); !settled {
		switch {
		case h.share.behindClosedGate():
			err = fmt.Errorf("%w: %w", err, ErrYielding)
		case waitsForDelay(h.share.promises().io):
			err = fmt.Errorf("%w: the lock was abandoned, and the lock-delay is not over", err)
		}
	}
	// If ctx ended, the grant may come at this very moment. Whichever CAS wins,
	// giveUp takes our count back, and the last holder to leave sees to the node.
	err = h.wrap(op, err)
	h.giveUp()
	if e, ok := errors.AsType[*Error](err); ok && e.Holder != nil {
		l.own().toldBy(e)
		blameOwn(l, e)
	}
	return Hold{}, err
}

// blameOwn adds to e, which names the holder, what to do if this process keeps itself waiting: it
// holds another lock of the pair.
func blameOwn(l *Lock, e *Error) {
	held := e.Holder
	if !held.Own || l.rw == nil || held.Kind == Kind(l.kind) {
		return
	}
	e.Err = fmt.Errorf("%w: this process itself holds the %s lock of the pair, and has to release it first", e.Err, held.Kind)
	if held.Kind == KindRead && l.kind == queue.Write {
		e.Err = fmt.Errorf("%w; a goroutine that reads before it writes needs RWLock.Upgradable", e.Err)
	}
}

// TryLock acquires the lock if this process owns it or can get it without waiting
// for another process. Otherwise it returns [ErrLocked] and leaves no node behind. The
// field Holder of the [*Error] names the contender that holds the lock. If this process
// itself holds it, but newcomers have to let other processes go first, the error is
// [ErrYielding], which wraps ErrLocked.
//
// A process that lets a lock linger (see Config.Linger) holds it: TryLock of another
// process returns ErrLocked, and tells that process to give the lock up, so that one of the
// next tries succeeds if no other process comes first.
//
// TryLock blocks until ZooKeeper has answered or ctx ends, never for another process.
// It does not exclude the goroutines of this process, which share the lock. Like
// [Lock.Acquire] it reenters if ctx carries a live Hold of this lock.
func (l *Lock) TryLock(ctx context.Context) (Hold, error) {
	const op = opTryLock
	h := l.acquire(ctx, op)
	t := h.share.promises().io
	for !t.granted.Settled() {
		why := error(nil)
		p := t.position.Load()
		switch {
		case p != nil:
			//holdfast:reached trylock: another contender is ahead
			why = ErrLocked
		case h.share.behindClosedGate():
			//holdfast:reached trylock: behind a closed gate
			why = ErrYielding
		}
		if why != nil {
			err := t.round.error(op, why)
			h.giveUp()
			if p != nil {
				l.nameHolder(ctx, err, p)
			}
			return Hold{}, err
		}
		select {
		case <-t.granted.Future().Done(): // or failed
		case <-t.whereabouts().known().Done():
			// Look for the position. If it has been cleared again, known returns
			// another future.
		case <-ctx.Done():
			return l.await(ctx, h, op)
		}
	}
	return l.await(ctx, h, op)
}

// behindClosedGate reports whether the share waits behind holders of this process that
// admit no newcomer before other processes have had their turn.
func (s *share) behindClosedGate() bool {
	cur := s.lock.cur.Load()
	return &cur.share != s && cur.word.Load().Phase() == state.Retained
}

// Do acquires the lock, calls fn with a context that ends when the lock is lost
// (see [Hold.Context]), and releases the lock, even if fn panics.
//
// If the lock cannot be acquired, Do returns the error of [Lock.Lock] and does not call
// fn. Otherwise it returns fn's error. If the lock was lost before fn returned, Do joins
// [ErrLost] or [ErrClosed] to it, unless fn's error says that already. If the release
// fails, Do joins that error: [ErrUnconfirmed], for example, which says that the work was
// protected all the same.
//
// Do blocks as Lock does to acquire the lock, and as [Hold.Unlock] does to release it.
// ctx bounds both waits. If it ends the second, that is no error.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, h Hold) error) error {
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	return h.do(ctx, fn)
}

// TryDo is [Lock.Do] with [Lock.TryLock]: it does not wait for another process. If one is
// ahead, TryDo returns [ErrLocked] and does not call fn.
func (l *Lock) TryDo(ctx context.Context, fn func(ctx context.Context, h Hold) error) error {
	h, err := l.TryLock(ctx)
	if err != nil {
		return err
	}
	return h.do(ctx, fn)
}

// do is Do for a lock that is held by h, which it releases.
func (h Hold) do(ctx context.Context, fn func(ctx context.Context, h Hold) error) (err error) {
	inside := h.context(ctx)
	panicked := true
	defer func() {
		inside.finish()
		if panicked {
			h.interrupted()
			h.Release() // and let the panic go on
			return
		}
		lost := h.Err()
		unlock := h.Unlock(ctx)
		switch {
		case errors.Is(lost, ErrLost), errors.Is(lost, ErrClosed):
			if !saysLoss(err, lost) {
				err = oneline.Join(err, lost)
			}
		case unlock == nil, errors.Is(unlock, ErrReleased), ctx.Err() != nil && errors.Is(unlock, ctx.Err()):
			// Released, perhaps by fn; or ctx has ended, and the caller waits no
			// longer.
		default:
			err = oneline.Join(err, unlock)
		}
	}()
	err = fn(inside, h)
	panicked = false
	return err
}

// saysLoss reports whether err, of a function that ran under a lock, says already
// that the lock was lost, as lost does: because it is, or wraps, the cause of the
// function's context or an error of the Hold.
func saysLoss(err, lost error) bool {
	a, _ := errors.AsType[*Error](err)
	b, _ := errors.AsType[*Error](lost)
	return a != nil && b != nil && a.Name == b.Name && (errors.Is(a, ErrLost) || errors.Is(a, ErrClosed))
}

// ended returns the error of an operation whose ctx has ended.
func (l *Lock) ended(ctx context.Context, op string) *Error {
	return &Error{Op: op, Name: l.Name(), Err: ctxerr.Of(ctx)}
}

// lockKind returns what this process asks for with l, which may be the private lock of a Mutex.
func (l *Lock) lockKind() Kind {
	if l.noted.Load().Has(state.OfMutex) {
		return KindMutex
	}
	return Kind(l.kind)
}

// nameHolder fills in the holder in the error of a TryLock that stood at position p.
// Usually the holder is known. It takes a read if the waiter does not watch its node
// and this process has never read a node of that process.
func (l *Lock) nameHolder(ctx context.Context, e *Error, p *position) {
	e.Holder = p.holder()
	if e.Holder == nil || p.first.unread {
		var found *Contender
		err := l.m.call(ctx, e.Op, e.Name, func(s *zkio.Session) (err error) {
			if found = p.holder(); found != nil {
				if err = l.read(s, found); !errors.Is(err, zkio.ErrNoNode) {
					return err
				}
			}
			found, err = l.holder(s)
			return err
		})
		if err == nil && found != nil && !found.Own { // our own node goes
			e.Holder = found
		}
	}
	if e.Holder != nil {
		l.own().toldBy(e)
		blameOwn(l, e)
	}
}

// noteStrangers counts the children of the directory that are no contenders, and
// warns, once for each lock, if one belongs to a lock of another kind: other clients
// believe that this excludes other processes, and it does not exclude ours.
func (l *Lock) noteStrangers(q *queue.Queue) {
	l.foreign.Store(int32(q.Strangers))
	if q.Recipe == "" || !l.noted.Raise(state.RecipeTold) {
		return
	}
	l.m.cfg.Logger.Warn("holdfast: another kind of lock is used in this lock's directory, and does not exclude this one: BOTH ARE GRANTED AT THE SAME TIME; give one of them another path, or have all clients use the same kind",
		"lock", l.Name(), "recipe", queue.Recipe(q.Recipe), "node", l.pathOf(q.Recipe))
}
