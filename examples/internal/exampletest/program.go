// SPDX-License-Identifier: Apache-2.0

// Package exampletest runs the example programs in tests, as they are and with mistakes.
package exampletest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// mark is the environment variable that makes a test binary run its program.
const mark = "HOLDFAST_EXAMPLE"

// limit is how long a program may take. It is told to end then, and killed later.
const (
	limit     = 90 * time.Second
	killAfter = 10 * time.Second
)

// RunIfProgram runs main and ends the process if this process was started by [Run], or
// by such a process. It is for the beginning of TestMain.
func RunIfProgram(main func()) {
	if os.Getenv(mark) != "" {
		main()
		os.Exit(0)
	}
}

// Run runs the program that is under test, with args, until it ends. It returns what
// the program and its processes have written, and how it ended.
func Run(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, self, args)
}

// A Mistake is changes to the program's source, and what the program says when it finds it out.
type Mistake struct {
	Changes []Change
	Says    string // a regular expression
}

// A Change replaces text in a file of the program, where it must stand once.
type Change struct{ File, Old, New string }

// FindsOut checks that the program fails with each of the mistakes. In short tests it is one of
// them, the sample.
func FindsOut(t *testing.T, sample string, mistakes map[string]Mistake) {
	for name, m := range mistakes {
		if testing.Short() && name != sample {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := runChanged(t, m.Changes)
			if err == nil || !regexp.MustCompile(m.Says).MatchString(output) {
				t.Errorf("ended with %v, want a line %q\n%s", err, m.Says, output)
			}
		})
	}
}

// runChanged is Run after changes to the source.
func runChanged(t *testing.T, changes []Change) (output string, err error) {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	texts := map[string]string{}
	for _, c := range changes {
		path, err := filepath.Abs(c.File)
		if err != nil {
			t.Fatal(err)
		}
		if texts[path] == "" {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], c.Old); n != 1 {
			t.Fatalf("%q stands %d times in %s", c.Old, n, c.File)
		}
		texts[path] = strings.Replace(texts[path], c.Old, c.New, 1)
		overlay.Replace[path] = filepath.Join(dir, filepath.Base(path))
	}
	for path, text := range texts {
		write(t, overlay.Replace[path], []byte(text))
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), list)
	program := filepath.Join(dir, "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return run(t, program, nil)
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a program.
func run(t *testing.T, program string, args []string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), mark+"=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = killAfter
	out, err := cmd.CombinedOutput()
	return string(out), err
}
