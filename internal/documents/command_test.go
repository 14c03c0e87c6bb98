// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
)

var discard = slog.New(slog.DiscardHandler)

// patience is how long a command or program may take on a busy machine.
const patience = 3 * time.Minute

// Every block of the documents for users runs, and what does not is listed.
func TestEveryBlockRuns(t *testing.T) {
	programs := build(t)
	for i, b := range blocks(t) {
		switch {
		case testing.Short() && i%3 != 0: // a sample
		case !slices.Contains(executed, b.file):
		case b.not != "":
			t.Logf("%s:%d: not run: %s", b.file, b.line, b.not)
		case b.from != "" || b.lang == "go":
			// See TestBlocksFromFiles, TestGoPrograms, TestGoTests and TestGoParts.
		default:
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(b.file), b.line), func(t *testing.T) { runBlock(t, b, programs) })
		}
	}
}

// runBlock runs a block, with the programs of that directory.
func runBlock(t *testing.T, b block, programs string) {
	switch b.lang {
	case "sh", "console":
		servers := scene(t)
		for _, c := range commands(b) {
			if needsZooKeeper.MatchString(c.line) && !hasZooKeeper() {
				t.Logf("%s: not run, because there is no ZooKeeper", c.line)
				continue
			}
			out, err := c.run(t, programs, servers)
			if fault := c.check(out, err); fault != "" {
				t.Errorf("%s:%d: %s: %s", b.file, b.line, c.line, fault)
			}
		}
	case "java":
		runJava(t, b)
	case "python":
		runPython(t, b)
	default:
		t.Errorf("%s:%d: a block of %q: this test runs go, sh, console, java and python", b.file, b.line, b.lang)
	}
}

// build builds what the commands of the documents run into a directory, and returns that.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if out, err := command(t, "go", "build", "-o", dir, "./cmd/holdfast", "./stress", "./internal/realzk/zkserver"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// scene starts a server with the lock jobs/nightly, which the process billing holds, and
// for which the process reports waits. Billing gives it up when it is asked to.
func scene(t *testing.T) (servers string) {
	t.Helper()
	servers = listen(t, server(t))
	lock := func(label string) *manager.Lock {
		m, err := manager.Open(t.Context(), manager.Config{Servers: []string{servers}, Label: label, Logger: discard})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		l, err := m.Exclusive("jobs/nightly")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	held, err := lock("billing").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end, released := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(released)
		select {
		case <-held.Revoked():
		case <-held.Lost(): // broken
		case <-end:
		}
		held.Release()
	}()
	next := lock("reports").Acquire(t.Context())
	<-held.Contended()
	t.Cleanup(func() {
		next.Release()
		close(end)
		<-released
	})
	return servers
}

// A shellCommand is a line of a block, and what the block says that it prints.
type shellCommand struct {
	line   string
	output string // "" if the block does not say
}

// commands returns the commands of a block.
func commands(b block) (all []shellCommand) {
	for line := range strings.Lines(b.text) {
		switch trimmed := strings.TrimSpace(line); {
		case b.lang == "sh":
			if trimmed != "" && !strings.HasPrefix(trimmed, "#") {
				all = append(all, shellCommand{line: trimmed})
			}
		case strings.HasPrefix(line, "$ "):
			all = append(all, shellCommand{line: strings.TrimPrefix(trimmed, "$ ")})
		case len(all) > 0:
			all[len(all)-1].output += line
		}
	}
	return all
}

// needsZooKeeper matches commands that start a real server.
var needsZooKeeper = regexp.MustCompile(`(^make stress)|/zkserver|-ensemble`)

func hasZooKeeper() bool {
	_, err := realzk.Find()
	return err == nil
}

// adapt returns the command line for the test: on its server, and not for minutes.
func (c shellCommand) adapt(servers string) string {
	line, _, _ := strings.Cut(c.line, " #")
	line = strings.ReplaceAll(line, "zk1:2181,zk2:2181", servers)
	if strings.Contains(line, "go run ./stress") {
		line += " -duration 200ms" // the last one counts
	}
	line = goRun.ReplaceAllString(line, "$1") // what build has built
	return duration.ReplaceAllString(line, "DURATION=3s")
}

