// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

const (
	// silence is how long run waits for the lock before it says for which process.
	silence = 300 * time.Millisecond
	// tellEvery is how long it says nothing else then.
	tellEvery = 3 * time.Second
)

// An ending is how a program has ended.
type ending struct {
	code int    // its exit code
	why  string // what else there is to say; "" if it ended by itself
}

// runCmd runs a program under a lock. The program must not outlive the lock, whatever
// becomes of this process and of its connection, so another process watches over the
// program: see guard.
type runCmd struct {
	Read      bool           `xor:"kind" help:"Take the read lock of a read/write lock: other readers may run at the same time."`
	Write     bool           `xor:"kind" help:"Take the write lock of a read/write lock."`
	Try       bool           `xor:"wait" help:"Do not wait: exit with 4 if another process holds the lock."`
	Wait      *time.Duration `xor:"wait" placeholder:"D" help:"Wait no longer than this, then exit with 4; without it, wait without limit."`
	Label     string         `placeholder:"TEXT" help:"What other processes see as the name of this one; by default the program's."`
	KillAfter time.Duration  `placeholder:"D" help:"How long the program has between SIGTERM and SIGKILL when the lock is about to be lost; a sixth of the session timeout by default, less than a quarter."`
	OnRevoke  string         `enum:"term,ignore" default:"term" help:"What to do when another process asks for the lock: send SIGTERM to the program (term) or nothing (ignore)."`
	Quiet     bool           `short:"q" help:"Do not say for which process the lock is waited for."`

	NoTakeover bool `help:"If this process is killed, let ZooKeeper free the lock after the session timeout, instead of at once when the program and its descendants are gone."`

	ConflictExitCode int `short:"E" default:"4" placeholder:"N" help:"The exit code if the lock is not granted, for a program that has this code itself."`
	LostExitCode     int `default:"5" placeholder:"N" help:"The exit code if the lock is lost, for a program that has this code itself."`

	Name    string   `arg:"" help:"The lock, such as jobs/nightly."`
	Command []string `arg:"" passthrough:"" name:"program" help:"The program and its arguments."`
}

// Help describes the verb.
func (*runCmd) Help() string {
	return `The program gets the environment, the standard streams and the terminal of this process, and in addition HOLDFAST_TOKEN (the fencing token: send it with every write), HOLDFAST_LOCK (the name) and HOLDFAST_PATH (the node). Signals are passed on to it. The exit code is the program's, or 128 plus the number of the signal that ended it.

When the lock is about to be lost, the program and all its descendants get SIGTERM, and --kill-after later SIGKILL, before ZooKeeper can give the lock to another process. The exit code is 5 then. When the program ends, what it has left running is ended in the same way, and then the lock is released.

Examples:

    holdfast run jobs/nightly -- ./nightly.sh --full
    holdfast run --try jobs/nightly -- ./nightly.sh || echo "it runs elsewhere"
    holdfast run --wait 30s --read prices -- ./report
    holdfast run migrate -- sh -c 'psql -v token=$HOLDFAST_TOKEN -f migrate.sql'`
}

// Run waits for the lock, runs the program, releases the lock, and returns the program's
// exit code as an error.
func (c *runCmd) Run(a *app) error {
	notify(syscall.SIGPIPE) // a reader of standard error that has gone must not end run
	if err := c.check(a); err != nil {
		return err
	}
	return c.coded(c.hold(a))
}

// coded returns err with the exit code that the flags choose for what it says. An error
// without a text has the program's code, or that of a loss by the flags already.
func (c *runCmd) coded(err error) error {
	if err == nil || err.Error() == "" {
		return err
	}
	switch exitCode(err) {
	case exitNotGranted:
		return &exitError{c.ConflictExitCode, err}
	case exitLost:
		return &exitError{c.LostExitCode, err}
	}
	return err
}

// hold is Run, with the exit codes that are so by default.
func (c *runCmd) hold(a *app) error {
	stderr := &lateWriter{w: a.stderr}
	defer stderr.wait()
	a.stderr = stderr
	program, err := lookPath(c.Command[0])
	if err != nil {
		return err
	}
	m, err := c.manager(a)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := a.notRecipe(m.Access().Session().Client(), c.Name); err != nil {
		return err
	}
	lock, err := c.lock(m)
	if err != nil {
		return err
	}
	h, err := c.acquire(a, lock)
	if err != nil {
		return err
	}
	defer h.Release() // for the returns before Unlock
	code, lost, err := c.runProgram(a, m, h, program)
	if err != nil {
		return err
	}
	return c.release(a, h, code, lost)
}

