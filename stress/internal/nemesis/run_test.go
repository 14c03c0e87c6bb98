// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// run runs the schedule of a seed with the fake, for at most as long.
func run(t *testing.T, f *fake, s Schedule, atMost time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	return Run(ctx, f, s, f.record)
}

// expectUndone checks that no fault is active, and that the history says so.
func (f *fake) expectUndone(t *testing.T) {
	t.Helper()
	if len(f.harmed) > 0 {
		t.Errorf("not undone: %v", slices.Sorted(maps.Keys(f.harmed)))
	}
	if len(f.wrong) > 0 {
		t.Errorf("%d things went wrong, at first %s", len(f.wrong), f.wrong[0])
	}
	if len(f.nodes) != 2*fakeProcesses {
		t.Errorf("%d nodes, want %d: %v", len(f.nodes), 2*fakeProcesses, slices.Sorted(maps.Keys(f.nodes)))
	}
	active := make(map[int]history.Event)
	for _, e := range f.events {
		switch began, is := active[e.Fault]; {
		case e.Process != history.Harness || e.Fault == 0 || e.Text == "" || e.Target == "":
			t.Errorf("event %+v", e)
		case e.Kind == history.FaultBegan && !is:
			active[e.Fault] = e
		case e.Kind == history.FaultEnded && is && began.Target == e.Target && began.Text == e.Text && began.At <= e.At:
			delete(active, e.Fault)
		default:
			t.Errorf("event %+v, after %+v", e, began)
		}
	}
	if len(active) > 0 {
		t.Errorf("begun and not ended: %v", active)
	}
}

// targets has what the history calls what a fault hits.
var targets = map[string]string{
	"kill-worker": `process \d`, "pause-worker": `process \d`, "clock-offset": `process \d`,
	"kill-helper": `process [02]`, "late-helper": `process [02]`,
	"cut-connection": `process \d`, "blackhole-connection": `process \d`, "delay-link": `process \d`, "throttle-link": `process \d`, "swallow-answer": `process \d`,
	"delete-holder": `process \d`, "delete-waiter": `process \d`,
	"kill-server": `server [13] \(follower\)`, "pause-server": `server [13] \(follower\)`, "isolate-follower": `server [13] \(follower\)`,
	"kill-leader": `server 2 \(leader\)`, "pause-leader": `server 2 \(leader\)`, "isolate-leader": `server 2 \(leader\)`,
	"slow-disk":        `all servers`,
	"restart-server":   `server \d \((follower|leader)\)`,
	"foreign-children": `lock [ab]`, "foreign-contenders": `lock [ab]`, "revoke": `lock [ab]`,
}

// In ten minutes every kind takes effect, each as long as planned, and nothing is left.
func TestRun(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			s := NewSchedule(seed, allNames(), 10*time.Minute, 4*time.Second)
			if err := run(t, f, s, time.Hour); err != nil {
				t.Error(err)
			}
			f.expectUndone(t)
			if over := time.Since(f.began); over > 10*time.Minute {
				t.Errorf("seed %d: over after %v", seed, over)
			}
			planned := make(map[int]Injection)
			for _, in := range s.Injections {
				planned[in.Number] = in
			}
			began, took := make(map[int]int64), make(map[string]int)
			beside, atServer := 0, 0
			for _, e := range f.events {
				in := planned[e.Fault]
				switch onServer := strings.HasPrefix(e.Target, "server"); {
				case onServer && e.Kind == history.FaultBegan:
					atServer++
				case onServer:
					atServer--
				case e.Kind == history.FaultBegan && atServer > 0:
					beside++
				}
				if in.Kind != e.Text || !regexp.MustCompile("^"+targets[e.Text]+"$").MatchString(e.Target) {
					t.Errorf("seed %d: %+v of %+v", seed, e, in)
				}
				if e.Kind == history.FaultBegan {
					began[e.Fault] = e.At
					continue
				}
				if !e.OK {
					t.Errorf("seed %d: %+v took no effect", seed, e)
				}
				took[e.Text]++
				lasted := time.Duration(e.At - began[e.Fault])
				if extra := lasted - in.Lasts; in.Kind != "swallow-answer" && (extra < 0 || extra > time.Second) {
					t.Errorf("seed %d: %+v lasted %v", seed, in, lasted)
				}
			}
			total := 0
			for _, n := range took {
				total += n
			}
			if total < 60 || len(took) != len(Kinds) || slices.Min(slices.Collect(maps.Values(took))) < 2 {
				t.Errorf("seed %d: %d faults, %v", seed, total, took)
			}
			for _, what := range []string{"replaced", "clock", "paused", "killed", "isolated", "severed", "blackhole", "delay", "throttle", "swallow", "stranger", "contender", "revoke"} {
				if f.did[what] == 0 {
					t.Errorf("seed %d: nothing was %s", seed, what)
				}
			}
			if took["delete-holder"] != f.did["holder deleted"] || took["delete-waiter"] != f.did["waiter deleted"] {
				t.Errorf("seed %d: %v, but %d holders and %d waiters deleted", seed, took, f.did["holder deleted"], f.did["waiter deleted"])
			}
			if beside < 5 {
				t.Errorf("seed %d: %d faults began while a server was harmed", seed, beside)
			}
			if len(f.notes) > len(s.Injections)/20 {
				t.Errorf("seed %d: %d notes, at first %s", seed, len(f.notes), f.notes[0])
			}
		})
	}
}

