// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/members"
	"github.com/holdfast-go/holdfast/recipes/shards"
)

// TestSim has processes run shards, stop and start again, with functions quick and slow,
// while faults strike and, in some seeds, another member comes and goes all the time. Some of
// them call Run twice. A shard never has two owners, and its tokens rise. When the faults are
// over, every shard is owned by the process that is to own it.
func TestSim(t *testing.T) {
	recipetest.Simulate(t, 200, simulate)
}

func simulate(w *recipetest.World) {
	const n = 8
	l := newLedger(w.Cluster)
	names := []string{"p1", "p2", "p3"}
	work, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	processes := make(map[string]*recipetest.Process)
	for _, name := range names {
		p := w.Process(name)
		processes[name] = p
		wg.Go(func() {
			for work.Err() == nil {
				var runs []*run
				for i := range 1 + w.N(2) {
					who := name + strings.Repeat("'", i)
					runs = append(runs, start(p.M, options(who, n), func(ctx context.Context, s shards.Shard) error { return own(ctx, w, l, who, s) }))
				}
				<-time.After(time.Millisecond) // all have begun, even if the work is over by now
				w.Pause(work, 12*time.Second)
				refused := 0
				for _, r := range runs {
					r.stop()
					if err := r.wait(); errors.Is(err, shards.ErrRunning) {
						refused++
					} else if !errors.Is(err, context.Canceled) {
						w.T.Errorf("%s: run: %v", name, err)
					}
				}
				if refused != len(runs)-1 {
					w.T.Errorf("%s: %d of %d runs were refused", name, refused, len(runs))
				}
				w.Note("%s: stopped", name)
				w.Pause(work, 3*time.Second)
			}
		})
	}
	if w.Seed%2 == 0 {
		flaps, err := members.New(w.Steady("flaps"), "orders/members")
		recipetest.WantErr(w.T, "members", err, nil)
		wg.Go(func() {
			for work.Err() == nil {
				if me, err := flaps.Join(work, "flaps", nil); err == nil {
					w.Pause(work, 300*time.Millisecond)
					recipetest.WantErr(w.T, "leave", me.Leave(context.Background()), nil)
				}
				w.Pause(work, 300*time.Millisecond)
			}
		})
	}
	w.Harm(6, 4*time.Second, func() (paths []string) {
		for _, name := range w.Srv.Children(dir + "/members") {
			paths = append(paths, dir+"/members/"+name)
		}
		for i := range n {
			lock := fmt.Sprintf("%s/shards/%d", dir, i)
			for _, name := range w.Srv.Children(lock) {
				paths = append(paths, lock+"/"+name)
			}
		}
		return paths
	})
	stop()
	wg.Wait()
	var runs []*run
	for _, name := range names {
		runs = append(runs, start(processes[name].M, options(name, n), l.work(name)))
	}
	w.Until("every shard has its owner", func() bool { return l.assigned(n, names...) })
	for _, r := range runs {
		r.end(w.T)
	}
}

// own is a function that stops when it is told to, or late, or early.
func own(ctx context.Context, w *recipetest.World, l *ledger, who string, s shards.Shard) error {
	w.Note("%s: owns %d by %d", who, s.Index, s.Token)
	defer w.Note("%s: leaves %d of %d", who, s.Index, s.Token)
	defer l.own(who, s)()
	switch w.N(4) {
	case 0:
		<-ctx.Done()
		<-time.After(w.UpTo(time.Second)) // late
	case 1:
		w.Pause(ctx, 5*time.Second)
	default:
		select {
		case <-s.Revoked:
			w.Pause(ctx, 500*time.Millisecond)
		case <-ctx.Done():
		}
	}
	return nil
}