// manager opens a session in which a lock can be held for the program.
func (c *runCmd) manager(a *app) (*manager.Manager, error) {
	if !c.NoTakeover {
		takeover.SetGuarded()
	}
	m, err := a.manager(a.ctx, func(cfg *manager.Config) {
		cfg.LostMargin = c.KillAfter
		cfg.Label = c.Label
	})
	if errors.Is(err, zkio.ErrBadArguments) {
		return nil, usagef("%w (LostMargin is --kill-after)", err)
	}
	return m, err
}

// runProgram runs the program while h is held, which it is, with more variables in its environment. It returns the exit code of the
// program, and whether it said that the lock was lost; or an error if there is none to run.
func (c *runCmd) runProgram(a *app, m *manager.Manager, h manager.Hold, program string, more ...string) (code int, lost bool, err error) {
	grant, err := h.Grant()
	if err != nil {
		return 0, false, err
	}
	signals := notify(forwarded...)
	defer signal.Stop(signals)
	if err := context.Cause(a.ctx); err != nil {
		return 0, false, err // a signal came before signals was there
	}
	s := start{
		Path:      program,
		Args:      c.Command,
		KillAfter: c.KillAfter,
		LostCode:  c.LostExitCode,
		Env:       environment(h.Lock(), grant, more...),
	}
	var ok bool
	if s.Until, ok = leaseEnd(m, h); !ok {
		return 0, false, h.Err()
	}
	if !c.NoTakeover {
		conn, err := a.connection()
		if err != nil {
			return 0, false, err
		}
		at := m.Access()
		note := takeover.Note{Root: conn.root, ACL: at.ACL(), Process: at.Describe(takeover.Kind)}
		s.Takeover = newClosing(conn, at.Session().Ticket(), note)
	}
	p, err := startProgram(s)
	if err != nil {
		return 0, false, exitf(exitFailure, "cannot start %s: %w", program, err)
	}
	code, lost = c.watch(a, m, h, p, s.Until, signals)
	return code, lost, nil
}

// environment returns this process's environment with what the program is to know of the
// lock. If this process runs under another lock, it has variables of the same names. They
// must go: of two variables with one name, many programs take the first.
func environment(lock *manager.Lock, grant manager.Grant, more ...string) []string {
	own := append([]string{
		"HOLDFAST_TOKEN=" + strconv.FormatUint(grant.Token, 10),
		"HOLDFAST_LOCK=" + lock.Name(),
		"HOLDFAST_PATH=" + grant.Path,
	}, more...)
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	return append(inherited, own...)
}

// check completes the flags, and refuses what cannot work before anything is done.
func (c *runCmd) check(a *app) error {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if len(c.Command) == 0 {
		return usagef("there is no program to run: holdfast %s %s -- PROGRAM ARGS…; see holdfast %[1]s --help", a.verb, c.Name)
	}
	if err := checkWait(c.Wait); err != nil {
		return err
	}
	for _, f := range []struct {
		flag string
		code int
	}{{"--conflict-exit-code", c.ConflictExitCode}, {"--lost-exit-code", c.LostExitCode}} {
		if f.code < 0 || f.code > 255 {
			return usagef("%s is %d: it must be from 0 to 255", f.flag, f.code)
		}
	}
	if _, err := a.connection(); err != nil { // --kill-after depends on --session-timeout
		return err
	}
	if c.KillAfter == 0 {
		c.KillAfter = a.SessionTimeout / 6
	}
	if c.KillAfter < time.Millisecond || c.KillAfter >= a.SessionTimeout/4 {
		return usagef("--kill-after is %v: it must be at least 1ms and less than a quarter of --session-timeout (%v)", c.KillAfter, a.SessionTimeout)
	}
	if c.Label == "" {
		c.Label = filepath.Base(c.Command[0])
	}
	return nil
}

// lookPath returns the path of a program. Its errors have the exit codes of a shell.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil || errors.Is(err, exec.ErrDot):
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", exitf(exitNotFound, "%s: there is no such program", name)
	}
	return "", exitf(exitCannotRun, "%s cannot be executed: %w", name, errors.Unwrap(err))
}

func (c *runCmd) lock(m *manager.Manager) (*manager.Lock, error) {
	if !c.Read && !c.Write {
		return m.Exclusive(c.Name)
	}
	rw, err := m.ReadWrite(c.Name)
	switch {
	case err != nil:
		return nil, err
	case c.Read:
		return rw.Reader(), nil
	}
	return rw.Writer(), nil
}