// However early a run ends, everything is undone when Run returns.
func TestRunIsCutShort(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			s := NewSchedule(seed, allNames(), 30*time.Second, 2*time.Second)
			end := time.Duration(seed) * 130 * time.Millisecond
			if err := run(t, f, s, end); err != nil {
				t.Errorf("cut after %v: %v", end, err)
			}
			f.expectUndone(t)
			// To start a server again takes a second.
			if over := time.Since(f.began); over > end+time.Second {
				t.Errorf("cut after %v, over after %v", end, over)
			}
		})
	}
}

// one returns the schedule of one fault.
func one(kind string, lasts time.Duration) Schedule {
	return Schedule{Injections: []Injection{{Number: 1, Kind: kind, After: time.Second, Lasts: lasts}}, End: time.Minute}
}

// A fault waits for an ensemble that does not settle, but not for ever.
func TestRunWaitsForTheEnsemble(t *testing.T) {
	for _, kind := range []string{"kill-leader", "revoke"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.unsettle = true
			if err := run(t, f, one(kind, 0), time.Hour); err != nil {
				t.Error(err)
			}
			f.expectUndone(t)
			if len(f.events) != 2 || f.events[0].At != int64(16*time.Second) || len(f.notes) != 1 || !strings.Contains(f.notes[0], "has not settled for 15s") {
				t.Errorf("%s: events %+v, notes %q", kind, f.events, f.notes)
			}
		})
	}
}

// After a fault that has hit a server, the others wait again for the ensemble to settle.
func TestRunWaitsAfterAServerFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := one("kill-leader", time.Second) // over after 3 s
		s.Injections = append(s.Injections, Injection{Number: 2, Kind: "revoke", After: 5 * time.Second})
		time.AfterFunc(4*time.Second, func() { f.set("stuck server 1", 1) })
		time.AfterFunc(9*time.Second, func() { f.set("stuck server 1", -1) })
		if err := run(t, f, s, time.Hour); err != nil {
			t.Error(err)
		}
		f.expectUndone(t)
		if at := time.Duration(f.events[2].At); len(f.events) != 4 || at < 9*time.Second || at > 10*time.Second {
			t.Errorf("events %+v", f.events)
		}
	})
}

// A process that is being replaced is replaced also if the run ends meanwhile.
func TestRunEndsWhileAProcessIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		if err := run(t, f, one("kill-worker", 0), 1050*time.Millisecond); err != nil {
			t.Error(err)
		}
		f.expectUndone(t)
		if len(f.events) != 2 || !f.events[1].OK {
			t.Errorf("events %+v", f.events)
		}
	})
}

// A fault prefers a lock that is held and awaited, and a process that holds and waits.
func TestPreferences(t *testing.T) {
	f := newFake()
	for p := range fakeProcesses {
		if p != 3 {
			delete(f.nodes, fakeNode(p, "lock-b", 20-p)) // only process 3 is left, and holds b
		}
	}
	delete(f.nodes, fakeNode(3, "lock-a", 13)) // for which it no longer waits
	for i := range uint64(50) {
		x := &fault{runner: &runner{env: f}, rng: rand.New(rand.NewPCG(i, 0))}
		if at, err := x.contendedLock(t.Context()); err != nil || at.Lock != "a" {
			t.Errorf("lock %+v, %v: only a is awaited", at, err)
		}
	}
	f.nodes[fakeNode(0, "lock-b", 30)] = true // 0 holds a and waits for b; 3 holds b
	for i := range uint64(50) {
		x := &fault{runner: &runner{env: f}, rng: rand.New(rand.NewPCG(i, 0))}
		if p := x.processIn(f.Look()); p != 0 {
			t.Errorf("process %d: only 0 waits, too", p)
		}
	}
}

