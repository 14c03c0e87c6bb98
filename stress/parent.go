// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// A parent runs the processes: it starts them, tells them when to begin and
// when to stop, collects what they say, and looks at the end what is left.
//
// One goroutine does all that, in loop; nothing here is shared. Everything that
// can happen comes to it by a channel.
type parent struct {
	options  options
	sabotage sabotage
	stdout   io.Writer
	reporter *reporter
	log      *slog.Logger

	// interrupted ends with the first Ctrl-C, killed with the second.
	interrupted, killed context.Context

	cluster *cluster
	root    string // of this run's nodes
	dir     string // of the referee's files

	events    chan event
	processes []*process

	meter    meter
	started  time.Time // when the workers began; zero before
	stopped  time.Time // when they were told to stop; zero before
	summary  summary
	failures int // noted here, beside those that processes count
}

const (
	statusInterval = 250 * time.Millisecond
	// Beyond what a process may take by its own rules, so much is allowed
	// before it is killed.
	grace = 15 * time.Second
	// The bound for looking at what is left.
	inspectionTimeout = 30 * time.Second
	// Of violations and of failures, so many are shown and put into the summary.
	maxShown = 20
)

// parentMain is the main function of the program. It returns the exit status.
func parentMain(args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	bad, err := sabotageFromEnvironment()
	if unsupported != "" {
		err = errors.New(unsupported)
	}
	if err != nil {
		fmt.Fprintf(stderr, "stress: %v\n", err)
		return exitUsage
	}
	interrupted, killed, stop := interrupts()
	defer stop()

	r := newReporter(stderr)
	p := &parent{
		options:     o,
		sabotage:    bad,
		stdout:      stdout,
		reporter:    r,
		log:         slog.New(slog.NewTextHandler(lineWriter(r.line), &slog.HandlerOptions{Level: slog.LevelWarn})),
		interrupted: interrupted,
		killed:      killed,
		events:      make(chan event, 256),
		summary:     newSummary(time.Now()),
	}
	return p.main()
}

// interrupts returns contexts that end with the first and with the second
// SIGINT or SIGTERM. stop restores what signals do by themselves.
func interrupts() (first, second context.Context, stop func()) {
	first, cancelFirst := context.WithCancel(context.Background())
	second, cancelSecond := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for _, cancel := range []context.CancelFunc{cancelFirst, cancelSecond} {
			select {
			case <-signals:
				cancel()
			case <-stopped:
				return
			}
		}
	}()
	return first, second, func() {
		signal.Stop(signals)
		close(stopped)
		<-done
		cancelFirst()
		cancelSecond()
	}
}

// lineWriter is a writer that gives what is written to a reporter's line.
type lineWriter func(format string, args ...any)

func (w lineWriter) Write(b []byte) (int, error) {
	w("%s", b)
	return len(b), nil
}

// main does the run and returns the exit status.
func (p *parent) main() int {
	if err := p.prepare(); err != nil {
		p.reporter.done()
		p.reporter.line("stress: %v", err)
		return exitFailure
	}
	p.introduce()
	p.start()
	p.loop()
	p.inspect()
	p.reporter.done()
	return p.conclude()
}

// prepare connects, and makes what the processes share.
func (p *parent) prepare() (err error) {
	if p.options.servers != nil {
		p.reporter.status("connecting to " + strings.Join(p.options.servers, ","))
	}
	p.cluster, err = openCluster(p.interrupted, p.options, p.log)
	if err != nil {
		if p.interrupted.Err() != nil {
			return fmt.Errorf("interrupted: %w", err)
		}
		return fmt.Errorf("cannot connect to ZooKeeper: %w", err)
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	p.root = fmt.Sprintf("%s/holdfast-stress-%x", p.options.chroot, id)
	if p.dir, err = os.MkdirTemp("", "holdfast-stress-"); err != nil {
		return errors.Join(fmt.Errorf("a directory for the referee: %w", err), p.cluster.close())
	}
	return nil
}

// introduce says what is going to happen.
func (p *parent) introduce() {
	o := p.options
	fmt.Fprintf(p.stdout, "Holdfast stress: %s for %v\n", o.scale(), o.duration)
	fmt.Fprintf(p.stdout, "  seed     %d (fixes what each goroutine attempts, and not how they interleave)\n", o.seed)
	if p.cluster.embedded != nil {
		fmt.Fprintf(p.stdout, "  servers  %s: in memory, for demonstration; -servers host:port takes a real ZooKeeper\n", p.cluster.describe())
	} else {
		fmt.Fprintf(p.stdout, "  servers  %s\n", p.cluster.describe())
	}
	fmt.Fprintf(p.stdout, "  root     %s\n", p.root)
}

// scale says who contends, for a person.
func (o options) scale() string {
	lock := "lock"
	if o.readWrite {
		lock = "read/write lock"
	}
	return fmt.Sprintf("%s × %s, %s", plural(o.processes, "process"), plural(o.goroutines, "goroutine"), plural(o.locks, lock))
}

func plural(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"):
		what += "es"
	default:
		what += "s"
	}
	return thousands(n) + " " + what
}

