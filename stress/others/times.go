// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// Times are when workers were inside with locks, as they saw it, and when their processes were
// stopped. It is counted apart from the judge, who excuses a process that was stopped until a
// moment after it goes on: here only the time counts in which both of a pair ran, and had for a
// moment.
//
// The goroutines of a process share a lock of Holdfast, and clients of another library do not.
type times struct {
	shared bool
	open   map[holding]*stay
	stays  map[string][]*stay // by lock
	stops  map[int][]span     // by process
	last   int64

	told    map[holding]int64 // when the holder was told of a loss
	refused []refusal

	grants  []int64       // when
	trouble []span        // faults of all kinds
	active  map[int]fault // by their numbers
	longest int64         // when the longest overlap began
}

// A holding is an acquisition.
type holding struct {
	process, incarnation int
	op                   uint64
}

// A stay is one worker's time inside.
type stay struct {
	process, incarnation int
	reads                bool
	span
}

type span struct{ from, to int64 }

// A refusal is a write that the register has refused, at the time of the answer.
type refusal struct {
	holding
	at int64
}

type fault struct {
	stops   bool // a process
	process int
	at      int64
}

func newTimes(shared bool) *times {
	return &times{shared: shared, open: map[holding]*stay{}, stays: map[string][]*stay{}, stops: map[int][]span{}, told: map[holding]int64{}, active: map[int]fault{}}
}

// awake is how long after a process goes on its threads have run, each a few times: before that none
// can know what happened meanwhile.
const awake = 100 * time.Millisecond

func (t *times) event(e history.Event) {
	t.last = max(t.last, e.At)
	h := holding{e.Process, e.Incarnation, e.Op}
	switch e.Kind {
	case history.Granted:
		t.grants = append(t.grants, e.At)
		s := &stay{e.Process, e.Incarnation, e.Mode == history.Read, span{e.At, 0}}
		t.open[h] = s
		t.stays[e.Lock] = append(t.stays[e.Lock], s)
	case history.Write:
		if !e.OK && e.Text != "late" { // Holdfast's workers also write too late on purpose
			t.refused = append(t.refused, refusal{h, e.At})
		}
	case history.Release, history.Lost:
		if e.Kind == history.Lost {
			t.told[h] = e.At
		}
		if s := t.open[h]; s != nil {
			s.to = e.At
			delete(t.open, h)
		}
	case history.Ended:
		for h, s := range t.open {
			if h.process == e.Process && h.incarnation == e.Incarnation {
				s.to = e.At
				delete(t.open, h)
			}
		}
	case history.FaultBegan:
		f := fault{at: e.At, process: history.TargetProcess(e.Target)}
		f.stops = f.process >= 0 && e.Text == "pause-worker"
		t.active[e.Fault] = f
	case history.FaultEnded:
		f, ok := t.active[e.Fault]
		if !ok {
			return
		}
		delete(t.active, e.Fault)
		t.trouble = append(t.trouble, span{f.at, e.At})
		if f.stops {
			t.stops[f.process] = append(t.stops[f.process], span{f.at, e.At + int64(awake)})
		}
	}
}

// noticed is how long an overlap is at least that counts: an event is written a moment after what
// it says.
const noticed = 2 * time.Millisecond

// A pace is how many grants a second there were.
type pace struct{ Quiet, During, After float64 }

// afterwards is how long after a fault the time counts as after it.
const afterwards = 2 * time.Second

// pace returns the grants a second while no fault was active and none had been just before, while
// one was, and just after one.
func (t *times) pace(begin int64) pace {
	for _, f := range t.active {
		t.trouble = append(t.trouble, span{f.at, t.last})
	}
	slices.SortFunc(t.trouble, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	slices.Sort(t.grants)
	var all [3]struct{ grants, time int64 } // in the order of pace's fields
	at := begin
	count := func(kind int, to int64) {
		if to = min(to, t.last); to <= at {
			return
		}
		i, _ := slices.BinarySearch(t.grants, at)
		j, _ := slices.BinarySearch(t.grants, to)
		all[kind].grants += int64(j - i)
		all[kind].time += to - at
		at = to
	}
	after := begin // until when it is just after a fault
	for _, s := range t.trouble {
		count(2, min(s.from, after))
		count(0, s.from)
		count(1, s.to)
		after = max(after, s.to+int64(afterwards))
	}
	count(2, after)
	count(0, t.last)
	rate := func(kind int) float64 {
		return float64(all[kind].grants) / max(time.Duration(all[kind].time).Seconds(), 1e-9)
	}
	return pace{rate(0), rate(1), rate(2)}
}

// overlaps returns how many pairs of holders were inside at once, and for how long at most.
func (t *times) overlaps() (n int, longest time.Duration) {
	for _, s := range t.open {
		s.to = t.last
	}
	for _, stays := range t.stays {
		slices.SortFunc(stays, func(a, b *stay) int { return cmp.Compare(a.from, b.from) })
		for i, a := range stays {
			for _, b := range stays[i+1:] {
				if b.from >= a.to {
					continue // a later one may begin earlier than others end
				}
				if t.shared && a.process == b.process || a.reads && b.reads {
					continue
				}
				if d := t.together(a, b); d >= noticed {
					n++
					if d > longest {
						longest, t.longest = d, b.from
					}
				}
			}
		}
	}
	return n, longest
}

// lateWrites returns how many writes were refused of holders that had not been told of a loss. A
// worker writes once more when it leaves, also if it leaves because it has been told.
func (t *times) lateWrites() (n int) {
	for _, w := range t.refused {
		if at, told := t.told[w.holding]; !told || w.at < at {
			n++
		}
	}
	return n
}

// together returns for how long two stays overlap while both processes run.
func (t *times) together(a, b *stay) time.Duration {
	both := span{max(a.from, b.from), min(a.to, b.to)}
	d := both.to - both.from
	stops := slices.Concat(t.stops[a.process], t.stops[b.process])
	slices.SortFunc(stops, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	at := both.from
	for _, s := range stops {
		from, to := max(s.from, at), min(s.to, both.to)
		if from < to {
			d -= to - from
			at = to
		}
	}
	return time.Duration(d)
}
