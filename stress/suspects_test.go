// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
)

// What a referee sees is excused only by what has happened to the process that has lost the
// lock.
func TestExcuses(t *testing.T) {
	at := func(d time.Duration) int64 { return time.Hour.Nanoseconds() + d.Nanoseconds() }
	paused := func(process string, d time.Duration) []history.Event {
		return []history.Event{
			{Kind: history.FaultBegan, At: at(0), Fault: 1, Text: pauseWorker, Target: process},
			{Kind: history.FaultEnded, At: at(d), Fault: 1, Text: pauseWorker, Target: process, OK: true},
		}
	}
	stopped := paused("process 1", 2*time.Minute)
	wentOn := paused("process 1", 5*time.Second)
	notStopped := paused("process 1", 5*time.Second)
	notStopped[1].OK = false
	lost := []history.Event{{Kind: history.Lost, At: at(0), Process: 1, Lock: "a"}}
	deletion := func(lock string, ok bool) []history.Event {
		return []history.Event{
			{Kind: history.FaultBegan, At: at(-5 * time.Second), Fault: 1, Text: deleteHolder, Target: "process 1"},
			{Kind: history.FaultEnded, At: at(0), Fault: 1, Text: deleteHolder, Target: "process 1", Lock: lock, OK: ok},
		}
	}
	deleted, doubted, missed := deletion("a", true), deletion("a", false), deletion("", false)
	// Process 2 enters with token 20 beside others.
	beside := func(lock string, d time.Duration, others ...referee.Party) referee.Violation {
		return referee.Violation{Kind: referee.Overlap, Lock: lock, Mode: "exclusive", At: at(d), Process: 2, PID: 102, Token: 20, Others: others}
	}
	old := referee.Party{Process: 1, PID: 101, Mode: "exclusive", Token: 10}
	later := referee.Party{Process: 1, PID: 101, Mode: "exclusive", Token: 30}
	third := referee.Party{Process: 3, PID: 103, Mode: "exclusive", Token: 15}
	dead := referee.Party{Process: 4, PID: 104, Mode: "exclusive", Token: 5}
	as := func(v referee.Violation, change func(*referee.Violation)) referee.Violation {
		change(&v)
		return v
	}
	tests := []struct {
		name    string
		history []history.Event
		v       referee.Violation
		excused bool
	}{
		{"nothing happened", nil, beside("a", 0, old), false},
		{"while it is stopped", stopped, beside("a", time.Minute, old), true},
		{"before it was stopped", stopped, beside("a", -time.Second, old), false},
		{"a moment after it went on", wentOn, beside("b", 6*time.Second, old), true},
		{"long after it went on", wentOn, beside("b", 9*time.Second, old), false},
		{"while a fault was to stop it that could not", notStopped, beside("a", time.Second, old), false},
		{"after its loss", lost, beside("a", time.Second, old), true},
		{"after its loss of another lock", lost, beside("b", time.Second, old), false},
		{"long after its loss", lost, beside("a", 4*time.Second, old), false},
		{"after its upgradable read was lost", lost, beside("a"+referee.ThirdMark, time.Second, old), true},
		{"after its node was deleted", deleted, beside("a", time.Millisecond, old), true},
		{"before its node was deleted", deleted, beside("a", -6*time.Second, old), false},
		{"after its node was deleted, long before the answer", deleted, beside("a", -4*time.Second, old), true},
		{"long after its node was deleted", deleted, beside("a", 4*time.Second, old), false},
		{"after its node in another lock was deleted", deleted, beside("b", time.Millisecond, old), false},
		{"after its node may have been deleted", doubted, beside("a", time.Millisecond, old), true},
		{"after no node was deleted", missed, beside("a", time.Millisecond, old), false},

		{"another process is stopped", paused("process 5", time.Minute), beside("a", time.Second, old), false},
		{"another process has lost the lock", []history.Event{{Kind: history.Lost, At: at(0), Process: 5, Lock: "a"}}, beside("a", time.Second, old), false},
		{"the one that has the lock is stopped", stopped, beside("a", time.Second, later), false},
		{"the one that enters is stopped, and has the lock", paused("process 2", time.Minute), beside("a", time.Second, old), false},
		{"the one that enters was stopped, and has lost the lock", paused("process 2", 500*time.Millisecond), beside("a", time.Second, later), true},
		{"beside one that is stopped and one that is not", stopped, beside("a", time.Second, old, third), false},
		{"beside one that was killed", nil, beside("a", time.Second, dead), false},
		{"beside one that is stopped and one that was killed", stopped, beside("a", time.Second, old, dead), true},
		{"beside one that was killed later", stopped, beside("a", -time.Second, old, dead), false},
		{"it is not known beside which", stopped, beside("a", time.Second), false},
		{"both have one token", stopped, beside("a", time.Second, referee.Party{Process: 1, PID: 101, Mode: "exclusive", Token: 20}), false},
		{"there are no tokens, and the one inside is stopped", stopped, beside("a", time.Second, referee.Party{Process: 1, PID: 101, Mode: "exclusive"}), true},
		{"a reader with a higher token beside an upgraded holder", stopped, as(beside("a", time.Second, referee.Party{Process: 1, PID: 101, Mode: "read", Token: 30}), func(v *referee.Violation) { v.Mode = referee.Upgraded }), true},
		{"a writer with a lower token beside a reader", stopped, as(beside("a", time.Second, referee.Party{Process: 1, PID: 101, Mode: "read", Token: 30}), func(v *referee.Violation) { v.Mode = "write" }), false},

		{"its token fell, and it was stopped", paused("process 2", time.Minute), as(beside("a", time.Second), func(v *referee.Violation) { v.Kind = referee.TokenFell }), true},
		{"its token fell, and another was stopped", stopped, as(beside("a", time.Second), func(v *referee.Violation) { v.Kind, v.OtherPID = referee.TokenFell, 101 }), false},
		{"two have one token, and one was stopped", stopped, as(beside("a", time.Second), func(v *referee.Violation) { v.Kind, v.OtherPID = referee.TokenShared, 101 }), false},
		{"let out before one that was stopped", stopped, as(beside("a", time.Second, old), func(v *referee.Violation) { v.Kind = referee.Premature }), true},
		{"let out before one that was not stopped", paused("process 2", time.Minute), as(beside("a", time.Second, old), func(v *referee.Violation) { v.Kind = referee.Premature }), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := newExcuses()
			x.ended[dead.PID] = at(0)
			for _, e := range tt.history {
				x.add(e)
			}
			if got := x.excuse(tt.v); got != tt.excused || x.awaits(tt.v) {
				t.Errorf("excused: %t; still awaited: %t", got, x.awaits(tt.v))
			}
		})
	}
}

