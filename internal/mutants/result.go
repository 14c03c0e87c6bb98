// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// soundTimeout bounds a package's tests of the unchanged code.
	soundTimeout = 3 * time.Minute
	// mutantTimeout bounds the tests of one mutant, not counting the build. It is
	// many times what they need: in virtual time, a test that waits for something
	// that a mutant prevents runs until then.
	mutantTimeout = 15 * time.Second
	// seedTimeout is what each seed adds to it if they are simulations.
	seedTimeout = 500 * time.Millisecond
)

// goTest is a tester that runs go test in the working directory.
func goTest(ctx context.Context, t trial) (result, error) {
	timeout := soundTimeout
	if t.overlay != "" {
		timeout = mutantTimeout + time.Duration(t.seeds)*seedTimeout
	}
	args := []string{"test", "-json", "-vet=off", "-count=1", "-timeout", timeout.String(), "-run", "^(" + strings.Join(t.tests, "|") + ")$"}
	if t.quick {
		args = append(args, "-gcflags=-N -l")
	}
	if t.overlay != "" {
		args = append(args, "-overlay", t.overlay)
	}
	args = append(args, t.pkg)
	if t.seeds > 0 {
		args = append(args, "-args", "-seeds="+strconv.Itoa(t.seeds))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	// A failure here must not leave a file that later runs of the tests replay.
	cmd.Env = append(os.Environ(), "RAPID_NOFAILFILE=true")
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return result{}, ctx.Err()
	case err != nil && !errors.As(err, &exit):
		return result{}, err
	}
	r := read(out)
	r.ok = err == nil
	if exit != nil && len(r.output) == 0 {
		r.output = strings.Split(string(exit.Stderr), "\n")
	}
	return r, nil
}

// A result is what go test reported.
type result struct {
	ok             bool     // exit status 0
	built          bool     // the tests compiled
	passed, failed []string // tests and subtests, in the order in which they ended
	running        []string // those that had not ended
	output         []string // lines
}

// read parses the output of go test -json.
func read(out []byte) (r result) {
	r.built = true
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			r.output = append(r.output, lines.Text())
			continue
		}
		switch e.Action {
		case "output", "build-output":
			r.output = append(r.output, strings.TrimRight(e.Output, "\n"))
		case "build-fail":
			r.built = false
		case "run":
			r.running = append(r.running, e.Test)
		case "pass", "fail", "skip":
			if e.Test == "" {
				continue // the package
			}
			r.running = slices.DeleteFunc(r.running, func(name string) bool { return name == e.Test })
			switch e.Action {
			case "pass":
				r.passed = append(r.passed, e.Test)
			case "fail":
				r.failed = append(r.failed, e.Test)
			}
		}
	}
	return r
}

// killer returns what made the tests fail, or "" if they passed. It returns an
// error if they could not be run: that kills nothing.
func (r result) killer() (string, error) {
	if r.ok {
		if len(r.passed) == 0 {
			return "", errors.New("no test has run")
		}
		return "", nil
	}
	if !r.built {
		return "", fmt.Errorf("it does not compile: %s", strings.Join(r.output, " | "))
	}
	begins := func(prefixes ...string) bool {
		return slices.ContainsFunc(r.output, func(line string) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) })
		})
	}
	how := ""
	switch {
	case begins("panic: test timed out"):
		how = " (timeout)"
	case begins("panic: ", "fatal error: "):
		how = " (panic)"
	}
	// The first test to end is the innermost. If a panic cut a test off, the go
	// command reports it as failed if it can tell which one it was.
	switch {
	case len(r.failed) > 0:
		return r.failed[0] + how, nil
	case how != "" && len(r.running) > 0:
		return r.running[len(r.running)-1] + how, nil
	case begins("goleak: "):
		return "leaked goroutines", nil
	}
	return "", fmt.Errorf("the run failed, but no test did: %s", strings.Join(r.output, " | "))
}
