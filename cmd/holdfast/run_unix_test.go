// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestRunExitCode: run exits with the program's code, or as a shell does if there is
// none.
func TestRunExitCode(t *testing.T) {
	server, addr := serve(t)
	plain := filepath.Join(t.TempDir(), "plain")
	writeFile(t, plain, "not a program")
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("\x7fELF, but no more"), 0o700); err != nil { //nolint:gosec // it must be executable
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		program []string
		code    int
		stderr  string
	}{
		{"success", []string{"true"}, 0, ""},
		{"failure", []string{"sh", "-c", "exit 7"}, 7, ""},
		{"the greatest", []string{"sh", "-c", "exit 255"}, 255, ""},
		{"killed", []string{"sh", "-c", "kill -9 $$"}, 137, ""},
		{"terminated", []string{"sh", "-c", "kill -15 $$"}, 143, ""},
		{"arguments that look like flags", []string{"sh", "-c", `test "$*" = "--help -- -x"`, "--", "--help", "--", "-x"}, 0, ""},
		{"no such program", []string{"no-such-program"}, exitNotFound, "holdfast: no-such-program: there is no such program\n"},
		{"no such path", []string{"/no/such/program"}, exitNotFound, "holdfast: /no/such/program: there is no such program\n"},
		{"not executable", []string{plain}, exitCannotRun, "cannot be executed: permission denied"},
		{"a directory", []string{t.TempDir()}, exitCannotRun, "cannot be executed: is a directory"},
		{"no program for this machine", []string{garbage}, exitCannotRun, "cannot run " + garbage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, stderr, code := do(t, append([]string{"run", "--servers", addr, "x", "--"}, tt.program...)...)
			if code != tt.code || !strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
				t.Errorf("exit code %d, stderr %q; want %d, %q", code, stderr, tt.code, tt.stderr)
			}
			if left := server.Children("/holdfast/x"); len(left) != 0 {
				t.Errorf("left in the queue: %q", left)
			}
		})
	}
	for _, verb := range []string{"elect y", "cron --every 1h y"} {
		for program, want := range map[string]int{"no-such-program": exitNotFound, plain: exitCannotRun} {
			_, stderr, code := do(t, append(strings.Fields(verb), "--servers", addr, "--", program)...)
			if code != want || server.Exists("/holdfast/y") {
				t.Errorf("%s of %s: exit code %d, want %d; %s", verb, program, code, want, stderr)
			}
		}
	}
}

// TestRunEnvironment: the program gets the streams, the files that run inherited, and the
// lock's facts in its environment. Names may be nested.
func TestRunEnvironment(t *testing.T) {
	server, addr := serve(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	must(t, server.CreateAll("/prod", nil))
	c := prepare(t, "run", "--servers", addr+"/prod", "jobs/nightly", "--",
		"sh", "-c", `read line; echo "$line"; env | grep ^HOLDFAST_; echo err >&2; echo three >&3; ls /proc/$$/fd 2>/dev/null | grep -c . >&3`)
	c.Env = append(c.Env, "HOLDFAST_AUTH=user:secret")
	c.Stdin = strings.NewReader("in\n")
	c.ExtraFiles = []*os.File{w}
	c.begin()
	w.Close()
	if code := c.code(); code != 0 {
		t.Fatalf("exit code %d, %s", code, c.stderr)
	}
	env := map[string]string{}
	lines := strings.Split(c.stdout.String(), "\n")
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	token, err := strconv.ParseUint(env["HOLDFAST_TOKEN"], 10, 64)
	if lines[0] != "in" || token == 0 || err != nil || env["HOLDFAST_LOCK"] != "jobs/nightly" || !strings.HasPrefix(env["HOLDFAST_PATH"], "/prod/holdfast/jobs/nightly/") {
		t.Errorf("stdout %q", c.stdout)
	}
	if c.stderr.String() != "err\n" {
		t.Errorf("stderr %q", c.stderr)
	}
	file := make([]byte, 100)
	n, _ := r.Read(file) // the shell wrote both lines
	if got := string(file[:n]); !strings.HasPrefix(got, "three\n") {
		t.Errorf("file 3 got %q", got)
	}
	if !server.Exists("/prod/holdfast/jobs/nightly") {
		t.Errorf("nodes %q", server.Nodes())
	}
}

// TestRunArguments: the program gets its name and its arguments byte for byte, also if
// they are not UTF-8, as names of files need not be.
func TestRunArguments(t *testing.T) {
	_, addr := serve(t)
	program := t.TempDir() + "/caf\xe9"
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '%s,' \"$0\" \"$@\"\n"), 0o700); err != nil { //nolint:gosec // it must be executable
		t.Fatal(err)
	}
	args := []string{"", "caf\xe9", "\xff\xfe", "two words", "line\nbreak", "<&>\u2028", "é", "--", "run"}
	want := program + "," + strings.Join(args, ",") + ","
	for _, flags := range [][]string{{"run", "x", "--"}, {"run", "x"}, {"run", "--label=--", "x", "--"}} {
		stdout, stderr, code := do(t, slices.Concat([]string{"--servers=" + addr}, flags, []string{program}, args)...)
		if stdout != want || code != 0 {
			t.Errorf("%q: exit code %d, stdout %q, want %q; stderr %q", flags, code, stdout, want, stderr)
		}
	}
}

