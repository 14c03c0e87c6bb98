// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardVerb is the first argument of a guard. It is no verb for users.
const guardVerb = "__guard"

// guardLooks is how long a guard sleeps at most: its timers stand still while the machine
// is suspended, but the lease does not.
const guardLooks = 100 * time.Millisecond

// A guard is a process between run and the program. It ends the program in time
// although run may be killed, stopped, or too slow: run tells it by which time the lock
// may be lost, and extends that again and again. At that time the guard sends SIGTERM to
// the program and its descendants, and KillAfter later SIGKILL. It does the same when
// run is gone, and, to what the program has left running, when the program has ended.
//
// The guard is the parent of the program, in a process group of its own. On Linux all
// descendants of the program whose parents have ended become its children, so it finds
// them even if they have left the program's process group.
type guard struct {
	start
	stderr lateWriter
	tty    tty
	pid    int           // of the program, and its process group
	until  time.Duration // see start.Until
	ending bool          // SIGTERM was sent …
	ended  time.Duration // … then
	killed bool          // SIGKILL was sent
	late   bool          // it was time to end the program before it had ended by itself
	told   bool          // run knows that the lock is lost, and says so
	asked  bool          // run has had a SIGTSTP
	paused bool          // the guard has suspended run, which has not said since that it goes on
	exited bool          // the program has ended …
	code   int           // … with this exit code
	alone  bool          // nothing is left of its process group
	silent bool          // the pipe from run has ended
}

// guardMain is the main function of a guard. Its arguments are the number of the file that
// orders come from, the path of the program, and the program's own arguments from its name
// on. It returns the program's exit code.
func guardMain(args []string) int {
	// The program is killed when this thread ends: see programAttr.
	runtime.LockOSThread()
	if len(args) < 3 {
		return exitUsage
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return exitUsage
	}
	syscall.CloseOnExec(fd)
	in := json.NewDecoder(os.NewFile(uintptr(fd), "orders"))
	g := guard{stderr: lateWriter{w: os.Stderr}}
	defer g.stderr.wait()
	if err := in.Decode(&g.start); err != nil {
		return exitFailure // run is gone, and nothing has begun
	}
	g.Path, g.Args = args[1], args[2:]
	g.until = g.Until
	if systemTime() >= g.until { // everything was stopped meanwhile
		return g.tooLate("was not started")
	}
	if !adoptOrphans() {
		g.Takeover = nil
	}
	if err := g.launch(); err != nil {
		return g.cannotRun(err)
	}
	orders := make(chan order)
	go receive(in, orders)
	children := make(chan childEvent)
	go reap(children)
	g.loop(orders, children)
	g.takeOver()
	if g.late {
		g.hear(orders)
		return g.tooLate("was ended")
	}
	return g.code
}

// takeOver closes the session of a run that is gone: nothing is left that the lock protected,
// so the next process need not wait until the session times out. The pipe does not show
// that run is gone: it may have closed its end. The system shows it: then run is no longer this
// process's parent. A run that lives, even if it is stopped, releases the lock itself.
func (g *guard) takeOver() {
	if g.Takeover == nil || !g.runIsGone() {
		return
	}
	// What reads the program's output sees its end now, and what ends the guard need not wait.
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		_ = unix.Dup2(int(null.Fd()), 0) // if it fails, readers have to wait
		_ = unix.Dup2(int(null.Fd()), 1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ended := time.Now()
	nodes, err := g.Takeover.close(ctx)
	if err != nil {
		fmt.Fprintf(&g.stderr, "%s holdfast: the session of run could not be closed, so ZooKeeper frees the lock %q %v from now at the latest: %v\n", stamp(), os.Getenv("HOLDFAST_LOCK"), g.Takeover.Timeout, err)
		return
	}
	fmt.Fprintf(&g.stderr, "%s holdfast: the session of run is closed: the lock %q is free\n", stamp(), os.Getenv("HOLDFAST_LOCK")) // the program's environment is the guard's
	if err := g.Takeover.leave(ctx, ended, nodes); err != nil {
		fmt.Fprintf(&g.stderr, "%s holdfast: the note of that in ZooKeeper, which tells the next holder: %v\n", stamp(), err)
	}
}

// exitTime is for how long at most a process is still there after its files were closed.
const exitTime = 5 * time.Second

// runIsGone reports whether run has ended. If the pipe has ended, it waits for that: the system
// closes the files of a process a moment before it gives its children another parent.
func (g *guard) runIsGone() bool {
	patience := time.Duration(0)
	if g.silent {
		patience = exitTime
	}
	return hasOtherParent(os.Getppid, g.Parent, patience)
}

// hasOtherParent waits until parent is no longer this process's, and reports false if it still is after
// so long.
func hasOtherParent(getppid func() int, parent int, patience time.Duration) bool {
	late := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for getppid() == parent {
		select {
		case <-late:
			return false
		case <-tick.C:
		}
	}
	return true
}

// tooLate says what became of the program, unless run does, and returns the exit code.
func (g *guard) tooLate(what string) int {
	if !g.told {
		fmt.Fprintf(&g.stderr, "%s holdfast: it was not confirmed in time that the lock is still held: %s %s\n", stamp(), g.Path, what)
	}
	return g.LostCode
}

// hear waits a moment for run to say that the lock is lost. Usually both notice at the
// same time. A run that was stopped, or was slow, may have kept the lock.
func (g *guard) hear(orders <-chan order) {
	moment := time.After(guardLooks)
	for !g.told {
		select {
		case o, ok := <-orders:
			if !ok {
				return
			}
			g.told = o.Lost
		case <-moment:
			return
		}
	}
}

// launch starts the program. The signals of users and terminals do not end the guard: if
// the program is to have them, run sends an order.
func (g *guard) launch() (err error) {
	notify(append(forwarded, syscall.SIGTTIN, syscall.SIGTTOU)...)
	g.tty = controllingTerminal()
	foreground := g.Foreground && g.tty.foreground() == g.Group
	g.pid, err = syscall.ForkExec(g.Path, g.Args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   programAttr(foreground, int(g.tty)),
	})
	// Only now: the program would inherit this. With it the guard can take the terminal
	// from the program.
	signal.Ignore(syscall.SIGTTOU)
	return err
}

