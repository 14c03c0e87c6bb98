// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
)

// electCmd runs a program while this process leads. It is run, with the lock of an election.
type electCmd struct {
	ID        string        `name:"id" placeholder:"TEXT" help:"What the leader's record says of this process; its process id and host by default."`
	Once      bool          `help:"Exit with 5 when the leadership is lost, instead of standing again."`
	Label     string        `placeholder:"TEXT" help:"What other processes see as the name of this one; by default the program's."`
	KillAfter time.Duration `placeholder:"D" help:"How long the program has between SIGTERM and SIGKILL when the leadership is about to be lost; a sixth of the session timeout by default, less than a quarter."`
	OnRevoke  string        `enum:"term,ignore" default:"term" help:"What to do when another process asks for the leadership: send SIGTERM to the program (term) or nothing (ignore)."`
	Quiet     bool          `short:"q" help:"Do not tell the phases."`

	NoTakeover bool `help:"If this process is killed, let ZooKeeper end the leadership after the session timeout, instead of at once when the program and its descendants are gone."`

	LostExitCode int `default:"5" placeholder:"N" help:"The exit code of --once if the leadership is lost, for a program that has this code itself."`

	Name    string   `arg:"" help:"The election, such as scheduler."`
	Command []string `arg:"" passthrough:"" name:"program" help:"The program and its arguments."`
}

// Help describes the verb.
func (*electCmd) Help() string {
	return `Stands for election, and runs the program once this process leads. The program runs as under "holdfast run": HOLDFAST_TOKEN is the token of the term, signals are passed on, and the program is ended before another process can lead. When the leadership was lost, this process stands again, and starts the program anew when it is elected. When the program ends by itself, this process resigns and exits with the program's exit code.

The phases of the candidacy go to standard error, a line each, by the names that ZooKeeper's LeaderElectionSupport gives them: START, OFFER_START, … ELECTED_COMPLETE. With --json each line is an object.

Examples:

    holdfast elect scheduler -- ./scheduler
    holdfast elect --id 10.0.0.7:8080 --quiet scheduler -- ./scheduler
    holdfast elect --once scheduler -- sh -c 'exec ./scheduler --term $HOLDFAST_TOKEN'`
}

// phase is what elect tells of a phase as JSON.
type phase struct {
	Election string    `json:"election"`
	Time     time.Time `json:"time"`
	Type     string    `json:"type"`
	State    string    `json:"state"`
	Token    uint64    `json:"token,omitempty"`
	Cause    string    `json:"cause,omitempty"`
}

// Run stands for election and runs the program, until the program ends by itself or a
// signal comes while it does not run.
func (c *electCmd) Run(a *app) error {
	run := &runCmd{Name: c.Name, Command: c.Command, Label: c.Label, KillAfter: c.KillAfter, OnRevoke: c.OnRevoke, NoTakeover: c.NoTakeover, ConflictExitCode: exitNotGranted, LostExitCode: c.LostExitCode}
	if err := run.check(a); err != nil {
		return err
	}
	// As run does: a reader of standard error that has gone, or takes nothing, ends nothing
	// and delays nothing.
	notify(syscall.SIGPIPE)
	stderr := &lateWriter{w: a.stderr}
	defer stderr.wait()
	a.stderr = stderr
	program, err := lookPath(run.Command[0])
	if err != nil {
		return err
	}
	m, err := run.manager(a)
	if err != nil {
		return err
	}
	defer m.Close() // which waits until all phases are told
	e, err := election.New(m, c.Name, election.Options{ID: c.ID})
	if err != nil {
		return err
	}
	if !c.Quiet {
		e.OnEvent(func(ev election.Event) { c.tell(a, ev) })
	}
	for {
		lost, err := c.lead(a, run, m, e, program)
		if c.Once || !lost || a.ctx.Err() != nil {
			return run.coded(err)
		}
	}
}

// lead waits until this process leads, and runs the program. It returns the program's exit
// code as an error; or one with the code exitLost, and that the leadership was lost.
func (c *electCmd) lead(a *app, run *runCmd, m *manager.Manager, e *election.Election, program string) (lost bool, err error) {
	l, err := e.Campaign(a.ctx)
	if err != nil {
		return false, err
	}
	resign := func() {
		ctx, cancel := context.WithTimeout(context.Background(), a.SessionTimeout/2)
		defer cancel()
		_ = l.Resign(ctx) // the Hold is given up after that, and says how that went
	}
	// Another handle of the same holder. A newcomer might have to let other processes lead first.
	inside, done := l.Context(a.ctx)
	h, err := e.Lock().TryLock(inside)
	done()
	defer h.Release() // for the returns before Unlock
	if err == nil {
		var g manager.Grant
		if g, err = h.Grant(); err == nil && g.Token != l.Token() {
			err = manager.ErrLost // and it was free: this is another term, which has no record
		}
	}
	if err != nil {
		resign()
		return lostIf(err)
	}
	code, lost, err := run.runProgram(a, m, h, program)
	resign()
	if err != nil {
		return lostIf(err)
	}
	err = run.release(a, h, code, lost)
	return lost || errors.Is(err, manager.ErrLost), err
}

// lostIf returns err with the exit code exitLost if it says that the leadership was lost at
// the very moment in which it was won.
func lostIf(err error) (lost bool, _ error) {
	if errors.Is(err, manager.ErrLost) || errors.Is(err, manager.ErrLocked) {
		return true, &exitError{exitLost, err}
	}
	return false, err
}

// tell tells a phase.
func (c *electCmd) tell(a *app, ev election.Event) {
	p := phase{Election: c.Name, Time: time.Now().UTC(), Type: ev.Type.String(), State: ev.State.String(), Token: ev.Token}
	if ev.Cause != nil {
		p.Cause = oneLine(ev.Cause)
	}
	if a.JSON {
		_ = writeJSON(a.stderr, p) // a reader that has gone must not end the program
		return
	}
	text := fmt.Sprintf("%s: %s", safe(c.Name), p.Type)
	if p.Token != 0 {
		text += fmt.Sprintf(", token %d", p.Token)
	}
	if p.Cause != "" {
		text += ": " + p.Cause
	}
	a.tellf("%s", text)
}
