// SPDX-License-Identifier: Apache-2.0

// Package options reads the command line of the harness.
package options

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/stress/internal/contender"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/nemesis"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// Options are the settings from the command line.
type Options struct {
	wire.Workload
	Servers  []string // nil: the embedded server
	Chroot   string
	Duration time.Duration
	JSON     string // path of the summary; empty: none

	Ensemble int      // how many real servers to start; 0: none
	Nemesis  []string // kinds of faults to inject
	Lacking  []string // kinds that were not chosen because of what is lacking here
	Listed   bool     // the kinds were named one by one, so that each must come up
	Report   string   // directory of the report; empty: none
	Judged   string   // directory of a history to judge again; empty: run
	SelfTest bool     // see that broken locks are caught

	args []string // the command line
}

// Recorded reports whether the run has a history.
func (o Options) Recorded() bool {
	return o.Ensemble > 0 || len(o.Nemesis) > 0 || o.Report != "" || o.Contender != "" || o.needsHistory()
}

// needsHistory reports whether only the history tells whether what workers get excludes
// others.
func (o Options) needsHistory() bool {
	return o.Kind == wire.MixedWorkload || o.Kind != wire.BarrierWorkload && slices.Contains(wire.RecipeWorkloads, o.Kind)
}

const usage = `Usage: go run ./stress [flags]

Stress starts processes whose goroutines contend for locks, and checks the locks
from outside. It takes an flock for each lock, so it sees two processes inside
at once; it checks that fencing tokens rise, that every wait ends, and that no
node is left in ZooKeeper. With -read-ratio the locks are read/write locks, and
readers share the flocks. With -workload mutex it checks that goroutines of one
process exclude each other, and that the pairs of token and turn rise. With
-workload all workers take 2 to 4 locks by one LockAll, or nest two. With
-workload upgrade some readers of read/write locks upgrade. With -workload
abandoned some workers panic in Do: the next holder must be told, and no other.
With -workload barrier workers go through rounds together: none may leave a round
while another is inside. With -workload election, members, shards, semaphore or
queue they contend for what these recipes give, and with -workload mixed for
locks of three kinds and for all recipes.

With -contender it contends for the locks of another library, or of a program of
your own, as docs/testing.md says, and judges them as far as they can be judged.

With -ensemble 3 it starts three real ZooKeeper servers and injects faults. With
-servers and -nemesis all it injects those that hit its own processes and their
connections, and no server. A run with faults, or with -report, has a history, of
which much more is checked; -report DIR keeps it, with a page for a browser.

It reports progress while it runs and prints a summary at the end. Ctrl-C ends
the run early, with a summary; a second Ctrl-C kills it.

If a worker is stuck, the run ends. The failure has the stacks of the worker, and
names a file in the directory for temporary files (TMPDIR, or else /tmp) with the
stacks of all goroutines of its process: holdfast-stress-process-N-*.txt. It stays
there until you remove it.

Exit status:
  0  no fault found
  1  a violation, a leaked node, a stuck worker, a failed process, a finding in
     the history, or no connection; with -self-test, a defect that was missed
  2  wrong usage
  3  void, because too little happened: workers never got a lock, or fewer than
     1,000 times (100 with a history) in a run of 10 s or longer, or -swallow
     never took effect, or a kind of fault had no effect while a lock was held
     and while one was awaited, or never came up although -nemesis names it, or
     most of the history took too long to be judged; with -check, also a history
     that lacks its end or a file

Flags:
`