// cannotRun reports that the program cannot be run, and returns the exit code.
func (g *guard) cannotRun(err error) int {
	fmt.Fprintf(&g.stderr, "holdfast: cannot run %s: %v\n", g.Path, err)
	if errors.Is(err, syscall.ENOENT) {
		return exitNotFound
	}
	return exitCannotRun
}

// receive passes orders on until run is gone, and closes the channel then. It lasts as
// long as the process.
func receive(in *json.Decoder, orders chan<- order) {
	defer close(orders)
	for {
		var o order
		if in.Decode(&o) != nil {
			return
		}
		orders <- o
	}
}

// A childEvent is the end of a child, or its stop, or that it goes on.
type childEvent struct {
	pid    int
	status syscall.WaitStatus
}

// reap waits for children, and closes the channel when none is left.
func reap(children chan<- childEvent) {
	defer close(children)
	for {
		var c childEvent
		var err error
		c.pid, err = syscall.Wait4(-1, &c.status, reported, nil)
		switch {
		case err == nil:
			children <- c
		case err != syscall.EINTR:
			return
		}
	}
}

// loop returns when the program and its descendants are gone.
func (g *guard) loop(orders <-chan order, children <-chan childEvent) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for children != nil || g.groupLives() {
		select {
		case o, ok := <-orders:
			if !ok {
				orders, g.silent = nil, true
				g.end()
				fmt.Fprintf(&g.stderr, "%s holdfast: run has ended: %s is ended, too\n", stamp(), g.Path)
				break
			}
			g.obey(o)
		case c, ok := <-children:
			if !ok {
				children = nil
				break
			}
			g.note(c)
		case <-timer.C:
		}
		timer.Reset(g.act())
	}
}

// act does what is due, and returns for how long nothing else is.
func (g *guard) act() time.Duration {
	now := systemTime()
	if now >= g.until && !g.ending {
		g.late = true
		g.end()
	}
	kill := g.until + g.KillAfter
	if g.ending {
		kill = min(kill, g.ended+g.KillAfter)
	}
	next := min(kill, g.until)
	if now >= kill {
		g.killed = true
		g.signalAll(syscall.SIGKILL)
	}
	if g.ending {
		next = kill
	}
	if g.killed || g.exited {
		return 10 * time.Millisecond // until what is left is gone
	}
	return min(max(next-now, time.Millisecond), guardLooks)
}

// end sends SIGTERM to the program and its descendants, once. One that is stopped must
// go on to take note.
func (g *guard) end() {
	if g.ending {
		return
	}
	g.ending, g.ended = true, systemTime()
	g.signalAll(syscall.SIGTERM)
	g.signalAll(syscall.SIGCONT)
}

