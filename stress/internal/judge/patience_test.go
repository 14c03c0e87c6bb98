// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// findings returns what a check has found of process 0.
func findings(v verdict.Verdict, check string) (texts []string) {
	for _, f := range v.Findings {
		if f.Check == check && strings.HasPrefix(f.Text, "process 0") {
			texts = append(texts, f.Text)
		}
	}
	return texts
}

// Faults excuse only the waits that they can touch. Without an excuse, or holds, process 0
// may wait for lock a for 7.8 s.
func TestExcusesOfWaits(t *testing.T) {
	const alive = "h: 0.1 started p1, 0.1 started p2, 0.1 started p3"
	for _, tt := range []struct {
		name, history string
		found         bool
	}{
		{"a fault of a process that has nothing to do with the lock", "p1 m: 0.5 request, 0.6 granted t1.1; h: 2 began 1 delay-link process 1, 61 over 1; p0 a: 1 request, 61 granted t10", true},
		{"of one that is ahead", "h: 2 began 1 delay-link process 1, 61 over 1; p1 a: 0.5 request, 61 refused; p0 a: 1 request, 61 granted t10", false},
		{"of one that asked later", "p1 a: 5 request; h: 6 began 1 delay-link process 1, 61 over 1; p0 a: 1 request, 61 granted t10", true},
		{"of one that asked a moment later, and may be ahead", "p1 a: 1.2 request; h: 1.3 began 1 delay-link process 1, 61 over 1; p0 a: 1 request, 61 granted t10", false},
		{"of one that asked before the other goroutines left the lock to the queue", `
			p0w1 a: 0.5 request, 0.6 granted t10, 3 release, 3 released; p1 a: 2.5 request
			h: 4 began 1 delay-link process 1, 61 over 1; p0 a: 1 request, 61 granted t11`, false},
		{"of one that asked before the session began anew", "p1 a: 5 request; p0: 6 session 0x7 began; h: 7 began 1 delay-link process 1, 61 over 1; p0 a: 1 request, 61 granted t11", false},
		{"of one that asked while another fault kept the process from asking", `
			p1 a: 9 request; h: 1.5 began 1 delay-link process 0, 10 over 1, 15 began 2 delay-link process 1, 61 over 2
			p0 a: 1 request, 61 granted t11`, false},
		{"of one that gave the lock up before", `
			p1 a: 0.5 request, 0.6 granted t9, 0.7 release, 0.8 released; h: 2 began 1 delay-link process 1, 61 over 1
			p0 a: 1 request, 61 granted t10`, true},
		{"of one that gives the lock up meanwhile", "p1 a: 0.5 request, 0.6 granted t9, 3 release, 3 released; h: 2 began 1 delay-link process 1, 61 over 1; p0 a: 1 request, 61 granted t10", true},
		{"of one that waits for the end of its release", `
			p1 a: 0.5 request, 0.6 granted t9, 3 release, 61 released; h: 2 began 1 delay-link process 1, 61 over 1
			p0 a: 1 request, 61 granted t10`, false},
		{"of the process itself", "h: 2 began 1 delay-link process 0, 61 over 1; p0 a: 1 request, 61 granted t10", false},
		{"of the process that was there before", "p0 a: 1 request; h: 2 began 1 kill-worker process 0, 2 ended p0, 60 over 1; p0i1 a: 2.1 request, 60 granted t10", false},
		{"of the process that was there before, and had nothing to do with the lock", "p0 m: 1 request; h: 2 began 1 kill-worker process 0, 2 ended p0, 60 over 1; p0i1 a: 2.1 request, 60 granted t10", true},

		{"a process that was killed inside", "p1 a: 0.5 request, 0.6 granted t9; p0 a: 1 request, 12.7 granted t10; h: 2 began 1 kill-worker process 1, 2 ended p1, 2 over 1", false},
		{"a process that was killed inside, longer ago than its session can last", "p1 a: 0.5 request, 0.6 granted t9; p0 a: 1 request, 14 granted t10; h: 2 began 1 kill-worker process 1, 2 ended p1, 2 over 1", true},
		{"a process that gave up asking while it was cut off", "p1 a: 0.5 request, 2.5 refused; p0 a: 1 request, 12.7 granted t10; h: 2 began 1 cut-connection process 1, 2 over 1", false},
		{"the process itself lost the lock, and its old node may be left", "p0 a: 0.5 request, 0.6 granted t9, 1.1 lost, 1.2 request, 12.7 granted t10; h: 1 began 1 cut-connection process 0, 1 over 1", false},
		{"another process had the lock after that, so that the node is gone", `
			p1 a: 0.5 request, 2.5 refused; p0 a: 1 request, 12.7 granted t10
			p2 a: 3 request, 3.1 granted t9, 3.2 release, 3.2 released; h: 2 began 1 cut-connection process 1, 2 over 1`, true},
		{"another process that asked before had the lock, which tells nothing of the node", `
			p1 a: 0.5 request, 2.5 refused; p0 a: 1 request, 12.7 granted t10
			p2 a: 1.5 request, 3.1 granted t9, 3.2 release, 3.2 released; h: 2 began 1 cut-connection process 1, 2 over 1`, false},

		{"a fault of another lock's queue", "h: 2 began 1 foreign-contenders lock rw of rw, 61 over 1; p0 a: 1 request, 61 granted t10", true},
		{"a fault of the lock's queue", "h: 2 began 1 foreign-contenders lock a of a, 61 over 1; p0 a: 1 request, 61 granted t10", false},
		{"a fault of the lock's queue, which is over at once", "p0 a: 1 request, 11 granted t10; h: 2 began 1 foreign-contenders lock a of a, 2 over 1", true},
		{"the process's node for another lock is deleted", "h: 2 began 1 delete-waiter process 0 of rw, 61 over 1; p0 a: 1 request, 61 granted t10", true},
		{"the process's node for the lock is deleted", "h: 2 began 1 delete-waiter process 0 of a, 61 over 1; p0 a: 1 request, 61 granted t10", false},
		{"no node was deleted", "h: 2 began 1 delete-waiter process 0, 61 over 1 failed; p0 a: 1 request, 61 granted t10", true},
		{"a node may have been deleted, which takes more than a minute to tell", "p0 a: 1 request, 63 granted t10; h: 2 began 1 delete-waiter process 0, 65 over 1 of a", true},

		{"the process is stopped", "h: 2 began 1 pause-worker process 0, 61 over 1; p0 a: 1 request, 61 granted t10", false},
		{"the process could not be stopped", "h: 2 began 1 pause-worker process 0, 61 over 1 failed; p0 a: 1 request, 61 granted t10", true},

		{"a fault of servers", "h: 2 began 1 kill-leader server 1, 61 over 1; p0 a: 1 request, 61 granted t10", false},
		{"long after a fault of servers", "p0 a: 1 request, 12 granted t10; h: 2 began 1 kill-leader server 1, 3 over 1", true},
		{"a process had no connection after a fault of servers", "p0 a: 1 request, 12 granted t10; p1: 2.5 session suspended, 6 session resumed; h: 2 began 1 kill-leader server 1, 3 over 1", false},
		{"a process ended without a connection after a fault of servers", "p0 a: 1 request, 12 granted t10; p1: 2.5 session suspended; h: 2 began 1 kill-leader server 1, 3 over 1, 3.1 ended p1", true},
		{"a process has no connection for too long", "p0 a: 1 request, 16 granted t10; p1: 2.5 session suspended; h: 2 began 1 kill-leader server 1, 3 over 1", true},
		{"an answer may be lost", "p0 a: 1 request, 11.7 granted t10; h: 2 began 1 blackhole-connection process 0, 3 over 1", false},
		{"nothing is lost", "p0 a: 1 request, 11.7 granted t10; h: 2 began 1 delay-link process 0, 3 over 1", true},
		{"two faults at the same time count once", "p0 a: 1 request, 18 granted t10; h: 2 began 1 delay-link process 0, 2 began 2 kill-leader server 1, 7 over 1, 7 over 2", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if found := findings(on(t, header(), alive, tt.history, "h: 70 stopping now"), verdict.Patience); (len(found) > 0) != tt.found {
				t.Errorf("found %q, want a finding: %v", found, tt.found)
			}
		})
	}
}