// Parse reads the command line. It reports its error on stderr; with
// -help it writes the help to stdout and returns flag.ErrHelp.
func Parse(args []string, stdout, stderr io.Writer) (Options, error) {
	o := Options{args: args}
	flags := flag.NewFlagSet("stress", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are reported below
	var ranges []func() error   // why the values of flags are not in their ranges
	within := func(p *int, name string, value, least, most int, usage string) {
		flags.IntVar(p, name, value, usage)
		ranges = append(ranges, func() error { return outside(name, *p, least, most) })
	}
	lasts := func(p *time.Duration, name string, value, least, most time.Duration, usage string) {
		flags.DurationVar(p, name, value, usage)
		ranges = append(ranges, func() error { return outside(name, *p, least, most) })
	}
	servers := flags.String("servers", "", "the ZooKeeper servers, as `host:port,host:port/chroot`; empty: an embedded server, for demonstration")
	lasts(&o.Duration, "duration", 30*time.Second, 100*time.Millisecond, 1000*time.Hour, "how long the workers run")
	within(&o.Processes, "processes", 3, 1, 1000, "number of operating-system processes")
	within(&o.Goroutines, "goroutines", 16, 1, 1_000_000, "number of workers, each a goroutine, in each process")
	within(&o.Locks, "locks", 4, 1, 1_000_000, "number of locks")
	flags.Uint64Var(&o.Seed, "seed", 0, "determines what each worker attempts; 0: chosen at random, and printed")
	flags.StringVar(&o.Kind, "workload", wire.DefaultWorkload, "what the workers contend for: `kind` is one of "+strings.Join(wire.Workloads, ", ")+"; or "+wire.LingerWorkload+", for the default with -linger 300ms")
	flags.Func("contender", "contend for the locks of another library, by a `program`: "+strings.Join(contender.Names(), ", ")+
		", which need Java, Python or Go; or a command of your own with its arguments, as one word of the shell, which does as docs/testing.md says under \"Other libraries' locks\". A worker is a client of it. -read-ratio is for those that have shared locks, such as curator-rw. Leave out -workload, -greedy, -linger and -tenure", func(text string) error {
		o.Contender = text
		return contender.Check(text)
	})
	flags.StringVar(&o.JSON, "json", "", "write the summary to `file`, as JSON")
	within(&o.Ensemble, "ensemble", 0, 0, 9, "start a real ensemble of so many `servers` on loopback, from the installed ZooKeeper")
	kinds := flags.String("nemesis", "", "inject faults of these `kinds`: all, none, or a list such as kill-worker,cut-connection or all,-pause-worker; empty: all with -ensemble, else none. The kinds are listed below")
	flags.StringVar(&o.Report, "report", "", "keep the history in `directory`, and write a report into it, of which index.html is the page; an earlier report there is replaced")
	flags.StringVar(&o.Judged, "check", "", "judge the history in `directory` again, write its verdict and its page anew, and run nothing; the page of a run that was killed lacks the grants before that")
	flags.BoolVar(&o.SelfTest, "self-test", false, "run against locks that are broken on purpose, and see whether each is caught")
	lasts(&o.Hold, "hold", 0, time.Microsecond, time.Minute, "mean time that a worker holds a lock; 0: 1ms, or 10ms if there is a history")
	lasts(&o.Think, "think", 0, 0, time.Hour, "mean time between a worker's steps; 0: long enough that about one worker in each process holds each lock, or, with -read-ratio, a sixteenth of -hold; with -workload all so long that most locks are free; if there is a history, so long that some hundred workers get a lock each second")
	flags.BoolVar(&o.Greedy, "greedy", false, "workers only acquire, hold and release, without pausing and without giving up")
	lasts(&o.Tenure, "tenure", 0, -time.Hour, time.Hour, "how long a process may keep a lock while others wait for it; 0: the library's default; negative: for ever, in which case starvation is not a failure")
	lasts(&o.Linger, "linger", 0, 0, 1000*time.Hour, "how long a process keeps a lock that none of its workers uses, while no other process wants it; 0: not at all")
	flags.Func("read-ratio", "use read/write locks, and read in this `share` of the steps, between 0 and 1; without it, locks are exclusive", func(text string) (err error) {
		o.ReadWrite = true
		o.ReadRatio, err = strconv.ParseFloat(text, 64)
		if err != nil {
			return errors.New("it must be a number between 0 and 1")
		}
		return nil
	})
	lasts(&o.SessionTimeout, "session-timeout", 0, 100*time.Millisecond, time.Hour, "ZooKeeper session timeout to ask for; 0: 10s, or 4s if faults are injected")
	lasts(&o.Patience, "patience", time.Minute, time.Second, time.Hour, "a worker that spends longer in one operation is stuck, which ends the run: see above")
	lasts(&o.Swallow, "swallow", 0, 0, time.Hour, "how often the embedded server carries out a request but does not answer it, while the connection stays up; 0: never")

	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		fmt.Fprintf(stdout, "\nKinds of faults, for -nemesis:\n%s", nemesis.Help("  "))
		return o, err
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	if err == nil {
		facilities := nemesis.Here(o.Ensemble)
		facilities.Foreign = o.Contender != ""
		if s := contender.BackendOf(o.Contender); s != nil {
			facilities.System, facilities.Without = s.Servers.Name, s.Lacks
		}
		o.Nemesis, o.Lacking, err = chooseFaults(*kinds, facilities)
		o.Faulty = len(o.Nemesis) > 0
		// "all" and all but some are as many as there is time for.
		o.Listed = *kinds != "" && !strings.Contains(","+*kinds, ",all") && !strings.HasPrefix(*kinds, "-")
	}
	if o.Hold == 0 {
		o.Hold = time.Millisecond
		if o.Recorded() {
			o.Hold = 10 * time.Millisecond
		}
	}
	if o.SessionTimeout == 0 {
		o.SessionTimeout = 10 * time.Second
		if o.Faulty {
			o.SessionTimeout = 4 * time.Second
		}
	}
	if err == nil && *servers != "" {
		o.Servers, o.Chroot, err = manager.ParseServers(*servers)
	}
	if o.Kind == wire.LingerWorkload {
		o.Kind = wire.DefaultWorkload
		if o.Linger == 0 {
			o.Linger = 300 * time.Millisecond
		}
	}
	if o.Kind == wire.MixedWorkload {
		o.ReadRatio = 0.5
	}
	if o.Kind == wire.UpgradeWorkload && !o.ReadWrite {
		o.ReadWrite, o.ReadRatio = true, 0.5
	}
	if err == nil {
		err = o.check(ranges)
	}
	if err != nil {
		fmt.Fprintf(stderr, "stress: %v\nRun it with -help for the flags.\n", err)
		return o, err
	}
	switch {
	case o.Think != 0, o.Greedy:
	case o.Recorded():
		// Each entry makes some eight lines of the history. A few hundred entries a second
		// keep every lock busy most of the time.
		o.Think = max(time.Duration(o.Processes*o.Goroutines)*time.Second/recordedEntries-o.Hold, o.Hold/16)
	case o.Kind == wire.AllWorkload:
		// A LockAll keeps the places in which it is first reserved until it is first
		// in all. If all workers wanted locks all the time, nearly all would wait for
		// seconds, and the run would show little else.
		o.Think = 200 * o.Hold * time.Duration(max(1, o.Processes*o.Goroutines/o.Locks))
	case o.ReadWrite:
		// The point of read/write locks is that readers overlap, and a process
		// keeps its read lock while any of its readers is inside. So workers
		// pause little.
		o.Think = max(o.Hold/16, 1)
	default:
		// With g workers for each lock in a process, each holding for h and
		// pausing for g×h, one worker holds on average. So at times none does,
		// and another process gets its turn.
		o.Think = o.Hold * time.Duration(max(1, (o.Goroutines+o.Locks-1)/o.Locks))
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	return o, nil
}

// Command returns a command line that repeats the run.
func (o Options) Command() string {
	words := []string{"go", "run", "./stress"}
	for _, arg := range o.args {
		if !plainWord.MatchString(arg) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	seed := fmt.Sprintf("-seed %d", o.Seed)
	if command := strings.Join(words, " "); strings.Contains(command, seed) {
		return command
	}
	return strings.Join(append(words, seed), " ")
}

// plainWord matches what a shell takes literally.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,=@%+-]+$`)

// HistoryLocks returns the locks of the run as its history names them.
func (o Options) HistoryLocks() (all []history.Lock) {
	for _, v := range o.Venues() {
		l := history.Lock{Name: v.Name, Mode: history.Exclusive}
		if o.Contender != "" {
			l.Mode = history.Mutex // each client has a lock for itself
		}
		switch v.Kind {
		case wire.MutexWorkload:
			l.Mode = history.Mutex
		case wire.BarrierWorkload:
			l.Mode, l.Capacity = history.Permit, min(wire.MostMembers, o.Processes*o.Goroutines)
		case wire.SemaphoreWorkload:
			l.Mode, l.Capacity = history.Permit, wire.ManyPermits
		case wire.QueueWorkload:
			l.Name, l.Once = l.Name+"/*", true
		case wire.ShardsWorkload:
			l.Name += "/*"
		}
		if v.ReadWrite {
			l.Mode = ""
		}
		all = append(all, l)
	}
	return all
}

// recordedEntries is about how many entries a second the workers of a run with a history
// attempt.
const recordedEntries = 500

// outside returns that the value of a flag is not in its range, if it is not.
func outside[T cmp.Ordered](name string, value, least, most T) error {
	if value < least || value > most {
		return fmt.Errorf("-%s is %v: it must be between %v and %v", name, value, least, most)
	}
	return nil
}

func (o Options) check(ranges []func() error) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, wrong := range ranges {
		faults = append(faults, wrong())
	}
	if o.Contender != "" && (o.Kind != wire.DefaultWorkload || o.Greedy || o.Linger != 0 || o.Tenure != 0 || o.SelfTest) {
		fault("-contender is %s: its workers only take locks and give them up, so leave out -workload, -greedy, -linger, -tenure and -self-test", o.Contender)
	}
	if o.Contender != "" && o.ReadWrite && !contender.Sharing(o.Contender) {
		fault("-contender is %s, which has no shared locks, so leave out -read-ratio", o.Contender)
	}
	if o.Greedy && o.Think != 0 {
		fault("-think is %v: with -greedy workers do not pause", o.Think)
	}
	if o.ReadWrite && !(o.ReadRatio >= 0 && o.ReadRatio <= 1) { // also true of NaN
		fault("-read-ratio is %v: it must be between 0 and 1", o.ReadRatio)
	}
	if !slices.Contains(wire.Workloads, o.Kind) {
		fault("-workload is %q: it must be one of %s", o.Kind, strings.Join(wire.Workloads, ", "))
	}
	if o.ReadWrite && o.Kind != wire.DefaultWorkload && o.Kind != wire.UpgradeWorkload {
		fault("-workload is %s: -read-ratio is for read/write locks, so leave out one of the two", o.Kind)
	}
	if o.Kind == wire.AllWorkload && o.Locks < 2 {
		fault("-workload is all: it needs two locks or more, so -locks cannot be %d", o.Locks)
	}
	if (o.Kind != wire.DefaultWorkload && o.Kind != wire.MutexWorkload) && o.Greedy {
		fault("-workload is %s: its workers give up waits, so leave out -greedy", o.Kind)
	}
	if o.Swallow != 0 && (o.Servers != nil || o.Ensemble > 0) {
		fault("-swallow is %v: only the embedded server can swallow answers, so leave out -servers and -ensemble", o.Swallow)
	}
	if o.Ensemble > 0 && o.Servers != nil {
		fault("-ensemble is %d, and -servers names an ensemble that exists: leave out one of the two", o.Ensemble)
	}
	if s := contender.BackendOf(o.Contender); s != nil && o.Ensemble == 0 {
		fault("-contender is %s: its locks are in %s, so say by -ensemble how many servers of that to start", o.Contender, s.Servers.Name)
	}
	if o.Ensemble == 2 {
		fault("-ensemble is 2: two servers go on only while both run, so use 1, 3 or 5")
	}
	if o.Greedy && o.Faulty {
		fault("-greedy: its workers never give up, so leave it out or use -nemesis none")
	}
	if o.Report != "" {
		if err := Reportable(o.Report); err != nil {
			fault("-report: %w", err)
		}
	}
	if o.JSON != "" {
		if err := writable(o.JSON); err != nil {
			fault("-json: the summary cannot be written: %w", err)
		}
	}
	return errors.Join(faults...)
}

// Reportable returns why a report cannot be written into the directory. One that is there
// is replaced.
func Reportable(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it is made
	case err != nil:
		return err
	case len(entries) == 0:
		return nil
	}
	if h, err := history.ReadHeader(dir); err != nil || h.Command == "" {
		return fmt.Errorf("%s has files, and no earlier report that could be replaced: name another directory, or remove them", dir)
	}
	return nil
}

// writable returns the error of opening the named file for writing. It leaves
// the file as it was.
func writable(path string) error {
	_, missing := os.Stat(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	err = f.Close()
	if errors.Is(missing, fs.ErrNotExist) {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// chooseFaults returns which kinds of faults list names. By default they are all that are
// possible on an ensemble that the run starts, and none on other servers.
func chooseFaults(list string, has nemesis.Facilities) (kinds, lacking []string, err error) {
	if list == "" && has.Servers > 0 {
		list = "all"
	}
	kinds, lacking, err = nemesis.Parse(list, has)
	if err != nil {
		err = fmt.Errorf("-nemesis: %w", err)
	}
	return kinds, lacking, err
}