func (g *guard) obey(o order) {
	g.told = g.told || o.Lost
	switch s := syscall.Signal(o.Signal); {
	case o.Until > 0:
		g.until = max(g.until, o.Until)
	case o.Lost && systemTime() < g.until:
		// It is not the lease that has ended: the lock's node is gone, or the session.
		// Another process may have the lock already.
		g.until = systemTime() - g.KillAfter
	case o.Lost || g.exited:
	case s == syscall.SIGCONT:
		g.asked = false
		if g.paused {
			// It may have been woken up before it was suspended, and gives no other order.
			g.paused = false
			_ = syscall.Kill(g.Parent, s)
		}
		if g.Foreground && g.tty.foreground() == g.Group {
			g.tty.setForeground(g.pid)
		}
		_ = syscall.Kill(-g.pid, s)
	case s == syscall.SIGTSTP:
		g.asked = true
		_ = syscall.Kill(-g.pid, s)
	case (s == syscall.SIGINT || s == syscall.SIGQUIT) && g.tty.foreground() == g.Group:
		_ = syscall.Kill(-g.pid, s) // a key was typed, which is for all of them
	default:
		_ = syscall.Kill(g.pid, s) // not its descendants: as if run were the program
	}
}

// note notes what a child did.
func (g *guard) note(c childEvent) {
	switch {
	case c.pid != g.pid:
	case reported != syscall.WUNTRACED && c.status.Continued():
		// Perhaps it was told to before its stop was noted here. Without run it would lose
		// the lock.
		if g.paused {
			g.paused = false
			_ = syscall.Kill(g.Parent, syscall.SIGCONT)
		}
	case c.status.Stopped():
		switch c.status.StopSignal() {
		case syscall.SIGTSTP:
			g.suspend()
		case syscall.SIGSTOP: // by itself, after it has tidied up
			if g.asked {
				g.suspend()
			}
		case syscall.SIGTTIN, syscall.SIGTTOU:
			g.lend()
		}
	case c.status.Exited() || c.status.Signaled():
		g.exited, g.code = true, c.status.ExitStatus()
		if c.status.Signaled() {
			g.code = signalCode(c.status.Signal())
		}
		g.takeBack()
		if left := leftRunning(); len(left) > 0 && !g.ending {
			fmt.Fprintf(&g.stderr, "%s holdfast: %s has ended, and has left running: %s; that is ended, too\n", stamp(), safe(g.Args[0]), first(left))
		}
		g.end() // what it has left running
	}
}

// lend gives the terminal to the program, which was stopped because it asked for it from
// the background. If run is in the background itself, all are suspended.
func (g *guard) lend() {
	if g.tty.foreground() == g.Group {
		g.tty.setForeground(g.pid)
	}
	if g.tty.foreground() != g.pid {
		g.suspend()
		return
	}
	g.Foreground = true // also after it was suspended
	_ = syscall.Kill(-g.pid, syscall.SIGCONT)
}

// takeBack takes the terminal from the program, if it has it.
func (g *guard) takeBack() {
	if g.tty.foreground() == g.pid {
		g.tty.setForeground(g.Group)
	}
}

// suspend suspends run after the program was suspended, by the terminal or at run's
// order, so that the shell notices. The shell's fg wakes run up, which sends SIGCONT. Only
// the guard suspends run: if run did so itself, a guard that is slow would suspend it again
// after the fg. Without run, nothing extends the lease: if it ends before that, the program
// is ended.
func (g *guard) suspend() {
	if g.tty == noTTY && !g.asked || g.ending {
		return
	}
	g.takeBack()
	g.paused = true
	_ = syscall.Kill(g.Parent, syscall.SIGSTOP)
}

// signalAll sends a signal to the program's process group, and to those of its
// descendants that have left it.
func (g *guard) signalAll(s syscall.Signal) {
	if g.groupLives() {
		_ = syscall.Kill(-g.pid, s)
	}
	signalDescendants(s)
}

// groupLives reports whether a process of the program's process group exists. Once there
// is none, the system may give the group's number to another one.
func (g *guard) groupLives() bool {
	if g.exited && !g.alone {
		g.alone = errors.Is(syscall.Kill(-g.pid, 0), syscall.ESRCH)
	}
	return !g.alone
}

// A tty is the number of an open file: the terminal that controls this process.
type tty int

const noTTY tty = -1

// controllingTerminal returns the terminal that controls this process, whatever its
// standard streams are.
func controllingTerminal() tty {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return noTTY
	}
	return tty(fd)
}

// foreground returns the process group in the foreground of the terminal; 0 if there is
// no terminal (any more).
func (t tty) foreground() int {
	group, err := unix.IoctlGetInt(int(t), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// setForeground brings a process group into the foreground. That fails if the terminal is
// gone, which makes no difference then.
func (t tty) setForeground(group int) {
	_ = unix.IoctlSetPointerInt(int(t), unix.TIOCSPGRP, group)
}
