// SPDX-License-Identifier: Apache-2.0

// Package worker is a worker process: its goroutines contend for the locks, check every result,
// and tell the referee, the journal and the parent what they see.
//
// A process ([Main], in child.go) opens the locks and runs the workers. A worker (worker.go)
// follows its plan, watched by the watchdog, and acquires locks in all ways, or goes
// through what one file each is about: Mutex, upgrades, LockAll, abandoned locks, the barrier,
// and the other recipes.
package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
	"github.com/holdfast-go/holdfast/stress/internal/plan"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
	"github.com/holdfast-go/holdfast/stress/internal/register"
	"github.com/holdfast-go/holdfast/stress/internal/residue"
	"github.com/holdfast-go/holdfast/stress/internal/watchdog"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A child is one of the contending processes: a Manager and its workers.
type child struct {
	settings wire.Settings
	out      *wire.MessageWriter
	run      context.Context // ends when the workers must stop
	manager  *manager.Manager
	journal  *journal.Journal // nil if the run has no history

	locks    []*contended
	workers  []*worker
	latency  *wire.Latency
	stays    [wire.Thirds]pause.Stays // by index of the lock
	releases atomic.Int64             // whose future has not settled
	dumped   atomic.Bool              // a dump has been sent; further ones would show the same

	mu     sync.Mutex  // protects counts
	counts wire.Counts // what the workers count; the locks count the rest
}

const (
	progressInterval = 250 * time.Millisecond
	// A process whose parent has died ends after that time at the latest. The servers may
	// have died as well, and it would wait for them for as long as its patience.
	orphanLimit = 5 * time.Second
	// A process reports so many violations and failures in full. It counts all.
	maxReported = 50
)

// Main runs a child and returns its exit status.
func Main(stdin io.Reader, stdout, stderr io.Writer) int {
	in := bufio.NewReader(stdin)
	c := &child{out: wire.NewMessageWriter(stdout), latency: wire.NewLatency()}
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c.settings)
	}
	if err != nil {
		fmt.Fprintf(stderr, "reading the settings: %v\n", err)
		return wire.ExitUsage
	}
	if c.settings.Process == history.Register {
		return register.Main(c.settings, in, c.out)
	}
	run, stop := context.WithCancel(context.Background())
	defer stop()
	c.run = run
	start, parent := make(chan struct{}), os.Getppid()
	go func() {
		// This goroutine ends with the process: a read of stdin cannot be cut short.
		for begun := false; ; {
			line, err := in.ReadString('\n')
			switch {
			case err != nil:
				stop()
				time.AfterFunc(orphanLimit, func() {
					if os.Getppid() != parent {
						os.Exit(wire.ExitFailure)
					}
				})
				return
			case line == wire.GoLine && !begun:
				begun = true
				close(start)
			default:
				c.order(line)
			}
		}
	}()
	return c.main(start, stderr)
}

// order obeys a line of the parent about a third of the locks.
func (c *child) order(line string) {
	var third int
	if _, err := fmt.Sscanf(line, wire.StayLine, &third); err == nil && third < wire.Thirds {
		c.stays[third].Begin()
	} else if _, err := fmt.Sscanf(line, wire.LeaveLine, &third); err == nil && third < wire.Thirds {
		c.stays[third].End()
	}
}

func (c *child) main(start <-chan struct{}, stderr io.Writer) int {
	s := c.settings
	var err error
	if c.journal, err = journal.Open(s, c.fatal); err != nil {
		c.fatal(err)
		return wire.ExitFailure
	}
	stopTelling := pause.Beside(c.journal.Alive)
	contend := c.contend
	if len(c.settings.Program) > 0 {
		contend = c.contendAbroad
	}
	exit := contend(start, stderr)
	stopTelling()
	if err := c.journal.Close(); err != nil {
		c.fail(wire.Failure{Text: err.Error()})
	}
	return exit
}

// startHelper starts the process that closes the session of this one if it is killed. What that
// says goes nowhere: the parent takes this process for one that runs as long as its standard
// error is open. The nemesis kills helpers, so it is no trouble if there is none for a while.
func startHelper() (*sentinel.Sentinel, error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	os.Stderr = null
	return sentinel.Start(sentinel.Config{Logger: slog.New(slog.DiscardHandler)})
}