// TestRunManyArguments: as many arguments as the system allows cost no noticeable time.
func TestRunManyArguments(t *testing.T) {
	c := new(cli)
	many := append([]string{"run", "--try", "x", "--", "rm"}, slices.Repeat([]string{"file"}, 200_000)...)
	began := time.Now()
	if _, err := parse(newParser(c, io.Discard, io.Discard), c, many); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if n := len(c.Run.Command); n != 200_002 || !c.Run.Try || c.Run.Name != "x" {
		t.Errorf("%d words, %+v", n, c.Run.Try)
	}
	c = new(cli)
	if _, err := parse(newParser(c, io.Discard, io.Discard), c, []string{"ask", "run", "--", "a", "b"}); err == nil {
		t.Error("an argument too many is ignored")
	}
}

// TestRunWithinRun: a program under two locks gets the facts of the inner one.
func TestRunWithinRun(t *testing.T) {
	t.Parallel()
	_, addr := serve(t)
	stdout, stderr, code := do(t, "run", "--servers", addr, "outer", "--",
		"sh", "-c", `echo $HOLDFAST_TOKEN; exec "$0" run --servers "$1" inner -- sh -c 'echo $HOLDFAST_TOKEN; env | grep -E "^HOLDFAST_(LOCK|PATH|TOKEN)="'`, os.Args[0], addr)
	lines := strings.Fields(stdout)
	if code != 0 || len(lines) != 5 {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	outer, err := strconv.ParseUint(lines[0], 10, 64)
	inner, err2 := strconv.ParseUint(lines[1], 10, 64)
	if err != nil || err2 != nil || inner <= outer {
		t.Errorf("the token is %s under the outer lock, and %s under the inner one", lines[0], lines[1])
	}
	for _, line := range lines[2:] {
		if !strings.HasPrefix(line, "HOLDFAST_LOCK=inner") && !strings.HasPrefix(line, "HOLDFAST_PATH=/holdfast/inner/") && line != "HOLDFAST_TOKEN="+lines[1] {
			t.Errorf("the program has %s", line)
		}
	}
}

// TestRunPassesSignalsOn: signals to run reach the program, and run ends as the program
// does.
func TestRunPassesSignalsOn(t *testing.T) {
	_, addr := serve(t)
	for name, s := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := prepare(t, "run", "--servers", addr, name, "--",
				"sh", "-c", fmt.Sprintf(`trap 'echo got %s; exit 3' %[1]s; echo ready; while :; do sleep 0.01; done`, name))
			// Without a terminal: in the foreground of one, INT and QUIT may be keys, and reach sleep, too.
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			c.begin()
			c.stdout.await(t, "ready")
			c.signal(s)
			if code := c.code(); code != 3 || c.stdout.String() != "ready\ngot "+name+"\n" || c.stderr.String() != "" {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, c.stdout, c.stderr)
			}
		})
	}
}

// TestRunKeepsIgnoredSignals: what is started by nohup stays so.
func TestRunKeepsIgnoredSignals(t *testing.T) {
	_, addr := serve(t)
	c := prepare(t, "-c", `trap '' HUP; exec "$0" "$@"`, os.Args[0], "run", "--servers", addr, "x", "--",
		"sh", "-c", `kill -HUP $PPID; kill -HUP $$; echo alive; read line`)
	c.Path, c.Args[0] = "/bin/sh", "sh"
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.begin()
	c.stdout.await(t, "alive")
	c.signal(syscall.SIGHUP)
	in.Close()
	if code := c.code(); code != 1 { // that of read at the end of its input
		t.Errorf("exit code %d, %s", code, c.stderr)
	}
}

