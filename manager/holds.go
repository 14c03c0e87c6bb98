// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/oneline"
	"github.com/holdfast-go/holdfast/state"
)

// Holds are what [Manager.LockAll] returns: a Hold for each lock. They can be used and
// released one by one, as any Hold. The methods of Holds do it for all; they may be called
// concurrently.
//
// What LockAll has acquired together is also lost together: if one of the locks' nodes is
// deleted, or the lease ends, all of them are lost. If a client deleted the node, the others
// are given up at once, also if Config.LostMargin is set. Locks that the process held before,
// and LockAll has only entered, are lost one by one; Err and Lost report the first.
type Holds []Hold

// Err returns nil if all the locks are held at this moment, else the error of the first
// that is not: see [Hold.Err]. It does not block; it reads the clock.
func (hs Holds) Err() error {
	for _, h := range hs {
		if err := h.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Lost returns a channel that closes when one of the locks is lost, or the manager is
// closed: see [Hold.Lost]. After it has closed, Err says why. What becomes of a lock after
// its Hold was released does not matter. It is nil if there are no Holds. Lost does not
// block.
func (hs Holds) Lost() <-chan struct{} {
	if len(hs) == 0 {
		return nil
	}
	if len(hs) == 1 {
		return hs[0].Lost()
	}
	if g := hs.group(); g != nil {
		return g.lost.Future().Done()
	}
	i := slices.IndexFunc(hs, func(h Hold) bool { return h.share != nil })
	if i < 0 {
		return make(chan struct{})
	}
	// A program may call Lost in a loop, so the first handle remembers what it returned.
	list := hs[i].slot.cleanups.open()
	list.mu.Lock()
	known := list.loss
	list.mu.Unlock()
	if known == nil || !known.isOf(hs) {
		known = newLossOfAll(hs)
		list.mu.Lock()
		if !list.taken {
			list.loss = known
		}
		list.mu.Unlock()
	}
	return known.lost.Future().Done()
}

// A lossOfAll tells of the first loss of several Holds. It must not lead to their slots, as
// nothing that a handle keeps.
type lossOfAll struct {
	lost futures.Promise[struct{}] // settles with an error only
	of   []handleOf
}

func (w *lossOfAll) ended(err error) { w.lost.Settle(struct{}{}, err) }

// A handleOf is a Hold without its slot.
type handleOf struct {
	handle *handle
	gen    uint64
}

// isOf reports whether w is the loss of hs.
func (w *lossOfAll) isOf(hs Holds) bool {
	return slices.EqualFunc(w.of, hs, func(o handleOf, h Hold) bool { return o == h.unslotted() })
}

func (h Hold) unslotted() handleOf {
	if h.share == nil {
		return handleOf{}
	}
	return handleOf{h.slot.handle, h.gen}
}

// newLossOfAll returns the loss of hs. Each Hold counts until it is released.
func newLossOfAll(hs Holds) *lossOfAll {
	w := new(lossOfAll)
	for _, h := range hs {
		w.of = append(w.of, h.unslotted())
		if h.share != nil {
			cb := &callback{ender: w}
			h.promises().onLoss(cb)
			h.slot.onReleaseDo(h.gen, cb.forget)
		}
	}
	return w
}

// Context returns a context for the work that is done under the locks. It ends with
// parent; when one of the locks is lost, as [Hold.Context] does; and when one of the
// Holds is released. Acquiring any of the locks with it reenters. Call the CancelFunc
// when the work is done. Context does not block.
func (hs Holds) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	cancels := []context.CancelFunc{cancel}
	for _, h := range hs {
		ctx, cancel = h.Context(ctx)
		cancels = append(cancels, cancel)
	}
	return ctx, func() {
		for i := len(cancels) - 1; i >= 0; i-- { // the inner ones first: their cause counts
			cancels[i]()
		}
	}
}

// Release gives all the Holds up: see [Hold.Release]. It never blocks and does no I/O. If
// nothing else holds the locks, one request gives all of them up. Holds that were released
// before stay released.
func (hs Holds) Release() { hs.giveUp() }

// Unlock releases all the Holds, and waits as [Hold.Unlock] does until other processes can
// have the locks. The Holds are given up whatever Unlock returns. It joins the errors that
// the Unlocks of the single Holds would return.
func (hs Holds) Unlock(ctx context.Context) error {
	words, effects := hs.giveUp()
	errs := make([]error, len(hs))
	for i, h := range hs {
		errs[i] = h.confirm(ctx, words[i], effects[i])
	}
	return oneline.Join(errs...)
}

// giveUp gives all the Holds up. It returns, for each, what Hold.giveUp returns.
func (hs Holds) giveUp() ([]state.Word, []state.Effect) {
	if g := hs.group(); g != nil {
		// Keep the group's steps from giving up some of the locks before the others.
		g.pause()
		defer g.resume()
	}
	words, effects := make([]state.Word, len(hs)), make([]state.Effect, len(hs))
	for i, h := range hs {
		if h.share != nil {
			words[i], effects[i], _ = h.giveUp()
		}
	}
	return words, effects
}

// group returns the group that all the Holds are of; nil if there is none.
func (hs Holds) group() (g *group) {
	for i, h := range hs {
		if h.share == nil {
			return nil
		}
		p := h.promises().place()
		if p == nil || i > 0 && p.group != g {
			return nil
		}
		g = p.group
	}
	return g
}

// arrange returns a Hold for each of the arguments of LockAll, of which the ith is for
// the lock that hs[at[i]] holds.
func (hs Holds) arrange(op string, at []int) (Holds, error) {
	all := make(Holds, len(at))
	taken := make([]bool, len(hs))
	for i, j := range at {
		if !taken[j] {
			all[i], taken[j] = hs[j], true
			continue
		}
		again, err := hs[j].reenter(op)
		if err != nil {
			all.Release()
			hs.Release()
			return nil, err
		}
		all[i] = again
	}
	return all, nil
}
