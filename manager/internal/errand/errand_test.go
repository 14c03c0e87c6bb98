// SPDX-License-Identifier: Apache-2.0

package errand

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A fakePool runs each task on a goroutine of its own, when its time has come.
type fakePool struct {
	mu        sync.Mutex
	submitted int
	queues    []zkio.Queue // of the tasks that were put off
	waiting   map[any][]*time.Timer
	closed    bool
}

func (p *fakePool) Submit(_ zkio.Queue, t zkio.Task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.submitted++
	if t != nil {
		go t.Run(nil)
	}
	return true
}

func (p *fakePool) SubmitAfterFor(owner any, d time.Duration, q zkio.Queue, t zkio.Task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.queues = append(p.queues, q)
	if p.waiting == nil {
		p.waiting = make(map[any][]*time.Timer)
	}
	p.waiting[owner] = append(p.waiting[owner], time.AfterFunc(d, func() {
		if v, ok := t.(zkio.Voidable); !ok || !v.Void() {
			t.Run(nil)
		}
	}))
	return true
}

func (p *fakePool) Drop(owner any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, timer := range p.waiting[owner] {
		timer.Stop()
	}
	delete(p.waiting, owner)
}

// A fakeTask notes when its steps run, and does in them what the test says.
type fakeTask struct {
	Errand
	start  time.Time
	urgent bool
	todo   []func() // one for each step
	did    []string // when
	closed []zkio.Queue
}

func (f *fakeTask) Urgent() bool        { return f.urgent }
func (f *fakeTask) Closed(q zkio.Queue) { f.closed = append(f.closed, q) }

func (f *fakeTask) Step(*zkio.Session) {
	f.did = append(f.did, time.Since(f.start).String())
	if len(f.todo) > 0 {
		var do func()
		do, f.todo = f.todo[0], f.todo[1:]
		do()
	}
}

// newTask returns a task that begins now, and whose steps pool runs.
func newTask(pool Pool) *fakeTask {
	f := &fakeTask{start: time.Now()}
	f.Init(pool, f)
	return f
}

// The deadlines of a task, in milliseconds, that its first step sets, and when steps run.
func TestWakeAfter(t *testing.T) {
	for _, test := range []struct{ what, set, steps string }{
		{"none", "", "0s"},
		{"one", "30", "0s 30ms"},
		{"a later one is covered by the earlier", "30 50", "0s 30ms"},
		{"an earlier one replaces the later", "50 30", "0s 30ms"},
		{"as often as there are earlier ones", "50 30 40 10 20", "0s 10ms"},
		{"the same again", "30 30", "0s 30ms"},
		{"an urgent one is by another queue, which a closed pool serves, too", "30 urgent 50", "0s 30ms"},
		{"at once", "0", "0s 0s"},
		{"none is left after a stop", "30 stop", "0s"},
		{"a stop does not hinder the next", "30 stop 50", "0s 50ms"},
	} {
		synctest.Test(t, func(t *testing.T) {
			pool := new(fakePool)
			f := newTask(pool)
			f.todo = []func(){func() {
				for word := range strings.FieldsSeq(test.set) {
					switch word {
					case "urgent":
						f.urgent = true
					case "stop":
						f.Stop()
					default:
						var ms int
						if _, err := fmt.Sscan(word, &ms); err != nil {
							t.Fatal(err)
						}
						f.WakeAfter(time.Duration(ms) * time.Millisecond)
					}
				}
			}}
			f.Wake()
			time.Sleep(time.Second)
			synctest.Wait()
			if got := strings.Join(f.did, " "); got != test.steps {
				t.Errorf("%s (%s): steps at %s; want %s", test.what, test.set, got, test.steps)
			}
			if last := pool.queues; len(last) > 0 && (last[len(last)-1] == zkio.Releases) != f.urgent {
				t.Errorf("%s (%s): put off by way of the queues %v", test.what, test.set, last)
			}
		})
	}
}

