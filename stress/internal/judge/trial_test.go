// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// recorded writes the events into a new history, each by its process, and returns its
// directory and the function that writes.
func recorded(t *testing.T, h history.Header) (dir string, write func(...history.Event)) {
	t.Helper()
	dir = t.TempDir()
	if err := history.WriteHeader(dir, h); err != nil {
		t.Fatal(err)
	}
	type key struct{ process, incarnation int }
	writers := map[key]*history.Writer{}
	return dir, func(events ...history.Event) {
		t.Helper()
		for _, e := range events {
			k := key{e.Process, e.Incarnation}
			switch e.Kind {
			case history.Started, history.Ended, history.FaultBegan, history.FaultEnded, history.Expired, history.Stopping:
				k = key{history.Harness, 0}
			}
			w := writers[k]
			if w == nil {
				var err error
				if w, err = history.Create(dir, k.process, k.incarnation); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { w.Close() })
				writers[k] = w
			}
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// begin begins a trial.
func begin(t *testing.T, dir string, o Options) *Trial {
	t.Helper()
	trial, err := Begin(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return trial
}

const twiceHeld = `
	p0 a: 2 request, 2.1 granted t10, 3 release, 3 released, 4 alive
	p1 a: 2 request, 2.2 granted t11, 3.2 release, 3.3 released, 4 alive; h: 1 started p0, 1 started p1, 4 alive now`

// A trial judges while the history is written. Its verdict so far is in the directory, so
// that a run that is cut short has one.
func TestTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, write := recorded(t, header())
		var seen atomic.Int64
		trial := begin(t, dir, Options{Watch: func(history.Event) { seen.Add(1) }})
		write(script(t, twiceHeld)...)
		time.Sleep(time.Second)
		synctest.Wait()
		if v := trial.Interim(); v.Outcome != verdict.Violation || v.Grants != 2 {
			t.Errorf("so far: %v after %d grants", v.Outcome, v.Grants)
		}
		if _, err := verdict.Read(dir); err == nil {
			t.Error("there is a verdict before the first checkpoint")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if v, err := verdict.Read(dir); err != nil || v.Outcome != verdict.Violation || !v.Interim {
			t.Errorf("at the checkpoint: %v, interim: %t, %v", v.Outcome, v.Interim, err)
		}
		write(script(t, "h: 20 stopping now, 21 ended p0, 21 ended p1")...)
		v, err := trial.End()
		if err != nil || v.Outcome != verdict.Violation || seen.Load() != 16 {
			t.Errorf("in the end: %v after %d events, %v", v.Outcome, seen.Load(), err)
		}
		if v, err := verdict.Read(dir); err != nil || v.Interim {
			t.Errorf("in the end, interim: %t, %v", v.Interim, err)
		}
		again, err := History(dir)
		if err != nil {
			t.Fatal(err)
		}
		if w := again.Finish(); w.Outcome != v.Outcome || w.Found != v.Found || w.Grants != v.Grants {
			t.Errorf("judged again: %+v, want %+v", w, v)
		}
		pictures, err := filepath.Glob(filepath.Join(dir, "linearizability-*.html"))
		if err != nil || len(pictures) != 1 {
			t.Fatalf("pictures: %q, %v", pictures, err)
		}
		page, err := os.ReadFile(pictures[0])
		if err != nil || !strings.Contains(string(page), "process 1: exclusive, token 11") {
			t.Errorf("the picture lacks the grant: %v", err)
		}
	})
}

// A long run does not fill the disk, but what is around a finding stays.
func TestTrialRemovesOldEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, write := recorded(t, header())
		trial := begin(t, dir, Options{Limit: history.Limit{Bytes: 20 << 20}})
		write(script(t, twiceHeld)...)
		text := strings.Repeat("x", 50_000)
		for i := range int64(600) {
			at := (5 + i) * int64(time.Second)
			for p := range 2 {
				write(history.Event{At: at, Kind: history.Session, Process: p, Text: text})
			}
			write(history.Event{At: at, Kind: history.Alive, Process: history.Harness})
			time.Sleep(time.Second)
		}
		v, err := trial.End()
		if err != nil || v.Outcome != verdict.Violation {
			t.Errorf("%v, %v", v.Outcome, err)
		}
		var size int64
		files, err := filepath.Glob(filepath.Join(dir, "events", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		if size < 15<<20 || size > 45<<20 { // the limit, the segments that are open, and one that is kept of each process
			t.Errorf("%d MB are left", size>>20)
		}
		grants := 0
		for e, err := range history.All(dir) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == history.Granted {
				grants++
			}
		}
		if grants != 2 {
			t.Errorf("%d grants are left of the finding", grants)
		}
		gone, err := history.ReadTrimmed(dir)
		if err != nil || gone.Segments < 3 {
			t.Errorf("removed: %+v, %v", gone, err)
		}
	})
}

func TestTrialReportsABadLine(t *testing.T) {
	dir, write := recorded(t, header())
	write(script(t, twiceHeld)...)
	if err := os.WriteFile(filepath.Join(dir, "events", "worker5.0.000001.jsonl"), []byte("nonsense\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	trial := begin(t, dir, Options{})
	if _, err := trial.End(); err == nil || !strings.Contains(err.Error(), "worker5.0.000001.jsonl, line 1 is no event") {
		t.Errorf("the error is %v", err)
	}
	if _, err := Begin(t.TempDir(), Options{}); err == nil {
		t.Error("a directory without a history is taken for one")
	}
}

// A grant that its process wrote long after it was told may overlap with a hold that was
// over when it was written. In the end all is judged again, in the order of time.
func TestTrialJudgesAgainWhatCameLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, write := recorded(t, header())
		trial := begin(t, dir, Options{})
		write(script(t, "h: 0.9 alive now; p0: 0.9 alive, 3 alive; p1 s: 1 request n2, 1.2 granted n2, 1.5 release, 1.6 released; p1: 3 alive; h: 3 alive")...)
		time.Sleep(5 * time.Second)
		write(script(t, "p0 s: 1 request, 1.1 granted, 4 release, 4.1 released; h: 5 stopping, 6 ended p0, 6 ended p1")...)
		v, err := trial.End()
		if err != nil || v.Outcome != verdict.Violation {
			t.Errorf("%v, %v: %+v", v.Outcome, err, v.Checks[0])
		}
	})
}
