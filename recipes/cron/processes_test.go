// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/internal/realzk/child"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/cron"
)

var (
	plannedTimes = flag.Int("planned", 60, "how many planned times TestProcesses goes through at least")
	outage       = flag.Duration("outage", 4*time.Second, "for how long it stops ZooKeeper")
)

const (
	// childHistory turns this test binary into a process that runs jobs, and notes that in this file.
	childHistory = "HOLDFAST_TEST_CRON_HISTORY"

	jobPeriod  = 100 * time.Millisecond
	jobSession = 2 * time.Second
)

// jobAttempts are the Options.Attempts of the jobs.
var jobAttempts = []int{1, 3}

// An entry is a line of the history, which all processes append to, each line with one write. So the
// lines are in the order in which they were written, as a resource that the jobs write to would see it.
type entry struct {
	what      string // "begin" and "end" of a run; "interrupted" and "missed" are events
	attempts  int    // names the job
	pid       int
	at, clock int64 // the machine's clock; the process's clock as it was asked last
	planned   int64
	attempt   int
	token     uint64
}

func (e entry) String() string {
	return fmt.Sprint(e.what, " ", e.attempts, " ", e.pid, " ", e.at, " ", e.clock, " ", e.planned, " ", e.attempt, " ", e.token)
}

func parseEntry(text string) (e entry, err error) {
	_, err = fmt.Sscan(text, &e.what, &e.attempts, &e.pid, &e.at, &e.clock, &e.planned, &e.attempt, &e.token)
	return e, err
}

// jobsProcess runs the jobs until its input ends. A line of the input sets its clock: to the machine's,
// plus so many nanoseconds.
func jobsProcess(server, history string) error {
	file, err := os.OpenFile(history, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var offset atomic.Int64
	go func() {
		defer cancel()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if n, err := strconv.ParseInt(in.Text(), 10, 64); err == nil {
				offset.Store(n)
			}
		}
	}()
	m, err := manager.Open(ctx, manager.Config{Servers: []string{server}, SessionTimeout: jobSession, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer m.Close()
	ended := make(chan error, len(jobAttempts))
	for _, attempts := range jobAttempts {
		go func() { ended <- runJob(ctx, m, attempts, &offset, file) }()
	}
	for range jobAttempts {
		if e := <-ended; ctx.Err() == nil {
			err = e
			cancel()
		}
	}
	return err
}

// runJob runs a job until ctx ends.
func runJob(ctx context.Context, m *manager.Manager, attempts int, offset *atomic.Int64, history io.Writer) error {
	var clock atomic.Int64
	note := func(what string, t cron.Tick) {
		e := entry{what: what, attempts: attempts, pid: os.Getpid(), at: time.Now().UnixNano(), clock: clock.Load(), planned: t.Planned.UnixNano(), attempt: t.Attempt, token: t.Token}
		if _, err := io.WriteString(history, e.String()+"\n"); err != nil {
			panic(err)
		}
	}
	o := cron.Options{Schedule: cron.Every(jobPeriod), Missed: cron.RunAll, Attempts: attempts}
	o.Now = func() time.Time {
		now := time.Now().Add(time.Duration(offset.Load()))
		clock.Store(now.UnixNano())
		return now
	}
	o.OnEvent = func(e cron.Event) {
		switch e.Kind {
		case cron.EventInterrupted:
			note("interrupted", e.Tick)
		case cron.EventMissed:
			note("missed", cron.Tick{Planned: e.From})
		}
	}
	c, err := cron.New(m, fmt.Sprintf("attempts%d", attempts), o)
	if err != nil {
		return err
	}
	return c.Run(ctx, func(ctx context.Context, t cron.Tick) error {
		note("begin", t)
		select {
		case <-time.After(takes(t.Planned.UnixNano())):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		note("end", t)
		return nil
	})
}

// takes returns how long the run that is planned for that time takes.
func takes(planned int64) time.Duration {
	switch planned / int64(jobPeriod) % 80 { // those that are past after an outage must be caught up on
	case 0:
		return time.Second // there is time to strike
	case 20, 40, 60:
		return jobPeriod * 3 / 2
	}
	return time.Millisecond
}

// A worker is a process that runs the jobs.
type worker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{} // closed when it has, and err is set
	err   error
}

// An ordeal is what the processes go through.
type ordeal struct {
	t       *testing.T
	zk      *realzk.Server
	starter *child.Starter
	history *os.File
	rest    []byte // of a line that is not written completely yet
	entries []entry
	workers []*worker

	rng *rand.Rand

	kills, inRun, pauses, steps int
	stopped, back               time.Time // ZooKeeper's outage
}

// start starts a process.
func (o *ordeal) start() {
	o.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		o.t.Fatal(err)
	}
	w := &worker{cmd: exec.Command(exe, "-test.run=^$"), ended: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), childServer+"="+o.zk.Addr(), childHistory+"="+o.history.Name())
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		o.t.Fatal(err)
	}
	if err := o.starter.Start(w.cmd); err != nil {
		o.t.Fatal(err)
	}
	go func() {
		defer close(w.ended)
		w.err = w.cmd.Wait()
	}()
	o.t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.ended
	})
	o.workers = append(o.workers, w)
}

