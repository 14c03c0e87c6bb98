// SPDX-License-Identifier: Apache-2.0

package errand

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/zkio"
)

// A fakeStep is a task of a Runner, without a pool: what is submitted waits in its
// queues until the test has it run.
type fakeStep struct {
	runner   Runner
	isUrgent bool
	entries  []zkio.Queue // submitted and not run: in which queue
	steps    int
	inStep   func() // if not nil, called by the next step
	asked    func() // if not nil, called when the Runner has asked whether the step is urgent
}

func (f *fakeStep) Submit(q zkio.Queue) { f.entries = append(f.entries, q) }

func (f *fakeStep) Urgent() bool {
	urgent := f.isUrgent
	if fn := f.asked; fn != nil {
		f.asked = nil
		fn()
	}
	return urgent
}

func (f *fakeStep) Step(*zkio.Session) {
	f.steps++
	if fn := f.inStep; fn != nil {
		f.inStep = nil
		fn()
	}
}

func (f *fakeStep) wake() { f.runner.Wake(f, zkio.Fetches) }

// take has a worker run the first entry of a queue.
func (f *fakeStep) take(q zkio.Queue) {
	if i := slices.Index(f.entries, q); i >= 0 {
		f.entries = slices.Delete(f.entries, i, i+1)
		f.runner.Run(f, nil)
	}
}

// What a sequence of wakes and runs comes to. The words: wake; later, a wake that
// can wait; urgent and lazy change what the next step is; fetch, refetch and end let
// a worker take an entry of the queue of fetches, refetches or releases; wake* is a wake during the next step, urgent*
// one that makes the rest urgent, and urgent? the same right after the Runner has
// asked.
func TestRunner(t *testing.T) {
	for _, test := range []struct {
		what, script string
		steps        int
		entries      string // left in the queues: f, r and e
	}{
		{"one wake, one step", "wake fetch", 1, ""},
		{"wakes that come together count as one", "wake wake wake fetch", 1, ""},
		{"a wake after the step", "wake fetch wake fetch", 2, ""},
		{"a wake during a step", "wake wake* fetch", 2, ""},
		{"several wakes during a step", "wake wake** fetch", 2, ""},
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
		{"a wake that can wait", "later refetch", 1, ""},
		{"which is not queued twice", "later later", 0, "r"},
		{"a fetch is queued as one all the same", "later wake", 0, "rf"},
		{"a fetch overtakes it, and its entry is stale then", "later wake fetch refetch", 1, ""},
		{"the stale entry may come first here, too", "later wake refetch fetch", 1, ""},
		{"what is queued as a fetch stays there", "wake later", 0, "f"},
		{"an end overtakes both", "later wake urgent wake end fetch refetch", 1, ""},
		{"an end overtakes what can wait", "later urgent wake", 0, "re"},
		{"what can wait is queued as an end if it is urgent", "urgent later end", 1, ""},
		{"a wake that can wait, during a step", "wake later* fetch", 2, ""},
	} {
		f := new(fakeStep)
		for word := range strings.FieldsSeq(test.script) {
			switch word {
			case "wake":
				f.wake()
			case "later":
				f.runner.Wake(f, zkio.Refetches)
			case "wake*":
				f.inStep = f.wake
			case "wake**":
				f.inStep = func() { f.wake(); f.wake() }
			case "later*":
				f.inStep = func() { f.runner.Wake(f, zkio.Refetches) }
			case "urgent*":
				f.inStep = func() { f.isUrgent = true; f.wake() }
			case "urgent?":
				f.asked = func() { f.isUrgent = true; f.wake() }
			case "urgent", "lazy":
				f.isUrgent = word == "urgent"
			case "fetch":
				f.take(zkio.Fetches)
			case "refetch":
				f.take(zkio.Refetches)
			case "end":
				f.take(zkio.Releases)
			}
		}
		left := ""
		for _, q := range f.entries {
			left += [...]string{zkio.Fetches: "f", zkio.Refetches: "r", zkio.Releases: "e"}[q]
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
				task.runner.Run(&task, nil)
			}
		})
	}
	for range wakers {
		all.Go(func() {
			for range each {
				task.todo.Add(1)
				task.runner.Wake(&task, zkio.Fetches)
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
	runner Runner
	queue  chan struct{}
	todo   atomic.Int64
	done   int64
}

func (r *racingStep) Urgent() bool       { return false }
func (r *racingStep) Submit(zkio.Queue)  { r.queue <- struct{}{} }
func (r *racingStep) Step(*zkio.Session) { r.done += r.todo.Swap(0) }

// However many rounds of a lock want to be fetched, it has one entry in the pool's
// queue.
func TestEntry(t *testing.T) {
	var e Entry
	p := new(fakePool)
	for range 3 {
		if !e.Submit(p, zkio.Fetches, nil) || p.submitted != 1 {
			t.Fatalf("%d entries", p.submitted)
		}
	}
	e.Taken()
	if !e.Submit(p, zkio.Fetches, nil) || p.submitted != 2 {
		t.Errorf("%d entries after the first was taken", p.submitted)
	}
	e.Taken()
	p.closed = true
	for range 2 { // it is not taken for queued
		if e.Submit(p, zkio.Fetches, nil) {
			t.Error("a closed pool took an entry")
		}
	}
}
