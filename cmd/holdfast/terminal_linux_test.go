// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// A terminal is a shell on a terminal that a test types at.
type terminal struct {
	t      *testing.T
	keys   *os.File
	screen *output
	shell  *exec.Cmd
}

// openTerminal starts bash on a terminal. $H is holdfast there.
func openTerminal(t *testing.T, addr string) *terminal {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		realzk.NotRun(t, "it needs bash")
	}
	term, tty := openTTY(t)
	defer tty.Close()
	term.shell = exec.Command(bash, "--norc", "--noprofile", "-i")
	term.shell.Env = prepare(t).Env
	term.shell.Env = append(term.shell.Env, "HOLDFAST_SERVERS="+addr, "HOLDFAST_SESSION_TIMEOUT=20s", "H="+os.Args[0], "PS1=$ ")
	term.shell.Stdin, term.shell.Stdout, term.shell.Stderr = tty, tty, tty
	term.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.shell.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := term.keys.Read(buf)
			if err != nil {
				return // the terminal is closed
			}
			_, _ = term.screen.Write(buf[:n]) // it returns no error
		}
	}()
	t.Cleanup(func() {
		term.close()
		_ = term.shell.Wait() // it was killed, or has heard of the hangup
		<-read
	})
	return term
}

// openTTY returns a terminal without a shell, and the file that is the terminal for programs.
func openTTY(t *testing.T) (*terminal, *os.File) {
	t.Helper()
	// A read that waits must not keep close from closing it.
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		realzk.NotRun(t, "it needs a terminal: "+err.Error())
	}
	term := &terminal{t: t, keys: keys, screen: newOutput()}
	var n int
	term.control(func(fd int) (err error) {
		if n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	})
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return term, tty
}

// control calls fn with the terminal's file descriptor.
func (t *terminal) control(fn func(fd int) error) {
	t.t.Helper()
	conn, err := t.keys.SyscallConn()
	if err != nil {
		t.t.Fatal(err)
	}
	var failed error
	if err := errors.Join(conn.Control(func(fd uintptr) { failed = fn(int(fd)) }), failed); err != nil {
		t.t.Fatal(err)
	}
}

