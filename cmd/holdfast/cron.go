// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // for --schedule: Windows and the container image have none

	robfig "github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast/recipes/cron"
)

// cronCmd runs a program at planned times. It is run, with the lock of a cron job.
type cronCmd struct {
	Every     *time.Duration `xor:"plan" placeholder:"D" help:"When the program is planned: at the multiples of this since 1970-01-01 00:00 UTC, such as 5m for 12:00, 12:05, …"`
	Schedule  *string        `xor:"plan" placeholder:"EXPR" help:"Instead of --every: when the program is planned, as a cron expression of five fields, or @hourly, @daily, @weekly, @monthly or @yearly. It means UTC unless it begins with a time zone, as in \"CRON_TZ=Europe/Berlin 30 6 * * MON-FRI\"."`
	Missed    string         `enum:"latest,all,skip" default:"latest" help:"What to run of the planned times that are past, because no machine was there or a run took too long: the newest (latest), each (all), or those within --grace (skip)."`
	Grace     time.Duration  `default:"1m" placeholder:"D" help:"By how much a planned time may be past with --missed=skip."`
	Attempts  int            `default:"1" placeholder:"N" help:"How often a planned time is run at most if its runs are interrupted by the end of a machine, the loss of the lock, or --on-revoke=term."`
	ID        string         `name:"id" placeholder:"TEXT" help:"What the record says of this process; its process id and host by default."`
	Label     string         `placeholder:"TEXT" help:"What other processes see as the name of this one; by default the program's."`
	KillAfter time.Duration  `placeholder:"D" help:"How long the program has between SIGTERM and SIGKILL when the lock is about to be lost; a sixth of the session timeout by default, less than a quarter."`
	OnRevoke  string         `enum:"term,ignore" default:"ignore" help:"What to do with a program that is running when another process asks for the lock: let it end first (ignore), or send it SIGTERM (term). If it ends with another code than 0 then, its run was interrupted: see --attempts."`
	Quiet     bool           `short:"q" help:"Do not tell of runs that failed, were missed or were interrupted."`

	NoTakeover bool `help:"If this process is killed while the program runs, let ZooKeeper free the lock after the session timeout, instead of at once when the program and its descendants are gone."`

	Name    string   `arg:"" help:"The job, such as reports."`
	Command []string `arg:"" passthrough:"" name:"program" help:"The program and its arguments."`
}

// Help describes the verb.
func (*cronCmd) Help() string {
	return `Runs the program once for each planned time, on one of the machines on which this command runs with the same name. The program runs as under "holdfast run", with HOLDFAST_PLANNED (the planned time, in UTC), HOLDFAST_ATTEMPT (1, or more if the runs before were interrupted) and HOLDFAST_MISSED (how many planned times were passed over right before) in its environment in addition. Signals are passed on, and end this command, too, when the program has ended. A program that fails ends nothing: it is run again at the next planned time.

Examples:

    holdfast cron reports --every 5m -- ./report.sh
    holdfast cron --schedule "CRON_TZ=Europe/Berlin 30 6 * * MON-FRI" digest -- ./digest.sh
    holdfast cron --every 24h --missed all --attempts 3 invoices -- sh -c './invoices --of $HOLDFAST_PLANNED'`
}

// cronEvent is what cron tells of an event as JSON.
type cronEvent struct {
	Cron    string    `json:"cron"`
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	Planned time.Time `json:"planned,omitzero"`
	Attempt int       `json:"attempt,omitempty"`
	Token   uint64    `json:"token,omitempty"`
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to,omitzero"`
	Missed  int       `json:"missed,omitempty"`
	Cause   string    `json:"cause,omitempty"`
}