// A worker that asks for several locks waits for all: what keeps it from one keeps it from
// the others.
func TestExcuseOfAWaitForSeveralLocks(t *testing.T) {
	const history = `
		p1 rw write: 0.5 request; h: 2 began 1 delay-link process 1, 61 over 1, 62 stopping now
		p0 a: 1 request, 61 granted t10; p0 rw write: 1 request, 61 granted t10`
	if found := findings(on(t, header(), history), verdict.Patience); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	alone := strings.ReplaceAll(history, "p0 rw", "p0w1 rw")
	if found := findings(on(t, header(), alone), verdict.Patience); len(found) == 0 {
		t.Error("a wait for one lock was excused by a fault that is about another")
	}
}

// A process whose locks linger may have a node although all have released their holds.
func TestExcuseOfALockThatLingers(t *testing.T) {
	const held = "p1 a: 0.5 request, 0.6 granted t9, 0.7 release, 0.8 released; p0 a: 1 request"
	for _, tt := range []struct{ name, fault string }{
		{"cut off", "h: 2 began 1 delay-link process 1, 61 over 1; p0 a: 61 granted t10"},
		{"killed", "p0 a: 12 granted t10; h: 4 began 1 kill-worker process 1, 4 ended p1, 4 over 1"},
	} {
		for linger, want := range map[int64]int{0: 1, 300 * ms: 0} {
			h := header()
			h.Linger = linger
			if found := findings(on(t, h, held, tt.fault, "h: 62 stopping now"), verdict.Patience); len(found) != want {
				t.Errorf("%s, linger %v: found %q, want %d", tt.name, linger, found, want)
			}
		}
	}
}