// holder is a holdfast that holds a lock until release is called.
func holder(t *testing.T, addr, name string) (c *command, release func()) {
	t.Helper()
	c = prepare(t, "run", "--servers", addr, "--label", "first", name, "--", "sh", "-c", "echo in; cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.begin()
	c.stdout.await(t, "in")
	return c, func() { _ = in.Close() }
}

// TestRunWaits: run says for which process it waits; --try and --wait give up, with exit
// code 4 and a line that names the holder; a signal ends the wait; the lock is passed on.
func TestRunWaits(t *testing.T) {
	t.Parallel()
	server, addr := serve(t)
	first, release := holder(t, addr, "x")

	for flag, want := range map[string]string{
		"--try":       `holdfast: trylock "x": locked by another process (1 ahead; held by first@`,
		"--wait=50ms": `holdfast: lock "x": not granted within 50ms (1 ahead; held by first@`,
	} {
		_, stderr, code := do(t, "run", "--servers", addr, flag, "x", "--", "true")
		if code != exitNotGranted || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, want) {
			t.Errorf("%s: exit code %d, %q", flag, code, stderr)
		}
	}

	second := begin(t, "run", "--servers", addr, "x", "--", "echo", "mine")
	second.stderr.await(t, `holdfast: waiting for "x": 1 ahead; held by first@`)
	third := begin(t, "run", "--servers", addr, "--quiet", "x", "--", "echo", "never")
	eventually(t, func() bool { return len(server.Children("/holdfast/x")) == 3 })
	third.signal(syscall.SIGINT)
	if code := third.code(); code != 130 || third.stdout.String() != "" {
		t.Errorf("after SIGINT: exit code %d, stdout %q, stderr %q", code, third.stdout, third.stderr)
	}
	if n := len(server.Children("/holdfast/x")); n != 2 {
		t.Errorf("%d contenders are left, want 2", n)
	}
	release()
	if code := first.code(); code != 0 {
		t.Errorf("first: exit code %d, %s", code, first.stderr)
	}
	if code := second.code(); code != 0 || second.stdout.String() != "mine\n" {
		t.Errorf("second: exit code %d, %s", code, second.stderr)
	}
}

// TestRunReaders: readers run at the same time, a writer does not.
func TestRunReaders(t *testing.T) {
	t.Parallel()
	_, addr := serve(t)
	run := func(flags ...string) []string { return append([]string{"run", "--servers", addr, "--try"}, flags...) }
	inner := func(flag string) string {
		return strings.Join(append(append([]string{"exec", os.Args[0]}, run(flag, "x", "--")...), "echo", "both"), " ")
	}
	stdout, stderr, code := do(t, run("--read", "x", "--", "sh", "-c", inner("--read"))...)
	if code != 0 || stdout != "both\n" {
		t.Errorf("two readers: exit code %d, %q, %q", code, stdout, stderr)
	}
	stdout, stderr, code = do(t, run("--read", "x", "--", "sh", "-c", inner("--write"))...)
	if code != exitNotGranted || stdout != "" {
		t.Errorf("a writer beside a reader: exit code %d, %q, %q", code, stdout, stderr)
	}
}

// TestRunRevoked: when another process asks for the lock, the program gets SIGTERM, or
// nothing with --on-revoke=ignore.
func TestRunRevoked(t *testing.T) {
	_, addr := serve(t)
	m, err := manager.Open(t.Context(), manager.Config{Servers: []string{addr}, Label: "operator", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, tt := range []struct {
		flag  string
		grace time.Duration
		err   error
		code  int
	}{
		{"term", patience, nil, 3},
		{"ignore", 500 * time.Millisecond, context.DeadlineExceeded, 0},
	} {
		t.Run(tt.flag, func(t *testing.T) {
			end := filepath.Join(t.TempDir(), "end")
			c := begin(t, "run", "--servers", addr, "--on-revoke", tt.flag, tt.flag, "--",
				"sh", "-c", `trap 'exit 3' TERM; echo in; while ! test -e "$0"; do sleep 0.01; done`, end)
			c.stdout.await(t, "in")
			lock, err := m.Exclusive(tt.flag)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), tt.grace)
			defer cancel()
			if err := lock.Revoke(ctx, "make room"); !errors.Is(err, tt.err) {
				t.Errorf("revoke: %v, want %v", err, tt.err)
			}
			writeFile(t, end, "")
			if code := c.code(); code != tt.code {
				t.Errorf("exit code %d, %s", code, c.stderr)
			}
			// Only now is all of its output here: the lock may be released before.
			if told := strings.Contains(c.stderr.String(), `operator@`) && strings.Contains(c.stderr.String(), `"make room"`); told != (tt.err == nil) {
				t.Errorf("stderr %q", c.stderr)
			}
		})
	}
}

