// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
)

// A Mutex is a lock that one goroutine holds at a time: it excludes other processes, as
// an exclusive [Lock] does, and the goroutines of its own process as well. Get it from
// [Manager.Mutex]. All methods may be called concurrently.
//
// Goroutines of this process get the lock in the order of their calls. They share one
// entry in ZooKeeper's queue. While the process owns the lock, a release hands it to the
// next goroutine without a request, until other processes have waited for Config.Tenure.
// Then the process gives the lock up and queues again behind them, in one request, and
// its goroutines keep their order. A goroutine that waits costs memory, and no
// goroutine of this package.
//
// A Mutex gives out Holds, which work as those of a Lock do, except:
//
//   - Each acquisition has a grant of its own: [Hold.Granted] settles for one Hold, as
//     [Hold.Ready] does. The [Grant] has a Turn. Send the pair (Token, Turn) to the
//     resource, and have the resource compare the pair: see [Grant.Compare]. The Token
//     alone protects between processes only, because all goroutines that hold the lock
//     one after the other in one process have the same.
//   - [Hold.Share] fails with [ErrNotShared]: it would put two holders inside.
//     [Hold.Reenter] works, for one holder.
//   - [Hold.Released] settles when the lock has been handed to the next goroutine or
//     lingers (see Config.Linger), or, if the process gives the lock up, when its node is
//     gone. [Hold.Unlock] waits for that, too.
//   - [Hold.Lock] returns nil.
//
// A goroutine that has lost the lock still excludes the others of its process until it
// releases its Hold, since it may still be at work. Until then this process does not
// queue again, and other processes can have the lock. If it never releases its Hold, the
// goroutines of this process wait until their contexts end.
//
// Other processes may use the same name with [Manager.Exclusive], or with another ZooKeeper
// client: the lock excludes them in the same way.
type Mutex struct{ turns }

// Mutex returns the mutex called name. It relates to Exclusive as a lock that one
// goroutine holds at a time to a lock that all goroutines share, and is like it in all
// other respects.
func (m *Manager) Mutex(name string) (*Mutex, error) {
	e, err := m.open("mutex", name, func(e *locks, path string) bool {
		if *e == (locks{}) {
			e.mutex = newMutex(m, path)
		}
		return e.mutex != nil
	})
	return e.mutex, err
}

func newMutex(m *Manager, path string) *Mutex {
	x := &Mutex{turns{lock: newLock(m, path, queue.Exclusive)}}
	x.lock.noted.Raise(state.OfMutex)
	return x
}

// Name returns the mutex's name, without a leading slash.
func (x *Mutex) Name() string { return x.lock.Name() }

// Path returns the directory in ZooKeeper in which the mutex's contenders queue.
func (x *Mutex) Path() string { return x.lock.Path() }

// Acquire asks for the lock and returns a Hold at once. It never blocks and does no I/O.
// If the lock is free in this process, and this process owns it, the Hold is granted.
// Otherwise it is pending, behind the goroutines of this process that wait already, and
// [Hold.Ready] settles when its turn has come. Release the Hold in either case.
//
// If ctx ends before the grant, this Hold is withdrawn as if it had been released, and
// Ready settles with an error. When the last goroutine that waits gives up, the process
// leaves the queue. After the grant, ctx has no effect.
//
// If ctx comes from [Hold.Context] of a live Hold of this mutex, Acquire reenters: it
// returns another handle of the same holder. Any other caller waits for its turn, so a
// goroutine that holds the lock and acquires it again without such a ctx waits for itself.
//
// If Acquire refuses (the manager is closed, ctx has ended, the holder has too many
// handles), it returns a Hold whose Ready has failed.
//
// A Release synchronizes before the return of the Acquire, in this process, whose Hold is
// granted next; if that Hold was pending, before Ready settles.
func (x *Mutex) Acquire(ctx context.Context) Hold {
	h, waits := x.acquire(ctx, opAcquire)
	if waits && ctx.Done() != nil && h.share.word.Load().Phase() == state.Fetching {
		stop := context.AfterFunc(ctx, h.withdrawal(ctx).run)
		h.slot.onReleaseDo(h.gen, func() { stop() })
	}
	return h
}

// acquire makes a Hold for the operation op. waits reports whether it has a turn, which
// is in the line or has been granted.
func (x *Mutex) acquire(ctx context.Context, op string) (h Hold, waits bool) {
	if h, done := x.entry(ctx, op); done {
		return h, false
	}
	t := newTurn(&x.turns)
	if err := x.push(t, false); err != nil {
		return deadHold(x.lock, &Error{Op: op, Name: x.Name(), Err: err}), false
	}
	h = newHold(&t.share)
	x.advance(nil)
	return h, true
}

// entry deals with callers that reenter or are refused at once.
func (x *Mutex) entry(ctx context.Context, op string) (h Hold, done bool) {
	l := x.lock
	if l.noted.Load().Has(state.InContexts) {
		if h, _, done := l.inherit(ctx, op); done {
			return h, true
		}
	}
	if ctx.Err() != nil {
		return deadHold(l, l.ended(ctx, op)), true
	}
	return Hold{}, false
}

