// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/daemon"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/contender"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/nemesis"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A trouble injects the faults of a run. A nil trouble injects none. It has a goroutine,
// which has the parent's goroutine do what concerns processes.
type trouble struct {
	parent   *parent
	schedule nemesis.Schedule
	manager  *manager.Manager // asks holders to give up their locks

	mu      sync.Mutex    // protects staying
	staying map[third]int // how many faults have told the process to stay inside there

	begun  bool
	cancel context.CancelFunc
	done   chan struct{} // closed when all faults are over
	err    error         // read it when done is closed
	joined bool
}

// Kinds of faults that delete a node of a process.
const (
	deleteHolder = "delete-holder"
	deleteWaiter = "delete-waiter"
)

func (p *parent) newTrouble() (*trouble, error) {
	o := p.options
	ctx, cancel := context.WithTimeout(p.interrupted, wire.ConnectTimeout)
	defer cancel()
	m, err := manager.Open(ctx, manager.Config{
		Servers:        p.cluster.Servers,
		Root:           p.root,
		SessionTimeout: o.SessionTimeout,
		Label:          "stress, which injects faults",
		Logger:         p.log,
	})
	if err != nil {
		return nil, err
	}
	return &trouble{
		parent:   p,
		schedule: nemesis.NewSchedule(o.Seed, o.Nemesis, o.Duration, o.SessionTimeout),
		staying:  map[third]int{},
		manager:  m,
		done:     make(chan struct{}),
	}, nil
}

// kinds returns the kinds of faults that must come up: those that were named one by one, or
// else those that there is time for, which are some at least.
func (t *trouble) kinds() []string {
	if t == nil {
		return []string{}
	}
	o, scheduled := t.parent.options, t.schedule.Kinds()
	if o.Listed || len(scheduled) == 0 {
		return o.Nemesis
	}
	return scheduled
}

// left returns the kinds of faults for which the run is too short.
func (t *trouble) left() []string {
	scheduled := t.schedule.Kinds()
	return slices.DeleteFunc(slices.Clone(t.parent.options.Nemesis), func(kind string) bool { return slices.Contains(scheduled, kind) })
}

func (t *trouble) start() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.begun, t.cancel = true, cancel
	go func() {
		defer close(t.done)
		t.err = nemesis.Run(ctx, t, t.schedule, t.record)
	}()
}

// record writes the beginning or the end of a fault into the history, and shows it.
func (t *trouble) record(e history.Event) {
	e.Process = history.Harness
	target := t.targetOf(e)
	e.Stays = e.Stays && target >= 0
	switch {
	case !e.Stays:
	case e.Kind == history.FaultEnded:
		defer t.leave(target, e.Text)
	default:
		t.stay(target)
		t.gather(target)
		e.At = history.Now()
	}
	t.parent.chronicle.Write(e)
	what := e.Text
	if e.Target != "" {
		what += " " + e.Target
	}
	if e.Lock != "" && !strings.HasSuffix(e.Target, e.Lock) {
		what += ", lock " + e.Lock
	}
	switch {
	case e.Kind == history.FaultEnded:
		what += ": over"
	case !e.Stays && target >= 0:
		what += ", while the locks change hands"
	}
	t.parent.reporter.Note("fault %d: %s", e.Fault, what)
}

// A third is a process, and one of the parts of the locks.
type third struct{ process, part int }

// thirdsFor returns where processes are to stay inside when a fault hits the target.
func (t *trouble) thirdsFor(target int) (all []third) {
	for part := range wire.Thirds - 1 {
		all = append(all, third{(target + part) % t.parent.options.Processes, part})
	}
	return all
}

// stay tells the process that a fault hits, and another one, to stay inside with a third of
// the locks each.
func (t *trouble) stay(target int) { t.order(target, 1, wire.StayLine) }

// leave ends stay, when a fault of that kind is over. A node has been deleted only just:
// a worker that left at once would not be told inside that it has lost the lock.
func (t *trouble) leave(target int, kind string) {
	if kind == deleteHolder || kind == deleteWaiter {
		pause.For(context.Background(), telling, nil)
	}
	t.order(target, -1, wire.LeaveLine)
}

