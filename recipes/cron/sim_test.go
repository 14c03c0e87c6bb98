// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/recipes/cron"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

const (
	simPeriod = 250 * time.Millisecond
	simTicks  = 700
)

// Three processes run a job, with runs quick and slow, while faults strike, clocks are set, processes stop in good
// order and start again, and all servers are away for a minute. By what the record said, one version
// after the other, each planned time is claimed once per attempt, and in order; with RunAll, none is
// left out. Each run belongs to a claim, and each claim has a run, unless its process has lost the lock.
func TestSim(t *testing.T) {
	recipetest.SimulateServer(t, 30, func(w *recipetest.World) {
		o := cron.Options{Schedule: cron.Every(simPeriod), Missed: cron.Missed(w.Seed % 3), Attempts: 1 + w.N(2), Grace: 2 * time.Second}
		h := newHistory(w)
		work, stop := context.WithCancel(context.Background())
		defer stop()
		var all sync.WaitGroup
		var processes []*process
		for _, id := range []string{"a", "b", "d"} {
			p := openWith(w.T, w.Process(id).M, id, o)
			p.job = func(ctx context.Context, tick cron.Tick) error { return h.run(ctx, p, tick) }
			processes = append(processes, p)
			all.Go(func() {
				for work.Err() == nil {
					ctx, cancel := context.WithTimeout(work, w.UpTo(time.Minute))
					if err := p.c.Run(ctx, p.run); ctx.Err() == nil {
						w.T.Errorf("%s: %v", id, err)
						cancel()
						return
					}
					cancel()
					w.Note("%s was stopped", id)
				}
			})
		}
		all.Go(func() {
			for work.Err() == nil {
				w.Pause(work, 5*time.Second)
				p := processes[w.N(len(processes))]
				p.offset.Store(int64(w.UpTo(8*time.Second) - 4*time.Second))
				w.Note("the clock of %s is off by %v", p.id, time.Duration(p.offset.Load()))
			}
		})
		deletable := func() (paths []string) {
			for _, n := range w.Srv.Children(lockDir) {
				paths = append(paths, lockDir+"/"+n)
			}
			return paths
		}
		w.Harm(5+w.N(5), 2*time.Second, deletable)
		w.Note("outage")
		w.Srv.Stop()
		recipetest.Later(time.Minute)
		w.Srv.Start()
		w.Note("the outage is over")
		w.Harm(3+w.N(5), 2*time.Second, deletable)
		w.Srv.Faults().Clear()
		for range 10 { // Until waits for a minute at most
			w.Until("there is progress", func() bool { return h.first() != nil })
			recipetest.Later(20 * time.Second)
			if record(w.Cluster).Planned.Sub(*h.first()) >= simTicks*simPeriod {
				break
			}
		}
		stop()
		all.Wait()
		h.judge(o, processes)
	})
}

// A history is what the record has said.
type history struct {
	w *recipetest.World

	mu      sync.Mutex // protects what follows
	records []cron.Record
	version int32
	begun   map[run]*process
}

// A run is what there is one of.
type run struct {
	planned int64
	attempt int
	token   uint64
}

func newHistory(w *recipetest.World) *history {
	h := &history{w: w, version: -1, begun: make(map[run]*process)}
	w.Srv.OnRequest(func(int64, zktest.Op, string) { h.look() })
	return h
}

// look notes the present record. Whatever changes it is a request, before which look is called.
func (h *history) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	data, stat, ok := h.w.Srv.Get(recordPath)
	if !ok || stat.Version == h.version {
		return
	}
	if stat.Version != h.version+1 {
		h.w.T.Errorf("the version is %d, and was %d", stat.Version, h.version)
	}
	h.version = stat.Version
	var r cron.Record
	if err := json.Unmarshal(data, &r); err != nil {
		h.w.T.Error(err)
	}
	h.records = append(h.records, r)
	h.w.Note("the record: %s", data)
}

