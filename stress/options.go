// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// options are what the command line says.
type options struct {
	servers        []string // nil: the embedded server
	chroot         string
	duration       time.Duration
	processes      int
	goroutines     int
	locks          int
	seed           uint64
	json           string
	hold           time.Duration
	think          time.Duration
	greedy         bool          // no pauses, nothing that ends a wait
	tenure         time.Duration // manager.Config's
	readWrite      bool          // read/write locks instead of exclusive ones
	readRatio      float64       // how many of their steps are reads
	sessionTimeout time.Duration
	patience       time.Duration
}

const usage = `Usage: go run ./stress [flags]

Starts processes whose goroutines contend for locks, and judges from outside
whether the locks hold: a flock per lock says whether two processes are inside
at once, fencing tokens have to rise, every wait has to end, and no node may be
left in ZooKeeper. With -read-ratio the locks are read/write locks; the flocks
are then shared by readers. It says how it goes while it runs, and what came of it at the
end. Ctrl-C ends it early, with the summary; a second Ctrl-C kills it.

Exit status:
  0  all was well
  1  a violation, a node left behind, a worker that was stuck, a process that
     failed, or no connection
  2  wrong usage
  3  void: it ran for 10 s or longer, with fewer than 1,000 entries

Flags:
`

// parseOptions reads the command line. Its error has been written to stderr;
// it is flag.ErrHelp if help was asked for.
func parseOptions(args []string, stdout, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("stress", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // we say ourselves what is wrong
	servers := flags.String("servers", "", "the ZooKeeper servers, as `host:port,host:port/chroot`; empty: an embedded server, for demonstration")
	flags.DurationVar(&o.duration, "duration", 30*time.Second, "how long the workers work")
	flags.IntVar(&o.processes, "processes", 3, "how many operating-system processes contend")
	flags.IntVar(&o.goroutines, "goroutines", 16, "how many goroutines each of them has")
	flags.IntVar(&o.locks, "locks", 4, "how many locks they contend for")
	flags.Uint64Var(&o.seed, "seed", 0, "what the workers do follows from it; 0: a random one, which is printed")
	flags.StringVar(&o.json, "json", "", "write the summary to `file`, as JSON")
	flags.DurationVar(&o.hold, "hold", time.Millisecond, "the mean time that a worker stays inside")
	flags.DurationVar(&o.think, "think", 0, "the mean time between a worker's steps; 0: such that about one worker of a process is in a lock that it holds, or, with -read-ratio, a sixteenth of -hold")
	flags.BoolVar(&o.greedy, "greedy", false, "every worker gets in, stays for -hold, gets out and asks again, without a pause and without ever giving up a wait")
	flags.DurationVar(&o.tenure, "tenure", 0, "for how long a process may keep a lock while others wait for it; 0: the library's default; negative: for ever, so that others may starve, which is then no failure")
	flags.Func("read-ratio", "take read/write locks, and make so many of the steps reads: a `share` between 0 and 1; without it, locks are exclusive", func(text string) (err error) {
		o.readWrite = true
		o.readRatio, err = strconv.ParseFloat(text, 64)
		if err != nil {
			return errors.New("it must be a number between 0 and 1")
		}
		return nil
	})
	flags.DurationVar(&o.sessionTimeout, "session-timeout", 10*time.Second, "the ZooKeeper session timeout to ask for")
	flags.DurationVar(&o.patience, "patience", time.Minute, "a worker that is in one operation for longer is stuck")

	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return o, err
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	if err == nil && *servers != "" {
		o.servers, o.chroot, err = manager.ParseServers(*servers)
	}
	if err == nil {
		err = o.check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "stress: %v\nRun it with -help for the flags.\n", err)
		return o, err
	}
	switch {
	case o.think != 0, o.greedy:
	case o.readWrite:
		// What read/write locks are for is readers that overlap: a process's
		// read lock is kept for as long as one of its readers is inside. So
		// workers do little else than read.
		o.think = max(o.hold/16, 1)
	default:
		// With g workers for each lock in a process, who are inside for h at a
		// time and outside for g×h, one is inside on average. Then all have
		// left now and then, and another process gets its turn.
		o.think = o.hold * time.Duration(max(1, (o.goroutines+o.locks-1)/o.locks))
	}
	for o.seed == 0 {
		o.seed = rand.Uint64()
	}
	return o, nil
}

// check returns what is wrong with the flags, all of it.
func (o options) check() error {
	var faults []error
	within := func(name string, n, least, most int) {
		if n < least || n > most {
			faults = append(faults, fmt.Errorf("-%s is %d: it must be between %d and %d", name, n, least, most))
		}
	}
	lasts := func(name string, d, least, most time.Duration) {
		if d < least || d > most {
			faults = append(faults, fmt.Errorf("-%s is %v: it must be between %v and %v", name, d, least, most))
		}
	}
	within("processes", o.processes, 1, 1000)
	within("goroutines", o.goroutines, 1, 1_000_000)
	within("locks", o.locks, 1, 1_000_000)
	lasts("duration", o.duration, 100*time.Millisecond, 1000*time.Hour)
	lasts("hold", o.hold, time.Microsecond, time.Minute)
	lasts("think", o.think, 0, time.Hour)
	lasts("session-timeout", o.sessionTimeout, 100*time.Millisecond, time.Hour)
	lasts("tenure", o.tenure, -time.Hour, time.Hour)
	if o.greedy && o.think != 0 {
		faults = append(faults, fmt.Errorf("-think is %v: with -greedy nobody pauses", o.think))
	}
	lasts("patience", o.patience, time.Second, time.Hour)
	if o.readWrite && !(o.readRatio >= 0 && o.readRatio <= 1) { // NaN, too, is neither
		faults = append(faults, fmt.Errorf("-read-ratio is %v: it must be between 0 and 1", o.readRatio))
	}
	return errors.Join(faults...)
}