// contend opens the manager and runs the workers.
func (c *child) contend(start <-chan struct{}, stderr io.Writer) int {
	s := c.settings
	var observe func(manager.Event)
	if c.journal != nil {
		observe = c.journal.Observe
	}
	patience, level := wire.ConnectTimeout, slog.LevelWarn
	if s.Faulty {
		// A process may start while there is no leader, and the manager's warnings tell of
		// the faults that the parent tells of as well.
		patience, level = s.Patience, slog.LevelError
	}
	var dial func(context.Context, string, string) (net.Conn, error)
	if s.Sabotage == wire.IgnoresLease {
		now := time.Now()
		dial = (&pause.Dialer{From: now.Add(freezeAfter), Until: now.Add(thawAfter)}).Dial
	}
	var helper *sentinel.Sentinel
	if s.Sentinel {
		var err error
		if helper, err = startHelper(); err != nil {
			c.fatal(err)
			return wire.ExitFailure
		}
		defer helper.Close()
	}
	before := residue.Take()
	ctx, cancel := context.WithTimeout(c.run, patience)
	m, err := manager.Open(ctx, manager.Config{
		Servers:        s.Servers,
		Root:           s.Root,
		SessionTimeout: s.SessionTimeout,
		Tenure:         s.Tenure,
		Linger:         s.Linger,
		Label:          fmt.Sprintf("stress process %d", s.Process),
		Observer:       observe,
		Dialer:         dial,
		Sentinel:       helper,
		Logger:         slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	})
	cancel()
	if err == nil {
		err = c.open(m)
	}
	if err != nil {
		err = fmt.Errorf("starting: %w", err)
	}
	return c.conduct(start, err, func(ended bool) (clean bool) {
		switch {
		case !ended:
			// A worker is stuck, and Shutdown would be, too. The session's end deletes
			// the nodes.
		case s.Sabotage == wire.Leaks:
			_, _ = c.locks[0].lock.Lock(context.Background())
		default:
			if ended = c.close(m); ended {
				if err := residue.Await(before); err != nil {
					c.fail(wire.Failure{Text: fmt.Sprintf("at the end something is left: %v", err), Dump: watchdog.AllStacks()})
					ended = false
				}
			}
		}
		return ended
	})
}

// conduct tells the parent that the locks are open, or err, which says why they are not, and
// runs the workers from start until the run ends. Then it has end give back what they used:
// ended is false if one of them is stuck. The exit code is a failure unless all is clean.
func (c *child) conduct(start <-chan struct{}, err error, end func(ended bool) (clean bool)) int {
	switch {
	case err != nil && c.run.Err() != nil:
		c.out.Send(wire.Message{Final: &wire.Final{}}) // told to stop before it had started
		return wire.ExitOK
	case err != nil:
		c.fatal(err)
		return wire.ExitFailure
	}
	for i := range c.settings.Goroutines {
		c.workers = append(c.workers, &worker{id: i, child: c, plan: plan.New(c.settings, i)})
	}
	c.out.Send(wire.Message{Ready: true})
	select {
	case <-start:
	case <-c.run.Done():
	}

	stopReporting := pause.Beside(c.reportProgress)
	ended := c.work()
	stopReporting()
	clean := end(ended)
	report, err := c.latency.Report()
	if err != nil {
		c.fail(wire.Failure{Text: err.Error()})
	}
	c.out.Send(wire.Message{Final: &wire.Final{Counts: c.total(), Held: c.held(), Latency: report}})
	if !clean {
		return wire.ExitFailure
	}
	return wire.ExitOK
}

func (c *child) open(m *manager.Manager) error {
	c.manager = m
	for i, v := range c.settings.Venues() {
		l, err := c.openVenue(m, i, v)
		if err != nil {
			return err
		}
		c.locks = append(c.locks, l)
	}
	return nil
}

func (c *child) openVenue(m *manager.Manager, i int, v wire.Venue) (*contended, error) {
	name, kind := v.Name, v.Kind
	r, err := referee.New(name, filepath.Join(c.settings.Dir, name), c.settings.Process, c.violation)
	if err != nil {
		return nil, err
	}
	r.Alone = kind == wire.MutexWorkload
	l := &contended{index: i, referee: r, kind: manager.KindExclusive}
	switch {
	case v.ReadWrite:
		rw, err := m.ReadWrite(name)
		if err != nil {
			return nil, err
		}
		l.lock, l.kind = rw.Writer(), manager.KindWrite
		l.reader = &contended{index: i, lock: rw.Reader(), referee: r, kind: manager.KindRead, writer: l}
		if kind == wire.UpgradeWorkload {
			l.third = &contended{index: i, lock: rw.Upgradable(), referee: r, kind: manager.KindUpgradable, writer: l}
		}
	case kind == wire.MutexWorkload:
		l.mode = history.Mutex
		l.lock, err = m.Mutex(name)
	case v.Recipe:
		l.lock = noLock{name: name}
		err = c.openRecipe(m, l, v)
	case kind == wire.AbandonedWorkload:
		var lock *manager.Lock
		if lock, err = m.Exclusive(name); err == nil {
			l.lock, err = lock, lock.ReportAbandoned(0)
		}
		if err == nil {
			l.ledger, err = referee.OpenLedger(filepath.Join(c.settings.Dir, name))
		}
	default:
		l.lock, err = m.Exclusive(name)
	}
	return l, err
}

func (c *child) reportProgress(ctx context.Context) {
	for pause.For(ctx, progressInterval, nil) {
		n := c.total()
		c.out.Send(wire.Message{Progress: &n})
	}
}

