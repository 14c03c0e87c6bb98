// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/flock"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/barrier"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
	"github.com/holdfast-go/holdfast/stress/internal/plan"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A hall is a double barrier, with the files by which the operating system shows which
// workers are inside. Each has an flock on a file of its own from the time at which Enter
// returns until it calls Leave. A worker for which Leave returns finds the files of all
// members of its round without an flock, or one of them is still inside. There are no false
// alarms: only its own worker locks a file exclusively, and to leave comes after that.
//
// The first of them writes what it was told of the others into a further file, with which the
// others compare what they were told.
type hall struct {
	double  *barrier.Double
	path    string // what the paths of the files begin with
	size    int
	process int // number

	mu    sync.Mutex
	ended []uint64 // protected by mu: rounds of which this process has made the file end, the oldest first
}

// manyRounds is how many rounds back a process may still be told of the end of one. The files
// of earlier ones are removed.
const manyRounds = 1000

func (c *child) newHall(name string) (*hall, error) {
	s := c.settings
	h := &hall{path: filepath.Join(s.Dir, name), size: min(wire.MostMembers, s.Processes*s.Goroutines), process: s.Process}
	var err error
	h.double, err = barrier.NewDouble(c.manager, name, h.size)
	return h, err
}

// file returns the path of a file of one round.
func (h *hall) file(round uint64, what string) string {
	return fmt.Sprintf("%s.round-%d.%s", h.path, round, what)
}

// enter notes that the worker with this id is inside, until leave is called.
func (h *hall) enter(round uint64, worker int) (file string, leave func() error, err error) {
	file = h.file(round, fmt.Sprintf(memberFormat, h.process, os.Getpid(), worker))
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, fmt.Errorf("opening the referee's file of a round: %w", err)
	}
	if alone, err := flock.Lock(f, flock.Exclusive); err != nil || !alone {
		return "", nil, fmt.Errorf("locking %s: %t, %w", file, alone, err)
	}
	return file, f.Close, nil
}

// memberFormat is what the name of a member's file ends with: the number of its process, the
// id of that, and its worker.
const memberFormat = "in-%d-%d-%d"

// inside returns the members of the round that have not left.
func (h *hall) inside(round uint64) (all []referee.Party, err error) {
	files, err := filepath.Glob(h.file(round, "in-*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has seen the end of the round
		}
		if err != nil {
			return nil, err
		}
		left, err := flock.Lock(f, flock.Shared)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if left {
			continue
		}
		in := referee.Party{Mode: "barrier", Token: round}
		var worker int
		if _, err := fmt.Sscanf(file[strings.LastIndex(file, "in-"):], memberFormat, &in.Process, &in.PID, &worker); err != nil {
			return nil, fmt.Errorf("the name of %s is not that of a member's file: %w", file, err)
		}
		all = append(all, in)
	}
	return all, nil
}

