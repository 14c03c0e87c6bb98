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
	const alive = "\n0.1 h started p1\n0.1 h started p2\n0.1 h started p3"
	for _, tt := range []struct {
		name, history string
		found         bool
	}{
		{"a fault of a process that has nothing to do with the lock", `
			0.5 p1 request m
			0.6 p1 granted m t1.1
			1 p0 request a
			2 h began 1 delay-link process 1
			61 h over 1
			61 p0 granted a t10`, true},
		{"of one that is ahead", `
			0.5 p1 request a
			1 p0 request a
			2 h began 1 delay-link process 1
			61 h over 1
			61 p1 refused a
			61 p0 granted a t10`, false},
		{"of one that asked later", `
			1 p0 request a
			5 p1 request a
			6 h began 1 delay-link process 1
			61 h over 1
			61 p0 granted a t10`, true},
		{"of one that asked a moment later, and may be ahead", `
			1 p0 request a
			1.2 p1 request a
			1.3 h began 1 delay-link process 1
			61 h over 1
			61 p0 granted a t10`, false},
		{"of one that asked before the other goroutines left the lock to the queue", `
			0.5 p0w1 request a
			0.6 p0w1 granted a t10
			1 p0 request a
			2.5 p1 request a
			3 p0w1 release a
			3 p0w1 released a
			4 h began 1 delay-link process 1
			61 h over 1
			61 p0 granted a t11`, false},
		{"of one that asked before the session began anew", `
			1 p0 request a
			5 p1 request a
			6 p0 session 0x7 began
			7 h began 1 delay-link process 1
			61 h over 1
			61 p0 granted a t11`, false},
		{"of one that asked while another fault kept the process from asking", `
			1 p0 request a
			1.5 h began 1 delay-link process 0
			9 p1 request a
			10 h over 1
			15 h began 2 delay-link process 1
			61 h over 2
			61 p0 granted a t11`, false},
		{"of one that gave the lock up before", `
			0.5 p1 request a
			0.6 p1 granted a t9
			0.7 p1 release a
			0.8 p1 released a
			1 p0 request a
			2 h began 1 delay-link process 1
			61 h over 1
			61 p0 granted a t10`, true},
		{"of one that gives the lock up meanwhile", `
			0.5 p1 request a
			0.6 p1 granted a t9
			1 p0 request a
			2 h began 1 delay-link process 1
			3 p1 release a
			3 p1 released a
			61 h over 1
			61 p0 granted a t10`, true},
		{"of one that waits for the end of its release", `
			0.5 p1 request a
			0.6 p1 granted a t9
			1 p0 request a
			2 h began 1 delay-link process 1
			3 p1 release a
			61 p1 released a
			61 h over 1
			61 p0 granted a t10`, false},
		{"of the process itself", `
			1 p0 request a
			2 h began 1 delay-link process 0
			61 h over 1
			61 p0 granted a t10`, false},
		{"of the process that was there before", `
			1 p0 request a
			2 h began 1 kill-worker process 0
			2 h ended p0
			60 h over 1
			2.1 p0i1 request a
			60 p0i1 granted a t10`, false},
		{"of the process that was there before, and had nothing to do with the lock", `
			1 p0 request m
			2 h began 1 kill-worker process 0
			2 h ended p0
			60 h over 1
			2.1 p0i1 request a
			60 p0i1 granted a t10`, true},

		{"a process that was killed inside", `
			0.5 p1 request a
			0.6 p1 granted a t9
			1 p0 request a
			2 h began 1 kill-worker process 1
			2 h ended p1
			2 h over 1
			12.7 p0 granted a t10`, false},
		{"a process that was killed inside, longer ago than its session can last", `
			0.5 p1 request a
			0.6 p1 granted a t9
			1 p0 request a
			2 h began 1 kill-worker process 1
			2 h ended p1
			2 h over 1
			14 p0 granted a t10`, true},
		{"a process that gave up asking while it was cut off", `
			0.5 p1 request a
			1 p0 request a
			2 h began 1 cut-connection process 1
			2 h over 1
			2.5 p1 refused a
			12.7 p0 granted a t10`, false},
		{"the process itself lost the lock, and its old node may be left", `
			0.5 p0 request a
			0.6 p0 granted a t9
			1 h began 1 cut-connection process 0
			1 h over 1
			1.1 p0 lost a
			1.2 p0 request a
			12.7 p0 granted a t10`, false},
		{"another process had the lock after that, so that the node is gone", `
			0.5 p1 request a
			1 p0 request a
			2 h began 1 cut-connection process 1
			2 h over 1
			2.5 p1 refused a
			3 p2 request a
			3.1 p2 granted a t9
			3.2 p2 release a
			3.2 p2 released a
			12.7 p0 granted a t10`, true},
		{"another process that asked before had the lock, which tells nothing of the node", `
			0.5 p1 request a
			1 p0 request a
			1.5 p2 request a
			2 h began 1 cut-connection process 1
			2 h over 1
			2.5 p1 refused a
			3.1 p2 granted a t9
			3.2 p2 release a
			3.2 p2 released a
			12.7 p0 granted a t10`, false},

		{"a fault of another lock's queue", `
			1 p0 request a
			2 h began 1 foreign-contenders lock rw of rw
			61 h over 1
			61 p0 granted a t10`, true},
		{"a fault of the lock's queue", `
			1 p0 request a
			2 h began 1 foreign-contenders lock a of a
			61 h over 1
			61 p0 granted a t10`, false},
		{"a fault of the lock's queue, which is over at once", `
			1 p0 request a
			2 h began 1 foreign-contenders lock a of a
			2 h over 1
			11 p0 granted a t10`, true},
		{"the process's node for another lock is deleted", `
			1 p0 request a
			2 h began 1 delete-waiter process 0 of rw
			61 h over 1
			61 p0 granted a t10`, true},
		{"the process's node for the lock is deleted", `
			1 p0 request a
			2 h began 1 delete-waiter process 0 of a
			61 h over 1
			61 p0 granted a t10`, false},
		{"no node was deleted", `
			1 p0 request a
			2 h began 1 delete-waiter process 0
			61 h over 1 failed
			61 p0 granted a t10`, true},
		{"a node may have been deleted, which takes more than a minute to tell", `
			1 p0 request a
			2 h began 1 delete-waiter process 0
			63 p0 granted a t10
			65 h over 1 of a`, true},

		{"the process is stopped", `
			1 p0 request a
			2 h began 1 pause-worker process 0
			61 h over 1
			61 p0 granted a t10`, false},
		{"the process could not be stopped", `
			1 p0 request a
			2 h began 1 pause-worker process 0
			61 h over 1 failed
			61 p0 granted a t10`, true},

		{"a fault of servers", `
			1 p0 request a
			2 h began 1 kill-leader server 1
			61 h over 1
			61 p0 granted a t10`, false},
		{"long after a fault of servers", `
			1 p0 request a
			2 h began 1 kill-leader server 1
			3 h over 1
			12 p0 granted a t10`, true},
		{"a process had no connection after a fault of servers", `
			1 p0 request a
			2 h began 1 kill-leader server 1
			2.5 p1 session suspended
			3 h over 1
			6 p1 session resumed
			12 p0 granted a t10`, false},
		{"a process ended without a connection after a fault of servers", `
			1 p0 request a
			2 h began 1 kill-leader server 1
			2.5 p1 session suspended
			3 h over 1
			3.1 h ended p1
			12 p0 granted a t10`, true},
		{"a process has no connection for too long", `
			1 p0 request a
			2 h began 1 kill-leader server 1
			2.5 p1 session suspended
			3 h over 1
			16 p0 granted a t10`, true},
		{"an answer may be lost", `
			1 p0 request a
			2 h began 1 blackhole-connection process 0
			3 h over 1
			11.7 p0 granted a t10`, false},
		{"nothing is lost", `
			1 p0 request a
			2 h began 1 delay-link process 0
			3 h over 1
			11.7 p0 granted a t10`, true},
		{"two faults at the same time count once", `
			1 p0 request a
			2 h began 1 delay-link process 0
			2 h began 2 kill-leader server 1
			7 h over 1
			7 h over 2
			18 p0 granted a t10`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found := findings(judged(header(), script(t, alive+tt.history+"\n70 h stopping now")), verdict.Patience)
			if (len(found) > 0) != tt.found {
				t.Errorf("found %q, want a finding: %v", found, tt.found)
			}
		})
	}
}