// order counts by one more fault, or one less, where processes are to stay inside, and has the parent
// tell them.
func (t *trouble) order(target, more int, line string) {
	all := t.thirdsFor(target)
	t.mu.Lock()
	for _, x := range all {
		if t.staying[x] += more; t.staying[x] == 0 {
			delete(t.staying, x)
		}
	}
	t.mu.Unlock()
	t.do(func(p *parent) {
		for _, x := range all {
			p.tell(x.process, fmt.Sprintf(line, x.part))
		}
	})
}

const (
	// For so long a fault waits until its target holds a lock and waits for one.
	gathering = 5 * time.Second
	// After a process is first in a lock's queue, a worker of it is inside so much later.
	entering = 50 * time.Millisecond
	// After a node is deleted, its process has been told so much later.
	telling = 500 * time.Millisecond
)

// gather waits until the target holds a lock inside which its workers stay, and waits for
// one inside which those of the other process stay.
func (t *trouble) gather(target int) {
	ctx, cancel := context.WithTimeout(context.Background(), gathering)
	defer cancel()
	if o := t.parent.options; contender.BackendOf(o.Contender) != nil || o.Kind != wire.ElectionWorkload && slices.Contains(wire.RecipeWorkloads, o.Kind) {
		pause.For(ctx, time.Second, nil) // who waits for what is not seen
		return
	}
	other := (target + 1) % t.parent.options.Processes
	still := func(places []nemesis.Place, process int) bool {
		return slices.ContainsFunc(places, func(p nemesis.Place) bool { return p.Process == process && p.Still })
	}
	for pause.For(ctx, 20*time.Millisecond, nil) {
		holders, waiters := t.Look()
		if still(holders, target) && (t.parent.options.Locks == 1 || still(holders, other) && still(waiters, target)) {
			pause.For(ctx, entering, nil)
			return
		}
	}
}

// targetOf returns the process that holds locks and waits for locks while the fault goes on:
// the one that the fault hits, or any if it hits a server. It returns -1 if the fault hits
// neither.
func (t *trouble) targetOf(e history.Event) int {
	if strings.HasPrefix(e.Target, "server ") {
		return e.Fault % t.parent.options.Processes
	}
	return history.TargetProcess(e.Target)
}

// stop ends the faults, without waiting for that.
func (t *trouble) stop() {
	if t != nil && t.begun {
		t.cancel()
	}
}

// running reports whether there are faults to wait for.
func (t *trouble) running() bool { return t != nil && t.begun && !t.joined }

// ended returns a channel that is closed when all faults are over, until join is called.
func (t *trouble) ended() <-chan struct{} {
	if !t.running() {
		return nil
	}
	return t.done
}

// join notes that all faults are over.
func (t *trouble) join() {
	t.joined = true
	t.cancel()
	if t.err != nil {
		t.parent.fail(fmt.Sprintf("injecting faults: %v", t.err))
	}
}

func (t *trouble) close() error {
	if t == nil {
		return nil
	}
	return t.manager.Close()
}

// limit returns when a run must be stopped that was planned to end then: not before all
// faults are over.
func (t *trouble) limit(planned time.Time) time.Time {
	if t.running() {
		return planned.Add(time.Minute)
	}
	return planned
}

// do has the parent's goroutine call fn, and waits until it has. That goroutine does not
// end before the faults are over.
func (t *trouble) do(fn func(p *parent)) {
	done := make(chan struct{})
	t.parent.calls <- func() {
		defer close(done)
		fn(t.parent)
	}
	<-done
}

// What follows is t as a nemesis.Env.

func (t *trouble) Now() int64 { return history.Now() }

func (t *trouble) Processes() (all []int) {
	t.do(func(p *parent) {
		for _, c := range p.processes {
			if c.ready && !c.exited && !c.killed {
				all = append(all, c.index)
			}
		}
	})
	return all
}

var errNoProcess = errors.New("there is no such process")

// runningProcess returns the process of a number. The parent's goroutine calls it.
func (p *parent) runningProcess(i int) (*process, error) {
	if i < 0 || i >= len(p.processes) || p.processes[i].exited || p.processes[i].killed {
		return nil, fmt.Errorf("process %d: %w", i, errNoProcess)
	}
	return p.processes[i], nil
}