// told compares what a worker was told of the end of the round with what others were. It
// returns what the first was told, if that is something else.
func (h *hall) told(round uint64, worker int, what string) (first string, err error) {
	// The file appears with its contents.
	own := h.file(round, fmt.Sprintf("told-%d-%d", os.Getpid(), worker))
	if err := os.WriteFile(own, []byte(what), 0o600); err != nil {
		return "", err
	}
	err = os.Link(own, h.file(round, "end"))
	if err := os.Remove(own); err != nil {
		return "", err
	}
	if err == nil {
		return "", h.forget(round)
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	all, err := os.ReadFile(h.file(round, "end"))
	if err != nil || bytes.Equal(all, []byte(what)) {
		return "", err
	}
	return string(all), nil
}

// forget notes that a round has ended, and removes the files of one that has long ago.
func (h *hall) forget(round uint64) error {
	h.mu.Lock()
	h.ended = append(h.ended, round)
	if len(h.ended) <= manyRounds {
		h.mu.Unlock()
		return nil
	}
	old := h.ended[0]
	h.ended = slices.Delete(h.ended, 0, 1)
	h.mu.Unlock()
	files, err := filepath.Glob(h.file(old, "*")) // with those of members that were killed
	for _, file := range files {
		if removing := os.Remove(file); !errors.Is(removing, fs.ErrNotExist) { // its worker may do so, too
			err = errors.Join(err, removing)
		}
	}
	return err
}

// round performs a step of the workload barrier: the worker enters, works, and leaves.
func (w *worker) round(run context.Context, s plan.Step, l *contended) {
	ctx, cancel := context.WithTimeout(run, s.Bound)
	defer cancel()
	w.asks(l)
	start := time.Now()
	end := w.activity.begin("Enter", l)
	st, err := l.hall.double.Enter(ctx)
	end()
	if err != nil {
		w.refused(ctx, "Enter", l, err)
		return
	}
	w.child.latency.Record(wire.Called, time.Since(start))
	if len(st.Members) != l.hall.size {
		w.unexpected("Enter", l, fmt.Errorf("round %d has %d members", st.Round, len(st.Members)))
	}
	file, out, err := l.hall.enter(st.Round, w.id)
	if err != nil {
		w.child.fail(wire.Failure{Text: err.Error(), Fatal: true})
		return
	}
	w.entered(l)
	r := w.records.Find(l, journal.Asked)
	r.Granted(manager.Grant{Token: st.Round}, st)
	w.sabotageInside()
	w.stay(run, s.Hold, l, st.Lost())
	r.Release()
	if w.sabotages(wire.Lingers) {
		honest := out
		out = func() error { time.AfterFunc(200*time.Millisecond, func() { _ = honest() }); return nil }
	}
	if err := out(); err != nil {
		w.child.fail(wire.Failure{Text: err.Error(), Fatal: true})
	}
	// Some do not wait for the others. They have left all the same.
	wait := context.Background()
	if s.Again {
		wait = ctx
	}
	end = w.activity.begin("Leave", l)
	err = st.Leave(wait)
	end()
	w.left(wait, l, st, err)
	if !w.sabotages(wire.Lingers) {
		_ = os.Remove(file)
	}
}

// left checks what Leave has returned.
func (w *worker) left(ctx context.Context, l *contended, st *barrier.Stage, err error) {
	broken, isBroken := errors.AsType[*barrier.BrokenError](err)
	what := "all have left"
	switch {
	case isBroken:
		what = strings.Join(broken.Died, "; ") + " died"
		w.child.counts.brokenRounds.Add(1)
	case errors.Is(err, barrier.ErrLost):
		w.child.counts.lostHolds.Add(1)
		return
	case err != nil && ctx.Err() != nil:
		w.child.counts.timeouts.Add(1)
		return
	case err != nil:
		w.unexpected("Leave", l, err)
		return
	}
	inside, err := l.hall.inside(st.Round)
	if err != nil {
		w.child.fail(wire.Failure{Text: err.Error(), Fatal: true})
	}
	if len(inside) > 0 {
		w.child.violation(referee.Violation{Kind: referee.Premature, Lock: l.lock.Name(), Time: time.Now(), At: history.Now(), Mode: "barrier", Process: l.hall.process, PID: os.Getpid(), Token: st.Round, Others: inside})
	}
	first, err := l.hall.told(st.Round, w.id, what)
	if err != nil {
		w.child.fail(wire.Failure{Text: err.Error(), Fatal: true})
	}
	if first != "" {
		w.unexpected("Leave", l, fmt.Errorf("of round %d it was told that %s, and another worker that %s", st.Round, what, first))
	}
}

// Kept reports whether the node at path, which is left, is one that a barrier keeps: its record,
// its directory, or the node of a member that has left a round. In the workload mixed there are
// others.
func Kept(node string, mixed bool) bool {
	return !strings.HasPrefix(path.Base(node), "in-") && (!mixed || strings.Contains(node, "/"+wire.BarrierWorkload))
}