var (
	goRun    = regexp.MustCompile(`go run \./(?:\w+/)*(\w+)`)
	duration = regexp.MustCompile(`DURATION=\w+`)
)

// keys is what a reader presses after a command that wants a terminal has shown something.
var keys = map[string]string{"top": "q", "watch": "\x03", "break": "y\n"}

// otherStatus returns an exit status of the command that is no failure either.
func (c shellCommand) otherStatus() int {
	switch {
	case c.verb() == "doctor":
		return 6 // findings
	case strings.Contains(c.line, "go run ./stress"):
		return 3 // too short to show anything: a busy machine
	}
	return 0
}

// verb returns the verb of a command line of holdfast.
func (c shellCommand) verb() string {
	words := strings.Fields(c.line)
	if len(words) < 2 || words[0] != "holdfast" {
		return ""
	}
	return words[1]
}

// run runs the command with the program in dir first in the PATH.
func (c shellCommand) run(t *testing.T, dir, servers string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	line := c.adapt(servers)
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	typed := keys[c.verb()]
	if typed != "" {
		// On a terminal. Ctrl-C reaches the shell as well, which must not be there then: some
		// shells report the signal instead of the command's exit status.
		cmd = exec.CommandContext(ctx, "script", "-qec", "exec "+line, os.DevNull)
	}
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"HOLDFAST_SERVERS="+servers, "NO_COLOR=1", "TERM=xterm")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	var all bytes.Buffer
	out := &firstWrite{w: &all, then: func() { _, _ = io.WriteString(stdin, typed) }}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	return all.String(), err
}

// A firstWrite passes on what is written, and calls then after the first time.
type firstWrite struct {
	w    io.Writer
	then func()
}

func (f *firstWrite) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if f.then != nil {
		f.then()
		f.then = nil
	}
	return n, err
}

// check compares how the command ended, and what it printed, with what it should.
func (c shellCommand) check(output string, err error) (fault string) {
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == c.otherStatus()) {
		return fmt.Sprintf("%v\n%s", err, output)
	}
	if c.output == "" {
		return ""
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(c.output), "…", ".*")
	if !regexp.MustCompile("^" + pattern + "$").MatchString(output) {
		return fmt.Sprintf("it printed\n%s\nand the document says\n%s", output, c.output)
	}
	return ""
}

func TestAdapt(t *testing.T) {
	for line, want := range map[string]string{
		"holdfast ls": "holdfast ls",
		"go run ./internal/realzk/zkserver go run ./stress -servers {} -duration 30s": "zkserver stress -servers {} -duration 30s -duration 200ms",
		"go run ./stress -servers zk1:2181,zk2:2181 # yours":                          "stress -servers s -duration 200ms",
		"make stress DURATION=60s   # on a real server":                               "make stress DURATION=3s  ",
	} {
		if got := (shellCommand{line: line}).adapt("s"); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestCommands(t *testing.T) {
	for _, tt := range []struct {
		lang, text string
		fault      string // "" if there is none
	}{
		{"sh", "# a comment\n\ntrue # here\n  test a = a\n", ""},
		{"sh", "true\nfalse\n", "exit status 1"},
		{"console", "$ echo one; echo two\none\ntwo\n$ echo 17 and 4\n… and …\n", ""},
		{"console", "$ echo one\ntwo\n", "it printed"},
		{"console", "$ echo one; echo two\none\n", "it printed"},
		{"console", "$ false\n", "exit status 1"},
		{"sh", "test zk1:2181,zk2:2181 = zk3:2181\n", ""},
	} {
		faults := ""
		for _, c := range commands(block{lang: tt.lang, text: tt.text}) {
			faults += c.check(c.run(t, t.TempDir(), "zk3:2181"))
		}
		if tt.fault == "" && faults != "" || !strings.Contains(faults, tt.fault) {
			t.Errorf("%q: %q, want %q", tt.text, faults, tt.fault)
		}
	}
}