// The node of a process that another fault hits is deleted only if there is no other.
func TestDeletionsPreferProcessesThatNoFaultHits(t *testing.T) {
	holders := []Place{{Process: 0, Lock: "a"}, {Process: 1, Lock: "b"}, {Process: 2, Lock: "c"}}
	waiters := []Place{{Process: 0, Lock: "b"}, {Process: 1, Lock: "a"}}
	for _, tt := range []struct {
		busy []int
		want []int
	}{
		{nil, []int{0, 1}}, // which wait, too
		{[]int{0}, []int{1}},
		{[]int{0, 1}, []int{2}},
		{[]int{0, 1, 2}, []int{0, 1}},
	} {
		r := &runner{busy: map[int]bool{}}
		for _, p := range tt.busy {
			r.busy[p] = true
		}
		chosen := map[int]bool{}
		for i := range uint64(50) {
			f := &fault{runner: r, rng: rand.New(rand.NewPCG(i, 0))}
			chosen[f.processIn(holders, waiters)] = true
		}
		if got := slices.Sorted(maps.Keys(chosen)); !slices.Equal(got, tt.want) {
			t.Errorf("faults hit %v: chosen %v, want %v", tt.busy, got, tt.want)
		}
	}
}

// No other fault hits a process while one prepares to delete a node of it.
func TestDeletionsKeepTheirProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := one("delete-holder", 0)
		for p := 1; p < fakeProcesses; p++ {
			delete(f.nodes, fakeNode(p, "lock-a", 10+p))
			delete(f.nodes, fakeNode(p, "lock-b", 20-p)) // only process 0 is left
		}
		s.Injections = append(s.Injections, Injection{Number: 2, Kind: "pause-worker", After: 2 * time.Second, Lasts: 5 * time.Second})
		slow := func(e history.Event) {
			if e.Kind == history.FaultBegan && e.Fault == 1 {
				time.Sleep(3 * time.Second)
			}
			f.record(e)
		}
		if err := Run(t.Context(), f, s, slow); err != nil {
			t.Error(err)
		}
		hit := map[int]string{}
		for _, e := range f.events {
			hit[e.Fault] = e.Target
		}
		if hit[1] != "process 0" || hit[2] == "" || hit[2] == hit[1] {
			t.Errorf("the faults hit %v, want process 0 and then another", hit)
		}
	})
}

// A fault that would last longer than the run does not begin.
func TestRunLeavesOutWhatIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.unsettle = true
		if err := run(t, f, one("pause-worker", 50*time.Second), time.Hour); err != nil {
			t.Error(err)
		}
		if len(f.events) != 0 || len(f.notes) != 2 || !strings.Contains(f.notes[1], "is left out: it would end 6s after") {
			t.Errorf("events %+v, notes %q", f.events, f.notes)
		}
	})
}

// A fault with nothing to hit says so, is not in the history, and is tried again a few times.
func TestRunFindsNoTarget(t *testing.T) {
	for _, tt := range []struct {
		kind    string
		prepare func(*fake)
		note    string
		events  int
	}{
		{"delete-holder", func(f *fake) { f.silent = true }, "no process holds a lock", 0},
		{"delete-waiter", func(f *fake) { f.silent = true }, "no process waits for a lock", 0},
		{"foreign-children", func(f *fake) { f.silent = true }, "no process holds a lock", 0},
		{"foreign-contenders", func(f *fake) { f.silent = true }, "no process holds a lock", 0},
		{"revoke", func(f *fake) { f.silent = true }, "no process holds a lock", 0},
		{"kill-leader", func(f *fake) { f.noOwn = true }, "no ensemble of its own", 0},
		{"swallow-answer", func(f *fake) { f.deaf = true }, "sent no request", 2 * tries},
		{"kill-worker", func(f *fake) { f.silent = true }, "", 2}, // any process does
	} {
		t.Run(tt.kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				tt.prepare(f)
				if err := run(t, f, one(tt.kind, 3*time.Second), time.Hour); err != nil {
					t.Error(err)
				}
				f.expectUndone(t)
				if len(f.events) != tt.events || tt.note != "" && (len(f.notes) != tries || !strings.Contains(f.notes[0], tt.note)) {
					t.Errorf("events %+v, notes %q", f.events, f.notes)
				}
				if n := len(f.events); n > 0 && f.events[n-1].OK != (tt.note == "") {
					t.Errorf("the last event is %+v", f.events[n-1])
				}
			})
		})
	}
}