// foreground returns the process group that gets the keys.
func (t *terminal) foreground() (group int) {
	t.t.Helper()
	t.control(func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return group
}

// close takes the terminal away.
func (t *terminal) close() {
	_ = t.shell.Process.Signal(syscall.SIGHUP) // it may have ended
	_ = t.keys.Close()                         // perhaps again
}

// enter types a text.
func (t *terminal) enter(keys string) {
	t.t.Helper()
	if _, err := t.keys.WriteString(keys); err != nil {
		t.t.Fatal(err)
	}
}

// TestRunOnATerminal: the program can read the terminal; Ctrl-C reaches it; Ctrl-Z
// suspends it, and fg continues it; if the lease ends meanwhile, it is ended.
func TestRunOnATerminal(t *testing.T) {
	_, addr := serve(t)
	term := openTerminal(t, addr)
	// What is echoed of a command must not look like its output.
	term.enter(`$H run x -- sh -c 'echo rea""dy; read line; echo go""t $line'` + "\n")
	term.screen.await(t, "ready")
	term.enter("hello\n")
	term.screen.await(t, "got hello")

	term.enter(`$H run x -- sh -c 'trap "exit 4" INT; echo u""p; while :; do sleep 0.01; done'; echo co""de=$?` + "\n")
	term.screen.await(t, "up")
	term.enter("\x03")
	term.screen.await(t, "code=4")

	file := filepath.Join(t.TempDir(), "stamps")
	term.enter(`$H run x -- "$H" stamper ` + file + `; echo sus""pended=$?` + "\n")
	awaitStamps(t, file, 1)
	term.enter("\x1a")
	term.screen.await(t, "suspended=")
	stopped, _ := readStamps(t, file)
	term.enter(`fg; echo con""tinued=$?` + "\n")
	eventually(t, func() bool { s, _ := readStamps(t, file); return s.last > stopped.last })
	term.enter("\x03")
	term.screen.await(t, "continued=130")

	file = filepath.Join(t.TempDir(), "others")
	term.enter(`$H run --session-timeout ` + lossTimeout.String() + ` x -- "$H" stamper ` + file + `; echo lo""st=$?` + "\n")
	pid := awaitStamps(t, file, 1).pids[0]
	term.enter("\x1a")
	term.screen.await(t, "lost=")
	eventually(t, func() bool { return syscall.Kill(pid, 0) != nil })
	term.enter(`fg; echo af""ter=$?` + "\n")
	term.screen.await(t, "after=")
	// The guard wakes run up if it notices that the program goes on before it ends. Then run may
	// have ended before the fg, and the shell tells its exit code later.
	eventually(t, func() bool {
		shown := term.screen.String()
		return strings.Contains(shown, "after=5") || strings.Contains(shown, "Exit 5 ")
	})
}

// TestRunLendsTheTerminal: a program whose streams are redirected gets the terminal when it
// asks for it, as for a password. Until then another process of the pipeline can have it,
// such as a pager. Suspending and continuing leaves it where it was.
//
// The programs exec sleep: a shell that has just forked with vfork cannot be suspended,
// on any terminal, before its child has called exec, which is suspended itself.
func TestRunLendsTheTerminal(t *testing.T) {
	_, addr := serve(t)
	term := openTerminal(t, addr)
	term.enter(`$H run x -- sh -c 'echo as""ks; read line </dev/tty; echo go""t $line; exec sleep 1000' </dev/null; echo co""de=$?` + "\n")
	term.screen.await(t, "asks")
	term.enter("hello\n")
	term.screen.await(t, "got hello")
	program := term.foreground()
	term.enter("\x1a")
	term.screen.await(t, "code=147")
	term.enter(`fg; echo en""d=$?` + "\n")
	eventually(t, func() bool { return term.foreground() == program }) // until then the key is for the shell
	term.enter("\x03")
	term.screen.await(t, "end=130")

	term.enter(`$H run x -- sh -c 'echo rea""dy; exec sleep 1000' | sh -c 'trap "" INT; read line; echo pa""ger $line; read line </dev/tty; echo pa""ger $line'` + "\n")
	term.screen.await(t, "pager ready")
	term.enter("\x1a")
	eventually(t, func() bool { return strings.Count(term.screen.String(), "Stopped") == 2 })
	term.enter(`fg; echo do""ne=$?` + "\n")
	term.enter("keys\n")
	term.screen.await(t, "pager keys")
	term.enter("\x03")
	term.screen.await(t, "done=0")
}

// TestRunIsSuspended: a signal suspends the program, and run with it; another continues
// both.
func TestRunIsSuspended(t *testing.T) {
	t.Parallel()
	_, addr := serve(t)
	file := filepath.Join(t.TempDir(), "stamps")
	c := prepare(t, append([]string{"run", "--servers", addr, "--session-timeout", "20s", "x", "--"}, stamper(file)...)...)
	c.begin()
	program := awaitStamps(t, file, 1).pids[0]
	c.signal(syscall.SIGTSTP)
	eventually(t, func() bool { return suspended(t, program) && suspended(t, c.Process.Pid) })
	before, _ := readStamps(t, file)
	c.signal(syscall.SIGCONT)
	eventually(t, func() bool { s, _ := readStamps(t, file); return s.last > before.last })
	c.signal(syscall.SIGTERM)
	if code := c.code(); code != signalCode(syscall.SIGTERM) {
		t.Errorf("exit code %d, %s", code, c.stderr)
	}
}

// suspended reports whether a process is.
func suspended(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "T")
}

// TestRunIsSuspendedWithAProgramThatStopsItself: one that handles SIGTSTP stops itself by
// SIGSTOP when it has tidied up.
func TestRunIsSuspendedWithAProgramThatStopsItself(t *testing.T) {
	t.Parallel()
	_, addr := serve(t)
	c := prepare(t, "run", "--servers", addr, "--session-timeout", "20s", "x", "--",
		"sh", "-c", `trap 'echo tidy; kill -STOP $$; exit 7' TSTP; echo ready; while :; do :; done`)
	c.begin()
	c.stdout.await(t, "ready")
	c.signal(syscall.SIGTSTP)
	eventually(t, func() bool { return suspended(t, c.Process.Pid) })
	c.signal(syscall.SIGCONT)
	if code := c.code(); code != 7 {
		t.Errorf("exit code %d, %s", code, c.stderr)
	}
}

// TestRunIsContinuedAtOnce: run is told to go on before its guard has suspended it. It must
// not stay suspended while the program goes on: nothing would extend the lease.
func TestRunIsContinuedAtOnce(t *testing.T) {
	t.Parallel()
	for _, onTerminal := range []bool{false, true} {
		t.Run(fmt.Sprintf("terminal=%v", onTerminal), func(t *testing.T) {
			t.Parallel()
			continuedAtOnce(t, onTerminal)
		})
	}
}

