// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/state"
)

// A Hold is one handle of a holder of a lock. The holder is whatever acquired it:
// a goroutine, a request, an actor. A Hold is a small comparable value that can
// be copied, stored and passed to another goroutine; it is not tied to one. All
// methods may be called concurrently.
//
// A Hold is pending between Acquire and the grant, while the process waits for
// the lock. Release or Unlock releases it, once: from then on every copy of it is
// dead and reports [ErrReleased]. The zero Hold is a released one; the channels that
// its methods return are nil. A Hold that is
// garbage-collected without having been released is logged, but the lock stays
// held, because there is no telling whether the work that it protected has ended.
//
// These compare the clock with the lock's lease: Grant, Err, Leave, Reenter, Share, Guard,
// Get, Upgrade, Upgraded, Downgrade and Recovered, and [Lock.Lock] and [Lock.TryLock] before
// they return a Hold. They notice the loss of the lock even if this process was paused and
// none of its timers has run. Call one of them after every pause and before every step that
// must not be taken without the lock. The lock may still be lost between the
// check and the step: the fencing token in [Grant] lets a resource refuse a step
// that comes too late, and [Hold.Guard] makes check and step one if the step is a
// write to ZooKeeper.
type Hold struct {
	share *share // in which the holder is counted, or was when it came: see home
	slot  *slot
	gen   uint64
}

// newHold makes the handle of a new holder that is counted in sh.
func newHold(sh *share) Hold {
	s := takeSlot(sh)
	return Hold{sh, s, s.word.Arm()}
}

// deadHold returns a Hold whose futures have failed with err: a refusal.
func deadHold(l *Lock, err error) Hold {
	r := newRound(l)
	r.word.Apply(func(state.Word) (state.Word, state.Effect) {
		return state.Pack(state.Released, 0), state.Finished
	})
	r.flags.Set(state.PrevReleased)
	t := r.io()
	t.granted.Settle(Grant{}, err)
	t.signals().lost.Settle(struct{}{}, err)
	t.released.Settle(struct{}{}, err)
	t.endReason.Store(&endReason{err: err})
	return newHold(&r.share)
}

var (
	zeroGranted  = futures.Resolved(Grant{}, error(zeroHold("hold")))
	zeroReleased = futures.Resolved(struct{}{}, error(zeroHold("release")))
)

// zeroHold is the error of the operation op on the zero Hold.
func zeroHold(op string) *Error {
	return &Error{Op: op, Err: fmt.Errorf("%w: it is the zero Hold", ErrReleased)}
}

// Lock returns the lock. It is nil for the zero Hold, and for one of a [Mutex].
func (h Hold) Lock() *Lock {
	if h.share == nil || h.ofMutex() {
		return nil
	}
	return h.share.lock
}

// Granted returns the future of the grant, which all callers of this process that
// wait together share. It settles when the process gets the lock, or with an
// error that says why it cannot: [ErrClosed], say, or what ZooKeeper refused.
// It says nothing about a single caller: if this Hold is released, or the ctx of its
// Acquire ends, Granted stays pending while other callers wait. [Hold.Ready] is the
// future of this Hold alone. Granted does not block.
func (h Hold) Granted() *futures.Future[Grant] {
	if h.share == nil {
		return zeroGranted
	}
	return h.share.promises().granted.Future()
}

// Ready returns the future of this Hold's own wait. It settles
//
//   - with the grant: then this Hold is granted, and the ctx of Acquire no longer
//     matters;
//   - with the error of [Hold.Granted] if the process cannot get the lock;
//   - with [ErrReleased] if this Hold is released before the grant;
//   - with an error that wraps ErrReleased, ctx.Err() and context.Cause(ctx) if the ctx
//     of Acquire ends before the grant.
//
// Each call makes a new future while the Hold is pending, so call it once and keep the
// result. After the grant it returns the future that Granted returns. Of a Hold that was
// released, the zero Hold included, it has failed with ErrReleased. Ready does not block.
func (h Hold) Ready() *futures.Future[Grant] {
	if h.share == nil {
		return zeroGranted
	}
	granted := h.share.promises().granted.Future()
	if _, err, ok := granted.Poll(); ok && (err == nil && h.slot.granted(h.gen) || err != nil && h.slot.alive(h.gen)) {
		return granted
	}
	return h.share.ready(h.slot.handle, h.gen)
}

// Released returns the future that [Hold.Release] returns, without releasing
// anything. It does not block.
func (h Hold) Released() *futures.Future[struct{}] {
	if h.share == nil {
		return zeroReleased
	}
	return h.share.releasedFuture()
}

