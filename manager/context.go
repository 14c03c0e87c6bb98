// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
	"weak"

	"github.com/holdfast-go/holdfast/state"
)

// Context returns a context for the work that is done under the lock. It ends
// with parent; with the cause [ErrLost] or [ErrClosed] when [Hold.Lost] closes;
// and with the cause [ErrReleased] when this Hold is released. If several of these
// happen before the context is first asked, the cause is the loss, or else parent's end.
// Acquiring the same lock with it reenters until it ends: see [Lock.Acquire]. Call the
// CancelFunc when the work is done. Context does not block.
func (h Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	if h.share == nil {
		ctx, cancel := context.WithCancelCause(parent)
		cancel(zeroHold("context"))
		return ctx, func() {}
	}
	c := h.context(parent)
	return c, c.finish
}

// A holdContext is what [Hold.Context] returns. Most are asked for an error or a value at most,
// and end soon. So it looks at the hold when it is asked. It registers with its parent, with the
// hold and with the loss of the lock only when a goroutine wants its channel, as a context that
// derives from it does, or when it has ended. From then on a context of package context, inner,
// stands in for it.
//
// It must not lead to the slot, or a dropped Hold would never be noticed.
type holdContext struct {
	held
	handle   *handle
	inner    atomic.Pointer[innerContext] // set once, by CAS
	finished atomic.Bool                  // finish was called when the context had not ended
}

// An innerContext is a context that is registered with all that may end it.
type innerContext struct {
	context.Context

	cancel  context.CancelCauseFunc
	of      *holdContext
	loss    callback
	release callback
}

// context is Context for a hold that is not the zero Hold.
func (h Hold) context(parent context.Context) *holdContext {
	if parent == nil {
		panic("manager: Hold.Context: the parent is nil")
	}
	h.share.lock.noteContext()
	return &holdContext{held: held{h.share, weak.Make(h.slot), h.gen, parent}, handle: h.slot.handle}
}

// finish is the context's CancelFunc.
func (c *holdContext) finish() {
	in := c.inner.Load()
	if in == nil && !c.over() {
		c.finished.Store(true)
		// The goroutine that makes inner looks at finished after it has set inner, and this one
		// looks at inner after it has set finished: at least one sees the other.
		in = c.inner.Load()
	}
	if in != nil {
		in.end(context.Canceled)
	}
}

// over reports whether the context has ended, or is about to, while there is no inner context. Once
// it has reported true it always does.
func (c *holdContext) over() bool {
	return c.finished.Load() || c.parent.Err() != nil || c.share.home().word.Load().Phase() > state.Retained || !c.handle.alive(c.gen)
}

// register returns the inner context, and makes it on first use.
func (c *holdContext) register() *innerContext {
	in := c.inner.Load()
	if in == nil {
		in = c.newInner()
		if !c.inner.CompareAndSwap(nil, in) {
			in.end(context.Canceled)
			in = c.inner.Load()
		}
	}
	if c.finished.Load() {
		in.end(context.Canceled)
	}
	return in
}

// newInner makes an inner context. If the context has ended, so has that, and with the cause that
// comes first: it was finished, the lock was lost, parent has ended, the hold was released.
func (c *holdContext) newInner() *innerContext {
	in := &innerContext{of: c}
	in.loss.ender, in.release.ender = (*lossOfContext)(in), (*releaseOfContext)(in)
	cause := c.share.home().promises().lostErr()
	if c.finished.Load() {
		cause = context.Canceled
	}
	if cause != nil {
		// Its parent may have ended since.
		in.Context, in.cancel = context.WithCancelCause(context.WithoutCancel(c.parent))
		in.cancel(cause)
		return in
	}
	in.Context, in.cancel = context.WithCancelCause(c.parent)
	c.share.home().promises().onLoss(&in.loss)
	c.handle.onRelease(c.gen, &in.release)
	return in
}

