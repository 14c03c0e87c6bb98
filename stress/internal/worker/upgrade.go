// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
	"github.com/holdfast-go/holdfast/stress/internal/plan"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// upgradeInPlace upgrades the hold h of an upgradable read lock, writes, and goes back to
// reading. For the referee the worker then is inside a second time, as a writer with the
// token of its upgradable read.
func (w *worker) upgradeInPlace(run context.Context, s plan.Step, l *contended, h manager.Hold, g manager.Grant) {
	ctx := run
	if s.Again {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(run, s.Bound)
		defer cancel()
	}
	if !w.sabotages(wire.OnlyReads) {
		switch err := w.during("Upgrade", l, func() error { return h.Upgrade(ctx) }); {
		case err == nil:
		case errors.Is(err, manager.ErrLost):
			w.noLonger("Upgrade", l, h, err)
			return
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
			w.child.count(func(n *wire.Counts) { n.Timeouts++ })
			w.stillHeld("Upgrade that timed out", l, h)
			return
		case run.Err() != nil: // the end of the run has ended the wait
			return
		default:
			w.unexpected("Upgrade", l, err)
			return
		}
	}
	r := w.records.Find(l, journal.Inside)
	if !w.sabotages(wire.OnlyReads) {
		r.Changed(history.WriteMode)
	}
	leave, ok := w.enterReferee(l.writer, g, h.Lost())
	if !ok {
		return
	}
	w.child.count(func(n *wire.Counts) { n.Upgrades++ })
	w.writeNow(l)
	stay := s.Hold / 2
	if w.sabotages(wire.OnlyReads) {
		stay = wire.CaughtWithin
	}
	w.stay(run, stay, l, h.Lost())
	w.stillHeld("Err of an upgraded hold", l, h)
	leave()
	if s.Order {
		return // the release ends the upgrade, too
	}
	r.Changed(history.Upgradable)
	if err := h.Downgrade(); err != nil {
		w.noLonger("Downgrade", l, h, err)
	}
}