// read reads what is new in the history.
func (o *ordeal) read() {
	o.t.Helper()
	text, err := io.ReadAll(o.history)
	if err != nil {
		o.t.Fatal(err)
	}
	o.rest = append(o.rest, text...)
	for {
		line, rest, whole := bytes.Cut(o.rest, []byte("\n"))
		if !whole {
			return
		}
		e, err := parseEntry(string(line))
		if err != nil {
			o.t.Fatalf("the history says %q: %v", line, err)
		}
		o.entries, o.rest = append(o.entries, e), rest
	}
}

// until waits until the history has what is wanted.
func (o *ordeal) until(what string, wanted func() bool) {
	o.t.Helper()
	limit := time.After(time.Minute + *outage)
	for o.read(); !wanted(); o.read() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			o.t.Fatalf("not in time: %s; the history ends with\n%s", what, o.entries[max(0, len(o.entries)-20):])
		}
		for _, w := range o.workers {
			select {
			case <-w.ended:
				o.t.Fatalf("process %d has ended: %v", w.cmd.Process.Pid, w.err)
			default:
			}
		}
	}
}

// goesOn waits until each job has begun a few runs more, whichever process does.
func (o *ordeal) goesOn() {
	o.t.Helper()
	o.read()
	begun := func(attempts int) (n int) {
		for _, e := range o.entries {
			if e.what == "begin" && e.attempts == attempts {
				n++
			}
		}
		return n
	}
	for _, attempts := range jobAttempts {
		before := begun(attempts)
		o.until("the jobs go on", func() bool { return begun(attempts) >= before+3 })
	}
}

// any returns one of the processes, mostly one that runs a job; middle waits until that is in the middle of a run.
func (o *ordeal) any(middle bool) int {
	job := jobAttempts[o.rng.IntN(len(jobAttempts))]
	if middle {
		o.until("a long run", func() bool {
			e := o.last(job)
			return e != nil && e.what == "begin" && takes(e.planned) > jobPeriod
		})
	}
	o.read()
	if e := o.last(job); e != nil && (middle || o.rng.IntN(4) > 0) {
		for i, w := range o.workers {
			if w.cmd.Process.Pid == e.pid {
				return i
			}
		}
	}
	return o.rng.IntN(len(o.workers))
}

// last returns the last entry of the runs of a job.
func (o *ordeal) last(attempts int) *entry {
	for i := len(o.entries) - 1; i >= 0; i-- {
		if e := &o.entries[i]; e.attempts == attempts && (e.what == "begin" || e.what == "end") {
			return e
		}
	}
	return nil
}

// kill kills a process by SIGKILL, and starts another.
func (o *ordeal) kill(middle bool) {
	i := o.any(middle)
	w := o.workers[i]
	_ = w.cmd.Process.Kill()
	<-w.ended
	o.kills++
	o.noteInRun(w)
	o.workers = append(o.workers[:i], o.workers[i+1:]...)
	o.start()
}

// noteInRun counts the runs in the middle of which w has been struck.
func (o *ordeal) noteInRun(w *worker) {
	o.read()
	for _, attempts := range jobAttempts {
		if e := o.last(attempts); e != nil && e.what == "begin" && e.pid == w.cmd.Process.Pid {
			o.inRun++
		}
	}
}