// end ends the context with this cause, unless it has ended. Any number of goroutines may call it,
// any number of times.
func (in *innerContext) end(cause error) {
	if in.loss.list != nil {
		in.loss.forget()
		in.release.forget()
	}
	in.cancel(cause)
}

// A lossOfContext is an inner context as what is told that the lock is lost.
type lossOfContext innerContext

func (in *lossOfContext) ended(err error) { in.cancel(err) }

// A releaseOfContext is an inner context as what is told that the hold was released.
type releaseOfContext innerContext

func (in *releaseOfContext) ended(error) {
	c := in.of
	in.loss.forget()
	// A loss before the release is the cause, even if its callback has not run yet.
	if err := c.share.home().promises().lostErr(); err != nil {
		in.cancel(err)
	} else {
		in.cancel(endedError("hold", c.share.lock.Name(), c.handle.ended(c.gen)))
	}
}

// Err returns nil until the context has ended.
func (c *holdContext) Err() error {
	if c.inner.Load() == nil && !c.over() {
		return nil
	}
	return c.register().Err()
}

// Done returns a channel that closes when the context ends.
func (c *holdContext) Done() <-chan struct{} { return c.register().Done() }

// Deadline returns the parent's.
func (c *holdContext) Deadline() (deadline time.Time, ok bool) { return c.parent.Deadline() }

// Value finds the hold, and what the parent has. Package context asks a context that has a channel,
// or has ended, for the one that it derives from: that is inner then.
func (c *holdContext) Value(key any) any {
	if k, ok := key.(heldKey); ok && (k.lock == c.share.lock || k.lock == nil) {
		return &c.held
	}
	if in := c.inner.Load(); in != nil {
		return in.Value(key)
	}
	return c.parent.Value(key)
}

// String describes the context as those of package context do.
func (c *holdContext) String() string {
	return fmt.Sprintf("%v.Hold(%q)", c.parent, c.share.lock.Name())
}

// held is a hold in a context. It does not keep the hold's slot alive: a context cannot
// release a hold, so a hold that is in nothing but contexts has been dropped.
type held struct {
	share  *share
	slot   weak.Pointer[slot]
	gen    uint64
	parent context.Context // the context around it, which may have another hold of the lock
}

// heldKey is the context key of a lock's holds; without a lock, of those of any lock.
type heldKey struct{ lock *Lock }

// mayInherit reports whether ctx has, or had, a hold that matters to a caller of l.
func mayInherit(ctx context.Context, l *Lock) bool {
	key := heldKey{l}
	if l.rw != nil {
		key.lock = nil // those of the other locks of the pair matter, too
	}
	return ctx.Value(key) != nil
}

// noteContext notes that a hold of the lock is about to be put into a context. No
// caller has the context yet, so none can miss the note.
func (l *Lock) noteContext() {
	note := func(l *Lock) {
		if !l.noted.Load().Has(state.InContexts) { // no write in the usual case
			l.noted.Raise(state.InContexts)
		}
	}
	if l.rw == nil {
		note(l)
		return
	}
	// Each lock of the pair looks for holds of the others. The reader comes first: see
	// RWLock.Upgradable.
	note(&l.rw.reader)
	for other := range l.rw.locks() {
		note(other)
	}
}

// heldIn returns the innermost hold of l in ctx that is alive: not released, and
// its round not over. A ctx that has ended carries none: its caller is to stop, whatever
// else holds the lock.
func (l *Lock) heldIn(ctx context.Context) (Hold, bool) {
	if ctx.Err() != nil {
		return Hold{}, false
	}
	key := heldKey{l}
	for e, _ := ctx.Value(key).(*held); e != nil; e, _ = e.parent.Value(key).(*held) {
		s := e.slot.Value()
		if s != nil && s.alive(e.gen) && e.share.home().word.Load().Phase() <= state.Retained {
			return Hold{e.share, s, e.gen}, true
		}
	}
	return Hold{}, false
}
