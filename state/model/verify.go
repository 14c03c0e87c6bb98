// SPDX-License-Identifier: Apache-2.0

// Command model checks the models of the lock's state machine with spin. It also
// checks that the models can fail: spin must find an error in each wrong variant.
//
//	go run ./state/model [-set quick|full|long] [-run regexp] [-v]
//
// It needs spin and a C compiler. It exits with 0 only if every search ended as
// expected and none reached its limit of depth or memory.
package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

//go:embed rounds.pml lock.pml canary.pml
var models embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

// options are the settings from the command line.
type options struct {
	set    string
	only   *regexp.Regexp
	memory int // MB that one search may use
	cc     string
	keep   string // directory for counter-examples
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	var only string
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.StringVar(&o.set, "set", "full", "quick, full or long")
	flags.StringVar(&only, "run", "", "run only searches whose configuration matches this regular `expression`")
	flags.IntVar(&o.memory, "memory", 7000, "megabytes that one search may use")
	flags.StringVar(&o.cc, "cc", "cc", "the C compiler")
	flags.StringVar(&o.keep, "keep", "", "`directory` for counter-examples of unexpected errors")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	searches, ok := sets[o.set]
	if !ok {
		return fmt.Errorf("-set %s: it must be quick, full or long", o.set)
	}
	for _, tool := range []string{"spin", o.cc} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: install spin and a C compiler (Debian, Ubuntu: apt-get install spin gcc libc6-dev)", err)
		}
	}
	if err := trial(ctx, o, canaries()); err != nil {
		return err
	}
	return verify(ctx, o, searches(), out)
}

// trial checks that this machine's spin and compiler, and judge, work.
func trial(ctx context.Context, o options, all []canary) error {
	o.keep = ""
	for _, c := range all {
		r, err := c.run(ctx, o)
		if err != nil {
			return fmt.Errorf("trial of the checker: %s: %w", c.config(), err)
		}
		if got := c.judge(r); (got == "") != (c.wrong == "") || !strings.Contains(got, c.wrong) {
			return fmt.Errorf("trial of the checker: %s, which %s: judged %q, want %q", c.config(), c.want, got, c.wrong)
		}
	}
	return nil
}

// verify runs the searches and prints a row for each, in their order. Those of the quick set
// run on all processors at a time.
func verify(ctx context.Context, o options, searches []search, out io.Writer) error {
	var wrong []string
	start := time.Now()
	const row = "%-36s %-23s %-8s %-48s %9s %8s %5s %7s %s\n"
	fmt.Fprintf(out, row, "CONFIGURATION", "PROPERTY", "EXPECTED", "RESULT", "STATES", "DEPTH", "MB", "SECONDS", "")
	type ended struct {
		r   result
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel() // before the wait, if one could not be carried out
	searches = slices.DeleteFunc(searches, func(s search) bool { return !o.only.MatchString(s.config()) })
	ends := make([]chan ended, len(searches))
	parallel := 1 // the searches of the larger sets take most of a machine's memory
	if o.set == "quick" {
		parallel = runtime.NumCPU()
	}
	for i := range ends {
		ends[i] = make(chan ended, 1)
	}
	var next atomic.Int32 // they begin in order, so that no row waits for all the others
	for range parallel {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(searches) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				r, err := searches[i].run(ctx, o)
				ends[i] <- ended{r, err}
			}
		})
	}
	for i, s := range searches {
		var r result
		var err error
		select {
		case end := <-ends[i]:
			r, err = end.r, end.err
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.config(), err)
		}
		verdict := "ok"
		if why := s.judge(r); why != "" {
			verdict = "WRONG"
			wrong = append(wrong, fmt.Sprintf("%s: %s", s.config(), why))
		}
		fmt.Fprintf(out, row, s.config(), s.property(), s.want, r.what(), strconv.FormatInt(r.states, 10), strconv.FormatInt(r.depth, 10),
			strconv.FormatFloat(r.memory, 'f', 0, 64), strconv.FormatFloat(r.seconds, 'f', 1, 64), verdict)
	}
	ran := len(searches)
	fmt.Fprintf(out, "\n%d searches in %.0f s\n", ran, time.Since(start).Seconds())
	if ran == 0 {
		return errors.New("-run matches no search")
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d searches did not end as expected:\n  %s", len(wrong), ran, strings.Join(wrong, "\n  "))
	}
	return nil
}