// pause stops a process for longer than its session lasts.
func (o *ordeal) pause(middle bool) {
	if !child.CanPause {
		return
	}
	w := o.workers[o.any(middle)]
	if err := child.Pause(w.cmd.Process); err != nil {
		o.t.Fatal(err)
	}
	o.noteInRun(w)
	<-time.After(jobSession + time.Second + o.upTo(2*time.Second))
	if err := child.Resume(w.cmd.Process); err != nil {
		o.t.Fatal(err)
	}
	o.pauses++
}

// step sets the clock of a process.
func (o *ordeal) step(middle bool) {
	o.set(o.workers[o.any(middle)], o.upTo(8*time.Second)-4*time.Second)
	o.steps++
}

func (o *ordeal) set(w *worker, offset time.Duration) {
	if _, err := fmt.Fprintln(w.in, int64(offset)); err != nil {
		o.t.Fatal(err)
	}
}

// stopZooKeeper does that for a while, in which a process is killed, too.
func (o *ordeal) stopZooKeeper() {
	o.stopped = time.Now()
	o.zk.Kill()
	<-time.After(*outage / 2)
	o.kill(false)
	<-time.After(*outage / 2)
	back := time.Now()
	o.zk.Restart()
	o.back = back
}

func (o *ordeal) upTo(d time.Duration) time.Duration { return time.Duration(o.rng.Int64N(int64(d))) }

// Three processes run two jobs on a real ZooKeeper while they are killed and started, paused for longer than their
// sessions last, and have their clocks set, and ZooKeeper is stopped for a while. The history of what
// they have run is judged: see judge. With -planned and -outage it is as long as one likes.
func TestProcesses(t *testing.T) {
	t.Parallel()
	zk := realzk.Start(t, realzk.TickTime(500*time.Millisecond))
	path := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	history, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = history.Close() })
	o := &ordeal{t: t, zk: zk, starter: child.NewStarter(), history: history, rng: rand.New(rand.NewPCG(rand.Uint64(), 0))} //nolint:gosec // it is not for secrets
	t.Cleanup(o.starter.Close)
	for range 3 {
		o.start()
	}
	o.goesOn()
	enough := func(part int) bool {
		for _, attempts := range jobAttempts {
			var first, last int64
			for _, e := range o.entries {
				if e.what == "begin" && e.attempts == attempts {
					if first == 0 {
						first = e.planned
					}
					last = max(last, e.planned)
				}
			}
			if time.Duration(last-first) < time.Duration(part)*jobPeriod {
				return false
			}
		}
		return true
	}
	for round := 0; o.back.IsZero() || !enough(*plannedTimes); round++ {
		for _, strike := range []func(middle bool){o.kill, o.pause, o.step} {
			<-time.After(o.upTo(2 * time.Second))
			strike(round%2 == 0)
			o.goesOn()
		}
		if o.back.IsZero() && enough(*plannedTimes/2) {
			o.stopZooKeeper()
			o.goesOn()
		}
	}
	for _, w := range o.workers {
		o.set(w, 0)
	}
	for _, attempts := range jobAttempts {
		o.until("no planned time is past", func() bool {
			e := o.last(attempts)
			return e != nil && e.planned > time.Now().Add(-2*time.Second).UnixNano() && e.planned > o.back.UnixNano()
		})
	}
	for _, w := range o.workers {
		_ = w.in.Close()
		<-w.ended
		if w.err != nil {
			t.Errorf("a process that is to end: %v", w.err)
		}
	}
	o.read()
	t.Logf("kills: %d; pauses: %d; runs in the middle of which that was: %d; clocks set: %d; ZooKeeper stopped for %v", o.kills, o.pauses, o.inRun, o.steps, o.back.Sub(o.stopped).Round(time.Millisecond))
	for _, attempts := range jobAttempts {
		v := judge(o.entries, attempts)
		late := 0 // of those that were planned in the outage
		for _, e := range o.entries {
			if e.what == "begin" && e.attempts == attempts && e.planned >= o.stopped.UnixNano() && e.planned < o.back.UnixNano() && e.at > o.back.UnixNano() {
				late++
			}
		}
		t.Logf("attempts=%d: %v; %d runs of the outage came after it", attempts, v, late)
		for _, text := range v.violations {
			t.Error(text)
		}
		if late == 0 || v.planned < *plannedTimes {
			t.Errorf("attempts=%d: it was no ordeal", attempts)
		}
	}
}