// Release gives the Hold up. It never blocks and does no I/O. Releasing the last
// handle of a holder ends the holder; releasing the last holder's starts the
// deletion of the lock's node. If the lock was lost before, Release changes
// nothing but the Hold. A Release synchronizes before every later acquisition
// in this process; what other processes see is up to the protected resource.
//
// Release returns a future that all holders of the lock in this process share. It
// stays pending while others hold the lock or it lingers (see Config.Linger), and then
// settles
//
//   - with nil if this process owned the lock until its last holder left, and the
//     node is gone: another process can get the lock now;
//   - with [ErrLost] if the lock was lost before: roll back work that required
//     it;
//   - with [ErrNotGranted] if all holders left before the lock was granted;
//   - with an error that names the cause if the node cannot be deleted (no
//     permission, the manager was closed meanwhile).
//
// There is no need to wait for it. If ZooKeeper cannot be reached, it stays pending
// until a server answers; [Hold.Unlock] waits with a bound, and [Hold.Leave] says at once
// whether this Hold was protected until now. If the Hold was released
// before, the future has settled with [ErrReleased].
func (h Hold) Release() *futures.Future[struct{}] {
	if h.share == nil {
		return zeroReleased
	}
	_, e, p := h.giveUp()
	switch {
	case e == state.Nothing:
		return futures.Resolved(struct{}{}, error(h.dead("release")))
	case p != nil:
		return p.released.Future()
	}
	return h.share.releasedFuture()
}

// Leave is Release for a caller that has to know at once whether its work was protected:
// the commit of a transaction, say, that must be rolled back if the lock was lost. It
// releases the Hold and returns nil if this process has held the lock without a break from
// the grant until now. It does not matter whether other holders stay inside, or the lock
// lingers; what becomes of it later does not change the answer.
//
// Otherwise it returns what [Hold.Err] would have returned: [ErrLost], also if the lease has
// run out and no timer has told so yet, [ErrClosed] or [ErrNotGranted]. The Hold is given up
// in any case. If it was released before, by any goroutine, Leave returns [ErrReleased]; so
// of several calls at most one returns nil. Leave does not block and does no I/O; it reads the
// clock.
//
// Leave knows what this process knows. While the lease is in force, ZooKeeper gives the lock
// to no other process by itself. But if another client has deleted the lock's node and this
// process has not heard of it yet, Leave returns nil; the future of [Hold.Released] settles
// with ErrLost then. And nil says nothing about what the caller does next: it is outside
// now, so a storage must check the fencing token of a write that is yet to reach it.
func (h Hold) Leave() error {
	const op = "leave"
	if h.share == nil {
		return zeroHold(op)
	}
	// The look at the lease comes first: a handle that is given up cannot tell. What was to
	// be protected was done before the call.
	err := h.check(op)
	if _, e, _ := h.giveUp(); e == state.Nothing {
		return h.dead(op) // another goroutine has released it since the look
	}
	return err
}

// giveUp gives the handle up, and the holder's count with its last handle. It
// returns the round's word as it was before, and the effect: Left if the holder
// has other handles, Nothing if this one was released before, else that of
// share.leave. If others stay inside, it also returns the share's promises.
//
// It is the fast path, for a holder that has no other handle. See Lock.acquire.
func (h Hold) giveUp() (state.Word, state.Effect, *promises) {
	s, sh := h.slot, h.share
	hd := s.handle
	if hd.first.Load() != nil || !hd.word.ReleaseOnly(h.gen) {
		w, e := h.giveUpSlow()
		return w, e, nil
	}
	if !hd.cleanups.empty() {
		hd.cleanUp()
	}
	// The slot is ours since ReleaseOnly.
	for lost := 0; ; lost++ {
		w := sh.word.Load()
		// With the word, since they share its cache line, which another processor may take
		// away at the swap.
		l, p := sh.lock, sh.promises()
		if !w.Shared() {
			l.noteRaces(lost)
			l.recycle(s, h.gen)
			w, e := sh.leave()
			return w, e, nil
		}
		if sh.word.LeaveOthers(w) {
			l.noteRaces(lost)
			if hm := l.home.Load(); hm != nil && &hm.handle == hd { // as recycle begins, inlined
				hm.giveBack(s, h.gen)
			} else {
				l.recycle(s, h.gen)
			}
			return w, state.Left, p
		}
	}
}

