// SPDX-License-Identifier: Apache-2.0

// Package parent is the process that a user of the harness starts: it starts the servers and the
// worker processes, injects faults, and says what the run has shown.
package parent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/internal/flock"
	"github.com/holdfast-go/holdfast/internal/realzk/scratch"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/chronicle"
	"github.com/holdfast-go/holdfast/stress/internal/cluster"
	"github.com/holdfast-go/holdfast/stress/internal/contender"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
	"github.com/holdfast-go/holdfast/stress/internal/nemesis"
	"github.com/holdfast-go/holdfast/stress/internal/options"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
	"github.com/holdfast-go/holdfast/stress/internal/progress"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
	"github.com/holdfast-go/holdfast/stress/internal/report"
	"github.com/holdfast-go/holdfast/stress/internal/summary"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A parent starts the processes, tells them when to begin and to stop, collects
// their messages, and finally looks for nodes that they left in ZooKeeper.
//
// A single goroutine does all this, in loop; it receives events on channels, and
// nothing here is shared. Goroutines beside it inject faults (trouble.go), and watch the
// machine (standstill.go) and the servers (agreement.go).
type parent struct {
	options  options.Options
	sabotage wire.Sabotage
	stdout   io.Writer
	reporter *progress.Reporter
	log      *slog.Logger

	// The first Ctrl-C ends interrupted, the second killed.
	interrupted, killed context.Context

	program []string // of the contender, and its arguments; nil if there is none
	library string   // whose locks it uses, and which version; empty: unknown
	cluster *cluster.Cluster
	root    string       // of this run's nodes
	dir     string       // of the referee's files
	scratch *scratch.Dir // has dir

	events    chan event
	calls     chan func()          // of other goroutines, for loop to do
	processes []*process           // by number: the latest incarnation of each
	past      []wire.Counts        // of earlier incarnations, by process
	chronicle *chronicle.Chronicle // nil if the run has no history
	register  *process             // nil without a history
	obituary  *chronicle.Obituary
	trouble   *trouble // the faults that are injected; nil if none are

	meter   progress.Meter
	started time.Time // when the workers began, or zero
	stopped time.Time // when they were told to stop, or zero
	summary summary.Summary

	// Found by the parent; processes count their own.
	failures int
}

const (
	// A process that exceeds its own time limits by grace is killed.
	grace = 15 * time.Second
	// Bounds the search for leaked nodes.
	inspectionTimeout = 30 * time.Second
)

// Main runs the program and returns its exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	o, err := options.Parse(args, stdout, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return wire.ExitOK
	} else if err != nil {
		return wire.ExitUsage
	}
	bad, err := wire.SabotageFromEnvironment()
	if flock.Unsupported != "" {
		err = errors.New(flock.Unsupported)
	}
	if err != nil {
		fmt.Fprintf(stderr, "stress: %v\n", err)
		return wire.ExitUsage
	}
	if o.Judged != "" {
		return chronicle.Check(o.Judged, stdout, stderr)
	}
	if o.SelfTest {
		return selfTestMain(o, stdout, stderr)
	}
	interrupted, killed, stop := interrupts()
	defer stop()

	r := progress.New(stderr)
	p := &parent{
		options:     o,
		sabotage:    bad,
		stdout:      stdout,
		reporter:    r,
		log:         slog.New(slog.NewTextHandler(lineWriter(r.Line), &slog.HandlerOptions{Level: logLevel(o)})),
		interrupted: interrupted,
		killed:      killed,
		events:      make(chan event, 256),
		calls:       make(chan func()),
		summary:     summary.New(time.Now()),
	}
	return p.main()
}

