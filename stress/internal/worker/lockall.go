// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/plan"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// contended returns the locks of the group.
func (w *worker) contended(g plan.Group) (all []*contended) {
	for _, i := range g.Locks[:g.N] {
		all = append(all, w.child.locks[i])
	}
	return all
}

func locksOf(all []*contended) (locks []*manager.Lock) {
	for _, l := range all {
		locks = append(locks, l.lock.(*manager.Lock))
	}
	return locks
}

func (w *worker) takeAll(ctx context.Context, what string, all []*contended) (manager.Holds, error) {
	defer w.activity.Begin(what, all[0])()
	return w.child.manager.LockAll(ctx, locksOf(all)...)
}

func (w *worker) lockAll(run context.Context, s plan.Step) {
	all := w.contended(s.Group)
	ctx := run
	if s.Group.Bound {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(run, s.Bound)
		defer cancel()
	}
	for _, l := range all {
		w.asks(l)
	}
	start := time.Now()
	holds, err := w.takeAll(ctx, "LockAll", all)
	took := time.Since(start)
	w.child.count(func(n *wire.Counts) { n.LongestLockAll = max(n.LongestLockAll, uint64(took)) }) // also if it was given up
	if err != nil {
		if holds != nil {
			w.unexpected("LockAll", all[0], fmt.Errorf("it returned %d holds beside its error", len(holds)))
		}
		w.refused(ctx, "LockAll", all[0], err)
		return
	}
	w.child.latency.Record(wire.Together, took)
	w.child.count(func(n *wire.Counts) { n.LockAlls++ })
	if w.sabotages(wire.Partial) {
		holds[len(holds)-1].Release()
	}
	w.insideAll(ctx, s, all, holds)
	lost := closed(holds.Lost())
	if s.Giving == plan.ByUnlock {
		err := w.during("Unlock of all", all[0], func() error { return holds.Unlock(context.Background()) })
		w.settled("Unlock of all", all[0], err, lost)
		return
	}
	for i, h := range holds {
		w.settles("Release of one of several", all[i], h, closed(h.Lost()))
	}
}

// insideAll works under holds, which LockAll has returned.
func (w *worker) insideAll(ctx context.Context, s plan.Step, all []*contended, holds manager.Holds) {
	if !w.whole("LockAll", all, holds) {
		return
	}
	var leaves []func()
	defer func() {
		for _, leave := range slices.Backward(leaves) {
			leave()
		}
	}()
	for i, h := range holds {
		_, leave, ok := w.goIn("Grant of one of several", all[i], h)
		if !ok {
			return
		}
		leaves = append(leaves, leave)
	}
	for _, l := range all {
		w.writeNow(l)
	}
	// Now the referee has the flocks of all the locks.
	w.sabotageInside()
	if s.Nested != plan.Plain {
		inside, cancel := holds.Context(ctx)
		defer cancel()
		const what = "LockAll again by context"
		backwards := slices.Clone(all)
		slices.Reverse(backwards)
		again, err := w.takeAll(inside, what, backwards)
		switch {
		case err == nil:
			w.child.count(func(n *wire.Counts) { n.Reentries++ })
			again.Release()
		case errors.Is(err, manager.ErrLost), inside.Err() != nil:
		default:
			w.unexpected(what, all[0], err)
		}
	}
	w.stay(ctx, s.Hold, all[0], holds.Lost())
	w.whole("staying inside after LockAll", all, holds)
}

// whole checks that each of holds is held, unless it was lost. It reports whether all
// are held.
func (w *worker) whole(what string, all []*contended, holds manager.Holds) bool {
	err := wholeness(locksOf(all), holds)
	switch {
	case errors.Is(err, manager.ErrLost):
		w.child.count(func(n *wire.Counts) { n.LostHolds++ })
	case err != nil:
		w.unexpected(what, all[0], err)
	}
	return err == nil
}

// wholeness returns why holds are not the holds of the locks, in their order, and all of
// them held. A hold that was never granted, or released, is worse than one that was lost.
func wholeness(locks []*manager.Lock, holds manager.Holds) (err error) {
	if len(holds) != len(locks) {
		return fmt.Errorf("%d holds of %d locks", len(holds), len(locks))
	}
	for i, h := range holds {
		_, missing := h.Grant()
		switch {
		case h.Lock() != locks[i]:
			return fmt.Errorf("hold %d is not of lock %q", i, locks[i].Name())
		case missing != nil && !errors.Is(missing, manager.ErrLost):
			return fmt.Errorf("a partial hold: %d of %d: %w", i, len(locks), missing)
		case missing != nil:
			err = missing
		}
	}
	return err
}

// nest performs a step that takes one lock, and another one inside. Other workers take
// them in the opposite order, so both waits are bounded.
func (w *worker) nest(run context.Context, s plan.Step) {
	all := w.contended(s.Group)
	ctx, cancel := context.WithTimeout(run, s.Bound)
	defer cancel()
	outer, leave := w.lockBounded(ctx, "Lock of the outer lock", all[0])
	if leave == nil {
		return
	}
	w.stay(ctx, s.Hold/2, all[0], outer.Lost())
	inside, cancelInside := outer.Context(ctx)
	defer cancelInside()
	if s.Order {
		w.partlyHeld(inside, all, outer)
	}
	inner, leaveInner := w.lockBounded(inside, "Lock of the inner lock", all[1])
	if leaveInner != nil {
		w.child.count(func(n *wire.Counts) { n.Nested++ })
		w.stay(inside, s.Hold/2, all[1], inner.Lost())
		leaveInner()
		w.settles("Release of the inner lock", all[1], inner, closed(inner.Lost()))
	}
	leave()
	w.give(s, all[0], outer, closed(outer.Lost()))
}

// lockBounded acquires and enters l. leave is nil if it did not.
func (w *worker) lockBounded(ctx context.Context, what string, l *contended) (h manager.Hold, leave func()) {
	w.asks(l)
	h, ok := get(ctx, w, what, l, l.lock.Lock)
	if !ok {
		return h, nil
	}
	_, leave, ok = w.goIn(what, l, h)
	if !ok {
		w.settles(what, l, h, closed(h.Lost()))
		return h, nil
	}
	w.writeNow(l)
	return h, leave
}

// partlyHeld asks for all locks with a context that carries the hold of one, which must be
// refused.
func (w *worker) partlyHeld(inside context.Context, all []*contended, outer manager.Hold) {
	const what = "LockAll by a holder of one"
	holds, err := w.takeAll(inside, what, all)
	holds.Release()
	switch {
	case errors.Is(err, manager.ErrPartlyHeld):
		w.child.count(func(n *wire.Counts) { n.RefusedParts++ })
	case inside.Err() != nil, closed(outer.Lost()):
	default:
		w.unexpected(what, all[0], cmp.Or(err, errors.New("it was not refused")))
	}
}
