// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk/scratch"
)

// A trialRun is a run of -self-test: of a lock that is broken on purpose, which the harness
// must catch, or of one that is not.
type trialRun struct {
	name     string
	sabotage sabotage // empty: the lock is correct
	args     []string
	sees     string // expression for what the harness must have seen
}

// selfTests are the runs of -self-test. Each takes a few seconds.
var selfTests = []trialRun{
	{"a correct lock", "", nil, `^OK: `},
	{"lease ignored", ignoresLease, []string{"-session-timeout", "1s", "-duration", "8s"}, `held twice|overlap on lock`},
	{"double grant", grantsTwice, nil, `held twice|overlap on lock`},
	{"token repeated", oldToken, nil, `token fell on lock|token`},
	{"node left", leaks, nil, `LEAKED: |left`},
	{"waiter forgotten", forgetsWaiter, []string{"-patience", "2s", "-duration", "6s"}, `stuck: worker 0 has been in "Acquire and wait"`},
	{"stale news taken for new", believesOldNews, nil, `held twice|overlap on lock|token fell`},
	{"downgrade that lets a writer in", losesRead, []string{"-read-ratio", "0.3", "-think", "1ms"}, `held twice|overlap on lock`},
	{"revocation ignored", ignoresRevocation, []string{"-nemesis", "revoke", "-locks", "1", "-session-timeout", "1s", "-duration", "16s"}, `was asked at .* to give up`},
	{"a register that accepts every write", sloppyRegister, nil, `FOUND: .*token`},
}

// findings are the lines in which a run says what is wrong, or that nothing is.
var findings = regexp.MustCompile(`(?m)^ *(VIOLATION|FAILED|LEAKED|FOUND).*$|^OK: .*$`)

// selfTestMain runs the harness against each of the locks, and returns the exit status.
func selfTestMain(o options, stdout, stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintf(stderr, "stress: %v\n", err)
		return exitFailure
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
	fmt.Fprintf(stdout, "Holdfast stress, self-test: %s on the embedded server, one of them correct\n", plural(len(selfTests), "lock"))
	// Two at a time, because they wait for much of their time.
	results := make([]chan string, len(selfTests))
	turns := make(chan struct{}, 2)
	var all sync.WaitGroup
	for i, t := range selfTests {
		results[i] = make(chan string, 1)
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			results[i] <- t.run(interrupted, program, dir.Path(), o.Seed)
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
		fmt.Fprintf(stdout, "\nFAILED: %s did not end as it must\n", plural(missed, "run"))
		return exitFailure
	}
	fmt.Fprintf(stdout, "\nOK: each defect was caught, and a correct lock was not blamed\n")
	return exitOK
}

const (
	caught = "caught  "
	passed = "passed  "
)

// run runs the harness, and says what it saw.
func (t trialRun) run(ctx context.Context, program, dir string, seed uint64) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	own, err := os.MkdirTemp(dir, "run-")
	if err != nil {
		return fmt.Sprintf("FAILED  %s: %v", t.name, err)
	}
	// Later flags override earlier ones.
	args := []string{"-processes", "2", "-goroutines", "4", "-locks", "2", "-duration", "4s", "-seed", fmt.Sprint(seed), "-report", own + "/report"}
	cmd := exec.CommandContext(ctx, program, append(args, t.args...)...)
	cmd.Env = append(os.Environ(), sabotageVariable+"="+string(t.sabotage), "TMPDIR="+own)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return fmt.Sprintf("FAILED  %s: %v", t.name, err)
	}
	status, want, so := cmd.ProcessState.ExitCode(), exitFailure, caught
	if t.sabotage == "" {
		want, so = exitOK, passed
	}
	says := findings.FindAllString(out.String(), -1)
	sees := regexp.MustCompile(t.sees)
	for _, line := range says {
		if status == want && sees.MatchString(line) {
			return so + t.name + ": " + strings.TrimSpace(line)
		}
	}
	return fmt.Sprintf("MISSED  %s: exit status %d, and it said: %s", t.name, status, strings.Join(says, "; "))
}
