// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/state"
)

// A Lock is a lock that a process owns and all its goroutines share. It
// excludes processes: while this process holds it, no other process does (of a
// read lock: no other process writes), and any number of goroutines of this
// process may be inside together.
//
// There is one *Lock per name in a Manager; get it with [Manager.Exclusive], or
// the two of a read/write lock with [Manager.ReadWrite].
// All its methods may be called by any number of goroutines at the same time.
//
// When several goroutines acquire the lock at the same time there is one entry
// in ZooKeeper's queue for all of them, and one future tells all of them. Who
// acquires it while the process owns it enters by one compare-and-swap. When
// the last holder leaves, the process gives the lock up; who comes from then on
// queues again, behind the processes that are waiting.
type Lock struct {
	m    *Manager
	rw   *RWLock // the pair that it belongs to; nil for an exclusive lock
	path string  // the directory of its nodes

	// cur is the present round. It moves forward only, and only the releaser
	// of the round that it points to moves it.
	cur atomic.Pointer[round]

	counters
	directory directory   // what is known about the directory
	mixed     atomic.Bool // contenders of another kind were seen and reported

	handed     atomic.Pointer[handed] // what the round before cur has left to it; see handed
	fetches    fetchEntry
	inContexts atomic.Bool // there are contexts with holds of this lock or the other one of its pair; never taken back
	kind       queue.Kind
}

func newLock(m *Manager, path string, kind queue.Kind) *Lock {
	l := &Lock{m: m, path: path, kind: kind}
	r := &round{lock: l}
	r.flags.Set(state.PrevReleased) // nothing before it
	l.cur.Store(r)
	return l
}

// Name returns the lock's name, without a leading slash.
func (l *Lock) Name() string { return l.m.nameOf(l.path) }

// Path returns the directory in ZooKeeper in which the lock's contenders queue.
func (l *Lock) Path() string { return l.path }

// Acquire asks for the lock and returns a Hold at once. It never blocks and
// does no I/O: on a lock that this process owns it enters; else the Hold is
// pending, and [Hold.Granted] settles when the process has got the lock. Release
// the Hold in either case.
//
// If ctx ends before the grant, this Hold is withdrawn, as if it had been
// released; the other holders of the round go on waiting, and the last one to
// give up takes the process out of the queue. After the grant, ctx has no
// effect. The future is shared and does not know of ctx: who has bounded his
// wait looks at [Hold.Err] when it has settled, which says whether this Hold is
// among those granted; or uses [Lock.Lock].
//
// If ctx comes from [Hold.Context] of a live Hold of this lock, Acquire
// reenters: the Hold that it returns is a further handle of the same holder.
// Any other caller is a newcomer. Beware: newcomers can be made to wait for
// their turn behind other processes (see Config.Tenure), and the lock does not
// pass to those before all who are inside have left. So a goroutine that holds
// the lock and acquires it again without such a ctx may wait for itself.
//
// A refusal (the manager is closed, ctx has ended, there are too many holders,
// an upgrade) is a Hold whose Granted has failed. Acquire reads no clock; see [Hold] for
// the checks that do.
//
// The grant of a round synchronizes before the return of every Acquire that
// enters it, and so do the Releases of earlier rounds in this process.
func (l *Lock) Acquire(ctx context.Context) Hold {
	return l.acquire(ctx, opAcquire)
}

// The acquiring operations, as errors name them.
const (
	opAcquire = "acquire"
	opLock    = "lock"
	opTryLock = "trylock"
)

// acquire makes a Hold for the operation op. What it does itself is the short
// way: a newcomer enters a round that this process owns. In any other case it
// has done nothing so far, and goes the long way.
//
// The short way is a handful of atomic operations in a row, here and in giveUp.
// A processor gets little done behind such an operation before that is done, so
// what does not have to come between two of them comes before or after.
func (l *Lock) acquire(ctx context.Context, op string) Hold {
	if l.inContexts.Load() || l.m.closing() || ctx.Err() != nil {
		return l.acquireLong(ctx, op)
	}
	r := l.cur.Load()
	_, e, lost := r.word.Apply(func(w state.Word) (state.Word, state.Effect) {
		// Between the load of the word and its swap: see round.arrive.
		if r.flags.Load()&(state.GrantTold|state.GateClosed) != state.GrantTold {
			return w, state.Nothing
		}
		next, e := w.Arrive(false)
		if e != state.Entered {
			return w, state.Nothing
		}
		return next, e
	})
	if lost > 0 {
		//holdfast:reached arrival: lost a race
		l.noteRaces(lost)
	}
	if e != state.Entered {
		return l.acquireLong(ctx, op)
	}
	//holdfast:reached-if r.flags.Load().Has(state.GateClosed): gate: a newcomer slipped past it as it closed
	l.entries.Add(1)
	s := takeSlot(r) // newHold, written out
	return Hold{r, s, s.word.Load().Generation()}
}

// acquireLong is acquire for those who reenter, who wait, or who are refused.
func (l *Lock) acquireLong(ctx context.Context, op string) Hold {
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
	if op == opAcquire && ctx.Done() != nil && h.round.word.Load().Phase() == state.Fetching {
		stop := context.AfterFunc(ctx, h.withdrawal().run)
		h.slot.onRelease(h.gen, func() { stop() })
	}
	return h
}