func (t *trouble) Replace(ctx context.Context, number int, clock time.Duration) (err error) {
	started := make(chan struct{})
	t.do(func(p *parent) {
		var c *process
		if c, err = p.runningProcess(number); err == nil {
			p.chronicle.Kills(c.life())
			c.killed, c.clock, c.replaced = true, clock, started
			c.kill()
		}
	})
	if err != nil {
		return err
	}
	select {
	case <-started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// process returns a process that runs. What of it does not change may be used.
func (t *trouble) process(number int) (found *process, err error) {
	t.do(func(p *parent) { found, err = p.runningProcess(number) })
	return found, err
}

func (t *trouble) Pause(process int) error {
	p, err := t.process(process)
	if err != nil {
		return err
	}
	return p.pause()
}

func (t *trouble) Resume(process int) error {
	p, err := t.process(process)
	if errors.Is(err, errNoProcess) {
		return nil // a second interrupt has killed it
	} else if err != nil {
		return err
	}
	if err := p.resume(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (t *trouble) Helper(process int) nemesis.Helper {
	p, err := t.process(process)
	if err != nil {
		return nil
	}
	return nemesis.HelperOf(p.cmd.Process.Pid)
}

func (t *trouble) Links(process int) nemesis.Links {
	if l := t.parent.cluster.Links; process < len(l) {
		return l[process]
	}
	return nil
}

func (t *trouble) Servers() nemesis.Servers {
	switch c := t.parent.cluster; {
	case c.Ensemble != nil:
		return c.Ensemble
	case c.Others != nil:
		return otherServers{c.Others}
	}
	return nil
}

// otherServers are those of another system, for which no faults are injected that they do not have.
type otherServers struct{ *daemon.Cluster }

func (otherServers) StallLogs() (func() error, error) { return nil, errors.ErrUnsupported }
func (otherServers) Isolate(int) error                { return errors.ErrUnsupported }
func (otherServers) Heal()                            {}

func (t *trouble) Tree() nemesis.Tree { return t.parent.cluster.Client.Session() }

// Revoke asks the holders of a lock to give it up.
func (t *trouble) Revoke(ctx context.Context, lock string) error {
	l, err := t.lock(lock)
	if err != nil {
		return err
	}
	return revoked(l.Revoke(ctx, "the stress harness wants to see whether its holder gives it up"))
}

// revoked returns the error of a revocation whose holders need not have been told. Whether
// those that were told give the lock up, and when, is what the judge looks at.
func revoked(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, manager.ErrNoAnswer) && strings.Contains(err.Error(), "not given up") {
		return nil
	}
	return err
}

// A revocable is a lock whose holders can be asked to give it up.
type revocable interface {
	Revoke(ctx context.Context, reason string) error
}

func (t *trouble) lock(name string) (revocable, error) {
	all := t.parent.options.Venues()
	v := all[max(0, slices.IndexFunc(all, func(v wire.Venue) bool { return v.Name == name }))]
	switch {
	case v.ReadWrite:
		rw, err := t.manager.ReadWrite(name)
		if err != nil {
			return nil, err
		}
		return rw.Writer(), nil
	case v.Kind == wire.MutexWorkload:
		return t.manager.Mutex(name)
	default:
		return t.manager.Exclusive(v.Queue())
	}
}

func (t *trouble) Note(text string) { t.parent.reporter.Note("%s", text) }

// Look looks at the directories of the locks.
func (t *trouble) Look() (holders, waiters []nemesis.Place) {
	parts := map[string]int{}
	for i, v := range t.parent.options.Venues() {
		parts[v.Name] = i % wire.Thirds
	}
	holders, waiters, err := nemesis.Look(t.Tree(), t.parent.lockDirs(), t.parent.chronicle.ProcessOf)
	if err != nil {
		return nil, nil // there is no connection: the nemesis looks again
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	markStill(holders, waiters, func(p nemesis.Place) bool { return t.staying[third{p.Process, parts[p.Lock]}] > 0 })
	return holders, waiters
}

// markStill notes which places do not change, since workers of the lock's holder stay inside.
func markStill(holders, waiters []nemesis.Place, stays func(holder nemesis.Place) bool) {
	still := map[string]bool{}
	for i := range holders {
		if stays(holders[i]) {
			holders[i].Still, still[holders[i].Lock] = true, true
		}
	}
	for i := range waiters {
		waiters[i].Still = still[waiters[i].Lock]
	}
}