// first returns when the schedule began, or nil if it has not.
func (h *history) first() *time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.records) == 0 {
		return nil
	}
	return &h.records[0].Planned
}

// run is the job.
func (h *history) run(ctx context.Context, p *process, t cron.Tick) error {
	key := run{t.Planned.UnixNano(), t.Attempt, t.Token}
	h.mu.Lock()
	if h.begun[key] != nil {
		h.w.T.Errorf("%s and %s run %+v", h.begun[key].id, p.id, t)
	}
	h.begun[key] = p
	h.mu.Unlock()
	h.w.Note("%s runs %v, attempt %d, missed %d, token %d", p.id, t.Planned, t.Attempt, t.Missed, t.Token)
	switch h.w.N(40) {
	case 0: // it does not heed ctx
		recipetest.Rest(h.w.UpTo(2 * time.Second))
	case 1, 2, 3:
		h.w.Pause(ctx, time.Second)
	case 4, 5:
		return errJob
	case 6: // it is killed
		h.w.Srv.ExpireSession(recipetest.SessionOf(p.m))
		<-ctx.Done()
	case 7: // what it writes next, mostly that it is done, or the claim after that, is lost, or the answer
		f := h.w.Srv.Faults()
		lose := []func(zktest.Match) *zktest.Fault{f.DropRequest, f.SwallowRequest, f.DropReply, f.SwallowReply}[h.w.N(4)]
		lose(zktest.Match{Session: recipetest.SessionOf(p.m), Op: zktest.OpMulti, Nth: 1 + h.w.N(2), Times: 1})
	}
	return ctx.Err()
}

// judge says what must not be.
func (h *history) judge(o cron.Options, processes []*process) {
	h.look()
	var claims []cron.Record
	for i, r := range h.records {
		switch {
		case i >= 2 && r == h.records[i-2] && h.records[i-1].State == cron.StateBegun:
			claims = claims[:len(claims)-1] // given back
		case i > 0 && r.State == cron.StateBegun:
			claims = append(claims, r)
		}
	}
	last := h.records[0]
	if last.State != cron.StateNew || len(claims) == 0 {
		h.w.T.Fatalf("%d claims, after %+v", len(claims), last)
	}
	repeated, gaps, ran := 0, 0, true
	for _, r := range claims {
		steps := r.Planned.Sub(last.Planned)
		switch {
		case r.Token < last.Token, r.Attempt > o.Attempts, steps < 0,
			steps == 0 && r.Attempt != last.Attempt+1,
			steps > 0 && r.Attempt != 1:
			h.w.T.Errorf("%+v is claimed after %+v", r, last)
		case steps == 0:
			repeated++
		case last.State != cron.StateNew && steps != simPeriod:
			gaps++
		}
		if r.Token == last.Token && !ran {
			h.w.T.Errorf("%+v is claimed, and not run, and then %+v", last, r)
		}
		key := run{r.Planned.UnixNano(), r.Attempt, r.Token}
		last, ran = r, h.begun[key] != nil
		delete(h.begun, key)
	}
	for r, p := range h.begun {
		h.w.T.Errorf("%s has run %+v, which was not claimed", p.id, r)
	}
	if o.Missed == cron.RunAll && gaps > 0 || o.Missed != cron.RunAll && gaps == 0 {
		h.w.T.Errorf("%d times some were left out", gaps)
	}
	if o.Missed == cron.RunAll && (repeated == 0) == (o.Attempts > 1) {
		h.w.T.Errorf("%d runs were repeated", repeated)
	}
	runs := 0
	for _, p := range processes {
		runs += len(p.all())
	}
	if o.Missed == cron.RunAll && runs < simTicks-100 {
		h.w.T.Errorf("%d runs of %d claims", runs, len(claims))
	}
	h.w.Note("%d claims, %d runs, %d repeated, %d gaps", len(claims), runs, repeated, gaps)
}