// TestRunEndsWhatIsLeft: when the program ends, processes that it has left running are
// ended before the lock is released, even one that ignores SIGTERM in a session of its
// own.
func TestRunEndsWhatIsLeft(t *testing.T) {
	_, addr := serve(t)
	file := filepath.Join(t.TempDir(), "stamps")
	script := fmt.Sprintf(`%s stamper %s stubborn parent & while ! test -s %[2]s; do sleep 0.01; done; exit 9`, os.Args[0], file)
	next := filepath.Join(t.TempDir(), "next")
	c := begin(t, "run", "--servers", addr, "--session-timeout", "2s", "x", "--", "sh", "-c", script)
	awaitStamps(t, file, 1)
	second := begin(t, append([]string{"run", "--servers", addr, "x", "--"}, stamper(next)...)...)
	if code := c.code(); code != 9 {
		t.Errorf("exit code %d, %s", code, c.stderr)
	}
	started := awaitStamps(t, next, 1)
	second.signal(syscall.SIGTERM)
	second.code()
	if s, _ := readStamps(t, file); s.last >= started.first {
		t.Errorf("a process that was left went on for %v after the lock was passed on", s.last-started.first)
	}
}

// A program whose lock is lost. It must have ended before the next process has the lock.
var programs = []struct {
	name      string
	words     []string
	processes int
}{
	{"plain", nil, 1},
	{"stubborn", []string{"stubborn"}, 1},
	{"family", []string{"stubborn", "parent"}, 2},
}

// lossTimeout is the session timeout of runs that lose their locks.
const lossTimeout = 4 * time.Second

// A loss is a run whose lock is about to be lost, and one that gets it then.
type loss struct {
	t           *testing.T
	first, next *command
	file        string
	nextFile    string
	processes   int
}

// newLoss starts two runs, of which the first holds the lock.
func newLoss(t *testing.T, firstServers, nextServers string, words []string, processes int) *loss {
	t.Helper()
	dir := t.TempDir()
	l := &loss{t: t, file: filepath.Join(dir, "first"), nextFile: filepath.Join(dir, "next"), processes: processes}
	args := func(servers, file string, words ...string) []string {
		return append([]string{"run", "--servers", servers, "--session-timeout", lossTimeout.String(), "x", "--"}, stamper(file, words...)...)
	}
	l.first = begin(t, args(firstServers, l.file, words...)...)
	awaitStamps(t, l.file, processes)
	l.next = begin(t, args(nextServers, l.nextFile)...)
	l.next.stderr.await(t, "waiting for")
	return l
}

// check waits until the next run has the lock, and checks that the first program had
// ended by then. It returns how long before.
func (l *loss) check() time.Duration {
	l.t.Helper()
	next := awaitStamps(l.t, l.nextFile, 1)
	first, _ := readStamps(l.t, l.file)
	if first.last >= next.first {
		l.t.Errorf("the program went on for %v after the next one had begun", first.last-next.first)
	}
	if len(first.pids) != l.processes {
		l.t.Errorf("processes %v, want %d", first.pids, l.processes)
	}
	for _, pid := range first.pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			l.t.Errorf("process %d is still there: %v", pid, err)
		}
	}
	l.next.signal(syscall.SIGTERM)
	l.next.code()
	return next.first - first.last
}

