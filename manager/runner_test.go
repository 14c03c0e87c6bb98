// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/zkio"
)

// A fakeStep is a task of a runner, without a pool: what is submitted waits in its
// queues until the test has it run.
type fakeStep struct {
	runner   runner
	notDue   bool
	isUrgent bool
	entries  []bool // submitted and not run; true: in the queue of releases
	steps    int
	inStep   func() // if not nil, called by the next step
	asked    func() // if not nil, called when the runner has asked whether the step is urgent
}

func (f *fakeStep) due() bool          { return !f.notDue }
func (f *fakeStep) submit(urgent bool) { f.entries = append(f.entries, urgent) }

func (f *fakeStep) urgent() bool {
	urgent := f.isUrgent
	if fn := f.asked; fn != nil {
		f.asked = nil
		fn()
	}
	return urgent
}

func (f *fakeStep) step(*zkio.Session) {
	f.steps++
	if fn := f.inStep; fn != nil {
		f.inStep = nil
		fn()
	}
}

// take has a worker run the first entry of a queue.
func (f *fakeStep) take(urgent bool) {
	if i := slices.Index(f.entries, urgent); i >= 0 {
		f.entries = slices.Delete(f.entries, i, i+1)
		f.runner.run(f, nil)
	}
}

// What a sequence of wakes and runs comes to. The words: wake; urgent and lazy
// change what the next step is; fetch and end let a worker take an entry of the
// queue of fetches or of releases; wake* is a wake during the next step, urgent*
// one that makes the rest urgent, and urgent? the same right after the runner has
// asked.
func TestRunner(t *testing.T) {
	for _, test := range []struct {
		what, script string
		steps        int
		entries      string // left in the queues: f and e
	}{
		{"one wake, one step", "wake fetch", 1, ""},
		{"wakes that come together count as one", "wake wake wake fetch", 1, ""},
		{"a wake after the step", "wake fetch wake fetch", 2, ""},
		{"a wake during a step", "wake wake* fetch", 2, ""},
		{"several wakes during a step", "wake wake** fetch", 2, ""},
		{"a step that is not due", "early wake", 0, ""},
		{"ends overtake fetches, whose entry is stale then", "wake urgent wake end fetch", 1, ""},
		{"the stale entry may come first, and does the work", "wake urgent wake fetch end", 1, ""},
		{"an urgent wake is queued once", "wake urgent wake wake", 0, "fe"},
		{"an urgent step", "urgent wake end", 1, ""},
		{"an end that is none any more goes to the fetches", "urgent wake lazy end", 0, "f"},
		{"and is run there", "urgent wake lazy end fetch", 1, ""},
		{"a stale entry in the queue of fetches becomes the real one", "wake urgent wake lazy end fetch", 1, "f"},
		{"and the other one is stale", "wake urgent wake lazy end fetch fetch", 1, ""},
		{"it becomes urgent as it goes to the fetches", "urgent wake lazy urgent? end", 0, "fe"},
		{"it becomes urgent during a step", "wake urgent* fetch", 2, ""},
		{"a wake for a fetch that waits as an end", "urgent wake lazy wake end fetch", 1, ""},
	} {
		f := new(fakeStep)
		for word := range strings.FieldsSeq(test.script) {
			switch word {
			case "early":
				f.notDue = true
			case "wake":
				f.runner.wake(f)
			case "wake*":
				f.inStep = func() { f.runner.wake(f) }
			case "wake**":
				f.inStep = func() { f.runner.wake(f); f.runner.wake(f) }
			case "urgent*":
				f.inStep = func() { f.isUrgent = true; f.runner.wake(f) }
			case "urgent?":
				f.asked = func() { f.isUrgent = true; f.runner.wake(f) }
			case "urgent", "lazy":
				f.isUrgent = word == "urgent"
			case "fetch", "end":
				f.take(word == "end")
			}
		}
		left := ""
		for _, urgent := range f.entries {
			left += map[bool]string{false: "f", true: "e"}[urgent]
		}
		if f.steps != test.steps || left != test.entries {
			t.Errorf("%s (%s): %d steps, %q queued; want %d, %q", test.what, test.script, f.steps, left, test.steps, test.entries)
		}
	}
}

// A step is never run by two workers, and each change that a waker makes before its
// wake is seen by a step.
func TestRunnerLosesNoWake(t *testing.T) {
	const wakers, each = 4, 20_000
	var (
		task    racingStep
		workers sync.WaitGroup
		all     sync.WaitGroup
	)
	task.queue = make(chan struct{}, wakers*each)
	for range 3 {
		workers.Go(func() {
			for range task.queue {
				task.runner.run(&task, nil)
			}
		})
	}
	for range wakers {
		all.Go(func() {
			for range each {
				task.todo.Add(1)
				task.runner.wake(&task)
			}
		})
	}
	all.Wait()
	close(task.queue)
	workers.Wait()
	if left := task.todo.Load(); left != 0 || task.done != wakers*each {
		t.Errorf("%d of %d changes were seen, %d are left", task.done, wakers*each, left)
	}
}

// A racingStep counts in a plain field what its steps have seen.
type racingStep struct {
	runner runner
	queue  chan struct{}
	todo   atomic.Int64
	done   int64
}

func (r *racingStep) due() bool          { return true }
func (r *racingStep) urgent() bool       { return false }
func (r *racingStep) submit(bool)        { r.queue <- struct{}{} }
func (r *racingStep) step(*zkio.Session) { r.done += r.todo.Swap(0) }

// However many rounds of a lock want to be fetched, it has one entry in the pool's
// queue.
func TestFetchEntry(t *testing.T) {
	var e fetchEntry
	p := new(fakePool)
	for range 3 {
		if !e.submit(p, nil) || p.submitted != 1 {
			t.Fatalf("%d entries", p.submitted)
		}
	}
	e.taken()
	if !e.submit(p, nil) || p.submitted != 2 {
		t.Errorf("%d entries after the first was taken", p.submitted)
	}
	e.taken()
	p.closed = true
	for range 2 { // it is not taken for queued
		if e.submit(p, nil) {
			t.Error("a closed pool took an entry")
		}
	}
}

type fakePool struct {
	submitted int
	closed    bool
}

func (p *fakePool) Submit(zkio.Queue, zkio.Task) bool {
	if !p.closed {
		p.submitted++
	}
	return !p.closed
}