// giveUpSlow is giveUp for a handle that was released before or is not the
// holder's only one.
func (h Hold) giveUpSlow() (state.Word, state.Effect) {
	// Before the release, while this handle keeps its holder counted: right after
	// it another goroutine may release the holder's last handle and end the round.
	w := h.home().word.Load()
	switch h.slot.release(h.gen) {
	case state.Dead:
		return 0, state.Nothing
	case state.Left:
		return w, state.Left
	}
	return h.share.leave()
}

// Unlock releases the Hold. If it was the last one in this process, Unlock blocks
// until the lock's node is gone, ctx ends, or the session timeout has passed. The
// Hold is given up whatever Unlock returns.
//
// At once, it returns nil if other holders of this process keep the lock, or if the lock
// lingers (see Config.Linger); [ErrNotGranted] if the Hold was pending; [ErrLost] if the lock
// was lost; and [ErrReleased] if the Hold was released before. Otherwise it returns what the
// future of [Hold.Release] settles with, or [ErrUnconfirmed] if that is still pending when the
// wait ends. If ctx ended the wait, the error wraps ctx.Err() and context.Cause(ctx) as well.
func (h Hold) Unlock(ctx context.Context) error {
	if h.share == nil {
		return zeroHold("unlock")
	}
	w, e, _ := h.giveUp()
	return h.confirm(ctx, w, e)
}

// confirm is Unlock after giveUp, which has returned w and e.
func (h Hold) confirm(ctx context.Context, w state.Word, e state.Effect) error {
	switch {
	case h.share == nil:
		return zeroHold("unlock")
	case e == state.Nothing:
		return h.dead("unlock")
	case w.Phase() == state.Fetching:
		return h.error("unlock", ErrNotGranted)
	case w.Phase() == state.Retained && (e == state.Left || e == state.Idled):
		return nil
	case w.Phase() > state.Retained:
		return h.lostError("unlock") // deleting its node may take as long as the outage
	case h.promises().endReason.Load() == releasedLate:
		return h.error("unlock", errLeaseEnded)
	}
	released := h.Released()
	if _, err, ok := released.Poll(); ok {
		return h.wrap("unlock", err)
	}
	// A longer wait gains nothing: if no server can be reached for the session
	// timeout, the session is over, and the node is gone with it.
	limit := time.NewTimer(h.promises().tenure.session.Timeout())
	defer limit.Stop()
	select {
	case <-released.Done():
	case <-ctx.Done():
	case <-limit.C:
	}
	switch _, err, ok := released.Poll(); {
	case ok:
		return h.wrap("unlock", err)
	case ctx.Err() != nil:
		return h.share.error("unlock", fmt.Errorf("%w: %w", ErrUnconfirmed, ctxerr.Of(ctx)))
	}
	return h.share.error("unlock", ErrUnconfirmed)
}

// Grant returns what the process was granted. The field Abandoned is false once a
// holder has called [Hold.Recovered]. Its errors are [ErrNotGranted] while the Hold
// is pending, [ErrLost] if the lock was lost, [ErrClosed] if the manager was
// closed, and [ErrReleased] if the Hold was released. It does not block; it reads
// the clock.
func (h Hold) Grant() (Grant, error) {
	if err := h.check("grant"); err != nil {
		return Grant{}, err
	}
	s := h.home()
	g := s.promises().tenure.grant()
	g.Abandoned = g.Abandoned && !s.flags.Load().Has(state.Recovered)
	return g, nil
}

// Err returns nil if the lock is held at this moment, else the error that
// [Hold.Grant] would return. It does not block; it reads the clock. It may report a loss a
// moment before the channel of [Hold.Lost] closes, and then does not know the cause yet.
func (h Hold) Err() error { return h.check("hold") }

// check returns nil if the lock is held through this handle now.
func (h Hold) check(op string) error {
	if h.share == nil {
		return zeroHold(op)
	}
	// The word first and the handle then: see withdrawal.
	switch h.share.word.Load().Phase() {
	case state.Fetching:
		if !h.slot.alive(h.gen) {
			return h.dead(op)
		}
		return h.share.error(op, ErrNotGranted)
	case state.Retained:
		if !h.slot.granted(h.gen) {
			return h.dead(op)
		}
		if !h.share.promises().tenure.lease.InForce() {
			// This caller is the first to notice. The round ends for all its
			// holders.
			//holdfast:reached hold: a look at the clock was the first to notice the lease's end
			h.share.fail(h.share.lost("hold", leaseOver))
			return h.over(op)
		}
		return nil
	}
	if home := h.home(); home != h.share {
		h.share = home
		return h.check(op)
	}
	return h.over(op)
}