// A wait may take as long as the holds that it had to wait for, each process once. Without
// any, process 0 may wait for 7.8 s.
func TestHoldsThatExplainWaits(t *testing.T) {
	for _, tt := range []struct {
		name, history string
		found         bool
	}{
		{"a long hold long ago", "p1 a: 1 request, 1 granted t9, 41 release; p0 a: 50 request, 110 granted t10", true},
		{"a long hold meanwhile", "p1 a: 1 request, 1 granted t9, 41 release; p0 a: 2 request, 48 granted t10", false},
		{"a long hold that lasts", "p1 a: 1 request, 1 granted t9; p0 a: 2 request, 61 refused; h: 60 alive now", false},
		{"a long hold that was nearly over", "p1 a: 1 request, 1 granted t9, 42 release; p0 a: 41 request, 51 granted t10", true},
		{"one long hold does not make the others long", "p1 a: 1 request, 1 granted t9, 11 release; p0 a: 2 request, 30 granted t10", true},
		{"two processes, one after the other", "p1 a: 1 request, 1 granted t9, 11 release; p0 a: 2 request, 26 granted t11; p2 a: 2 request, 11 granted t10, 20 release", false},
		{"one process twice", "p1 a: 1 request, 1 granted t9, 11 release, 11 released, 11 request, 11 granted t10, 20 release; p0 a: 2 request, 26 granted t11", true},
		{"one process as a reader and as a writer", `
			p1 rw read: 1 request, 1 granted t9, 11 release; p0 rw write: 2 request, 26 granted t11
			p1w1 rw write: 2 request, 11 granted t10, 20 release`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if found := findings(on(t, header(), tt.history, "h: 120 stopping now"), verdict.Patience); (len(found) > 0) != tt.found {
				t.Errorf("found %q, want a finding: %v", found, tt.found)
			}
		})
	}
}