// TestRunLosesTheLock: whatever happens to the network, to run or to its guard, the
// program and its descendants have ended when the next process has the lock.
func TestRunLosesTheLock(t *testing.T) {
	for _, fault := range []struct {
		name   string
		strike func(t *testing.T, s *zktest.Server, l *loss)
		code   int // of run; -1: it was killed; 0: see below
	}{
		{"blackholed", func(_ *testing.T, s *zktest.Server, _ *loss) { s.Faults().Blackhole(firstSession(s)) }, exitLost},
		{"run killed", func(_ *testing.T, _ *zktest.Server, l *loss) { l.first.signal(syscall.SIGKILL) }, -1},
		{"run stopped", func(_ *testing.T, _ *zktest.Server, l *loss) { l.first.signal(syscall.SIGSTOP) }, 0},
		{"guard killed", func(t *testing.T, _ *zktest.Server, l *loss) { kill(t, guardOf(t, l.first), syscall.SIGKILL) }, 137},
		{"guard stopped and blackholed", func(t *testing.T, s *zktest.Server, l *loss) {
			kill(t, guardOf(t, l.first), syscall.SIGSTOP)
			s.Faults().Blackhole(firstSession(s))
		}, exitLost},
	} {
		for _, program := range programs {
			if program.name != "family" && fault.name != "blackholed" {
				continue // the family is the hardest
			}
			t.Run(fault.name+"/"+program.name, func(t *testing.T) {
				t.Parallel()
				if strings.HasPrefix(fault.name, "guard") {
					requireDescendants(t)
				}
				s, addr := serve(t)
				l := newLoss(t, addr, addr, program.words, program.processes)
				fault.strike(t, s, l)
				t.Logf("ended %v before the next one began", l.check())
				if fault.code == 0 {
					l.first.signal(syscall.SIGCONT)
					if code := l.first.code(); code != exitLost {
						t.Errorf("after SIGCONT: exit code %d, %s", code, l.first.stderr)
					}
				} else if code := l.first.code(); code != fault.code {
					t.Errorf("exit code %d, want %d; %s", code, fault.code, l.first.stderr)
				}
			})
		}
	}
}

// TestRunAsksFirst: before the program is killed, it gets SIGTERM, and --kill-after to end
// by itself.
func TestRunAsksFirst(t *testing.T) {
	for _, tt := range []struct {
		name    string
		strike  func(s *zktest.Server, c *command)
		timeout string // of the session
	}{
		{"blackholed", func(s *zktest.Server, _ *command) { s.Faults().Blackhole(firstSession(s)) }, "4s"},
		{"run stopped", func(_ *zktest.Server, c *command) { c.signal(syscall.SIGSTOP) }, "4s"},
		{"run killed", func(_ *zktest.Server, c *command) { c.signal(syscall.SIGKILL) }, "60s"}, // at once
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, addr := serve(t)
			c := begin(t, "run", "--servers", addr, "--session-timeout", tt.timeout, "--kill-after", "900ms", "x", "--",
				"sh", "-c", `trap 'echo stopping; exit 0' TERM; echo in; while :; do sleep 0.01; done`)
			c.stdout.await(t, "in")
			struck := time.Now()
			tt.strike(s, c)
			c.stdout.await(t, "stopping")
			if took := time.Since(struck); took > 15*time.Second {
				t.Errorf("SIGTERM came after %v", took)
			}
		})
	}
}