// over returns the error of a hold that was alive a moment ago and whose round is
// over.
func (h Hold) over(op string) error {
	if !h.slot.alive(h.gen) {
		return h.dead(op) // it was the last one, which is why the round is over
	}
	return h.lostError(op)
}

// lostError returns the error of a hold whose round was ended by force.
func (h Hold) lostError(op string) error {
	p := h.promises()
	if e := p.endReason.Load(); e != nil && e.err != nil {
		return h.wrap(op, e.err)
	}
	// The goroutine that ended the round is between its CAS and storing the
	// reason. Lost closes first, so a caller that it woke finds the reason here.
	if err := p.lostErr(); err != nil {
		return h.wrap(op, err)
	}
	if h.share.lock.m.stage.Load() == closingDown {
		return h.error(op, h.share.lock.m.cut) // Close sets the stage before it ends rounds
	}
	return h.error(op, ErrLost)
}

// Lost returns a channel that closes when the lock is lost, when the manager is
// closed, or when the lock cannot be granted. It never closes on an ordinary
// release. After it has closed, [Hold.Err] says why. It closes before ZooKeeper
// can give the lock to another process, within the bounds that the package
// documentation states; after a possible pause, call Err instead. It is nil for the
// zero Hold. Lost does not block.
func (h Hold) Lost() <-chan struct{} {
	if h.share == nil {
		return nil
	}
	return h.promises().signals().lost.Future().Done()
}

// Contended returns a channel that closes when another process waits for the lock that
// this one holds: a process that the lock cannot be shared with. It also closes when
// another lock of the same pair waits in this process: a writer waits for the readers, say,
// or [Hold.Upgrade] does. A holder that can stop between two pieces of work can then
// release the lock early.
//
// It is a hint. The other process may have given up again, as a TryLock does. A holder
// that ignores the hint keeps the lock, although newcomers of this process must wait
// after Config.Tenure, until the other process gives up. A request from another process to
// give the lock up is [Hold.Revoked].
//
// All holders of the lock in this process share the channel. It never closes because
// goroutines of this process wait for the same lock, other than in [Manager.LockAll], nor
// after the lock was released or lost. It is nil for the zero Hold. Contended does not
// block.
//
// A waiter of this process is told of at once, and without a request. This process sees a
// waiter of another one within 100 ms of the grant, and later as soon as the waiter
// queues; while many contenders come and go, up to 50 ms later. With the default Tenure,
// or a shorter one, that costs no request of its own, as long as the process holds no
// more than a few hundred locks. Otherwise the first call of Contended starts it: one
// request, no sooner than 100 ms after the grant, and one for each change of the queue
// until a waiter is seen.
func (h Hold) Contended() <-chan struct{} {
	if h.share == nil {
		return nil
	}
	return h.home().contention()
}

// Reenter returns another handle of the same holder; of a pending Hold, a pending
// one. The holder keeps the lock until its last handle is released, in whichever
// order. The errors are [ErrReleased], [ErrLost], [ErrClosed], and
// [ErrTooManyHolders]. Reenter never blocks and does no I/O; it reads the clock.
func (h Hold) Reenter() (Hold, error) {
	if err := h.check("reenter"); err != nil && !isPending(err) {
		return Hold{}, err
	}
	return h.reenter("reenter")
}

// reenter is Reenter without the look at the clock.
func (h Hold) reenter(op string) (Hold, error) {
	first, g := h.first()
	if !h.slot.alive(h.gen) {
		return Hold{}, h.dead(op)
	}
	switch first.pin(g) {
	case state.Dead:
		return Hold{}, h.dead(op)
	case state.Full:
		return Hold{}, h.error(op, fmt.Errorf("%w: %d handles of one holder", ErrTooManyHolders, state.MaxDepth))
	}
	nested := newHold(h.share)
	nested.slot.nest(first, g)
	return nested, nil
}

// first returns the slot of the holder's first handle, and its generation there.
// The result is valid only if h is alive after the call.
func (h Hold) first() (*slot, uint64) {
	first, g := h.slot.owner(h.gen)
	if first == nil {
		first = h.slot
	}
	return first, g
}