// Lock acquires the lock. It blocks until the caller's turn has come or ctx ends. If ctx
// ends first, Lock returns an [*Error] that wraps ctx.Err() and context.Cause(ctx), and
// says what is in the way: the contender that holds the lock, in the field Holder, if
// that is known; or a goroutine of this process, and then the error wraps [ErrLocked] as
// well.
//
// Like [Mutex.Acquire] it reenters if ctx carries a live Hold of this mutex. It reads the
// clock before it returns a Hold: if the lock was lost in that moment, the error is
// [ErrLost].
func (x *Mutex) Lock(ctx context.Context) (Hold, error) {
	h, _ := x.acquire(ctx, opLock)
	return x.await(ctx, h, opLock)
}

// await waits for h's grant and checks it. On an error it releases h.
func (x *Mutex) await(ctx context.Context, h Hold, op string) (Hold, error) {
	_, err := h.Granted().Wait(ctx)
	if err == nil {
		err = h.check(op)
	}
	if err == nil {
		return h, nil
	}
	// If ctx ended, the grant may come at this very moment. Whichever CAS wins, giveUp
	// takes the turn out of the line, or ends it.
	err = x.explain(h, op, err)
	h.giveUp()
	if e, ok := errors.AsType[*Error](err); ok && e.Holder != nil {
		x.lock.own().toldBy(e)
	}
	return Hold{}, err
}

// explain returns err, with which the wait of h has ended, as the error of the operation
// op, and adds what is in the way if h still waits.
func (x *Mutex) explain(h Hold, op string, err error) error {
	if h.share.word.Load().Phase() != state.Fetching {
		return h.wrap(op, err)
	}
	x.mu.Lock()
	local, host := x.inTheWay(), x.hold.share
	x.mu.Unlock()
	switch {
	case local != nil:
		err = fmt.Errorf("%w: %w", err, local)
	case host != nil:
		return host.error(op, err)
	}
	return h.wrap(op, err)
}

// TryLock acquires the lock if it is free and can be had without waiting for another process
// or goroutine. If a goroutine of this process holds the lock or waits for it, TryLock returns
// [ErrLocked] at once, and the error's text says so. If another process is ahead it returns
// ErrLocked, too, and the field Holder of the [*Error] names the contender that holds the
// lock. If the process has to let other processes go first, the error is [ErrYielding], which
// wraps ErrLocked. A failed TryLock leaves no node behind, unless other goroutines have come
// to wait for the lock meanwhile.
//
// TryLock blocks until ZooKeeper has answered or ctx ends, never for another process or
// goroutine. Like [Mutex.Acquire] it reenters if ctx carries a live Hold of this mutex.
func (x *Mutex) TryLock(ctx context.Context) (Hold, error) {
	const op = opTryLock
	if h, done := x.entry(ctx, op); done {
		return x.await(ctx, h, op)
	}
	t := newTurn(&x.turns)
	if err := x.push(t, true); err != nil {
		return Hold{}, &Error{Op: op, Name: x.Name(), Err: err}
	}
	h := newHold(&t.share)
	// By ourselves and not by advance, since we have to know which round we wait for.
	host := x.ask()
	x.exchange(host)
	x.advance(nil)
	return x.tryTurn(ctx, h, host)
}

// tryTurn ends TryLock: h is of the turn that it has put into the line, and host is the
// hold of the private lock by which the turn can be granted.
func (x *Mutex) tryTurn(ctx context.Context, h, host Hold) (Hold, error) {
	const op = opTryLock
	t, s := h.share.promises(), host.share.promises().io
	for !t.granted.Settled() {
		_, refused, _ := s.granted.Future().Poll()
		if x.host() != host.home() && refused == nil && s.lostErr() == nil && !t.granted.Settled() {
			// The gate has closed since we entered, and the process queues again, behind
			// others.
			err := h.wrap(op, ErrYielding)
			h.giveUp()
			return Hold{}, err
		}
		if p := s.position.Load(); p != nil {
			//holdfast:reached mutex: a trylock found another contender ahead
			err := s.round.error(op, ErrLocked)
			h.giveUp()
			x.lock.nameHolder(ctx, err, p)
			return Hold{}, err
		}
		select {
		case <-t.granted.Future().Done(): // or failed
		case <-s.whereabouts().known().Done():
			// Look for the position; see Lock.TryLock.
		case <-s.signals().lost.Future().Done():
			if !t.granted.Settled() {
				err := h.wrap(op, s.lostErr()) // it was lost as it was granted
				h.giveUp()
				return Hold{}, err
			}
		case <-ctx.Done():
			return x.await(ctx, h, op)
		}
	}
	return x.await(ctx, h, op)
}

// Do acquires the lock, calls fn with a context that ends when the lock is lost, and
// releases the lock, even if fn panics. It is [Lock.Do] for a Mutex.
func (x *Mutex) Do(ctx context.Context, fn func(ctx context.Context, h Hold) error) error {
	h, err := x.Lock(ctx)
	if err != nil {
		return err
	}
	return h.do(ctx, fn)
}

