// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
)

// A child is one of the processes that contend: one Manager, and the workers.
type child struct {
	settings settings
	out      *messageWriter
	run      context.Context // ends when the workers are to stop

	locks   []*contended
	workers []*worker
	latency *latency
	counts  liveCounts
	// releases are those whose future has not settled yet.
	releases atomic.Int64
	// dumped is set when the first failure that has a dump is reported. Who is
	// stuck makes others stick; the first one is worth reading.
	dumped atomic.Bool
}

// liveCounts are what the workers count while they work. What a lock counts
// itself is not among them.
type liveCounts struct {
	readEntries, writeEntries, downgrades, refusedUpgrades                                   atomic.Uint64
	entries, reentries, shares, refusals, timeouts, cancels, lostHolds, violations, failures atomic.Uint64
}

const (
	connectTimeout   = 10 * time.Second
	progressInterval = 250 * time.Millisecond
	// Of violations and of failures, so many are reported in full by each
	// process. All are counted.
	maxReported = 50
)

// childMain is the main function of a process that contends. It returns the
// exit status.
func childMain(stdin io.Reader, stdout, stderr io.Writer) int {
	in := bufio.NewReader(stdin)
	c := &child{out: newMessageWriter(stdout), latency: newLatency()}
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c.settings)
	}
	if err != nil {
		fmt.Fprintf(stderr, "reading the settings: %v\n", err)
		return exitUsage
	}
	run, stop := context.WithCancel(context.Background())
	defer stop()
	c.run = run
	start := make(chan struct{})
	go func() {
		// It ends with the process.
		if line, _ := in.ReadString('\n'); line == goLine {
			close(start)
			_, _ = io.Copy(io.Discard, in)
		}
		stop()
	}()
	return c.main(start, stderr)
}

// main opens the locks, lets the workers work, closes everything, and reports.
func (c *child) main(start <-chan struct{}, stderr io.Writer) int {
	s := c.settings
	ctx, cancel := context.WithTimeout(c.run, connectTimeout)
	m, err := manager.Open(ctx, manager.Config{
		Servers:        s.Servers,
		Root:           s.Root,
		SessionTimeout: s.SessionTimeout,
		Tenure:         s.Tenure,
		Label:          fmt.Sprintf("stress process %d", s.Process),
		Logger:         slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	cancel()
	if err == nil {
		err = c.open(m)
	}
	if err != nil {
		if c.run.Err() == nil {
			c.fail(failure{Text: fmt.Sprintf("cannot start: %v", err), Fatal: true})
		}
		return exitFailure
	}
	c.out.send(message{Ready: true})
	select {
	case <-start:
	case <-c.run.Done():
	}

	stopTelling, told := c.tell()
	ended := c.work()
	stopTelling()
	<-told

	switch {
	case !ended:
		// A worker is stuck; the manager would be too. Our nodes go with the session.
	case s.Sabotage == leaks:
		_, _ = c.locks[0].lock.Lock(context.Background())
	default:
		ended = c.close(m)
	}
	report, err := c.latency.report()
	if err != nil {
		c.fail(failure{Text: err.Error()})
	}
	c.out.send(message{Final: &final{Counts: c.total(), Held: c.held(), Latency: report}})
	if !ended {
		return exitFailure
	}
	return exitOK
}

// open gets the locks and their referees.
func (c *child) open(m *manager.Manager) error {
	for i := range c.settings.Locks {
		name := lockName(i)
		r, err := newReferee(name, filepath.Join(c.settings.Dir, name), c.settings.Process, c.violation)
		if err != nil {
			return err
		}
		l := &contended{referee: r, kind: manager.KindExclusive}
		c.locks = append(c.locks, l)
		if c.settings.ReadWrite {
			rw, err := m.ReadWrite(name)
			if err != nil {
				return err
			}
			l.lock, l.kind = rw.Writer(), manager.KindWrite
			l.reader = &contended{lock: rw.Reader(), referee: r, kind: manager.KindRead, writer: l}
		} else if l.lock, err = m.Exclusive(name); err != nil {
			return err
		}
	}
	for i := range c.settings.Goroutines {
		c.workers = append(c.workers, &worker{id: i, child: c, plan: newPlan(c.settings, i)})
	}
	return nil
}

// lockName is the name of the lock i, as a directory and as a file.
func lockName(i int) string { return "lock-" + strconv.Itoa(i) }

// tell reports the progress now and then until stop is called; told closes then.
func (c *child) tell() (stop func(), told <-chan struct{}) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				n := c.total()
				c.out.send(message{Progress: &n})
			}
		}
	}()
	return stop, done
}