// Run runs the program at planned times until a signal comes.
func (c *cronCmd) Run(a *app) error {
	run := &runCmd{Name: c.Name, Command: c.Command, Label: c.Label, KillAfter: c.KillAfter, OnRevoke: c.OnRevoke, NoTakeover: c.NoTakeover, ConflictExitCode: exitNotGranted, LostExitCode: exitLost}
	if err := run.check(a); err != nil {
		return err
	}
	o, err := c.options()
	if err != nil {
		return err
	}
	o.OnEvent = func(e cron.Event) { c.tell(a, e) }
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
	defer m.Close()
	job, err := cron.New(m, c.Name, o)
	if err != nil {
		return err
	}
	return job.Run(a.ctx, func(_ context.Context, t cron.Tick) error {
		code, lost, err := run.runProgram(a, m, t.Hold, program,
			"HOLDFAST_PLANNED="+t.Planned.Format(time.RFC3339Nano),
			"HOLDFAST_ATTEMPT="+strconv.Itoa(t.Attempt),
			"HOLDFAST_MISSED="+strconv.Itoa(t.Missed))
		switch {
		case err != nil:
			return err
		case lost: // or that was not confirmed in time; in any case the program was ended
			return fmt.Errorf("%w: exit code %d", cron.ErrInterrupted, code)
		case code != 0 && c.OnRevoke == "term" && closed(t.Hold.Revoked()): // it got SIGTERM, or was about to
			return fmt.Errorf("%w by a process that asks for the lock: exit code %d", cron.ErrInterrupted, code)
		case code != 0:
			return fmt.Errorf("exit code %d", code)
		}
		return nil
	})
}

// closed reports whether a channel on which nothing is sent is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// options returns what the flags say of the schedule.
func (c *cronCmd) options() (cron.Options, error) {
	o := cron.Options{Grace: c.Grace, Attempts: c.Attempts, ID: c.ID}
	o.Missed = map[string]cron.Missed{"latest": cron.RunLatest, "all": cron.RunAll, "skip": cron.Skip}[c.Missed]
	switch {
	case c.Grace < 0:
		return o, usagef("--grace is %v: it must not be negative", c.Grace)
	case c.Attempts < 1:
		return o, usagef("--attempts is %d: it must be positive", c.Attempts)
	case c.Schedule != nil:
		s, err := parseSchedule(*c.Schedule)
		if err != nil {
			return o, usagef("--schedule is %q: %w", *c.Schedule, err)
		}
		o.Schedule = s
	case c.Every == nil:
		return o, usagef("the program is not planned: --every or --schedule must say when it is to run")
	case *c.Every <= 0:
		return o, usagef("--every is %v: it must be positive", *c.Every)
	default:
		o.Schedule = cron.Every(*c.Every)
	}
	return o, nil
}

// parseSchedule returns the schedule of a cron expression. It refuses what the machines may
// understand in different ways.
func parseSchedule(expression string) (cron.Schedule, error) {
	zone, _, more := strings.Cut(expression, " ")
	if _, name, named := strings.Cut(zone, "TZ="); named {
		switch {
		case !more:
			return nil, errors.New("there is a time zone, and nothing else") // the parser panics
		case name == "Local":
			return nil, errors.New("its time zone differs from machine to machine: use a name such as Europe/Berlin")
		}
	}
	s, err := robfig.ParseStandard(expression)
	if err != nil {
		return nil, err
	}
	if _, ok := s.(robfig.ConstantDelaySchedule); ok {
		return nil, errors.New("@every counts from the moment at which a process starts: use --every")
	}
	if s.Next(time.Now().UTC()).IsZero() {
		return nil, errors.New("there is no such time within five years")
	}
	return s, nil
}

// tell tells an event.
func (c *cronCmd) tell(a *app, e cron.Event) {
	switch {
	case c.Quiet:
	case a.JSON:
		name := map[cron.EventKind]string{cron.EventFailed: "failed", cron.EventMissed: "missed", cron.EventInterrupted: "interrupted", cron.EventAhead: "ahead"}[e.Kind]
		told := cronEvent{Cron: c.Name, Time: time.Now().UTC(), Event: name, Planned: e.Tick.Planned, Attempt: e.Tick.Attempt, Token: e.Tick.Token, From: e.From, To: e.To, Missed: e.N}
		if e.Err != nil {
			told.Cause = oneLine(e.Err)
		}
		_ = writeJSON(a.stderr, told) // a reader that has gone must not end the program
	default:
		a.tellf("%s: %s", safe(c.Name), e)
	}
}
