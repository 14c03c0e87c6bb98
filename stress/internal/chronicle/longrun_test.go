// SPDX-License-Identifier: Apache-2.0

package chronicle

import (
	"cmp"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/judge"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A run of days is simulated by as many kills and grants:
//
//	go test ./stress/internal/chronicle -run LongRun -args -kills 50000 -grants 1000000
var (
	longKills  = flag.Int("kills", 0, "processes that are killed in the tests of long runs; 0 means as many as it takes")
	longGrants = flag.Int("grants", 0, "grants in these tests; 0 means five for each kill")
)

// A longRun is a history of which one process after the other is killed, with what it holds,
// and started again. In between processes get locks and elements of a queue, and lose some.
type longRun struct {
	kills, grants int
}

// newLongRun returns the run that the flags ask for, or else one of so many kills.
func newLongRun(kills int) longRun {
	kills = cmp.Or(*longKills, kills)
	return longRun{kills, cmp.Or(*longGrants, 5*kills)}
}

const (
	longProcesses = 8
	killEvery     = 250 * time.Millisecond // of the history
	longTimeout   = int64(2 * time.Second)
)

func (r longRun) header() history.Header {
	return history.Header{
		Command: "a long run", Begin: int64(time.Second), Processes: longProcesses, Goroutines: 2, SessionTimeout: longTimeout, Tenure: int64(100 * time.Millisecond),
		Nemesis: []string{killWorkerFault},
		Locks: []history.Lock{
			{Name: "a", Mode: history.Exclusive}, {Name: "b", Mode: history.Exclusive}, {Name: "m", Mode: history.Mutex}, {Name: "rw"},
			{Name: "q-*", Mode: history.Exclusive, Once: true},
		},
	}
}

const killWorkerFault = "kill-worker"

// sourceOf returns which process writes an event.
func sourceOf(e history.Event) (process, incarnation int) {
	switch e.Kind {
	case history.Started, history.Ended, history.FaultBegan, history.FaultEnded, history.Expired, history.Stopping:
		return history.Harness, 0
	case history.Accepted, history.Stale:
		return history.Register, 0
	}
	if e.Process == history.Harness {
		return history.Harness, 0
	}
	return e.Process, e.Incarnation
}

// events yields the events in the order of time. Step is called after each kill.
func (r longRun) events(step func(kill int)) iter.Seq[history.Event] {
	return func(yield func(history.Event) bool) {
		var (
			at          = int64(time.Second)
			incarnation [longProcesses]int
			ops         [longProcesses]uint64
			session     [longProcesses]string
			token       uint64
			sessions    int
		)
		put := func(e history.Event) { yield(e) } // the readers of this file read on to the end
		after := func(d time.Duration) int64 { at += d.Nanoseconds(); return at }
		start := func(p int) {
			sessions++
			session[p], ops[p] = fmt.Sprintf("0x%x", sessions), 0
			put(history.Event{At: after(time.Microsecond), Kind: history.Started, Process: p, Incarnation: incarnation[p]})
			put(history.Event{At: after(time.Microsecond), Kind: history.Session, Process: p, Incarnation: incarnation[p], Session: session[p], Text: history.SessionBegan})
		}
		for p := range longProcesses {
			start(p)
		}
		locks := r.header().Locks
		perKill := max(r.grants/r.kills, 1)
		for kill := range r.kills {
			begin := at
			victim := kill % longProcesses
			for n := range perKill {
				p := (victim + n) % longProcesses
				l := locks[n%(len(locks)-1)]
				if n == 3 { // one for each kill: the check once remembers a million names
					l = locks[len(locks)-1]
				}
				ops[p]++
				token++
				e := history.Event{Process: p, Incarnation: incarnation[p], Worker: n % 2, Op: ops[p], Lock: l.Name, Mode: l.Mode}
				switch l.Name {
				case "rw":
					e.Mode = history.WriteMode
				case "q-*":
					e.Lock = fmt.Sprintf("q-%d", token)
				}
				as := func(kind history.Kind) {
					e.At, e.Kind = after(100*time.Microsecond), kind
					put(e)
				}
				as(history.Request)
				e.Token, e.Session = token, session[p]
				if l.Mode == history.Mutex {
					e.Turn = 1
				}
				as(history.Granted)
				if n%4 == 0 {
					put(history.Event{At: after(time.Microsecond), Kind: history.Accepted, Process: p, Lock: e.Lock, Mode: e.Mode, Token: token, Turn: e.Turn})
				}
				if n == 0 { // the victim dies with it
					ops[p]++
					other := e
					other.At, other.Kind, other.Op, other.Lock, other.Token, other.Turn = after(time.Microsecond), history.Request, ops[p], "b", 0, 0
					put(other)
					fault := history.Event{At: after(time.Microsecond), Kind: history.FaultBegan, Process: history.Harness, Fault: kill + 1, Text: killWorkerFault, Target: fmt.Sprintf("process %d", p)}
					put(fault)
					put(history.Event{At: after(time.Microsecond), Kind: history.Ended, Process: p, Incarnation: incarnation[p]})
					fault.At, fault.Kind, fault.OK = after(time.Microsecond), history.FaultEnded, true
					put(fault)
					put(history.Event{At: after(time.Microsecond), Kind: history.Expired, Process: history.Harness, Session: session[p]})
					incarnation[p]++
					start(p)
					continue
				}
				as(history.Valid)
				as(history.Release)
				as(history.Released)
			}
			at = max(at, begin+killEvery.Nanoseconds())
			put(history.Event{At: at, Kind: history.Alive, Process: history.Harness})
			for p := range longProcesses {
				put(history.Event{At: at, Kind: history.Alive, Process: p, Incarnation: incarnation[p]})
			}
			step(kill + 1)
		}
		put(history.Event{At: after(time.Second), Kind: history.Stopping, Process: history.Harness})
		for p := range longProcesses {
			put(history.Event{At: after(time.Microsecond), Kind: history.Ended, Process: p, Incarnation: incarnation[p]})
		}
	}
}

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // which ends what the first one has begun
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// growth compares the heap after a quarter of a run with that at its end.
type growth struct {
	t       *testing.T
	run     longRun
	quarter uint64
}

// step is called after each kill.
func (g *growth) step(kill int) {
	switch kill {
	case g.run.kills / 4:
		g.quarter = heap()
	case g.run.kills:
		const full = 5000 // faults, which are what the judge remembers most of
		end := heap()
		g.t.Logf("%d kills, %d grants: %.1f MB of heap after a quarter, %.1f MB at the end", g.run.kills, g.run.grants, float64(g.quarter)/1e6, float64(end)/1e6)
		if g.run.kills >= 4*full && float64(end) > 1.5*float64(g.quarter) {
			g.t.Errorf("the heap grew from %d to %d bytes between a quarter and the end of the run", g.quarter, end)
		}
	}
}

// The judge, and what the live view shows, take no more memory at the end of a long run than
// after a quarter of it.
func TestLongRunJudged(t *testing.T) {
	kills := 24_000
	if testing.Short() || racing.Detector {
		kills = 2000 // too few to compare the heap
	}
	g := &growth{t: t, run: newLongRun(kills)}
	j := judge.New(g.run.header())
	c := &Chronicle{lives: newLives()}
	c.live.holding, c.live.waiting = map[opKey]bool{}, map[opKey]bool{}
	for e := range g.run.events(g.step) {
		j.Add(e)
		c.note(e)
	}
	if v := j.Finish(); v.Outcome != verdict.OK || v.FaultCount() != g.run.kills || v.Grants == 0 {
		t.Errorf("%v after %d grants and %d faults: %+v", v.Outcome, v.Grants, v.FaultCount(), v.Findings[:min(len(v.Findings), 3)])
	}
	runtime.KeepAlive(c)
}

// Neither does a trial that follows files, nor do these files take more than the limit. What
// the judge remembers reaches its limits after some thousands of kills. The heap is compared
// only in a run whose quarter has as many, which takes long.
func TestLongRunFollowed(t *testing.T) {
	files, kills := 400, 2000
	if testing.Short() || racing.Detector {
		files, kills = 100, 500
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		g := &growth{t: t, run: newLongRun(kills)}
		if err := history.WriteHeader(dir, g.run.header()); err != nil {
			t.Fatal(err)
		}
		c := &Chronicle{lives: newLives()}
		c.live.holding, c.live.waiting = map[opKey]bool{}, map[opKey]bool{}
		limit := history.Limit{Bytes: 20 << 20, Files: files}
		trial, err := judge.Begin(dir, judge.Options{Watch: c.note, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		mostFiles, mostBytes := 0, int64(0)
		step := func(kill int) {
			time.Sleep(killEvery)
			if kill%1000 == 0 || kill == g.run.kills/4 {
				time.Sleep(11 * time.Second) // all is read, and there was a checkpoint
				synctest.Wait()
				n, size := sizeOf(t, filepath.Join(dir, "events"))
				mostFiles, mostBytes = max(mostFiles, n), max(mostBytes, size)
			}
			g.step(kill)
		}
		writers := map[[2]int]*history.Writer{}
		for e := range g.run.events(step) {
			process, incarnation := sourceOf(e)
			who := [2]int{process, incarnation}
			w := writers[who]
			if w == nil {
				if w, err = history.Create(dir, process, incarnation); err != nil {
					t.Fatal(err)
				}
				writers[who] = w
			}
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
			if ended := [2]int{e.Process, e.Incarnation}; e.Kind == history.Ended {
				if err := writers[ended].Close(); err != nil {
					t.Fatal(err)
				}
				delete(writers, ended)
			}
		}
		v, err := trial.End()
		if err != nil || v.Outcome != verdict.OK || v.FaultCount() != g.run.kills {
			t.Errorf("%v, %v after %d grants and %d faults: %+v", v.Outcome, err, v.Grants, v.FaultCount(), v.Findings[:min(len(v.Findings), 3)])
		}
		for _, w := range writers {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		t.Logf("up to %d files of %.1f MB together", mostFiles, float64(mostBytes)/1e6)
		// Files that are being written, or have not been read to their ends, come on top.
		if mostFiles > files+longProcesses+2 || mostBytes > limit.Bytes+2*(8<<20) {
			t.Errorf("there were up to %d files of %d bytes together", mostFiles, mostBytes)
		}
		if gone, err := history.ReadTrimmed(dir); err != nil || gone.Segments < g.run.kills-2*files {
			t.Errorf("removed: %+v, %v", gone, err)
		}
	})
}

// sizeOf returns how many files a directory has, and their size.
func sizeOf(t *testing.T, dir string) (files int, size int64) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return len(all), size
}
