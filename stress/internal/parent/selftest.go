// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/internal/realzk/scratch"
	"github.com/holdfast-go/holdfast/stress/internal/options"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A trialRun is a run of -self-test: of a lock that is broken on purpose, which the harness
// must catch, or of one that is not. Each defect must be caught by what is meant to catch it:
// by a check of the judge, which knows the history, and where others can see it as well, by
// them, too.
type trialRun struct {
	name     string
	sabotage wire.Sabotage // empty: the lock is correct
	args     []string
	check    string // name of the judge's check
	sees     string // expression for a line of what the harness sees without the history; empty: it cannot
}

// selfTests are the runs of -self-test. Each takes a few seconds.
var selfTests = []trialRun{
	{"a correct lock", "", nil, "", `^OK: `},
	{"lease ignored", wire.IgnoresLease, []string{"-session-timeout", "1s", "-duration", "8s"}, verdict.Overlap, `^VIOLATION .* overlap on lock`},
	{"double grant", wire.GrantsTwice, nil, verdict.Overlap, `^VIOLATION .* overlap on lock`},
	{"token repeated", wire.OldToken, nil, verdict.Tokens, `^VIOLATION .* token fell on lock`},
	{"node left", wire.Leaks, nil, verdict.Left, `^LEAKED: `},
	{"waiter forgotten", wire.ForgetsWaiter, []string{"-session-timeout", "1s", "-patience", "12s", "-duration", "16s"}, verdict.Patience, `^FAILED: .*stuck: worker 0 has been in "Acquire and wait"`},
	{"stale news taken for new", wire.BelievesOldNews, nil, verdict.Tokens, `^VIOLATION .* (overlap|token fell) on lock`},
	{"downgrade that lets a writer in", wire.LosesRead, []string{"-read-ratio", "0.3", "-think", "1ms"}, verdict.Overlap, `^VIOLATION .* overlap on lock`},
	{"revocation ignored", wire.IgnoresRevocation, []string{"-nemesis", "revoke", "-locks", "1", "-session-timeout", "1s", "-duration", "16s"}, verdict.Revocations, ""},
	{"a register that accepts every write", wire.SloppyRegister, nil, verdict.Register, ""},
}

// KeepSelfTests leaves out the others, for a test that has less time. It must be called before
// [Main].
func KeepSelfTests(sabotages ...wire.Sabotage) {
	selfTests = slices.DeleteFunc(selfTests, func(t trialRun) bool { return !slices.Contains(sabotages, t.sabotage) })
}

// seen are the lines in which a run says what it has seen without the history, or that all
// is well.
var seen = regexp.MustCompile(`(?m)^(VIOLATION|FAILED|LEAKED).*$|^OK: .*$`)

// selfTestMain runs the harness against each of the locks, and returns the exit status.
func selfTestMain(o options.Options, stdout, stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintf(stderr, "stress: %v\n", err)
		return wire.ExitFailure
	}
	program, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	dir, err := scratch.New("holdfast-stress-")
	if err != nil {
		return fail(err)
	}
	interrupted, _, stop := interrupts()
	defer stop()
	fmt.Fprintf(stdout, "Holdfast stress, self-test: %s on the embedded server, one of them correct\n", figures.Count(len(selfTests), "lock"))
	// Two at a time, because they wait for much of their time.
	results := make([]chan string, len(selfTests))
	turns := make(chan struct{}, 2)
	var all sync.WaitGroup
	for i, t := range selfTests {
		results[i] = make(chan string, 1)
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			results[i] <- t.repeat(interrupted, program, dir.Path(), o.Seed)
		})
	}
	missed := 0
	for _, result := range results {
		text := <-result
		fmt.Fprintln(stdout, text)
		if !strings.HasPrefix(text, caught) && !strings.HasPrefix(text, passed) {
			missed++
		}
	}
	all.Wait()
	if err := dir.Remove(); err != nil {
		return fail(err)
	}
	if missed > 0 {
		fmt.Fprintf(stdout, "\nFAILED: %s did not end as expected\n", figures.Count(missed, "run"))
		return wire.ExitFailure
	}
	fmt.Fprintf(stdout, "\nOK: each defect was caught, and a correct lock was not blamed\n")
	return wire.ExitOK
}