// Share returns a Hold of another holder, to be passed to another goroutine,
// which releases it when it is done. Unlike Acquire it shares this Hold's grant,
// even where a newcomer has to wait for other processes: see [ErrYielding]. Of a pending
// Hold it returns a pending one, which keeps this process in the queue, too, until it is
// released. The errors are those of [Hold.Reenter], and [ErrNotShared] for a Hold of a
// [Mutex]. Share never blocks and does no I/O; it reads the clock.
func (h Hold) Share() (Hold, error) {
	if err := h.check("share"); err != nil && !isPending(err) {
		return Hold{}, err
	}
	if h.ofMutex() {
		return Hold{}, h.error("share", ErrNotShared)
	}
	// Another goroutine may release h right now. A handle of our own keeps the
	// holder counted while we add the new one.
	pin, err := h.reenter("share")
	if err != nil {
		return Hold{}, err
	}
	defer pin.giveUp()
	home := h.home()
	_, e, lost := home.word.Apply(state.Word.Pin)
	if e == state.Dead && home.home() != home { // merged just now
		home = home.home()
		_, e, lost = home.word.Apply(state.Word.Pin)
	}
	home.lock.noteRaces(lost)
	switch e {
	case state.Dead:
		return Hold{}, h.over("share")
	case state.Full:
		return Hold{}, h.error("share", ErrTooManyHolders)
	}
	return newHold(home), nil
}

// Depth returns the number of unreleased handles of this Hold's holder; 0 if this
// Hold was released. It does not block.
func (h Hold) Depth() int {
	if h.share == nil {
		return 0
	}
	first, g := h.first()
	w := first.word.Load()
	if !h.slot.alive(h.gen) || w.Generation() != g {
		return 0
	}
	return w.Depth()
}

// withdrawal gives up a pending hold because its context has ended, unless the
// grant comes first. It must not lead to the hold's slot, or a dropped Hold would
// never be noticed.
type withdrawal struct {
	ctx    context.Context // which has ended when run is called
	share  *share
	handle *handle
	gen    uint64
}

func (h Hold) withdrawal(ctx context.Context) withdrawal {
	return withdrawal{ctx, h.share, h.slot.handle, h.gen}
}

// run withdraws the hold.
func (w withdrawal) run() {
	for _, step := range w.steps() {
		if !step() {
			return
		}
	}
}

// steps returns the steps of a withdrawal; each reports whether to go on. The
// grant may come between any two of them, and a caller may see by check right
// after it that the hold is granted: from then on the hold must stay.
func (w withdrawal) steps() []func() bool {
	pending := func() bool { return w.share.word.Load().Phase() == state.Fetching }
	why := &withdrawnError{ctxerr.Of(w.ctx), w.share.lock.m.outage()}
	return []func() bool{
		pending,
		func() bool { return w.handle.word.Doubt(w.gen) != state.Dead },
		func() bool {
			// If the grant came before the doubt, a caller may be at work that
			// has not seen the doubt.
			if pending() {
				return true
			}
			//holdfast:reached withdrawal: the grant came first
			w.handle.word.Confirm(w.gen)
			return false
		},
		func() bool {
			// If the grant came after that look, check finds the doubt and takes
			// it back, or finds that the withdrawal won.
			if w.handle.releaseDoubted(w.gen, why) == state.Ended {
				//holdfast:reached-if !pending(): withdrawal: it came first, then the grant
				w.share.leave() // in whichever phase the round is by now
			}
			return false
		},
	}
}

// dead returns the error of an operation on a handle that was released.
func (h Hold) dead(op string) *Error { return endedError(op, h.share.lock.Name(), h.slot.ended(h.gen)) }

// ofMutex reports whether h, which is not the zero Hold, is one of a Mutex.
func (h Hold) ofMutex() bool { return h.share.lock.lockKind() == KindMutex }

func (h Hold) error(op string, err error) *Error {
	return &Error{Op: op, Name: h.share.lock.Name(), Err: err}
}

// wrap returns err as the *Error of the operation op. All holders of a round
// share the error that it failed with, but came to it by different operations.
func (h Hold) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	// Only err itself: an error that it wraps may be the cause of a context that
	// the loss of another lock has ended.
	if shared, ok := err.(*Error); ok { //nolint:errorlint // see above
		own := *shared
		own.Op = op
		return &own
	}
	return h.share.error(op, err)
}

// isPending reports whether err is check's answer for a pending hold.
func isPending(err error) bool { return errors.Is(err, ErrNotGranted) }

// home returns the share that counts the holder.
func (h Hold) home() *share { return h.share.home() }

// promises returns the promises that the holder has.
func (h Hold) promises() *promises { return h.home().promises() }