// A deadline that has passed hinders no later one, and a wake before it does not take it
// back.
func TestWakeAfterAWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTask(new(fakePool))
		f.todo = []func(){
			func() { f.WakeAfter(20 * time.Millisecond) }, // at 0
			func() {}, // woken at 10
			func() { f.WakeAfter(30 * time.Millisecond) }, // at 20
		}
		f.Wake()
		time.Sleep(10 * time.Millisecond)
		f.Wake()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := strings.Join(f.did, " "); got != "0s 10ms 20ms 50ms" {
			t.Errorf("steps at %s", got)
		}
	})
}

// Step after step fails: the waits grow, up to 2 seconds, and begin anew after a success.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTask(new(fakePool))
		const failures = 300 // more than a Tries counts
		var at []time.Duration
		for range failures {
			f.todo = append(f.todo, func() {
				at = append(at, time.Since(f.start))
				f.Retry()
			})
		}
		f.Wake()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(f.did) != failures+1 {
			t.Fatalf("%d steps, want %d", len(f.did), failures+1)
		}
		most := time.Duration(0)
		for i := 1; i < len(at); i++ {
			most = max(most, at[i]-at[i-1])
		}
		if first := at[1] - at[0]; first > 2*firstRetry || most < lastRetry/2 || most > 2*lastRetry {
			t.Errorf("the first wait is %v, the longest %v", first, most)
		}
		f.Tries = 0
		if wait := f.Tries.Wait(); wait > 2*firstRetry {
			t.Errorf("after a success, the first wait is %v", wait)
		}
	})
}

// A pool that is closed runs nothing, and says so.
func TestErrandOfAClosedPool(t *testing.T) {
	f := newTask(&fakePool{closed: true})
	f.WakeAfter(time.Second)
	f.Retry()
	if f.alarm.Load() != nil {
		t.Error("a closed pool has put a wake off")
	}
	f.Wake()
	f.WakeBy(zkio.Refetches) // it waits in a better queue, as far as it knows
	f.urgent = true
	f.Wake()
	f.WakeAfter(time.Second)
	if want := []zkio.Queue{zkio.Fetches, zkio.Fetches, zkio.Fetches, zkio.Releases, zkio.Releases}; !slices.Equal(f.closed, want) {
		t.Errorf("closed for the queues %v, want %v", f.closed, want)
	}
	if len(f.did) != 0 {
		t.Errorf("%d steps", len(f.did))
	}
}

// Only a task that waits in the queue of fetches is run by its caller, and its entry is
// stale then.
func TestPreempt(t *testing.T) {
	f := new(fakeStep)
	ran := 0
	run := func() { ran++ }
	if f.runner.Preempt(run) {
		t.Error("an idle task was run")
	}
	f.wake()
	if !f.runner.Preempt(func() { run(); f.runner.Run(f, nil) }) || ran != 1 || f.steps != 0 {
		t.Errorf("run %d times, with %d steps", ran, f.steps)
	}
	f.take(zkio.Fetches)
	if f.steps != 0 {
		t.Error("the stale entry ran a step")
	}
	f.inStep = func() {
		if f.runner.Preempt(run) {
			t.Error("a running task was run")
		}
	}
	f.wake()
	f.take(zkio.Fetches)
	if f.steps != 1 || ran != 1 {
		t.Errorf("%d steps, run %d times", f.steps, ran)
	}
}

// A task that is tried again has its own entry in the pool.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Tries
		pool, runs := new(fakePool), 0
		var task taskFunc
		task = func() {
			if runs++; runs < 5 && !n.Again(pool, zkio.Releases, task) {
				t.Error("the pool took no task")
			}
		}
		task.Run(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if runs != 5 || n != 4 || slices.Contains(pool.queues, zkio.Fetches) {
			t.Errorf("%d runs, %d failures, by way of the queues %v", runs, n, pool.queues)
		}
		pool.closed = true
		if n.Again(pool, zkio.Releases, task) {
			t.Error("a closed pool took a task")
		}
	})
}

type taskFunc func()

func (f taskFunc) Run(*zkio.Session) { f() }