// inherit looks for holds in ctx, and reenters if one is of this lock. If done
// is false the caller is a newcomer, and pass says whether he may pass a closed
// gate.
func (l *Lock) inherit(ctx context.Context, op string) (h Hold, pass, done bool) {
	if outer, ok := l.heldIn(ctx); ok {
		h, err := outer.reenter(op)
		switch {
		case err == nil:
			return h, false, true
		case errors.Is(err, ErrTooManyHolders):
			return deadHold(l, err), false, true
		}
		// It was released just now: a newcomer after all.
	}
	switch l.kind {
	case queue.Write:
		if _, ok := l.rw.reader.heldIn(ctx); ok {
			return deadHold(l, &Error{Op: op, Name: l.Name(), Err: ErrUpgrade}), false, true
		}
	case queue.Read:
		// Who holds the write lock enters beside it, whoever waits for either.
		_, pass = l.rw.writer.heldIn(ctx)
	}
	return Hold{}, pass, false
}

// arrive makes a new holder, who may pass a closed gate.
func (l *Lock) arrive(op string, pass bool) Hold {
	r, e, lost := l.cur.Load().arrive(pass)
	l.noteRaces(lost)
	switch e {
	case state.Entered:
		// The granter may be between its CAS and the settling of the future,
		// which we must be able to use.
		r.io().settleGrant()
		if !r.flags.Load().Has(state.GrantTold) {
			r.flags.Set(state.GrantTold)
		}
		l.entries.Add(1)
	case state.Started:
		l.rounds.Add(1)
	case state.Joined:
		l.joins.Add(1)
	case state.Full:
		return deadHold(l, &Error{Op: op, Name: l.Name(), Err: ErrTooManyHolders})
	}
	return newHold(r)
}

// Lock acquires the lock and waits until it is granted. If ctx ends first it
// gives the place up and returns an [*Error] that wraps ctx.Err() and
// context.Cause(ctx) and says who is in the way as far as that is known; no node
// stays behind. Like [Lock.Acquire] it reenters if ctx carries a live Hold of
// this lock. Before it returns a Hold it looks at the clock: a lock that was
// lost at the same moment is ErrLost.
func (l *Lock) Lock(ctx context.Context) (Hold, error) {
	return l.await(ctx, l.acquire(ctx, opLock), opLock)
}

// await waits for h's grant and checks it. On an error h is released.
func (l *Lock) await(ctx context.Context, h Hold, op string) (Hold, error) {
	_, err := h.Granted().Wait(ctx)
	if err == nil {
		err = h.check(op)
	}
	if err == nil {
		return h, nil
	}
	// If it was ctx that ended, the grant may come at this very moment:
	// whoever's CAS is first, the release takes our count back, and the last
	// one to leave sees to the node.
	err = h.wrap(op, err)
	h.giveUp()
	return Hold{}, err
}

// TryLock takes the lock if this process owns it or can have it without
// waiting for another process; else it returns [ErrLocked], with an *Error that
// says who is ahead. It may wait for ZooKeeper's answer, as long as ctx allows,
// but never for another process. It leaves no node behind. It does not exclude
// the goroutines of this process: they are in it together. Like [Lock.Acquire]
// it reenters if ctx carries a live Hold of this lock.
func (l *Lock) TryLock(ctx context.Context) (Hold, error) {
	const op = opTryLock
	h := l.acquire(ctx, op)
	t := h.round.io()
	for !t.granted.Settled() {
		if t.position.Load() != nil || l.behindClosedGate(h.round) {
			//holdfast:reached-if t.position.Load() == nil: trylock: behind a closed gate
			//holdfast:reached-if t.position.Load() != nil: trylock: somebody is ahead
			err := t.error(op, ErrLocked)
			h.giveUp()
			return Hold{}, err
		}
		select {
		case <-t.granted.Future().Done(): // or failed
		case <-t.positionKnown().Done():
			// Look at the place, which may be lost again: then there is
			// another future for the next one.
		case <-ctx.Done():
			return l.await(ctx, h, op)
		}
	}
	return l.await(ctx, h, op)
}

// behindClosedGate reports whether r has to wait for holders of this process,
// which let nobody else in before others have had their turn.
func (l *Lock) behindClosedGate(r *round) bool {
	cur := l.cur.Load()
	return cur != r && cur.word.Load().Phase() == state.Retained
}

// Do acquires the lock, calls fn with a context that ends when the lock is lost
// (see [Hold.Context]), and releases the lock, also if fn panics. It returns
// fn's error; if the lock was lost before fn returned, or could not be released,
// that error is joined to it. It waits for the lock as [Lock.Lock] does, and for
// the release as [Hold.Unlock] does, both as long as ctx allows.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, h Hold) error) (err error) {
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	inside, cancel := h.Context(ctx)
	panicked := true
	defer func() {
		cancel()
		if panicked {
			h.Release() // and let the panic go on
			return
		}
		lost := h.Err()
		unlock := h.Unlock(ctx)
		switch {
		case errors.Is(lost, ErrLost), errors.Is(lost, ErrClosed):
			err = errors.Join(err, lost)
		case unlock == nil, errors.Is(unlock, ErrReleased), ctx.Err() != nil && errors.Is(unlock, ctx.Err()):
			// Released, perhaps by fn; or ctx has ended and nobody waits to hear.
		default:
			err = errors.Join(err, unlock)
		}
	}()
	err = fn(inside, h)
	panicked = false
	return err
}

// State returns the phase and the holder count of the lock's present round, as
// they are at this moment: while it is being released, those who wait for the
// next round are not counted. It does not block.
func (l *Lock) State() (state.Phase, int) {
	w := l.cur.Load().word.Load()
	return w.Phase(), w.Holders()
}

// ended is the error of a ctx that has ended.
func (l *Lock) ended(ctx context.Context, op string) *Error {
	return &Error{Op: op, Name: l.Name(), Err: ctxerr.Of(ctx)}
}