// A worker that asks for several locks waits for all: what keeps it from one keeps it from
// the others.
func TestExcuseOfAWaitForSeveralLocks(t *testing.T) {
	const history = `
		0.5 p1 request rw write
		1 p0 request a
		1 p0 request rw write
		2 h began 1 delay-link process 1
		61 h over 1
		61 p0 granted a t10
		61 p0 granted rw write t10
		62 h stopping now`
	if found := findings(judged(header(), script(t, history)), verdict.Patience); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	alone := strings.ReplaceAll(history, "p0 request rw", "p0w1 request rw")
	if found := findings(judged(header(), script(t, alone)), verdict.Patience); len(found) == 0 {
		t.Error("a wait for one lock was excused by a fault that is about another")
	}
}

// A process whose locks linger may have a node although all have released their holds.
func TestExcuseOfALockThatLingers(t *testing.T) {
	const held = `
		0.5 p1 request a
		0.6 p1 granted a t9
		0.7 p1 release a
		0.8 p1 released a
		1 p0 request a`
	for _, tt := range []struct{ name, fault string }{
		{"cut off", `
			2 h began 1 delay-link process 1
			61 h over 1
			61 p0 granted a t10`},
		{"killed", `
			4 h began 1 kill-worker process 1
			4 h ended p1
			4 h over 1
			12 p0 granted a t10`},
	} {
		for linger, want := range map[int64]int{0: 1, 300 * ms: 0} {
			h := header()
			h.Linger = linger
			found := findings(judged(h, script(t, held+tt.fault+"\n62 h stopping now")), verdict.Patience)
			if len(found) != want {
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
		{"a long hold long ago", `
			1 p1 request a
			1 p1 granted a t9
			41 p1 release a
			50 p0 request a
			110 p0 granted a t10`, true},
		{"a long hold meanwhile", `
			1 p1 request a
			1 p1 granted a t9
			2 p0 request a
			41 p1 release a
			48 p0 granted a t10`, false},
		{"a long hold that lasts", `
			1 p1 request a
			1 p1 granted a t9
			2 p0 request a
			60 h alive now
			61 p0 refused a`, false},
		{"a long hold that was nearly over", `
			1 p1 request a
			1 p1 granted a t9
			41 p0 request a
			42 p1 release a
			51 p0 granted a t10`, true},
		{"one long hold does not make the others long", `
			1 p1 request a
			1 p1 granted a t9
			2 p0 request a
			11 p1 release a
			30 p0 granted a t10`, true},
		{"two processes, one after the other", `
			1 p1 request a
			1 p1 granted a t9
			2 p0 request a
			2 p2 request a
			11 p1 release a
			11 p2 granted a t10
			20 p2 release a
			26 p0 granted a t11`, false},
		{"one process twice", `
			1 p1 request a
			1 p1 granted a t9
			2 p0 request a
			11 p1 release a
			11 p1 released a
			11 p1 request a
			11 p1 granted a t10
			20 p1 release a
			26 p0 granted a t11`, true},
		{"one process as a reader and as a writer", `
			1 p1 request rw read
			1 p1 granted rw read t9
			2 p0 request rw write
			2 p1w1 request rw write
			11 p1 release rw
			11 p1w1 granted rw write t10
			20 p1w1 release rw
			26 p0 granted rw write t11`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found := findings(judged(header(), script(t, tt.history+"\n120 h stopping now")), verdict.Patience)
			if (len(found) > 0) != tt.found {
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
		{"none", "\n1 p0 request m", 8.8},
		{"one of the same process, which holds it", `
			0.5 p0w1 request m
			0.6 p0w1 granted m t10.1
			1 p0 request m
			4 p0w1 release m`, 1 + 7 + 3 + 2*0.8},
		{"one that asks again and again", `
			0.5 p0w1 request m
			0.6 p0w1 granted m t10.1
			1 p0 request m
			4 p0w1 release m
			4.1 p0w1 request m
			4.2 p0w1 granted m t10.2
			8 p0w1 release m
			8.1 p0w1 request m
			8.2 p0w1 granted m t10.3
			10 p0w1 release m`, 1 + 7 + 3 + 2*0.8},
		{"three of the same process, in one stay", `
			0.5 p0w1 request m
			0.6 p0w1 granted m t10.1
			0.7 p0w2 request m
			0.8 p0w3 request m
			1 p0 request m
			4 p0w1 release m
			4 p0w2 granted m t10.2
			8 p0w2 release m
			8 p0w3 granted m t10.3
			12 p0w3 release m`, 1 + 7 + 11 + 2*0.8},
		{"one that asked a moment later, and may have been before", `
			1 p0 request m
			1.9 p0w1 request m
			2 p0w1 granted m t10.1
			6 p0w1 release m`, 1 + 7 + 4 + 2*0.8},
		{"one that asked later", `
			1 p0 request m
			2.1 p0w1 request m
			2.2 p0w1 granted m t10.1
			6 p0w1 release m`, 8.8},
		{"another process between two stays of this one", `
			0.5 p0w1 request m
			0.6 p0w1 granted m t10.1
			0.7 p0w2 request m
			0.8 p1 request m
			1 p0 request m
			2 p0w1 release m
			2 p1 granted m t11.1
			6 p1 release m
			6.1 p1 request m
			6.2 p0w2 granted m t12.1
			7.2 p0w2 release m
			7.3 p1 granted m t13.1
			10.3 p1 release m`, 1 + 7 + 2 + 3*(4+0.8)},
		{"several goroutines of another process, which should have let this one in", `
			0.8 p1 request m
			0.8 p1w1 request m
			0.8 p1w2 request m
			0.9 p1 granted m t11.1
			1 p0 request m
			5 p1 release m
			5 p1w1 granted m t11.2
			9 p1w1 release m
			9 p1w2 granted m t11.3
			11 p1w2 release m`, 1 + 7 + 4 + 0.8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for late, want := range map[float64]int{-0.01: 0, 0.01: 1} {
				at := fmt.Sprintf("\n%.3f", tt.most+late)
				v := judged(header(), script(t, tt.history+at+" p0 granted m t20.1"+at+" p0 release m\n70 h stopping now"))
				if texts := findings(v, verdict.Patience); len(texts) != want {
					t.Errorf("granted at %s s: %q, want %d", at[1:], texts, want)
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
				0.1 p1 request rw read
				0.1 p2 request rw read
				0.1 p3 request rw read
				1 p0 request a
				1.1 p0 granted a t10
				1.5 p1 request a
				2 h began 1 `+tt.fault+`
				3 h began 2 revoke lock a of a
				3 h over 2
				22 h alive now
				23 p0 release a
				23 p0 released a
				24 h over 1
				25 h stopping now`)
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
	const quiet = `
		1 p0 request a
		1.1 p0 granted a t10
		2 p0 release a
		2 p0 released a`
	for _, tt := range []struct{ name, history, check, want string }{
		{"no fault", quiet, verdict.Patience, ""},
		{"waits", quiet + `
			3 h began 1 delay-link process 1
			4 p0 request a
			13 p1 request a
			13 h over 1
			14 p0 granted a t11`, verdict.Patience, "2 of 2 waits had no excuse; faults excused 0 of 10.1 s in all, and 0 would have been too late without that"},
		{"waits that are excused", `
			1 p1 request a
			2 h began 1 delay-link process 1
			3 p1 refused a
			4 p0 request a
			13 h over 1
			14 p0 granted a t11`, verdict.Patience, "0 of 1 waits had no excuse; faults excused 10 s of 10 s in all, and 1 would have been too late without that"},
		{"revocations", `
			1 p0 request a
			1.1 p0 granted a t10
			2 h began 1 kill-leader server 1
			3 h began 2 revoke lock a of a
			3 h over 2
			5 p0 release a
			6 h over 1`, verdict.Revocations, "0 of 1 holders had no excuse; faults excused 2 s of 2 s"},
		{"what might have begun", `
			1 p0 request a
			1 p1 request m
			1.1 p0 granted a t10
			2 p0 release a
			2 p0 released a
			10 h began 1 kill-leader server 1
			19 h over 1
			21 h alive now`, verdict.Patience, "of the waits that might have begun at any moment, 66 % would have had no excuse"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var events strings.Builder
			events.WriteString(tt.history)
			for at := range 20 {
				fmt.Fprintf(&events, "\n%d.5 h alive now", at+1)
			}
			v := judged(header(), script(t, events.String()+"\n30 h stopping now"))
			for _, c := range v.Checks {
				if c.Name == tt.check && (!strings.Contains(c.Note, tt.want) || tt.want == "" && c.Note != "") {
					t.Errorf("the note is %q, want %q", c.Note, tt.want)
				}
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
			op := history.Event{Process: 1, Op: uint64(5*i + k + 1), Lock: "a", Mode: history.Exclusive}
			for n, kind := range []history.Kind{history.Request, history.Granted, history.Release, history.Released} {
				op.Kind, op.Token = kind, op.Op
				add(at+(10*k+int64(n))*ms, op)
			}
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
		found := findings(judged(h, script(t, `
			1 p0 request a
			13 p0 granted a t10
			14 h stopping now`)), verdict.Patience)
		if len(found) != want {
			t.Errorf("%s: found %q, want %d", workload, found, want)
		}
	}
}