const (
	caught = "caught  "
	passed = "passed  "
)

// A defect that a run has missed, and a run that is void, are tried again, up to so many times
// in all. On a machine that is busy with other things too little can happen for a verdict, and
// no other process may come in while a worker misbehaves.
const trialRuns = 3

// repeat has the harness run until it has come to a verdict, and says what it saw.
func (t trialRun) repeat(ctx context.Context, program, dir string, seed uint64) (text string) {
	for range trialRuns {
		var status int
		text, status = t.run(ctx, program, dir, seed)
		missed := t.sabotage != "" && !strings.HasPrefix(text, caught)
		if status != wire.ExitVoid && !missed {
			break
		}
	}
	return text
}

// run runs the harness once. It returns what the run saw, and its exit status.
func (t trialRun) run(ctx context.Context, program, dir string, seed uint64) (text string, status int) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	own, err := os.MkdirTemp(dir, "run-")
	if err != nil {
		return fmt.Sprintf("FAILED  %s: %v", t.name, err), wire.ExitFailure
	}
	// Later flags override earlier ones.
	args := []string{"-processes", "2", "-goroutines", "4", "-locks", "2", "-duration", "4s", "-seed", fmt.Sprint(seed), "-report", own + "/report"}
	cmd := exec.CommandContext(ctx, program, append(args, t.args...)...)
	cmd.Env = append(os.Environ(), wire.SabotageVariable+"="+string(t.sabotage), "TMPDIR="+own)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return fmt.Sprintf("FAILED  %s: %v", t.name, err), wire.ExitFailure
	}
	v, err := verdict.Read(own + "/report")
	if err != nil {
		return fmt.Sprintf("FAILED  %s: %v", t.name, err), wire.ExitFailure
	}
	status = cmd.ProcessState.ExitCode()
	return t.weigh(status, seen.FindAllString(out.String(), -1), v), status
}

// weigh says whether a run has seen what it must see: it ended with that status, said these
// lines, and had that verdict on its history.
func (t trialRun) weigh(status int, lines []string, v verdict.Verdict) string {
	want, so := wire.ExitFailure, caught
	if t.sabotage == "" {
		want, so = wire.ExitOK, passed
	}
	var by, missing []string
	if status != want {
		missing = append(missing, fmt.Sprintf("exit status %d, want %d", status, want))
	}
	if i := slices.IndexFunc(lines, regexp.MustCompile(t.sees).MatchString); t.sees != "" && i >= 0 {
		by = append(by, lines[i])
	} else if t.sees != "" {
		missing = append(missing, "no line has "+t.sees)
	}
	if i := slices.IndexFunc(v.Checks, func(c verdict.Check) bool { return c.Name == t.check && c.Found > 0 }); t.check != "" && i >= 0 {
		by = append(by, found(v, v.Checks[i]))
	} else if t.check != "" {
		missing = append(missing, fmt.Sprintf("the check %q has found nothing", t.check))
	}
	if t.sabotage == "" && v.Outcome != verdict.OK {
		missing = append(missing, fmt.Sprintf("the history's verdict is %s, want OK", v.Outcome))
	}
	if len(missing) > 0 {
		return fmt.Sprintf("MISSED  %s: %s; it said: %s", t.name, strings.Join(missing, "; "), strings.Join(lines, "; "))
	}
	const margin = "\n          "
	return so + t.name + margin + strings.Join(by, margin)
}

func found(v verdict.Verdict, c verdict.Check) string {
	for _, f := range v.Findings {
		if f.Check == c.Name {
			return "FOUND: " + f.Check + ": " + f.Text
		}
	}
	return fmt.Sprintf("FOUND: %s: %s", c.Name, figures.Count(int(c.Found), "finding")) //nolint:gosec // no run has so many
}