// acquire waits for the lock as the flags say.
func (c *runCmd) acquire(a *app, lock *manager.Lock) (manager.Hold, error) {
	ctx, cancel := context.WithCancel(a.ctx)
	var telling sync.WaitGroup
	defer telling.Wait()
	defer cancel()
	acquire, limit, code := lock.Lock, c.Wait, exitNotGranted
	if c.Try {
		acquire, limit, code = lock.TryLock, &a.ConnectTimeout, exitNoConnection
	} else if !c.Quiet {
		telling.Go(func() { c.tell(ctx, a, lock) })
	}
	waiting, end := ctx, context.CancelFunc(func() {})
	if limit != nil {
		waiting, end = context.WithTimeoutCause(ctx, *limit, lateError(*limit))
	}
	defer end()
	h, err := acquire(waiting)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return h, &exitError{code, err}
	}
	return h, err
}

// checkWait checks what --wait gives; nil if it is not given, and the wait has no limit.
func checkWait(d *time.Duration) error {
	if d != nil && *d <= 0 {
		return usagef("--wait is %v: it must be positive; --try does not wait", *d)
	}
	return nil
}

// A lateError is the end of a wait that has lasted that long.
type lateError time.Duration

func (e lateError) Error() string { return "not granted within " + time.Duration(e).String() }
func (lateError) Unwrap() error   { return context.DeadlineExceeded }

// tell says which process the lock is waited for, and again when that has changed, until
// ctx ends.
func (c *runCmd) tell(ctx context.Context, a *app, lock *manager.Lock) {
	if !wait(ctx, silence) {
		return
	}
	for holder, err := range lock.WatchHolder(ctx) {
		if err != nil {
			return
		}
		if holder == nil || holder.Own {
			continue
		}
		ahead := 0
		if queue, err := lock.Queue(ctx, 0); err == nil {
			for ahead < len(queue) && !queue[ahead].Own {
				ahead++
			}
		}
		a.tellf("waiting for %q: %d ahead; held by %s", lock.Name(), ahead, holder)
		if !wait(ctx, tellEvery) {
			return
		}
	}
}

// watch tells the guard until when the lock is held (it knows of the time until), passes
// signals on, and returns the exit code of the program when it and its descendants are gone,
// and whether it or the guard said that the lock was lost, or may have been.
func (c *runCmd) watch(a *app, m *manager.Manager, h manager.Hold, p *program, until time.Duration, signals <-chan os.Signal) (code int, told bool) {
	renew := time.NewTicker(c.KillAfter / 4)
	defer renew.Stop()
	lost, revoked := h.Lost(), h.Revoked()
	if c.OnRevoke == "ignore" {
		revoked = nil
	}
	var late <-chan time.Time
	for {
		select {
		case e := <-p.exited:
			if e.why != "" && !told {
				a.tellf("%s: %s", safe(c.Command[0]), e.why)
			}
			code := e.code
			// The guard says so, too, if it has ended the program because until is past.
			return code, told || code == c.LostExitCode && systemTime() >= until
		case s := <-signals:
			p.signal(s)
		case <-renew.C:
			if later, ok := leaseEnd(m, h); ok {
				until = max(until, later)
				p.send(order{Until: until})
			}
		case <-revoked:
			revoked = nil
			p.signal(syscall.SIGTERM)
			r, _ := h.Revocation()
			a.tellf("%s: the program gets SIGTERM", revokedText(c.Name, r))
		case <-lost:
			lost, told = nil, true
			late = time.After(c.KillAfter)
			p.send(order{Lost: true})
			a.tellf("%s: the program is ended", oneLine(h.Err()))
		case <-late:
			p.kill() // in case that the guard was stopped
		}
	}
}

// revokedText says which process asks for a lock, and why.
func revokedText(name string, r manager.Revocation) string {
	from := "another process"
	if r.From.Host != "" {
		r.From.Since = time.Time{} // when it asked: just now
		from = r.From.String()
	}
	text := fmt.Sprintf("%s asks for %q", from, name)
	if r.Reason != "" {
		text += fmt.Sprintf(" (%q)", r.Reason)
	}
	return text
}

// release gives the lock up after the program has ended with code. told reports that
// the lock was lost, and the user knows.
func (c *runCmd) release(a *app, h manager.Hold, code int, told bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.SessionTimeout/2)
	defer cancel()
	switch err := h.Unlock(ctx); {
	case told:
		return &exitError{code: c.LostExitCode}
	case errors.Is(err, manager.ErrLost):
		return &exitError{exitLost, err}
	case err != nil:
		a.tellf("%s", oneLine(err))
	}
	return &exitError{code: code}
}

// leaseEnd returns the time on the system's clock until which the lock is surely held,
// less the time that the program has between SIGTERM and SIGKILL; false if it is lost.
func leaseEnd(m *manager.Manager, h manager.Hold) (until time.Duration, ok bool) {
	// In this order: the clock first, so that the sum is never too late. Err last: if the
	// lock is held then, the lease that Stats found was the lock's.
	now := systemTime()
	left := m.Stats().Lease
	return now + left, h.Err() == nil
}