// An outcome is the expected result of a search.
type outcome string

const (
	holds outcome = "holds"
	fails outcome = "fails"
)

// progress is the property that no execution is infinite without some caller getting
// an answer, however unfair the scheduler is.
const progress = "progress"

// A search is a run of the checker that spin generates from a model.
type search struct {
	model string   // a file
	defs  []string // definitions: configuration, and wrong variant if any
	ltl   string   // property; "" for assertions and valid end states
	bits  bool     // bitstate: too large for an exhaustive search
	want  outcome
	large bool // optimization is worth its time, whatever compiles the others
	plain bool // keep states as they are: three times the memory, a third less time

	memory, depth int // limits in MB and steps; 0 for the defaults
}

func (s search) config() string {
	name := strings.TrimSuffix(s.model, ".pml")
	for _, d := range s.defs {
		name += " " + d
	}
	return name
}

func (s search) property() string {
	how := ""
	if s.bits {
		how = ", bitstate"
	}
	switch s.ltl {
	case "":
		return "safety" + how
	case progress:
		return progress + how
	}
	return s.ltl + ", weak fairness" + how
}

// maxDepth limits the depth of a search in steps, and so the memory of its stack, which
// takes a second to clear.
const maxDepth = 5_000_000

// run generates the checker, in its own directory, and runs it.
func (s search) run(ctx context.Context, o options) (result, error) {
	dir, err := os.MkdirTemp("", "verify")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	text, err := models.ReadFile(s.model)
	if err != nil {
		return result{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, s.model), text, 0o600); err != nil {
		return result{}, err
	}

	spin := []string{"-a"}
	for _, d := range s.defs {
		spin = append(spin, "-D"+d)
	}
	if _, err := command(ctx, dir, "spin", append(spin, s.model)...); err != nil {
		return result{}, err
	}
	optimize := "-O1" // -O2 compiles for longer than most searches take
	if s.want == fails {
		optimize = "-O0" // the search is short
	}
	cc := []string{optimize, "-w", "-o", "pan", fmt.Sprintf("-DMEMLIM=%d", cmp.Or(s.memory, o.memory))}
	pan := []string{fmt.Sprintf("-m%d", cmp.Or(s.depth, maxDepth))}
	switch {
	case s.bits:
		cc = append(cc, "-DBITSTATE")
		pan = append(pan, "-w34", "-k3")
	case s.plain:
		pan = append(pan, "-w22")
	default:
		cc = append(cc, "-DCOLLAPSE")
		pan = append(pan, "-w22")
	}
	switch s.ltl {
	case "":
		cc = append(cc, "-DSAFETY")
	case progress:
		cc = append(cc, "-DNP")
		pan = append(pan, "-l")
	default:
		cc = append(cc, "-DNFAIR=4")
		pan = append(pan, "-a", "-f", "-N", s.ltl)
	}
	compiler := o.cc
	if s.large {
		compiler = "cc"
	}
	if _, err := command(ctx, dir, compiler, append(cc, "pan.c")...); err != nil {
		return result{}, err
	}
	// pan's exit status tells only whether it crashed.
	text, err = command(ctx, dir, "./pan", pan...)
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || !exit.Exited()) {
		return result{}, err
	}
	r := parse(string(text))
	if o.keep != "" && s.judge(r) != "" {
		if err := keep(dir, o.keep); err != nil {
			return result{}, err
		}
	}
	return r, nil
}

// keep copies the files for replaying a counter-example.
func keep(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"*.pml", "*.trail"} {
		files, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return err
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// command runs a program and returns its output.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return out, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return out, nil
}

// judge says what is wrong with the result of a search, or returns "".
func (s search) judge(r result) string {
	switch {
	case r.tooSmall != "":
		return "the model is too small: " + r.tooSmall
	case r.found != "" && s.want == fails:
		return ""
	case r.found != "":
		return "found: " + r.found
	case !r.complete:
		return "the search was incomplete: " + r.cut
	case s.want == fails:
		return "the search found no error in this wrong variant"
	}
	return ""
}