// start starts the processes.
func (p *parent) start() {
	o := p.options
	for i := range o.processes {
		s := settings{
			Process:        i,
			Servers:        p.cluster.servers,
			Root:           p.root,
			Dir:            p.dir,
			Seed:           o.seed,
			Goroutines:     o.goroutines,
			Locks:          o.locks,
			Hold:           o.hold,
			Think:          o.think,
			Greedy:         o.greedy,
			Tenure:         o.tenure,
			ReadWrite:      o.readWrite,
			ReadRatio:      o.readRatio,
			SessionTimeout: o.sessionTimeout,
			Patience:       o.patience,
		}
		if i == 0 {
			s.Sabotage = p.sabotage
		}
		child, err := startProcess(s, p.events, func(line string) { p.reporter.line("process %d: %s", i, line) })
		if err != nil {
			p.fail(err.Error())
			p.stop()
			return
		}
		p.processes = append(p.processes, child)
	}
}

// loop goes on until all processes have ended.
func (p *parent) loop() {
	status := time.NewTicker(statusInterval)
	defer status.Stop()
	interrupted, killed := p.interrupted.Done(), p.killed.Done()
	for p.count(func(c *process) bool { return !c.exited }) > 0 {
		// The timer for what comes next: that all are ready, that the time is
		// over, that all have ended.
		next := p.limit()
		timer := time.NewTimer(time.Until(next))
		select {
		case e := <-p.events:
			p.handle(e)
		case <-status.C:
			p.showStatus()
		case <-timer.C:
			p.overdue()
		case <-interrupted:
			interrupted = nil
			p.summary.Interrupted = true
			p.stop()
		case <-killed:
			killed = nil
			p.fail("killed by a second interrupt")
			p.kill()
		}
		timer.Stop()
	}
	if p.stopped.IsZero() {
		p.stopped = time.Now()
	}
}

// limit is when what is under way must be over.
func (p *parent) limit() time.Time {
	switch {
	case !p.stopped.IsZero():
		return p.stopped.Add(3*p.options.patience + grace)
	case !p.started.IsZero():
		return p.started.Add(p.options.duration)
	default:
		return p.summary.Begin.Add(connectTimeout + grace)
	}
}

// overdue is called when limit has passed.
func (p *parent) overdue() {
	switch {
	case !p.stopped.IsZero():
		p.fail("a process did not end when it was told to, and was killed")
		p.kill()
		p.stopped = time.Now() // which moves the limit
	case !p.started.IsZero():
		p.stop()
	default:
		p.fail("the processes took too long to start")
		p.stop()
	}
}

// handle takes what a process has said, or that it has ended.
func (p *parent) handle(e event) {
	c, m := e.process, e.message
	switch {
	case e.exited:
		c.exited = true
		switch {
		case e.exit != nil:
			p.fail(fmt.Sprintf("process %d: %v", c.index, e.exit))
		case c.final == nil:
			p.fail(fmt.Sprintf("process %d ended without a report", c.index))
		case p.stopped.IsZero():
			p.fail(fmt.Sprintf("process %d ended too early", c.index))
		}
		if p.stopped.IsZero() {
			p.stop()
		}
	case m.Ready:
		c.ready = true
		if p.stopped.IsZero() && p.count(func(c *process) bool { return c.ready }) == p.options.processes {
			p.started = time.Now()
			p.reporter.phase("%s at work", plural(len(p.processes), "process"))
			for _, c := range p.processes {
				c.goOn()
			}
		}
	case m.Progress != nil:
		c.progress = *m.Progress
	case m.Violation != nil:
		if n := len(p.summary.ViolationList); n < maxShown {
			p.summary.ViolationList = append(p.summary.ViolationList, *m.Violation)
			p.reporter.line("VIOLATION seen by process %d, %v", c.index, m.Violation)
			if n+1 == maxShown {
				p.reporter.line("VIOLATION: further ones are counted, and not shown")
			}
		}
	case m.Failure != nil:
		p.failure(c, *m.Failure)
	case m.Final != nil:
		c.final = m.Final
		c.progress = m.Final.Counts
		if err := p.summary.latency.add(m.Final.Latency); err != nil {
			p.fail(fmt.Sprintf("process %d: %v", c.index, err))
		}
	}
}

// failure takes a failure that a process reports, and counts.
func (p *parent) failure(c *process, f failure) {
	text := fmt.Sprintf("process %d: %s", c.index, f.Text)
	if f.Stack != "" {
		text += "\n" + f.Stack
	}
	if f.Dump != "" {
		text += "\n" + saveDump(c.index, f.Dump)
	}
	p.show(text)
	if f.Fatal {
		p.stop()
	}
}

// saveDump puts a dump where it can be looked at, and says where that is.
func saveDump(process int, dump string) string {
	f, err := os.CreateTemp("", fmt.Sprintf("holdfast-stress-process-%d-*.txt", process))
	if err == nil {
		_, err = f.WriteString(dump)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Sprintf("its goroutines could not be saved: %v", err)
	}
	return "all its goroutines: " + f.Name()
}

