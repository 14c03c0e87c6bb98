// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

var (
	rwSeeds = flag.Int("rwseeds", 0, "how many random histories of read/write locks to run; 0 for 40, or samples of them")
	rwSeed  = flag.Uint64("rwseed", 0, "the first one of them, to repeat it")
)

// Goroutines of several processes read, write, downgrade, upgrade, try and give up, while
// requests are slow, requests and answers are lost, connections break and sessions
// expire. A referee watches exclusion and tokens. In the end every wait has ended, and
// nothing is left behind.
func TestReadWriteAtRandom(t *testing.T) {
	var all randomCounts
	first := cmp.Or(*rwSeed, rand.Uint64N(1<<32))
	for i := range cmp.Or(*rwSeeds, max(racing.Fewer(40), 10)) {
		seed := first + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all.add(runAtRandom(newCluster(t, zktest.Config{TickTime: 500 * time.Millisecond}), seed))
			})
		})
	}
	t.Logf("%+v", all)
	// A loss is rare, and does not happen in every forty histories.
	expect(t, all.Writes != 0 && all.Reads != 0 && all.Downgrades != 0 && all.Upgrades != 0 && all.Tried != 0 && all.GaveUp != 0 && all.Faults != 0,
		"something never happened, so nothing is shown: %+v", all)
}

// randomCounts is what happened in random histories.
type randomCounts struct{ Writes, Reads, Downgrades, Upgrades, Tried, GaveUp, Lost, Faults int }

func (a *randomCounts) add(b randomCounts) {
	a.Writes += b.Writes
	a.Reads += b.Reads
	a.Downgrades += b.Downgrades
	a.Upgrades += b.Upgrades
	a.Tried += b.Tried
	a.GaveUp += b.GaveUp
	a.Lost += b.Lost
	a.Faults += b.Faults
}

func runAtRandom(c *cluster, seed uint64) randomCounts {
	const (
		processes  = 3
		goroutines = 4
		steps      = 12
	)
	ref := newReferee(c.t)
	var mu sync.Mutex // protects counts
	var counts randomCounts
	count := func(n *int) {
		mu.Lock()
		defer mu.Unlock()
		*n++
	}

	// Every request takes a while, from the first one on.
	var delays sync.Mutex // protects rng
	rng := rand.New(rand.NewPCG(seed, 1))
	c.srv.OnRequest(func(int64, zktest.Op, string) {
		delays.Lock()
		d := time.Duration(rng.IntN(2000)) * time.Microsecond
		delays.Unlock()
		time.Sleep(d)
	})

	var managers []*Manager
	var wg sync.WaitGroup
	for p := range processes {
		rw := c.rw(fmt.Sprintf("p%d", p), func(cfg *Config) {
			cfg.SessionTimeout = 4 * time.Second
			cfg.Tenure = 20 * time.Millisecond
		})
		managers = append(managers, rw.writer.m)
		for g := range goroutines {
			w := &wanderer{
				t: c.t, rng: rand.New(rand.NewPCG(seed, uint64(2+p*goroutines+g))), ref: ref, rw: rw,
				count: count, counts: &counts,
			}
			wg.Go(func() {
				for range steps {
					w.step(c.t.Context(), 0)
					time.Sleep(w.while(5 * time.Millisecond))
				}
			})
		}
	}

	// Trouble, until the work is done.
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	trouble := rand.New(rand.NewPCG(seed, 99))
	for !isClosed(done) {
		time.Sleep(time.Duration(trouble.IntN(60)) * time.Millisecond)
		id := session(managers[trouble.IntN(processes)])
		ops := []zktest.Op{zktest.OpMulti, zktest.OpMulti, zktest.OpDelete, zktest.OpGetChildren2, zktest.OpGetData, zktest.OpSync}
		m := zktest.Match{Op: ops[trouble.IntN(len(ops))], Session: id, Times: 1}
		switch faults := c.srv.Faults(); trouble.IntN(12) {
		case 0, 1, 2:
			faults.DropReply(m)
		case 3, 4:
			faults.DropRequest(m)
		case 5:
			faults.DelayReply(m, time.Duration(trouble.IntN(300))*time.Millisecond)
		case 6:
			faults.Cut(id)
		case 7:
			if trouble.IntN(4) == 0 { // until the session is gone
				hole := faults.Blackhole(id)
				time.AfterFunc(8*time.Second, hole.Remove)
			}
		default:
			continue
		}
	}

	for _, hits := range c.srv.Faults().Hits() {
		counts.Faults += hits
	}
	c.srv.Faults().Clear()
	later(30 * time.Second)
	c.wantNodes(0)
	for _, m := range managers {
		rw := readWrite(c.t, m, "jobs")
		for l := range rw.locks() {
			wantPhase(c.t, l, state.Free)
		}
	}
	return counts
}