// TryDo is [Mutex.Do] with [Mutex.TryLock]: it does not wait for another process or
// goroutine. If one is ahead, TryDo returns [ErrLocked] and does not call fn.
func (x *Mutex) TryDo(ctx context.Context, fn func(ctx context.Context, h Hold) error) error {
	h, err := x.TryLock(ctx)
	if err != nil {
		return err
	}
	return h.do(ctx, fn)
}

// State returns the phase of the lock in this process, and the number of its goroutines
// that hold the lock or wait for it, at this moment. One that has lost the lock and not
// released its Hold is counted. State does not block.
func (x *Mutex) State() (state.Phase, int) {
	phase, _ := x.lock.State()
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.waiting
	if x.inside != nil {
		n++
	}
	return phase, n
}

// Holder returns the contender that holds the lock, or nil if the lock is free. See
// [Lock.Holder].
func (x *Mutex) Holder(ctx context.Context) (*Contender, error) { return x.lock.Holder(ctx) }

// CachedHolder is [Mutex.Holder] from memory. See [Lock.CachedHolder].
func (x *Mutex) CachedHolder(ctx context.Context) (*Contender, error) {
	return x.lock.CachedHolder(ctx)
}

// WatchHolder ranges over the holders of the lock as they change. See
// [Lock.WatchHolder]. That the lock goes from one goroutine of a process to the next is
// no change.
func (x *Mutex) WatchHolder(ctx context.Context) iter.Seq2[*Contender, error] {
	return x.lock.WatchHolder(ctx)
}

// Queue returns the lock's contenders in the order of their turns. See [Lock.Queue]. The
// goroutines of a process are one contender.
func (x *Mutex) Queue(ctx context.Context, details int) ([]Contender, error) {
	return x.lock.Queue(ctx, details)
}

// Ask puts a question to the process that holds the lock and returns its answer. See
// [Lock.Ask].
func (x *Mutex) Ask(ctx context.Context, question []byte) (Answer, error) {
	return x.lock.Ask(ctx, question)
}

// Revoke asks the process that holds the lock to give it up, and waits until it has. See
// [Lock.Revoke]. The goroutine that holds the lock there hears of it by [Hold.Revoked].
// When it has released the lock, that process lets other processes go first.
func (x *Mutex) Revoke(ctx context.Context, reason string) error { return x.lock.Revoke(ctx, reason) }

// SetLinger sets for this mutex how long the process keeps the lock when no goroutine of
// it holds the lock or waits for it, and no other process wants it. See [Lock.SetLinger].
func (x *Mutex) SetLinger(d time.Duration) error { return x.lock.SetLinger(d) }

// ReleaseIdle gives the lock up if it lingers. See [Lock.ReleaseIdle].
func (x *Mutex) ReleaseIdle() *futures.Future[struct{}] { return x.lock.ReleaseIdle() }

// Locker returns a [sync.Locker] for code that takes one. Its Lock acquires the lock, as
// [Mutex.Lock] does with ctx, and its Unlock releases it, as [Hold.Release] does, without
// waiting for ZooKeeper.
//
// An interface without contexts and errors hides what can go wrong:
//
//   - Lock waits without a bound, through outages, unless ctx ends.
//   - If the lock cannot be had, because ctx has ended, the manager is closed or ZooKeeper
//     refuses, Lock panics with the error. There is no other way to keep the caller from
//     going on without the lock.
//   - A loss is not reported. After one, other processes may be inside; goroutines of this
//     process are not, until Unlock.
//   - There is no fencing token.
//   - There is no telling that the lock was abandoned, nor that the caller has recovered. So
//     Lock panics, with an error that wraps [ErrBadConfig], if this process has called
//     [Mutex.ReportAbandoned].
//
// Unlock of a Locker that is not locked panics. As with a [sync.Mutex], one goroutine may
// lock a Locker and another unlock it. The Lockers of one Mutex exclude each other.
func (x *Mutex) Locker(ctx context.Context) sync.Locker { return &locker{mutex: x, ctx: ctx} }

// A locker is what Locker returns.
type locker struct {
	mutex *Mutex
	ctx   context.Context //nolint:containedctx // sync.Locker has no argument for it
	hold  Hold            // belongs to the goroutine that has the lock, even if the lock is lost
}

func (l *locker) Lock() {
	if l.mutex.lock.noted.Load().Has(state.Marking) {
		panic(&Error{Op: opLock, Name: l.mutex.Name(), Err: fmt.Errorf("%w: the mutex reports abandonment, of which a Locker cannot tell its caller; use Mutex.Lock or Mutex.Do", ErrBadConfig)})
	}
	h, err := l.mutex.Lock(l.ctx)
	if err != nil {
		panic(err)
	}
	l.hold = h
}

func (l *locker) Unlock() {
	h := l.hold
	if h == (Hold{}) {
		panic(&Error{Op: "unlock", Name: l.mutex.Name(), Err: fmt.Errorf("%w: this Locker is not locked", ErrReleased)})
	}
	l.hold = Hold{} // before the release: from then on it is the next goroutine's
	h.Release()
}