// A fault for which workers stay inside deletes the node of a lock that does not change
// hands, and another fault one of a lock that does.
func TestRunDeletesWhereWorkersStay(t *testing.T) {
	for _, stays := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			for p := range fakeProcesses - 1 { // only process 3 is left, and holds both
				delete(f.nodes, fakeNode(p, "lock-a", 10+p))
				delete(f.nodes, fakeNode(p, "lock-b", 20-p))
			}
			f.still = "b"
			s := one("delete-holder", 0)
			s.Injections[0].Stays = stays
			x := &runner{env: f, record: f.record, busy: map[int]bool{}, took: map[string]bool{"delete-holder": true}, end: s.End, began: time.Now()}
			x.injectOrAgain(t.Context(), s.Injections[0])
			want := map[bool]string{true: "b", false: "a"}[stays]
			if len(f.events) != 2 || f.events[1].Lock != want || f.events[0].Stays != stays || f.events[1].Stays != stays {
				t.Errorf("workers stay: %v; events %+v, want a node of %s deleted", stays, f.events, want)
			}
		})
	}
}

// While no fault of a kind has taken effect, workers stay inside for each.
func TestRunStaysUntilAKindHasTakenEffect(t *testing.T) {
	for _, tt := range []struct {
		deaf bool // the first fault takes no effect
		want []bool
	}{
		{false, []bool{true, true, false, false}}, // the beginning and the end of each fault
		{true, slices.Repeat([]bool{true}, 2*2*tries)},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.deaf = tt.deaf
			s := one("swallow-answer", time.Second)
			s.Injections[0].Stays = true
			s.Injections = append(s.Injections, Injection{Number: 2, Kind: "swallow-answer", After: 30 * time.Second, Lasts: time.Second})
			if err := run(t, f, s, time.Hour); err != nil {
				t.Error(err)
			}
			var got []bool
			for _, e := range f.events {
				got = append(got, e.Stays)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("workers stayed inside: %v, want %v; events %+v", got, tt.want, f.events)
			}
		})
	}
}

// The harness may take seconds to note that a fault begins: it has the target take locks
// first. That is not time in which the fault looks for something to delete.
func TestRunDeletesAfterALongPreparation(t *testing.T) {
	for _, kind := range []string{"delete-holder", "delete-waiter"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			slow := func(e history.Event) {
				if e.Kind == history.FaultBegan {
					time.Sleep(2 * targetPatience)
					// Meanwhile all have left and queued again, in the same order.
					old := slices.SortedFunc(maps.Keys(f.nodes), func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
					for _, node := range old {
						if err := f.Tree().Delete(node, -1); err != nil {
							t.Error(err)
						}
					}
				}
				f.record(e)
			}
			if err := Run(t.Context(), f, one(kind, 0), slow); err != nil {
				t.Error(err)
			}
			if len(f.events) != 2 || !f.events[1].OK {
				t.Errorf("%s: events %+v, notes %q", kind, f.events, f.notes)
			}
		})
	}
}

// What cannot be undone is an error of Run.
func TestRunSaysWhatIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.lame = errLame
		err := run(t, f, one("kill-leader", time.Second), time.Hour)
		if !errors.Is(err, errLame) || !strings.Contains(err.Error(), "fault 1 (kill-leader)") {
			t.Errorf("error %v", err)
		}
		if len(f.events) != 2 {
			t.Errorf("events %+v", f.events)
		}
	})
}

// Faults hit a process that holds and waits rather than another, and no two hit the same.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		delete(f.nodes, fakeNode(1, "lock-a", 11))
		delete(f.nodes, fakeNode(1, "lock-b", 19))
		// Process 0 is first for a, 3 for b; 1 has no node.
		r := &runner{env: f, busy: make(map[int]bool)}
		var got []int
		for i := range fakeProcesses {
			x := &fault{runner: r, in: Injection{Number: i}, rng: rand.New(rand.NewPCG(uint64(i), 0)), process: -1}
			p, err := x.reserve(t.Context())
			if i == fakeProcesses-1 {
				if !errors.Is(err, errNoTarget) {
					t.Errorf("the last process was reserved: %d, %v", p, err)
				}
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, p)
		}
		// 0 and 3 hold one lock and wait for the other; 2 only waits.
		slices.Sort(got[:2])
		if !slices.Equal(got, []int{0, 3, 2}) {
			t.Errorf("reserved %v, want 0 and 3, then 2", got)
		}
		if fmt.Sprint(r.busy) != "map[0:true 2:true 3:true]" {
			t.Errorf("busy: %v", r.busy)
		}
	})
}

// A fault that had no effect is followed by another of its kind, until one has.
func TestRunTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.deaf = true
		hears := time.AfterFunc(4*time.Second, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.deaf = false
		})
		defer hears.Stop()
		if err := run(t, f, one("swallow-answer", 3*time.Second), time.Hour); err != nil {
			t.Error(err)
		}
		var got []string
		for _, e := range f.events {
			got = append(got, fmt.Sprintf("%s %d %t", e.Kind, e.Fault, e.OK))
		}
		want := []string{"fault began 1 false", "fault ended 1 false", "fault began 2 false", "fault ended 2 true"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}