// A wanderer is a goroutine that does random things with a read/write lock.
type wanderer struct {
	t      *testing.T
	rng    *rand.Rand
	ref    *referee
	rw     *RWLock
	counts *randomCounts
	count  func(*int)
}

// while returns a random duration below most.
func (w *wanderer) while(most time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(most)))
}

// step takes one of the locks in one of the ways, and holds it for a while.
func (w *wanderer) step(ctx context.Context, depth int) {
	l, kind := w.rw.Reader(), &w.counts.Reads
	switch w.rng.IntN(6) {
	case 0, 1:
		l, kind = w.rw.Writer(), &w.counts.Writes
	case 2:
		l = w.rw.Upgradable()
	}
	var h Hold
	var err error
	switch w.rng.IntN(5) {
	case 0:
		h, err = l.TryLock(ctx)
		w.count(&w.counts.Tried)
	case 1:
		bounded, cancel := context.WithTimeout(ctx, w.while(20*time.Millisecond))
		h, err = l.Lock(bounded)
		cancel()
	default:
		h, err = l.Lock(ctx)
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrLocked), errors.Is(err, context.DeadlineExceeded):
		w.count(&w.counts.GaveUp)
		return
	case errors.Is(err, ErrLost), errors.Is(err, ErrUpgrade):
		return
	default:
		w.t.Errorf("%s %s: %v", l.kind, l.m.cfg.Label, err)
		return
	}
	w.count(kind)
	w.hold(ctx, h, depth)
}

// hold is inside for a while. A writer may downgrade, with or without the context of
// its hold.
func (w *wanderer) hold(ctx context.Context, h Hold, depth int) {
	if h.Err() != nil { // lost, or released by the end of the context that it was acquired with
		h.Release()
		return
	}
	l := h.Lock()
	leave := w.ref.enter(l.m, h)
	time.Sleep(w.while(10 * time.Millisecond))
	if isClosed(h.Lost()) {
		w.count(&w.counts.Lost)
	}
	if !reads(l) && depth == 0 {
		inside, cancel := ctx, context.CancelFunc(func() {})
		if w.rng.IntN(2) == 0 {
			inside, cancel = h.Context(ctx)
		}
		defer cancel()
		switch w.rng.IntN(3) {
		case 0: // a downgrade
			if r, err := w.rw.Reader().Lock(inside); err == nil {
				w.count(&w.counts.Downgrades)
				defer w.hold(ctx, r, depth+1)
			}
		case 1: // one that is under way when the write is released
			r := w.rw.Reader().Acquire(inside)
			time.Sleep(w.while(2 * time.Millisecond))
			defer func() {
				if _, err := r.Granted().Wait(ctx); err == nil {
					w.count(&w.counts.Downgrades)
					w.hold(ctx, r, depth+1)
				} else {
					r.Release()
				}
			}()
		}
	}
	if Kind(l.kind) == KindUpgradable {
		for range w.rng.IntN(3) {
			w.upgrade(ctx, h)
		}
	}
	leave()
	if err := h.Unlock(ctx); err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnconfirmed) {
		w.t.Errorf("unlock %s %s: %v", l.kind, l.m.cfg.Label, err)
	}
}

// upgrade upgrades a hold for a while, if that is possible in some time. Readers of the
// process may be in the way, and wait for this one.
func (w *wanderer) upgrade(ctx context.Context, h Hold) {
	bounded, cancel := context.WithTimeout(ctx, w.while(50*time.Millisecond))
	defer cancel()
	switch err := h.Upgrade(bounded); {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrLost), errors.Is(err, ErrReleased):
		return
	default:
		w.t.Errorf("upgrade %s: %v", h.Lock().m.cfg.Label, err)
		return
	}
	w.count(&w.counts.Upgrades)
	back := w.ref.upgrade(h.Lock().m, h)
	time.Sleep(w.while(10 * time.Millisecond))
	back()
	if w.rng.IntN(3) == 0 {
		return // released as it is, or upgraded again
	}
	if err := h.Downgrade(); err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrReleased) {
		w.t.Errorf("downgrade %s: %v", h.Lock().m.cfg.Label, err)
	}
}