// fail notes a failure that no process has counted.
func (p *parent) fail(text string) {
	p.failures++
	p.show(text)
}

// show tells of a failure.
func (p *parent) show(text string) {
	if n := len(p.summary.FailureList); n < maxShown {
		p.summary.FailureList = append(p.summary.FailureList, text)
		p.reporter.line("FAILED: %s", text)
		if n+1 == maxShown {
			p.reporter.line("FAILED: further failures are counted, and not shown")
		}
	}
}

// stop tells the processes to stop.
func (p *parent) stop() {
	if p.stopped.IsZero() {
		p.stopped = time.Now()
		p.reporter.phase("stopping")
	}
	for _, c := range p.processes {
		c.stop()
	}
}

// kill ends the processes at once.
func (p *parent) kill() {
	p.stop()
	for _, c := range p.processes {
		c.kill()
	}
}

func (p *parent) count(is func(*process) bool) (n int) {
	for _, c := range p.processes {
		if is(c) {
			n++
		}
	}
	return n
}

// total is what all processes have done so far.
func (p *parent) total() (n counts) {
	for _, c := range p.processes {
		n.add(c.progress)
	}
	n.Failures += uint64(p.failures)
	return n
}

// showStatus says how it goes.
func (p *parent) showStatus() {
	switch {
	case !p.stopped.IsZero():
		p.reporter.status(fmt.Sprintf("stopping: %d of %s ended", p.count(func(c *process) bool { return c.exited }), plural(len(p.processes), "process")))
	case p.started.IsZero():
		p.reporter.status(fmt.Sprintf("starting: %d of %s ready", p.count(func(c *process) bool { return c.ready }), plural(len(p.processes), "process")))
	default:
		now, n := time.Now(), p.total()
		entries, grants := p.meter.add(now, n)
		p.reporter.status(fmt.Sprintf("%v of %v  entries %s (%s/s)  grants %s (%s/s)  violations %s",
			now.Sub(p.started).Round(time.Second), p.options.duration,
			thousands(n.Entries), thousands(int64(entries)), thousands(n.Grants), thousands(int64(grants)), thousands(n.Violations)))
	}
}

// inspect looks at what is left, and takes it away.
func (p *parent) inspect() {
	p.reporter.status("looking for nodes that were left behind")
	ctx, cancel := context.WithTimeout(p.killed, inspectionTimeout)
	defer cancel()
	var err error
	if p.summary.LeakList, err = p.cluster.leaks(ctx, p.root, p.options.locks); err != nil {
		// What is not known to be clean is not clean.
		p.fail(fmt.Sprintf("cannot see whether nodes were left behind: %v", err))
	}
	for i, l := range p.summary.LeakList {
		if i == maxShown {
			p.reporter.line("LEAKED: and %d more", len(p.summary.LeakList)-i)
			break
		}
		p.reporter.line("LEAKED: %v", l)
	}
	if err := p.cluster.remove(ctx, p.root); err != nil {
		p.reporter.line("%s could not be removed: %v", p.root, err)
	}
	if err := p.cluster.close(); err != nil {
		p.reporter.line("closing the parent's own session: %v", err)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.reporter.line("%s could not be removed: %v", p.dir, err)
	}
}

// conclude prints the summary and returns the exit status.
func (p *parent) conclude() int {
	s := &p.summary
	o := p.options
	s.Seed = o.seed
	s.Servers, s.Embedded = p.cluster.servers, p.cluster.embedded != nil
	s.Processes, s.Goroutines, s.Locks = o.processes, o.goroutines, o.locks
	s.Hold, s.Think = o.hold, o.think
	s.Greedy, s.Tenure = o.greedy, o.tenure
	s.ReadWrite, s.ReadRatio = o.readWrite, o.readRatio
	s.Planned = o.duration
	if !p.started.IsZero() {
		s.Elapsed = p.stopped.Sub(p.started)
	}
	s.counts = p.total()
	for _, c := range p.processes {
		s.ProcessGrants = append(s.ProcessGrants, c.progress.Grants)
		if s.ReadWrite {
			s.ProcessWriteGrants = append(s.ProcessWriteGrants, c.progress.WriteGrants)
		}
	}
	for i := range o.locks {
		held := make([]time.Duration, len(p.processes))
		for j, c := range p.processes {
			if c.final != nil && i < len(c.final.Held) { // else it died, or had no time to open its locks
				held[j] = c.final.Held[i]
			}
		}
		s.Held = append(s.Held, newLockTime(lockName(i), held, s.Elapsed))
	}
	s.Leaks = len(s.LeakList)
	s.Latencies = s.latency.summary()
	s.judge()
	s.print(p.stdout)
	if o.json != "" {
		if err := s.writeJSON(o.json); err != nil {
			p.reporter.line("stress: %v", err)
			return max(s.Exit, exitFailure)
		}
	}
	return s.Exit
}