// A goroutine waits for a mutex as long as those of its process hold it that asked before, and
// as long as each other process may be ahead, once for each stay of its own process. Without
// any, process 0 may wait for 7.8 s.
func TestTurnsThatExplainWaits(t *testing.T) {
	for _, tt := range []struct {
		name, history string
		most          float64 // until when process 0, worker 0 may wait
	}{
		{"none", "p0 m: 1 request", 8.8},
		{"one of the same process, which holds it", "p0w1 m: 0.5 request, 0.6 granted t10.1, 4 release; p0 m: 1 request", 1 + 7 + 3 + 2*0.8},
		{"one that asks again and again", `
			p0w1 m: 0.5 request, 0.6 granted t10.1, 4 release, 4.1 request, 4.2 granted t10.2, 8 release, 8.1 request, 8.2 granted t10.3, 10 release
			p0 m: 1 request`, 1 + 7 + 3 + 2*0.8},
		{"three of the same process, in one stay", `
			p0w1 m: 0.5 request, 0.6 granted t10.1, 4 release; p0w2 m: 0.7 request, 4 granted t10.2, 8 release
			p0w3 m: 0.8 request, 8 granted t10.3, 12 release; p0 m: 1 request`, 1 + 7 + 11 + 2*0.8},
		{"one that asked a moment later, and may have been before", "p0 m: 1 request; p0w1 m: 1.9 request, 2 granted t10.1, 6 release", 1 + 7 + 4 + 2*0.8},
		{"one that asked later", "p0 m: 1 request; p0w1 m: 2.1 request, 2.2 granted t10.1, 6 release", 8.8},
		{"another process between two stays of this one", `
			p0w1 m: 0.5 request, 0.6 granted t10.1, 2 release; p0w2 m: 0.7 request, 6.2 granted t12.1, 7.2 release
			p1 m: 0.8 request, 2 granted t11.1, 6 release, 6.1 request, 7.3 granted t13.1, 10.3 release; p0 m: 1 request`, 1 + 7 + 2 + 3*(4+0.8)},
		{"several goroutines of another process, which should have let this one in", `
			p1 m: 0.8 request, 0.9 granted t11.1, 5 release; p1w1 m: 0.8 request, 5 granted t11.2, 9 release
			p1w2 m: 0.8 request, 9 granted t11.3, 11 release; p0 m: 1 request`, 1 + 7 + 4 + 0.8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for late, want := range map[float64]int{-0.01: 0, 0.01: 1} {
				at := fmt.Sprintf("%.3f", tt.most+late)
				v := on(t, header(), tt.history, "p0 m: "+at+" granted t20.1, "+at+" release; h: 70 stopping now")
				if texts := findings(v, verdict.Patience); len(texts) != want {
					t.Errorf("granted at %s s: %q, want %d", at, texts, want)
				}
			}
		})
	}
}

// Faults excuse a holder that was asked to give up the lock only if they touch it, or if the
// harness has its workers stay inside meanwhile.
func TestExcusesOfRevocations(t *testing.T) {
	const stays = true
	for _, tt := range []struct {
		fault string
		stays bool
		found bool
	}{
		{"delay-link process 0", !stays, false},
		{"delay-link process 3", stays, false}, // and process 0 stays, too
		{"delay-link process 3", !stays, true},
		{"delay-link process 1", stays, true},
		{"delay-link process 2", stays, true},
		{"kill-leader server 1", !stays, false},
		{"foreign-children lock a of a", !stays, true},
		{"delete-holder process 0 of a", !stays, false},
		{"delete-holder process 0 of rw", !stays, true},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			events := script(t, `
				p1 rw read: 0.1 request; p2 rw read: 0.1 request; p3 rw read: 0.1 request
				p0 a: 1 request, 1.1 granted t10, 23 release, 23 released; p1 a: 1.5 request
				h: 3 began 2 revoke lock a of a, 3 over 2, 22 alive now, 24 over 1, 25 stopping now`+"; h: 2 began 1 "+tt.fault)
			for i := range events {
				events[i].Stays = tt.stays && events[i].Kind == history.FaultBegan
			}
			found := findings(judged(header(), events), verdict.Revocations)
			if (len(found) > 0) != tt.found {
				t.Errorf("found %q, want a finding: %v", found, tt.found)
			}
		})
	}
}