// work runs the workers until they must stop, then waits for them and for their
// releases. It reports false if a worker or a release is stuck, in which case
// their goroutines are still running.
func (c *child) work() (ended bool) {
	if c.settings.Tenure >= 0 { // else a wait may last until the end of the run
		activities := make([]*watchdog.Activity[*contended], len(c.workers))
		for i, w := range c.workers {
			activities[i] = &w.activity
		}
		defer pause.Beside(func(ctx context.Context) {
			watchdog.Watch(ctx, activities, c.settings.Patience, func(id int, op *watchdog.Operation[*contended]) { c.fail(stuckIn(id, op)) })
		})()
	}
	var workers sync.WaitGroup
	for _, w := range c.workers {
		workers.Go(func() { watchdog.Do(c.run, w.id, w.run) })
	}
	stopped := make(chan struct{})
	go func() {
		workers.Wait()
		close(stopped)
	}()

	<-c.run.Done()
	// The pauses have ended with run, so nothing may take longer than the
	// patience. Allow more, so that the watchdog can report which worker it is.
	limit := time.NewTimer(c.settings.Patience + c.settings.Patience/2 + time.Second)
	defer limit.Stop()
	select {
	case <-stopped:
	case <-limit.C:
		c.fail(wire.Failure{Text: "stuck: some workers did not stop", Dump: watchdog.AllStacks(), Fatal: true})
		return false
	}
	c.yield()
	for c.releases.Load() > 0 {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-limit.C:
			c.fail(wire.Failure{Text: fmt.Sprintf("stuck: the futures of %d releases did not settle", c.releases.Load()), Dump: watchdog.AllStacks(), Fatal: true})
			return false
		}
	}
	return true
}

// yield gives up the locks that linger: the futures of their releases are pending.
func (c *child) yield() {
	for _, l := range c.locks {
		for _, l := range l.queue() {
			l.lock.ReleaseIdle()
		}
	}
}

func (c *child) close(m *manager.Manager) (ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), c.settings.Patience)
	defer cancel()
	errs := []error{m.Shutdown(ctx)}
	for _, l := range c.locks {
		for _, l := range l.queue() {
			if phase, holders := l.lock.State(); phase != state.Free || holders != 0 {
				errs = append(errs, fmt.Errorf("%v is %v with %d holders after all workers released it", l, phase, holders))
			}
		}
		errs = append(errs, l.referee.Close())
		if l.ledger != nil {
			errs = append(errs, l.ledger.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		c.fail(wire.Failure{Text: fmt.Sprintf("at the end: %v", err)})
		return false
	}
	return true
}

// count has add count something that a worker has seen, and returns the sums.
func (c *child) count(add func(*wire.Counts)) wire.Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.counts)
	return c.counts
}

func stuckIn(id int, op *watchdog.Operation[*contended]) wire.Failure {
	phase, holders := op.Lock.lock.State()
	return wire.Failure{
		Text: fmt.Sprintf("stuck: worker %d has been in %q on %v for %v; in this process the lock is %v with %d holders, %+v",
			id, op.What, op.Lock, time.Since(op.Since).Round(time.Millisecond), phase, holders, op.Lock.lock.Stats()),
		Stack: watchdog.StacksOf(id),
		Dump:  watchdog.AllStacks(),
		Fatal: true,
	}
}

func (c *child) total() wire.Counts {
	n := c.count(func(*wire.Counts) {})
	for _, l := range c.locks {
		for _, l := range l.queue() {
			s := l.lock.Stats()
			n.Add(wire.Counts{Grants: s.Grants, Rounds: s.Rounds, LostRaces: s.LostRaces, LongestRace: s.LongestRace})
			switch l.kind {
			case manager.KindRead:
				n.ReadGrants += s.Grants
			case manager.KindWrite:
				n.WriteGrants += s.Grants
			case manager.KindUpgradable:
				n.UpgradableGrants += s.Grants
			}
		}
	}
	return n
}

func (c *child) held() []time.Duration {
	held := make([]time.Duration, len(c.locks))
	for i, l := range c.locks {
		held[i] = l.referee.Held()
	}
	return held
}

func (c *child) stopping() bool { return c.run.Err() != nil }

// violation counts and reports v. If faults are injected, the judge of the history decides
// whether it is one: it knows whether another process was stopped, or has just lost the lock.
func (c *child) violation(v referee.Violation) {
	if c.settings.Faulty {
		c.journal.Saw(v)
		return
	}
	if c.count(func(n *wire.Counts) { n.Violations++ }).Violations <= maxReported {
		c.out.Send(wire.Message{Violation: &v})
	}
}

// fatal reports an error after which the run would show nothing, if there is one.
func (c *child) fatal(err error) {
	if err != nil {
		c.fail(wire.Failure{Text: err.Error(), Fatal: true})
	}
}

func (c *child) fail(f wire.Failure) {
	if f.Dump != "" && c.dumped.Swap(true) {
		f.Stack, f.Dump = "", ""
	}
	if c.count(func(n *wire.Counts) { n.Failures++ }).Failures <= maxReported || f.Fatal {
		c.out.Send(wire.Message{Failure: &f})
	}
}

// Mark is the environment variable that makes this program a child.
const Mark = "HOLDFAST_STRESS_PROCESS"

// IsChild reports whether this process was started as a worker process.
func IsChild() bool { return os.Getenv(Mark) != "" }
