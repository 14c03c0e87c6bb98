// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/summary"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// ms returns an event of so many milliseconds.
func ms(at int64, kind history.Kind, process int, op uint64) history.Event {
	return history.Event{At: at * int64(time.Millisecond), Kind: kind, Process: process, Op: op, Lock: "a"}
}

// pause returns the beginning or the end of the fault of that number, which stops a process.
func pause(at int64, kind history.Kind, number int, target string) history.Event {
	e := ms(at, kind, history.Harness, 0)
	e.Fault, e.Target, e.Text = number, target, "pause-worker"
	return e
}

func TestOverlaps(t *testing.T) {
	const granted, release, lost, ended = history.Granted, history.Release, history.Lost, history.Ended
	began, over := history.FaultBegan, history.FaultEnded
	elsewhere := ms(15, granted, 1, 1)
	elsewhere.Lock = "b"
	read, alsoRead := ms(10, granted, 0, 1), ms(15, granted, 1, 1)
	read.Mode, alsoRead.Mode = history.Read, history.Read
	again := ms(15, granted, 1, 1)
	again.Incarnation = 1
	for name, tt := range map[string]struct {
		events  []history.Event
		n       int
		longest int64
	}{
		"one after the other":      {[]history.Event{ms(10, granted, 0, 1), ms(20, release, 0, 1), ms(20, granted, 1, 1), ms(30, release, 1, 1)}, 0, 0},
		"two at once":              {[]history.Event{ms(10, granted, 0, 1), ms(15, granted, 1, 1), ms(22, release, 0, 1), ms(30, release, 1, 1)}, 1, 7},
		"one inside the other":     {[]history.Event{ms(10, granted, 0, 1), ms(15, granted, 1, 1), ms(19, release, 1, 1), ms(30, release, 0, 1)}, 1, 4},
		"a moment":                 {[]history.Event{ms(10, granted, 0, 1), ms(19, granted, 1, 1), ms(20, release, 0, 1), ms(30, release, 1, 1)}, 0, 0},
		"three":                    {[]history.Event{ms(10, granted, 0, 1), ms(11, granted, 1, 1), ms(12, granted, 2, 1), ms(20, release, 0, 1), ms(21, lost, 1, 1), ms(22, release, 2, 1)}, 3, 9},
		"until the loss is told":   {[]history.Event{ms(10, granted, 0, 1), ms(15, granted, 1, 1), ms(18, lost, 0, 1), ms(40, release, 0, 1), ms(50, release, 1, 1)}, 1, 3},
		"until the process ends":   {[]history.Event{ms(10, granted, 0, 1), ms(15, granted, 1, 1), ms(21, ended, 0, 0), ms(50, release, 1, 1)}, 1, 6},
		"until the history ends":   {[]history.Event{ms(10, granted, 0, 1), ms(15, granted, 1, 1), ms(35, history.Alive, 2, 0)}, 1, 20},
		"of one process":           {[]history.Event{ms(10, granted, 0, 1), ms(15, granted, 0, 2), ms(30, release, 0, 1), ms(30, release, 0, 2)}, 0, 0},
		"of one client's process":  {[]history.Event{ms(10, granted, 0, 1), ms(15, granted, 0, 2), ms(30, release, 0, 1), ms(30, release, 0, 2)}, 1, 15},
		"of readers":               {[]history.Event{read, alsoRead, ms(30, release, 0, 1), ms(30, release, 1, 1)}, 0, 0},
		"of a reader":              {[]history.Event{read, ms(15, granted, 1, 1), ms(30, release, 0, 1), ms(30, release, 1, 1)}, 1, 15},
		"of two locks":             {[]history.Event{ms(10, granted, 0, 1), elsewhere, ms(30, release, 0, 1), ms(30, release, 1, 1)}, 0, 0},
		"another incarnation":      {[]history.Event{ms(10, granted, 0, 1), again, ms(20, ended, 1, 0), ms(30, release, 0, 1), ms(40, history.Alive, 0, 0)}, 1, 15},
		"while one is stopped":     {[]history.Event{ms(10, granted, 0, 1), pause(12, began, 1, "process 0"), ms(15, granted, 1, 1), pause(40, over, 1, "process 0"), ms(41, lost, 0, 1)}, 0, 0},
		"after it was stopped":     {[]history.Event{ms(10, granted, 0, 1), pause(12, began, 1, "process 0"), ms(15, granted, 1, 1), pause(40, over, 1, "process 0"), ms(155, lost, 0, 1)}, 1, 15},
		"just after that":          {[]history.Event{ms(10, granted, 0, 1), pause(12, began, 1, "process 0"), ms(15, granted, 1, 1), pause(40, over, 1, "process 0"), ms(139, lost, 0, 1)}, 0, 0},
		"both are stopped":         {[]history.Event{ms(0, granted, 0, 1), ms(0, granted, 1, 1), pause(10, began, 1, "process 0"), pause(20, began, 2, "process 1"), pause(30, over, 1, "process 0"), pause(40, over, 2, "process 1"), ms(150, release, 0, 1)}, 1, 20},
		"while a third is stopped": {[]history.Event{ms(10, granted, 0, 1), pause(12, began, 1, "process 2"), ms(15, granted, 1, 1), pause(40, over, 1, "process 2"), ms(41, lost, 0, 1)}, 1, 26},
	} {
		t.Run(name, func(t *testing.T) {
			times := newTimes(name != "of one client's process")
			for _, e := range tt.events {
				times.event(e)
			}
			if n, longest := times.overlaps(); n != tt.n || longest != time.Duration(tt.longest)*time.Millisecond {
				t.Errorf("%d overlaps of up to %v, want %d of %d ms", n, longest, tt.n, tt.longest)
			}
		})
	}
}

