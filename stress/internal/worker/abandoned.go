// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/plan"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// checkAbandoned compares the grant of a worker that is inside with the ledger, and
// recovers if the step says so.
func (w *worker) checkAbandoned(s plan.Step, l *contended, h manager.Hold, g manager.Grant) {
	if l.ledger == nil {
		return
	}
	switch err := l.ledger.Begin(g); {
	case errors.Is(err, referee.ErrTold):
		w.child.count(func(n *wire.Counts) { n.FalseReports++ }) // the parent knows how many holds were lost, which are reported as well
	case err != nil:
		w.unexpected("Grant", l, err)
	}
	if !g.Abandoned {
		return
	}
	w.child.count(func(n *wire.Counts) { n.Abandoned++ })
	if !s.Recovers {
		return
	}
	if err := h.Recovered(); err != nil {
		w.noLonger("Recovered", l, h, err)
		return
	}
	if again, err := h.Grant(); err == nil && again.Abandoned {
		w.unexpected("Grant", l, errors.New("it says that the lock is abandoned after Recovered"))
	}
	if err := l.ledger.Recover(g.Token); err != nil {
		w.unexpected("Recovered", l, err)
	}
}

// onPurpose is what a worker panics with in Do.
type onPurpose struct{}

// interrupted performs a step that panics in Do.
func (w *worker) interrupted(run context.Context, s plan.Step, l *contended) {
	w.asks(l)
	end := w.activity.Begin("Do", l)
	defer func() {
		end()
		p := recover()
		if _, expected := p.(onPurpose); p != nil && !expected {
			panic(p)
		}
	}()
	err := l.lock.Do(run, func(_ context.Context, h manager.Hold) error {
		end()
		g, leave, ok := w.goIn("Grant", l, h)
		if !ok {
			return nil
		}
		defer leave()
		w.checkAbandoned(s, l, h, g)
		w.stay(run, s.Hold, l, h.Lost())
		end = w.activity.Begin("the end of Do after a panic", l)
		if !w.sabotages(wire.Conceals) {
			if err := l.ledger.Interrupt(g.Token); err != nil {
				w.unexpected("Do", l, err)
			}
		}
		w.child.count(func(n *wire.Counts) { n.Panics++ })
		if w.sabotages(wire.Survives) {
			return nil
		}
		panic(onPurpose{})
	})
	if err != nil && !errors.Is(err, manager.ErrUnconfirmed) {
		w.refused(run, "Do", l, err)
	}
}