// work lets the workers work until they are to stop, and waits until they have
// stopped and all releases are done. It reports false if that takes too long:
// then somebody is stuck, and his goroutines go on.
func (c *child) work() (ended bool) {
	watching, stopWatching := context.WithCancel(context.Background())
	var watchdog, workers sync.WaitGroup
	if c.settings.Tenure >= 0 {
		watchdog.Go(func() {
			watch(watching, c.workers, c.settings.Patience, func(w *worker, op *operation) { c.fail(w.stuckIn(op)) })
		})
	} // else who waits may starve by rights, until the run ends: then he is to stop, too
	defer watchdog.Wait()
	defer stopWatching()

	for _, w := range c.workers {
		workers.Go(func() {
			pprof.Do(c.run, pprof.Labels(workerLabel, strconv.Itoa(w.id)), w.run)
		})
	}
	stopped := make(chan struct{})
	go func() {
		workers.Wait()
		close(stopped)
	}()

	<-c.run.Done()
	// Longer than the watchdog waits, so that it can say who it is. The end of
	// run has ended the pauses, so nothing may take longer by rights.
	limit := time.NewTimer(c.settings.Patience + c.settings.Patience/2 + time.Second)
	defer limit.Stop()
	select {
	case <-stopped:
	case <-limit.C:
		c.fail(failure{Text: "stuck: not all workers have stopped", Dump: allStacks(), Fatal: true})
		return false
	}
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for c.releases.Load() > 0 {
		select {
		case <-poll.C:
		case <-limit.C:
			c.fail(failure{Text: fmt.Sprintf("stuck: the futures of %d releases have not settled", c.releases.Load()), Dump: allStacks(), Fatal: true})
			return false
		}
	}
	return true
}

// close closes everything, when nobody works any more.
func (c *child) close(m *manager.Manager) (ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), c.settings.Patience)
	defer cancel()
	var errs []error
	if err := m.Shutdown(ctx); err != nil {
		errs = append(errs, err)
	}
	for _, l := range c.locks {
		for _, l := range l.both() {
			if phase, holders := l.lock.State(); phase != state.Free || holders != 0 {
				errs = append(errs, fmt.Errorf("everybody has left %v, but it is %v/%d", l, phase, holders))
			}
		}
		if err := l.referee.close(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		c.fail(failure{Text: fmt.Sprintf("at the end: %v", err)})
		return false
	}
	return true
}

// total returns all counts so far.
func (c *child) total() counts {
	n := counts{
		Entries:         c.counts.entries.Load(),
		ReadEntries:     c.counts.readEntries.Load(),
		WriteEntries:    c.counts.writeEntries.Load(),
		Downgrades:      c.counts.downgrades.Load(),
		RefusedUpgrades: c.counts.refusedUpgrades.Load(),
		Reentries:       c.counts.reentries.Load(),
		Shares:          c.counts.shares.Load(),
		Refusals:        c.counts.refusals.Load(),
		Timeouts:        c.counts.timeouts.Load(),
		Cancels:         c.counts.cancels.Load(),
		LostHolds:       c.counts.lostHolds.Load(),
		Violations:      c.counts.violations.Load(),
		Failures:        c.counts.failures.Load(),
	}
	for _, l := range c.locks {
		for _, l := range l.both() {
			s := l.lock.Stats()
			n.add(counts{Grants: s.Grants, Rounds: s.Rounds, LostRaces: s.LostRaces, LongestRace: s.LongestRace})
			switch l.kind {
			case manager.KindRead:
				n.ReadGrants += s.Grants
			case manager.KindWrite:
				n.WriteGrants += s.Grants
			}
		}
	}
	return n
}

// held returns for how long this process has had each of the locks.
func (c *child) held() []time.Duration {
	held := make([]time.Duration, len(c.locks))
	for i, l := range c.locks {
		held[i] = l.referee.held()
	}
	return held
}

// stopping reports whether the workers are to stop.
func (c *child) stopping() bool { return c.run.Err() != nil }

// violation reports v.
func (c *child) violation(v violation) {
	if c.counts.violations.Add(1) <= maxReported {
		c.out.send(message{Violation: &v})
	}
}

// fail reports f.
func (c *child) fail(f failure) {
	if f.Dump != "" && c.dumped.Swap(true) {
		f.Stack, f.Dump = "", ""
	}
	if c.counts.failures.Add(1) <= maxReported || f.Fatal {
		c.out.send(message{Failure: &f})
	}
}

// childMark is the environment variable that makes this program a child.
const childMark = "HOLDFAST_STRESS_PROCESS"

func isChild() bool { return os.Getenv(childMark) != "" }