// TestRunWithoutAReader: nothing reads standard error, such as a pager that is stopped, and
// its pipe is full. The program is ended all the same.
func TestRunWithoutAReader(t *testing.T) {
	for name, strike := range map[string]func(s *zktest.Server, c *command) error{
		"run killed": func(_ *zktest.Server, c *command) error { return c.Process.Kill() },
		"node deleted": func(s *zktest.Server, _ *command) error {
			return s.Delete("/holdfast/x/" + s.Children("/holdfast/x")[0])
		},
		"run stopped": func(_ *zktest.Server, c *command) error { return c.Process.Signal(syscall.SIGSTOP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, addr := serve(t)
			full := fullPipe(t)
			file := filepath.Join(t.TempDir(), "stamps")
			c := prepare(t, append([]string{"run", "--servers", addr, "--session-timeout", lossTimeout.String(), "x", "--"}, stamper(file, "stubborn", "parent")...)...)
			c.Cmd.Stderr = full
			c.begin()
			pids := awaitStamps(t, file, 2).pids
			if err := strike(s, c); err != nil {
				t.Fatal(err)
			}
			for _, pid := range pids {
				eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
			}
			if name == "run stopped" {
				c.signal(syscall.SIGCONT)
			}
			if code := c.code(); name != "run killed" && code != exitLost {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestRunRevokedWithoutAReader: run goes on saying that the lock is held although it waits
// for a reader of the line about the revocation, and ends with the program.
func TestRunRevokedWithoutAReader(t *testing.T) {
	t.Parallel()
	_, addr := serve(t)
	c := prepare(t, "run", "--servers", addr, "--session-timeout", "6s", "x", "--",
		"sh", "-c", `trap 'sleep 5; echo done; exit 3' TERM; echo in; while :; do sleep 0.01; done`)
	c.Cmd.Stderr = fullPipe(t)
	c.begin()
	c.stdout.await(t, "in")
	_, stderr, code := do(t, "revoke", "--servers", addr, "x")
	if code != 0 || stderr != "" {
		t.Errorf("revoke: exit code %d, %s", code, stderr)
	}
	if code := c.code(); code != 3 || c.stdout.String() != "in\ndone\n" {
		t.Errorf("exit code %d, stdout %q", code, c.stdout)
	}
}

// fullPipe returns the end for writing of a pipe that takes nothing more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = w.Write(make([]byte, 1<<12))
	}
	for err = error(nil); err == nil; {
		_, err = w.Write([]byte{0})
	}
	// A process that inherits the pipe is to wait for its reader, as most are.
	if err := syscall.SetNonblock(int(w.Fd()), false); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSendToStoppedGuard: a guard that reads nothing never makes run wait, and every
// message that it finds later is whole.
func TestSendToStoppedGuard(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	p := &program{orders: w}
	began := time.Now()
	for i := range 10_000 {
		p.send(order{Until: time.Duration(i + 1)})
		if took := time.Since(began); took > 10*time.Second {
			t.Fatalf("%d messages took %v", i+1, took)
		}
	}
	w.Close()
	in := json.NewDecoder(r)
	read := 0
	for ; in.More(); read++ {
		var o order
		if err := in.Decode(&o); err != nil || o.Until == 0 {
			t.Fatalf("message %d: %+v, %v", read, o, err)
		}
	}
	if read < 100 {
		t.Errorf("%d messages came", read)
	}
}

// beginGuard starts a guard without a run. What the test writes to orders are run's.
func beginGuard(t *testing.T, s start, program ...string) (g *command, orders *json.Encoder) {
	t.Helper()
	g, w := beginGuardOn(t, s, program...)
	return g, json.NewEncoder(w)
}

// beginGuardOn is beginGuard with the pipe that the orders go through.
func beginGuardOn(t *testing.T, s start, program ...string) (g *command, orders *os.File) {
	t.Helper()
	path, err := exec.LookPath(program[0])
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	t.Cleanup(func() { w.Close() })
	s.Parent, s.Group, s.LostCode = os.Getpid(), unix.Getpgrp(), 55
	g = prepare(t, append([]string{guardVerb, "3", path}, program...)...)
	g.ExtraFiles = []*os.File{r}
	g.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.begin()
	if err := json.NewEncoder(w).Encode(s); err != nil {
		t.Fatal(err)
	}
	return g, w
}

// TestGuardWakesTheProgram: a program that is stopped when it has to end takes note of it.
func TestGuardWakesTheProgram(t *testing.T) {
	g, _ := beginGuard(t, start{Until: systemTime() + time.Second, KillAfter: patience},
		"sh", "-c", `trap 'echo stopping; exit 0' TERM; echo in; kill -STOP $$; while :; do sleep 0.01; done`)
	g.stdout.await(t, "stopping")
	if code := g.code(); code != 55 {
		t.Errorf("exit code %d", code)
	}
}

// TestGuardLooksAgain: a guard never sleeps for long, because its timers stand still while
// the machine is suspended.
func TestGuardLooksAgain(t *testing.T) {
	g := guard{start: start{KillAfter: time.Hour}, until: systemTime() + time.Hour}
	if pause := g.act(); pause <= 0 || pause > guardLooks {
		t.Errorf("it sleeps for %v", pause)
	}
}

// TestRunTellsTheMargin: the lock is given up as long before the end of the lease as the
// program has between SIGTERM and SIGKILL. So if the servers grant a session timeout that is
// too short for that, run refuses to begin.
func TestRunTellsTheMargin(t *testing.T) {
	s := zktest.NewServer(zktest.Config{TickTime: 100 * time.Millisecond, MaxSessionTimeout: 4 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	addr, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := do(t, "run", "--servers", addr, "--log-level=error", "--kill-after", "1s", "x", "--", "echo", "in")
	if code != exitUsage || stdout != "" || !strings.Contains(stderr, "LostMargin must be less than 1s; it is 1s") || !strings.Contains(stderr, "LostMargin is --kill-after") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestGuardEndsTheProgram: if run says nothing in time, the guard ends the program, and
// the exit code is not the program's. That run still has the lock makes no difference.
func TestGuardEndsTheProgram(t *testing.T) {
	g, _ := beginGuard(t, start{Until: systemTime() + 2*time.Second, KillAfter: patience},
		"sh", "-c", `trap 'echo stopping; exit 0' TERM; echo in; while :; do sleep 0.01; done`)
	if code := g.code(); code != 55 || g.stdout.String() != "in\nstopping\n" || !strings.Contains(g.stderr.String(), "not confirmed in time that the lock is still held: ") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, g.stdout, g.stderr)
	}
}

// TestGuardStartsTooLate: if all processes were stopped between the grant and the start of
// the program, such as with their machine, it is not started.
func TestGuardStartsTooLate(t *testing.T) {
	g, _ := beginGuard(t, start{Until: systemTime() - 1, KillAfter: patience}, "echo", "in")
	if code := g.code(); code != 55 || g.stdout.String() != "" || !strings.Contains(g.stderr.String(), "was not started") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, g.stdout, g.stderr)
	}
}

// TestGuardKeepsTheEnd: orders extend the time, and one that comes late does not shorten it.
func TestGuardKeepsTheEnd(t *testing.T) {
	began := systemTime()
	g, orders := beginGuard(t, start{Until: began + patience, KillAfter: time.Second}, "sh", "-c", "echo in; sleep 0.5; exit 3")
	g.stdout.await(t, "in")
	if err := orders.Encode(order{Until: began + 1}); err != nil {
		t.Fatal(err)
	}
	if code := g.code(); code != 3 || g.stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, g.stderr)
	}
}

// TestRunIsTooLate: if the session or the node is gone, another process may have the lock
// already, so the program is killed at once.
func TestRunIsTooLate(t *testing.T) {
	for name, strike := range map[string]func(s *zktest.Server) error{
		"session expired": func(s *zktest.Server) error { s.ExpireSession(firstSession(s)); return nil },
		"node deleted": func(s *zktest.Server) error {
			return s.Delete("/holdfast/x/" + s.Children("/holdfast/x")[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, addr := serve(t)
			file := filepath.Join(t.TempDir(), "stamps")
			c := begin(t, append([]string{"run", "--servers", addr, "--session-timeout", "58s", "--kill-after", "14s", "x", "--"}, stamper(file, "stubborn", "parent")...)...)
			awaitStamps(t, file, 2)
			struck := systemTime()
			if err := strike(s); err != nil {
				t.Fatal(err)
			}
			if code := c.code(); code != exitLost || !strings.Contains(c.stderr.String(), "lock was lost") {
				t.Errorf("exit code %d, %s", code, c.stderr)
			}
			// By the lease it would have had about 20 s, and by --kill-after 14 s.
			if end, _ := readStamps(t, file); end.last-struck > 12*time.Second {
				t.Errorf("it was killed after %v", end.last-struck)
			}
		})
	}
}

// firstSession returns the session of the holder of lock x.
func firstSession(s *zktest.Server) int64 {
	first := s.Children("/holdfast/x")[0]
	for _, name := range s.Children("/holdfast/x") {
		if sequence(name) < sequence(first) {
			first = name
		}
	}
	_, stat, _ := s.Get("/holdfast/x/" + first)
	return stat.EphemeralOwner
}

// sequence returns the number at the end of a node's name.
func sequence(name string) string { return name[len(name)-10:] }

// guardOf returns the process of c's guard.
func guardOf(t *testing.T, c *command) int {
	t.Helper()
	requireDescendants(t)
	children := childrenOf(t, c.Process.Pid)
	if len(children) != 1 {
		t.Fatalf("%d has the children %v", c.Process.Pid, children)
	}
	return children[0]
}

func kill(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}
