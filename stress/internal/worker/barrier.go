// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/barrier"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/plan"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A barrierRecipe has workers enter a barrier together, and leave it together.
type barrierRecipe struct {
	double *barrier.Double
	size   int
	hall   *referee.Hall
}

func (c *child) newBarrier(name string) (*barrierRecipe, error) {
	s := c.settings
	size := min(wire.MostMembers, s.Processes*s.Goroutines)
	double, err := barrier.NewDouble(c.manager, name, size)
	return &barrierRecipe{double, size, referee.NewHall(filepath.Join(s.Dir, name), s.Process)}, err
}

// step enters, works, and leaves.
func (b *barrierRecipe) step(run, ctx context.Context, w *worker, s plan.Step, l *contended) {
	r := w.asks(l)
	st, ok := get(ctx, w, "Enter", l, b.double.Enter)
	if !ok {
		return
	}
	if len(st.Members) != b.size {
		w.unexpected("Enter", l, fmt.Errorf("round %d has %d members", st.Round, len(st.Members)))
	}
	file, out, err := b.hall.Enter(st.Round, w.id)
	if err != nil {
		w.child.fatal(err)
		return
	}
	w.entered(l)
	r.Granted(manager.Grant{Token: st.Round}, st)
	w.sabotageInside()
	w.stay(run, s.Hold, l, st.Lost())
	r.Release()
	if w.sabotages(wire.Lingers) {
		honest := out
		out = func() error { time.AfterFunc(200*time.Millisecond, func() { _ = honest() }); return nil }
	}
	w.child.fatal(out())
	// Some do not wait for the others. They have left all the same.
	wait := context.Background()
	if s.Again {
		wait = ctx
	}
	err = w.during("Leave", l, func() error { return st.Leave(wait) })
	b.left(wait, w, l, st, err)
	if !w.sabotages(wire.Lingers) {
		_ = os.Remove(file)
	}
}

// keptOutcomes is for how many rounds a barrier promises to remember how one has ended.
const keptOutcomes = 16

// left checks what Leave has returned.
func (b *barrierRecipe) left(ctx context.Context, w *worker, l *contended, st *barrier.Stage, err error) {
	broken, isBroken := errors.AsType[*barrier.BrokenError](err)
	what := "all have left"
	switch {
	case isBroken:
		what = strings.Join(broken.Died, "; ") + " died"
		w.child.count(func(n *wire.Counts) { n.BrokenRounds++ })
	case errors.Is(err, barrier.ErrLost):
		w.child.count(func(n *wire.Counts) { n.LostHolds++ })
		return
	case err != nil && ctx.Err() != nil,
		errors.Is(err, manager.ErrUnknownOutcome) && b.hall.Begun(st.Round+keptOutcomes): // its process was stopped for so many rounds
		w.child.count(func(n *wire.Counts) { n.Timeouts++ })
		return
	case err != nil:
		w.unexpected("Leave", l, err)
		return
	}
	inside, err := b.hall.Inside(st.Round)
	w.child.fatal(err)
	if len(inside) > 0 {
		w.child.violation(referee.Violation{Kind: history.SeenPremature, Lock: l.lock.Name(), Time: time.Now(), At: history.Now(), Mode: "barrier", Process: w.child.settings.Process, PID: os.Getpid(), Token: st.Round, Others: inside})
	}
	first, err := b.hall.Told(st.Round, w.id, what)
	w.child.fatal(err)
	if first != "" {
		w.unexpected("Leave", l, fmt.Errorf("of round %d it was told that %s, and another worker that %s", st.Round, what, first))
	}
}