// What a referee sees while a fault is under way that may excuse it waits for the end of that.
func TestSuspectsAwaitTheEndOfAFault(t *testing.T) {
	at := time.Hour.Nanoseconds()
	for _, kind := range []string{pauseWorker, deleteHolder, deleteWaiter, "delay-link"} {
		c := &chronicle{excuses: newExcuses()}
		c.excuses.add(history.Event{Kind: history.FaultBegan, At: at, Fault: 1, Text: kind, Target: "process 1"})
		seen := func(d time.Duration, process int) referee.Violation {
			return referee.Violation{Kind: referee.Overlap, Lock: "a", At: at + d.Nanoseconds(), Process: 2, Token: 20, Others: []referee.Party{{Process: process, Token: 10}}}
		}
		p := &parent{reporter: newReporter(io.Discard), chronicle: c}
		p.suspects = []referee.Violation{seen(time.Second, 1), seen(-time.Second, 1), seen(time.Second, 3)}
		p.judgeSuspects(at + time.Minute.Nanoseconds())
		want := 1 // the first
		if kind == "delay-link" {
			want = 0
		}
		if len(p.suspects) != want || p.violations != 3-want {
			t.Errorf("%s under way: %d still wait, want %d; %d violations", kind, len(p.suspects), want, p.violations)
		}
		c.excuses.add(history.Event{Kind: history.FaultEnded, At: at + 2*time.Second.Nanoseconds(), Fault: 1, Text: kind, Target: "process 1", Lock: "m", OK: true})
		p.judgeSuspects(at + time.Minute.Nanoseconds())
		want = 3
		if kind == pauseWorker {
			want = 2
		}
		if len(p.suspects) > 0 || p.violations != want {
			t.Errorf("%s over: %d still wait; %d violations, want %d", kind, len(p.suspects), p.violations, want)
		}
	}
}

// What cannot be judged because there is too much of it makes the run fail.
func TestTooManySuspects(t *testing.T) {
	for _, tt := range []struct{ more, failures int }{{0, 0}, {1, 1}, {1000, 1}} {
		p := &parent{options: options{}, reporter: newReporter(io.Discard), suspects: make([]referee.Violation, mostSuspects-1)}
		for range 1 + tt.more {
			p.suspect(referee.Violation{})
		}
		p.suspects = nil // these have been judged
		p.judgeAllSuspects()
		if p.failures != tt.failures || len(p.summary.FailureList) != tt.failures {
			t.Fatalf("%d more than there is room for: %d failures, want %d", tt.more, p.failures, tt.failures)
		}
		if want := plural(tt.more, "entry") + " that referees saw"; tt.failures > 0 && !strings.HasPrefix(p.summary.FailureList[0], want) {
			t.Errorf("%q does not begin with %q", p.summary.FailureList[0], want)
		}
	}
}