// TestLateWrites: what holders write counts until they have been told of a loss.
func TestLateWrites(t *testing.T) {
	times := newTimes(false)
	onPurpose := ms(50, history.Write, 0, 1)
	onPurpose.Text = "late"
	accepted := ms(60, history.Write, 0, 1)
	accepted.OK = true
	for _, e := range []history.Event{
		ms(10, history.Granted, 0, 1), ms(40, history.Write, 0, 1), onPurpose, accepted, ms(70, history.Release, 0, 1),
		ms(80, history.Granted, 0, 2), ms(90, history.Write, 0, 2), ms(95, history.Lost, 0, 2), ms(96, history.Write, 0, 2),
		ms(80, history.Granted, 1, 2), ms(99, history.Write, 1, 2),
	} {
		times.event(e)
	}
	if n := times.lateWrites(); n != 3 {
		t.Errorf("%d, want 3: at 40, 90 and 99 ms", n)
	}
}

// TestPace: grants count by whether a fault was active, had just ended, or neither.
func TestPace(t *testing.T) {
	times := newTimes(true)
	fault := func(at int64, kind history.Kind, number int) history.Event {
		e := ms(at, kind, history.Harness, 0)
		e.Fault, e.Text = number, "kill-server"
		return e
	}
	began, over := history.FaultBegan, history.FaultEnded
	events := []history.Event{fault(4000, began, 1), fault(5000, began, 2), fault(6000, over, 1), fault(7000, over, 2), fault(8000, began, 3), fault(8500, over, 3), fault(14500, began, 4), ms(15500, history.Alive, 0, 0)}
	for at := range int64(155) { // one each 100 ms until the first fault, then each 200 ms, and each 500 ms just after
		switch at *= 100; {
		case at < 4000, at < 7000 && at%200 == 0, at%500 == 0:
			events = append(events, ms(at, history.Granted, 0, uint64(at)))
		}
	}
	for _, e := range events {
		times.event(e)
	}
	// Quiet: 0 to 4 s, 10.5 to 14.5 s. Faults: 4 to 7 s, 8 to 8.5 s, 14.5 to 15.5 s. After: 7 to 8 s, 8.5 to 10.5 s.
	if got, want := times.pace(0), (pace{48 / 8., 21 / 4.5, 6 / 3.}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestRow: what a run has left becomes a row of the page.
func TestRow(t *testing.T) {
	dir := t.TempDir()
	if err := history.WriteHeader(dir, history.Header{Version: 1, ZooKeeper: "3.8.0"}); err != nil {
		t.Fatal(err)
	}
	w, err := history.Create(dir, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	late := ms(50, history.Write, 0, 1)
	late.Text = "late"
	accepted := ms(60, history.Write, 0, 1)
	accepted.OK = true
	granted := ms(10, history.Granted, 0, 1)
	granted.Session = "0x1"
	for _, e := range []history.Event{granted, ms(40, history.Write, 0, 1), late, accepted, ms(70, history.Release, 0, 1)} {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s := summary.Summary{Command: "go run ./stress -x", Workload: wire.Workload{Seed: 9}, Leaks: 3, History: &verdict.Verdict{
		Grants: 50, LossesJudged: 7, ToldLate: 5, NeverTold: 3, Checks: []verdict.Check{{Name: verdict.Patience, Found: 4}, {Name: verdict.Overlap, Found: 9}},
	}}
	got, err := rowOf("kazoo", dir, s)
	want := row{
		Client: "kazoo", Seed: 9, Named: true, Command: "go run ./stress -x", Servers: "ZooKeeper 3.8.0", Grants: got.Grants,
		Told: 5, Late: 2, Never: 3, Stuck: 4, Left: 3, LateWrites: 1,
	}
	if err != nil || got != want {
		t.Errorf("%v\n%+v, want\n%+v", err, got, want)
	}
	s.History.Diverged = "at 3 s"
	if got, err := rowOf("kazoo", dir, s); err != nil || !strings.Contains(got.Void, "contradicted each other at 3 s") {
		t.Errorf("%v, %+v", err, got)
	}
	var b strings.Builder
	two := row{Client: "etcd", Seed: 7, Library: "client 3.7", Servers: "etcd 3.4", Alone: true, Overlaps: 2, Longest: time.Second, LongestAt: 63210 * time.Millisecond, Grants: pace{9, 5, 7}}
	p := page{Duration: time.Minute, Faults: []string{"kill-worker"}, Rows: []row{want, two, {Client: "other", Seed: 7, Servers: "it", Void: "it was"}}, Missing: []string{"x: not here"}}
	if err := p.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| kazoo, seed 9 |  | ZooKeeper 3.8.0 | 0 | 5, 2, 3 | 4 | 3 | 1 | 14, 0, 0 |", "| etcd | client 3.7 | etcd 3.4 | 2, 1 s | – | 0 | – | 0 | 9, 5, 7 |", "| other |  | it | void: it was | | | | | |",
		"- ``: the longest overlap is at 63.2 s, in `bin/others/etcd-7/report/index.html#at-63.2`", "- Not installed here, and left out: x: not here", "- `go run ./stress -x`",
	} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("the page lacks %q:\n%s", line, b.String())
		}
	}
	if _, err := rowOf("kazoo", dir, summary.Summary{Reasons: []string{"no connection"}}); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Error(err)
	}
}