// The verdict tells how much faults excused, so that a reader sees whether the check could
// have found anything.
func TestNotesOfExcuses(t *testing.T) {
	const quiet = "p0 a: 1 request, 1.1 granted t10, 2 release, 2 released; "
	for _, tt := range []struct{ name, history, check, want string }{
		{"no fault", quiet, verdict.Patience, ""},
		{"waits", quiet + "p0 a: 4 request, 14 granted t11; p1 a: 13 request; h: 3 began 1 delay-link process 1, 13 over 1",
			verdict.Patience, "2 of 2 waits had no excuse; faults excused 0 of 10.1 s in all, and 0 would have been too late without that"},
		{"waits that are excused", "p1 a: 1 request, 3 refused; p0 a: 4 request, 14 granted t11; h: 2 began 1 delay-link process 1, 13 over 1",
			verdict.Patience, "0 of 1 waits had no excuse; faults excused 10 s of 10 s in all, and 1 would have been too late without that"},
		{"revocations", "p0 a: 1 request, 1.1 granted t10, 5 release; h: 2 began 1 kill-leader server 1, 3 began 2 revoke lock a of a, 3 over 2, 6 over 1", verdict.Revocations, "0 of 1 holders had no excuse; faults excused 2 s of 2 s"},
		{"what might have begun", "p0 a: 1 request, 1.1 granted t10, 2 release, 2 released; p1 m: 1 request; h: 10 began 1 kill-leader server 1, 19 over 1, 21 alive now",
			verdict.Patience, "of the waits that might have begun at any moment, 66 % would have had no excuse"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alive := "h: 30 stopping now"
			for at := range 20 {
				alive += fmt.Sprintf(", %d.5 alive now", at+1)
			}
			if c := checkOf(on(t, header(), tt.history, alive), tt.check); !strings.Contains(c.Note, tt.want) || tt.want == "" && c.Note != "" {
				t.Errorf("the note is %q, want %q", c.Note, tt.want)
			}
		})
	}
}

// A past tells what the longest of all holds would.
func TestPast(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var all []scene.Span
	var p scene.Past
	for i := range int64(2000) {
		length := random.Int64N(100) * random.Int64N(100)
		end := 1e6 + 10*i - random.Int64N(50) // some are told late
		s := scene.Span{From: end - length, To: end}
		all = append(all, s)
		p.Add(s, 0)
		since, want := end-random.Int64N(3000), int64(0)
		for _, s := range all {
			if s.To >= since {
				want = max(want, s.To-max(s.From, since))
			}
		}
		if got := p.Longest(since); got != want {
			t.Fatalf("the longest of %d holds since %d is %d, want %d: %v", i+1, since, got, want, p)
		}
	}
	if len(p) > 100 {
		t.Errorf("%d of %d holds are remembered", len(p), len(all))
	}
	p.Add(scene.Span{From: 2e6, To: 2e6 + 1}, 2e6)
	if len(p) != 1 {
		t.Errorf("old holds are not forgotten: %v", p)
	}
}

// In a long run faults, and holds during them, are forgotten.
func TestFaultsAreForgotten(t *testing.T) {
	j := New(header())
	add := func(at int64, e history.Event) {
		e.At = at
		j.Add(e)
	}
	add(0, history.Event{Kind: history.Started, Process: 1})
	most := 0
	for i := range int64(2000) {
		at := (1 + i) * 10_000 * ms
		f := history.Event{Kind: history.FaultBegan, Process: history.Harness, Fault: int(i) + 1, Text: "delay-link", Target: "process 1"}
		add(at, f)
		for k := range int64(5) {
			op := uint64(5*i + k + 1)
			j.all(held(history.Event{Process: 1, Op: op, Lock: "a", Mode: history.Exclusive, Token: op}, at+10*k*ms, ms)...)
		}
		f.Kind, f.OK = history.FaultEnded, true
		add(at+5000*ms, f)
		grips := 0
		for _, f := range j.scene.Excuses.Faults {
			grips += len(f.Grips[j.scene.Locks["a"]])
		}
		most = max(most, len(j.scene.Excuses.Faults)+grips)
	}
	if most > 100 {
		t.Errorf("%d faults and grips are remembered", most)
	}
	if n := len(*j.scene.Locks["a"].Past[scene.Turn{Process: 1, Mode: history.Exclusive}]); n > 100 {
		t.Errorf("%d holds are remembered", n)
	}
}

// Where workers ask for several locks at once, they keep places in queues as if they held the
// locks, so that others wait longer.
func TestWaitsBehindThoseForSeveralLocks(t *testing.T) {
	for workload, want := range map[string]int{"default": 1, "all": 0} {
		h := header()
		h.Workload = workload
		found := findings(on(t, h, "p0 a: 1 request, 13 granted t10; h: 14 stopping now"), verdict.Patience)
		if len(found) != want {
			t.Errorf("%s: found %q, want %d", workload, found, want)
		}
	}
}