func continuedAtOnce(t *testing.T, onTerminal bool) {
	_, addr := serve(t)
	file := filepath.Join(t.TempDir(), "stamps")
	c := prepare(t, append([]string{"run", "--servers", addr, "--session-timeout", "20s", "x", "--"}, stamper(file)...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it leaves the terminal of the tester
	if onTerminal {
		term, tty := openTTY(t)
		defer term.keys.Close()
		defer tty.Close()
		c.Stdin, c.SysProcAttr.Setctty = tty, true
	}
	c.begin()
	program := awaitStamps(t, file, 1).pids[0]
	for range 20 {
		c.signal(syscall.SIGTSTP)
		began := time.Now()
		for again := began.Add(time.Second); !suspended(t, program); {
			switch now := time.Now(); {
			case now.After(began.Add(patience)):
				t.Fatal("the program is not suspended")
			case now.After(again): // a SIGCONT that the guard sent just then has taken it back
				c.signal(syscall.SIGTSTP)
				again = now.Add(time.Second)
			}
			runtime.Gosched() // the guard suspends run in the next moment
		}
		c.signal(syscall.SIGCONT)
		both := 0
		eventually(t, func() bool {
			p, run := suspended(t, program), suspended(t, c.Process.Pid)
			if both++; !p || !run {
				both = 0
			}
			if both == 5 { // the suspension has taken the signal back
				c.signal(syscall.SIGCONT)
			}
			return !p && !run
		})
	}
	c.signal(syscall.SIGTERM)
	if code := c.code(); code != signalCode(syscall.SIGTERM) {
		t.Errorf("exit code %d, %s", code, c.stderr)
	}
}

// TestRunWithoutItsTerminal: the terminal goes away, and a program that ignores the
// hangup goes on, under its lock.
func TestRunWithoutItsTerminal(t *testing.T) {
	server, addr := serve(t)
	term := openTerminal(t, addr)
	file := filepath.Join(t.TempDir(), "stamps")
	term.enter(`$H run --session-timeout ` + lossTimeout.String() + ` x -- sh -c 'trap "" HUP; exec "$H" stamper ` + file + "'\n")
	pid := awaitStamps(t, file, 1).pids[0]
	term.close()
	_ = term.shell.Wait() // the hangup ends it
	began, _ := readStamps(t, file)
	eventually(t, func() bool { s, _ := readStamps(t, file); return s.last > began.last+lossTimeout })
	if n := len(server.Children("/holdfast/x")); n != 1 {
		t.Errorf("%d contenders, want 1", n)
	}
	kill(t, pid, syscall.SIGKILL)
	eventually(t, func() bool { return len(server.Children("/holdfast/x")) == 0 })
}

// TestRunWithoutProc: without /proc, nothing is run, and the error says why.
func TestRunWithoutProc(t *testing.T) {
	const hide = "umount -l /proc && "
	if out, err := exec.Command("unshare", "--mount", "sh", "-c", hide+"true").CombinedOutput(); err != nil {
		realzk.NotRun(t, fmt.Sprintf("it needs unshare and the right to make a namespace: %v, %s", err, out))
	}
	server, addr := serve(t)
	c := prepare(t)
	c.Path, _ = exec.LookPath("unshare") // found above
	c.Args = []string{"unshare", "--mount", "sh", "-c", hide + `exec "$0" run --servers "$1" x -- echo in`, os.Args[0], addr}
	c.begin()
	if code := c.code(); code != exitFailure || c.stdout.String() != "" || !strings.Contains(c.stderr.String(), "/proc, which is not mounted") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, c.stdout, c.stderr)
	}
	eventually(t, func() bool { return len(server.Children("/holdfast/x")) == 0 })
}

// TestRunAsProcess1: run can be the first process of a container.
func TestRunAsProcess1(t *testing.T) {
	unshare := []string{"--pid", "--fork", "--mount-proc", "--kill-child"}
	if out, err := exec.Command("unshare", append(unshare, "true")...).CombinedOutput(); err != nil {
		realzk.NotRun(t, fmt.Sprintf("it needs unshare and the right to make a namespace: %v, %s", err, out))
	}
	_, addr := serve(t)
	process1 := func(script string) *command {
		c := prepare(t)
		c.Path, _ = exec.LookPath("unshare") // found above
		c.Args = append(append([]string{"unshare"}, unshare...), os.Args[0], "run", "--servers", addr, "x", "--", "sh", "-c", script)
		c.begin()
		return c
	}
	c := process1(`test "$(readlink /proc/1/exe)" = "` + os.Args[0] + `" || exit 1; (setsid sleep 1000 &) ; exit 6`)
	if code := c.code(); code != 6 {
		t.Errorf("exit code %d, %s", code, c.stderr)
	}
	c = process1(`trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done`)
	c.stdout.await(t, "up")
	kill(t, childrenOf(t, c.Process.Pid)[0], syscall.SIGTERM)
	if code := c.code(); code != 7 {
		t.Errorf("after SIGTERM: exit code %d, %s", code, c.stderr)
	}
}