// logLevel returns the level from which a process logs. The warnings of clients tell of the
// faults that are injected, of which the parent tells as well.
func logLevel(o options.Options) slog.Level {
	if o.Faulty {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// interrupts returns two contexts. The first SIGINT or SIGTERM ends first, the
// next one second. stop restores the default action of the signals.
func interrupts() (first, second context.Context, stop func()) {
	first, cancelFirst := context.WithCancel(context.Background())
	second, cancelSecond := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stopWaiting := pause.Beside(func(ctx context.Context) {
		for _, cancel := range []context.CancelFunc{cancelFirst, cancelSecond} {
			select {
			case <-signals:
				cancel()
			case <-ctx.Done():
				return
			}
		}
	})
	return first, second, func() {
		signal.Stop(signals)
		stopWaiting()
		cancelFirst()
		cancelSecond()
	}
}

// lineWriter turns a reporter's line method into an io.Writer.
type lineWriter func(format string, args ...any)

func (w lineWriter) Write(b []byte) (int, error) {
	w("%s", b)
	return len(b), nil
}

func (p *parent) main() int {
	if err := p.prepare(); err != nil {
		p.reporter.Done()
		p.reporter.Line("stress: %v", err)
		return wire.ExitFailure
	}
	p.introduce()
	stop := p.watchMachine()
	servers := p.watchAgreement()
	p.start()
	p.loop()
	p.compared(servers.end())
	p.inspect()
	stop()
	p.endHistory()
	p.reporter.Done()
	if err := p.scratch.Remove(); err != nil {
		p.reporter.Line("%v", err)
	}
	return p.conclude()
}

// prepare connects to ZooKeeper and sets up what the processes share.
func (p *parent) prepare() (err error) {
	switch {
	case p.options.Servers != nil:
		p.reporter.Status("connecting to " + strings.Join(p.options.Servers, ","))
	case p.options.Ensemble > 0:
		p.reporter.Phase("starting %s", figures.Count(p.options.Ensemble, "server"))
		p.reporter.Status("starting the servers")
	}
	if p.options.Contender != "" {
		p.reporter.Status("building the contender")
		if p.program, err = contender.Command(p.interrupted, p.options.Contender); err == nil {
			p.library, err = contender.Library(p.interrupted, p.options.Contender)
		}
		if err != nil {
			return fmt.Errorf("-contender %s: %w", p.options.Contender, err)
		}
	}
	// What earlier runs have left that were killed goes first.
	if p.scratch, err = scratch.New("holdfast-stress-"); err != nil {
		return fmt.Errorf("creating a directory for the run: %w", err)
	}
	p.dir = p.scratch.Path()
	p.cluster, err = cluster.Open(p.interrupted, p.options, p.log)
	if err != nil {
		err = fmt.Errorf("cannot connect to ZooKeeper: %w", err)
		if p.interrupted.Err() != nil { // what has failed, has failed because of that
			err = errors.New("interrupted before the workers were started")
		}
		return errors.Join(err, p.scratch.Remove())
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	p.root = fmt.Sprintf("%s/holdfast-stress-%x", p.options.Chroot, id)
	if p.options.Faulty {
		if p.trouble, err = p.newTrouble(); err != nil {
			return errors.Join(fmt.Errorf("preparing faults: %w", err), p.cluster.Close(), p.scratch.Remove())
		}
	}
	if p.options.Recorded() {
		dir := p.options.Report
		if dir == "" {
			dir = filepath.Join(p.dir, "history")
		}
		if dir, err = filepath.Abs(dir); err == nil {
			p.chronicle, err = chronicle.New(dir, p.header())
		}
		p.obituary = chronicle.NewObituary(p.cluster, p.chronicle)
		if err != nil {
			return errors.Join(fmt.Errorf("beginning the history of the run: %w", err), p.trouble.close(), p.cluster.Close(), p.scratch.Remove())
		}
	}
	return nil
}

func (p *parent) header() history.Header {
	o := p.options
	now := history.TakeAnchor()
	return history.Header{
		Command:        o.Command(),
		Seed:           o.Seed,
		Workload:       o.Kind,
		Contender:      o.Contender,
		Library:        p.library,
		Processes:      o.Processes,
		Goroutines:     o.Goroutines,
		Servers:        p.cluster.Tested(),
		SessionTimeout: p.cluster.Client.Session().Timeout().Nanoseconds(), // as the servers grant it
		Tenure:         cmp.Or(o.Tenure, defaultTenure).Nanoseconds(),
		Linger:         o.Linger.Nanoseconds(),
		Nemesis:        p.trouble.kinds(),
		Begin:          now.Mono,
		BeginWall:      now.Wall.Format(time.RFC3339Nano),
		Planned:        o.Duration.Nanoseconds(),
		Go:             runtime.Version(),
		ZooKeeper:      p.cluster.Version(),
		Locks:          o.HistoryLocks(),
	}
}

// defaultTenure is that of manager.Config.
const defaultTenure = 100 * time.Millisecond

func (p *parent) introduce() {
	o := p.options
	fmt.Fprintf(p.stdout, "Holdfast stress: %s for %v\n", o.Scale(), o.Duration)
	fmt.Fprintf(p.stdout, "  seed     %d (determines what each goroutine attempts, not how they interleave)\n", o.Seed)
	if p.cluster.IsEmbedded() {
		fmt.Fprintf(p.stdout, "  servers  %s; -servers host:port uses a real ZooKeeper\n", p.cluster.Describe())
	} else {
		fmt.Fprintf(p.stdout, "  servers  %s\n", p.cluster.Describe())
	}
	fmt.Fprintf(p.stdout, "  root     %s\n", p.root)
	if p.library != "" {
		fmt.Fprintf(p.stdout, "  locks    of %s\n", p.library)
	}
	if o.Faulty {
		fmt.Fprintf(p.stdout, "  faults   %d planned, of %s\n", len(p.trouble.schedule.Injections), figures.Count(len(p.trouble.schedule.Kinds()), "kind"))
		if left := p.trouble.left(); len(left) > 0 {
			fmt.Fprintf(p.stdout, "           too short for  %s\n", strings.Join(left, ", "))
		}
		for _, what := range o.Lacking {
			fmt.Fprintf(p.stdout, "           not here: %s\n", what)
		}
	}
}

// start starts the processes: the register first, if there is a history.
func (p *parent) start() {
	p.past = make([]wire.Counts, p.options.Processes)
	if p.chronicle == nil {
		p.startWorkers()
		return
	}
	s := p.settings(history.Register, 1)
	if p.sabotage == wire.SloppyRegister {
		s.Sabotage = p.sabotage
	}
	var err error
	if p.register, err = p.startProcess(s); err != nil {
		p.fail(err.Error())
		p.stop()
	}
}

func (p *parent) startWorkers() {
	for i := range p.options.Processes {
		c, err := p.startProcess(p.settings(i, 0))
		if err != nil {
			p.fail(err.Error())
			p.stop()
			return
		}
		p.processes = append(p.processes, c)
	}
}

func (p *parent) settings(process, incarnation int) wire.Settings {
	s := wire.Settings{
		Workload:    p.options.Workload,
		Process:     process,
		Incarnation: incarnation,
		Servers:     p.cluster.ServersOf(process),
		Root:        p.root,
		Dir:         p.dir,
	}
	// The others' sessions expire when they are killed.
	s.Sentinel = s.Faulty && process%2 == 0 && nemesis.Here(0).Helpers
	if s.Contender != "" && process != history.Register {
		s.Program, s.Sentinel = p.program, false
	}
	if p.chronicle != nil {
		s.History = p.chronicle.Dir
	}
	if process == 0 && (incarnation == 0 || p.sabotage != wire.Crashes) {
		s.Sabotage = p.sabotage
	}
	// A helper would put right what a sabotage leaves.
	s.Sentinel = s.Sentinel && s.Sabotage == ""
	return s
}

func (p *parent) startProcess(s wire.Settings) (*process, error) {
	var c *process
	c, err := startProcess(s, p.events, func(line string) { p.reporter.Line("process %d: %s", s.Process, line) })
	if err == nil && s.Process != history.Register {
		p.chronicle.Write(history.Event{Kind: history.Started, Process: c.index, Incarnation: c.incarnation})
	}
	return c, err
}

// restart starts the next incarnation of a process that has ended.
func (p *parent) restart(c *process) {
	p.past[c.index].Add(c.progress)
	s := p.settings(c.index, c.incarnation+1)
	s.ClockAhead = c.clock
	next, err := p.startProcess(s)
	close(c.replaced)
	if err != nil {
		p.fail(err.Error())
		p.stop()
		return
	}
	p.processes[c.index] = next
}

// tell writes a line to a process, if it runs.
func (p *parent) tell(process int, line string) {
	if process >= 0 && process < len(p.processes) && p.processes[process].ready {
		p.processes[process].tell(line)
	}
}

// loop handles events until all processes have ended.
func (p *parent) loop() {
	status := time.NewTicker(progress.StatusEvery)
	defer status.Stop()
	var swallow <-chan time.Time // never, unless asked for
	if p.options.Swallow > 0 {
		tick := time.NewTicker(p.options.Swallow)
		defer tick.Stop()
		swallow = tick.C
	}
	interrupted, killed := p.interrupted.Done(), p.killed.Done()
	for p.running() {
		timer := time.NewTimer(time.Until(p.limit()))
		select {
		case e := <-p.events:
			p.handle(e)
		case call := <-p.calls:
			call()
		case <-p.trouble.ended():
			p.trouble.join()
		case <-status.C:
			p.lookForExpired()
			p.showStatus()
		case <-timer.C:
			p.overdue()
		case <-swallow:
			if !p.started.IsZero() && p.stopped.IsZero() {
				p.cluster.Swallow()
			}
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

// lookForExpired writes into the history which sessions the servers have ended.
func (p *parent) lookForExpired() {
	if err := p.obituary.Look(); err != nil {
		p.obituary = nil
		p.fail(fmt.Sprintf("reading the log of a server: %v", err))
	}
}

// running reports whether there is something to wait for. Once all workers have ended, it
// stops the register.
func (p *parent) running() bool {
	if p.count(func(c *process) bool { return !c.exited }) > 0 || p.trouble.running() {
		return true
	}
	if p.register == nil || p.register.exited {
		return false
	}
	if !p.stopped.IsZero() {
		p.register.stop()
	}
	return true
}

// limit returns when the present stage of the run must be over.
func (p *parent) limit() time.Time {
	switch {
	case !p.stopped.IsZero():
		return p.stopped.Add(3*p.options.Patience + grace)
	case !p.started.IsZero():
		return p.trouble.limit(p.started.Add(p.options.Duration))
	default:
		if p.options.Contender != "" {
			return p.summary.Begin.Add(contender.ReadyWithin + 2*grace) // by then a process has said why
		}
		return p.summary.Begin.Add(wire.ConnectTimeout + grace)
	}
}

// overdue ends the present stage of the run, whose limit has passed.
func (p *parent) overdue() {
	switch {
	case !p.stopped.IsZero():
		p.fail("a process did not end when told to, and was killed")
		p.kill()
		p.stopped = time.Now() // which moves the limit
	case !p.started.IsZero():
		p.stop()
	default:
		p.fail("the processes took too long to start")
		p.stop()
	}
}

func (p *parent) handle(e event) {
	c, m := e.process, e.message
	switch {
	case c == p.register:
		p.handleRegister(e)
	case e.exited && c.killed:
		c.exited = true
		if p.stopped.IsZero() {
			p.restart(c)
		}
	case e.exited:
		c.exited = true
		p.chronicle.Ended(c.life(), e.exit == nil)
		switch {
		case e.exit != nil:
			p.fail(fmt.Sprintf("process %d: %v", c.index, e.exit))
		case c.final == nil:
			p.fail(fmt.Sprintf("process %d ended without a report", c.index))
		case p.stopped.IsZero():
			p.fail(fmt.Sprintf("process %d ended before it was told to", c.index))
		}
		if p.stopped.IsZero() {
			p.stop()
		}
	case m.Ready:
		c.ready = true
		if p.stopped.IsZero() && p.started.IsZero() && p.count(func(c *process) bool { return c.ready }) == p.options.Processes {
			p.started = time.Now()
			p.reporter.Phase("%s running", figures.Count(len(p.processes), "process"))
			for _, c := range p.processes {
				c.tell(wire.GoLine)
			}
			p.trouble.start()
		} else if !p.started.IsZero() {
			c.tell(wire.GoLine)
		}
	case m.Progress != nil:
		c.progress = *m.Progress
	case m.Violation != nil:
		p.showViolation(c.String(), *m.Violation)
	case m.Failure != nil:
		p.failure(c, *m.Failure)
	case m.Final != nil:
		c.final = m.Final
		c.progress = m.Final.Counts
		if err := p.summary.Latency.Add(m.Final.Latency); err != nil {
			p.fail(fmt.Sprintf("process %d: %v", c.index, err))
		}
	}
}

func (p *parent) handleRegister(e event) {
	switch {
	case e.exited:
		e.process.exited = true
		if e.exit != nil || p.stopped.IsZero() {
			p.fail(fmt.Sprintf("the register ended: %v", e.exit))
			p.stop()
		}
	case e.message.Ready:
		if p.stopped.IsZero() {
			p.startWorkers()
		}
	case e.message.Failure != nil:
		p.failure(e.process, *e.message.Failure)
	}
}

// showViolation shows a violation, if not too many have been shown.
func (p *parent) showViolation(by string, v referee.Violation) {
	p.chronicle.Write(history.Event{Kind: history.Overlap, At: v.At, Process: history.Harness, Lock: v.Lock, Text: journal.FirstLine(v.String())})
	if n := len(p.summary.ViolationList); n < summary.MaxShown {
		p.summary.ViolationList = append(p.summary.ViolationList, v)
		p.reporter.Line("VIOLATION seen by %s, %v", by, v)
		if n+1 == summary.MaxShown {
			p.reporter.Line("VIOLATION: further ones are counted but not shown")
		}
	}
}

// failure handles a failure that a process has reported, and counts itself.
func (p *parent) failure(c *process, f wire.Failure) {
	text := fmt.Sprintf("%v: %s", c, f.Text)
	if f.Stack != "" {
		text += "\n" + f.Stack
	}
	if f.Dump != "" {
		text += "\n" + saveDump(c.index, f.Dump)
	}
	p.chronicle.Write(history.Event{Kind: history.Failure, Process: c.index, Incarnation: c.incarnation, Text: journal.FirstLine(f.Text)})
	p.show(text)
	if f.Fatal {
		p.stop()
	}
}

// saveDump writes a dump to a file, and returns text that names the file.
func saveDump(process int, dump string) string {
	f, err := os.CreateTemp("", fmt.Sprintf(wire.DumpName, process))
	if err == nil {
		_, err = f.WriteString(dump)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Sprintf("saving the stacks of all its goroutines: %v", err)
	}
	return "the stacks of all its goroutines are in " + f.Name()
}

// fail counts and shows a failure that the parent found.
func (p *parent) fail(text string) {
	p.failures++
	p.chronicle.Write(history.Event{Kind: history.Failure, Process: history.Harness, Text: journal.FirstLine(text)})
	p.show(text)
}

// show shows a failure, if not too many have been shown.
func (p *parent) show(text string) {
	if n := len(p.summary.FailureList); n < summary.MaxShown {
		p.summary.FailureList = append(p.summary.FailureList, text)
		p.reporter.Line("FAILED: %s", text)
		if n+1 == summary.MaxShown {
			p.reporter.Line("FAILED: further ones are counted but not shown")
		}
	}
}

// stop tells the processes to stop. From then on every request is answered.
func (p *parent) stop() {
	if p.stopped.IsZero() {
		p.stopped = time.Now()
		p.cluster.StopSwallowing()
		p.reporter.Phase("stopping")
		p.chronicle.Write(history.Event{Kind: history.Stopping, Process: history.Harness})
		p.trouble.stop()
		if len(p.processes) == 0 && p.register != nil {
			p.register.stop()
		}
	}
	for _, c := range p.processes {
		c.stop()
	}
}

func (p *parent) kill() {
	p.stop()
	for _, c := range p.processes {
		c.kill()
	}
	if p.register != nil {
		p.register.kill()
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

func (p *parent) total() (n wire.Counts) {
	for _, c := range p.processes {
		n.Add(c.progress)
	}
	for _, c := range p.past {
		n.Add(c)
	}
	n.Failures += uint64(p.failures)
	return n
}

func (p *parent) showStatus() {
	switch {
	case !p.stopped.IsZero():
		p.reporter.Status(fmt.Sprintf("stopping: %d of %s ended", p.count(func(c *process) bool { return c.exited }), figures.Count(len(p.processes), "process")))
	case p.started.IsZero():
		p.reporter.Status(fmt.Sprintf("starting: %d of %s ready", p.count(func(c *process) bool { return c.ready }), figures.Count(len(p.processes), "process")))
	default:
		now, n := time.Now(), p.total()
		entries, grants := p.meter.Add(now, n)
		p.reporter.Status(fmt.Sprintf("%v of %v  entries %s (%s/s)  grants %s (%s/s)  violations %s",
			now.Sub(p.started).Round(time.Second), p.options.Duration,
			figures.Number(n.Entries), figures.Number(int64(entries)), figures.Number(n.Grants), figures.Number(int64(grants)), figures.Number(n.Violations)) + p.chronicle.Status())
	}
}

// inspect looks for leaked nodes, then removes everything that the run made.
func (p *parent) inspect() {
	p.lookForExpired() // before the servers are stopped
	if err := p.trouble.close(); err != nil {
		p.reporter.Line("closing the session that asked for locks: %v", err)
	}
	p.reporter.Status("looking for leaked nodes")
	ctx, cancel := context.WithTimeout(p.killed, inspectionTimeout)
	defer cancel()
	var err error
	if p.summary.LeakList, err = p.leaks(ctx); err != nil {
		p.fail(fmt.Sprintf("looking for leaked nodes: %v", err))
	}
	if p.options.Kind == wire.AbandonedWorkload {
		lost := p.total().LostHolds > 0
		p.summary.LeakList = slices.DeleteFunc(p.summary.LeakList, func(l cluster.Leak) bool { return referee.Explained(l.Path, p.root, p.dir, lost) })
	}
	if p.options.Kind == wire.BarrierWorkload || p.options.Kind == wire.MixedWorkload {
		barrier := "" // all names are those of barriers
		if p.options.Kind == wire.MixedWorkload {
			barrier = wire.BarrierWorkload
		}
		p.summary.LeakList = slices.DeleteFunc(p.summary.LeakList, func(l cluster.Leak) bool { return referee.Kept(l.Path, barrier) })
	}
	for i, l := range p.summary.LeakList {
		if i == summary.MaxShown {
			p.reporter.Line("LEAKED: and %d more", len(p.summary.LeakList)-i)
			break
		}
		p.reporter.Line("LEAKED: %v", l)
	}
	if err := p.cluster.Remove(ctx, p.root); err != nil {
		p.reporter.Line("removing %s: %v", p.root, err)
	}
	if err := p.cluster.Close(); err != nil {
		p.reporter.Line("closing the parent's session: %v", err)
	}
}

// leaks returns the nodes that are left. Those of processes that the nemesis has killed may
// stay until their sessions end.
func (p *parent) leaks(ctx context.Context) (left []cluster.Leak, err error) {
	limit := time.Now().Add(2*p.options.SessionTimeout + grace)
	for {
		left, err = p.cluster.Leaks(ctx, p.root, p.options.Workload)
		orphans := slices.ContainsFunc(left, func(l cluster.Leak) bool { return p.chronicle.Orphaned(l.Owner) })
		if err != nil || !orphans || time.Now().After(limit) || !pause.For(ctx, 200*time.Millisecond, nil) {
			return left, err
		}
	}
}

// lockDirs returns the directories of those locks that have a queue, by their names. Any
// goroutine may call it.
func (p *parent) lockDirs() map[string]string {
	dirs := map[string]string{}
	for _, v := range p.options.Venues() {
		if dir, err := manager.LockPath(p.root, v.Queue()); err == nil && v.Queue() != "" {
			dirs[v.Name] = dir
		}
	}
	return dirs
}

// compared notes how often servers were compared.
func (p *parent) compared(looks uint64, err error) {
	if err != nil {
		p.fail(err.Error())
	}
	if looks > 0 {
		p.chronicle.Write(history.Event{Kind: history.Compared, Process: history.Harness, Count: looks})
	}
}

// endHistory writes what is left to be written into the history, and judges it.
func (p *parent) endHistory() {
	if p.chronicle == nil {
		return
	}
	p.reporter.Status("judging the history")
	for _, l := range p.summary.LeakList {
		p.chronicle.Write(history.Event{Kind: history.Left, Process: history.Harness, Text: l.String(), Session: l.Owner})
	}
	if err := p.chronicle.Judge(); err != nil {
		p.fail(err.Error())
	}
	p.sumUp()
	for _, f := range p.summary.Flaws() {
		kind := history.Failure
		if f.Outcome == verdict.Void {
			kind = history.TooLittle
		}
		p.chronicle.Write(history.Event{Kind: kind, Process: history.Harness, Text: f.Text})
	}
	v, err := p.chronicle.Close(p.options.Report != "")
	if err != nil {
		p.fail(err.Error())
	}
	p.summary.History = &v
}

func (p *parent) sumUp() {
	s := &p.summary
	o := p.options
	s.Workload, s.Recorded = o.Workload, p.chronicle != nil
	s.Servers, s.Embedded = p.cluster.Tested(), p.cluster.IsEmbedded()
	s.Planned = o.Duration
	s.Swallowed = p.cluster.Swallowed()
	if !p.started.IsZero() {
		s.Elapsed = p.stopped.Sub(p.started)
	}
	s.Counts = p.total()
	s.ProcessGrants, s.ProcessWriteGrants, s.Held = []uint64{}, []uint64{}, []summary.LockTime{}
	for i, c := range p.processes {
		n := c.progress
		n.Add(p.past[i])
		s.ProcessGrants = append(s.ProcessGrants, n.Grants)
		if s.ReadWrite {
			s.ProcessWriteGrants = append(s.ProcessWriteGrants, n.WriteGrants)
		}
	}
	for i, v := range o.Venues() {
		held := make([]time.Duration, len(p.processes))
		for j, c := range p.processes {
			if c.final != nil && i < len(c.final.Held) { // else it died, or stopped before it had opened its locks
				held[j] = c.final.Held[i]
			}
		}
		s.Held = append(s.Held, summary.NewLockTime(v.Name, held, s.Elapsed))
	}
	s.Leaks = len(s.LeakList)
}

func (p *parent) conclude() int {
	p.sumUp()
	s := &p.summary
	o := p.options
	s.Command = o.Command()
	if o.Report != "" && s.History != nil {
		s.Report = filepath.Join(o.Report, report.Name)
	}
	s.Latencies = s.Latency.Summary()
	s.Judge()
	s.Print(p.stdout)
	if o.JSON != "" {
		if err := s.WriteJSON(o.JSON); err != nil {
			p.reporter.Line("stress: %v", err)
			return max(s.Exit, wire.ExitFailure)
		}
	}
	return s.Exit
}
