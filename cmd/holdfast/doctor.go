// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/doctor"
)

// doctorCmd examines an ensemble.
type doctorCmd struct {
	For   time.Duration `default:"5s" placeholder:"D" help:"How long to time requests and watch the clocks."`
	Quiet bool          `short:"q" help:"Leave out what is as it should be."`
}

// Help describes the verb.
func (*doctorCmd) Help() string {
	return `It asks each server about itself, opens a session, tries below the root what a lock does, and looks at the locks that there are. For each finding it says why it matters and what to change. The levels are ok, note (nothing has to change), warn (locks can be lost or broken in some circumstances) and fail (Holdfast does not work, or what it promises does not hold). The exit code is 6 if there is a warn or a fail.

It changes nothing, except for a node of its own below the root, which it deletes. Give it the session timeout and the credentials of the processes that use the locks, and name all servers.

Examples:

    holdfast doctor --servers zk1,zk2,zk3
    holdfast doctor --servers zk1,zk2,zk3/prod --session-timeout 6s --auth-file /etc/billing/zookeeper
    holdfast doctor --json | jq -r '.findings[] | select(.level != "ok") | .check'`
}

// diagnosis is what doctor prints as JSON.
type diagnosis struct {
	Level    doctor.Level     `json:"level"` // the worst of the findings
	Findings []doctor.Finding `json:"findings"`
}

// Run examines the ensemble and prints the findings.
func (c *doctorCmd) Run(a *app) error {
	if c.For < 0 || c.For > time.Hour {
		return usagef("--for is %v: it must be between 0s and 1h0m0s", c.For)
	}
	conn, err := a.connection()
	if err != nil {
		return err
	}
	cfg := doctor.Config{
		Servers: conn.servers, Chroot: conn.chroot, Root: conn.root, SessionTimeout: a.SessionTimeout, Credentials: conn.auth != nil,
		Watch: c.For, TLS: conn.tls,
	}
	client, session, refused := a.client(a.ctx)
	if refused == nil {
		cfg.Session = session
		// Requests take no context: they end with the client.
		stop := context.AfterFunc(a.ctx, func() { _ = client.Close(a.ctx) })
		defer func() {
			stop()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), a.ConnectTimeout)
			defer cancel()
			_ = client.Close(ctx) // what is left is a session without nodes
		}()
	}
	findings := doctor.Examine(a.ctx, cfg)
	d := diagnosis{doctor.Worst(findings), findings}
	if a.asJSON {
		err = a.json(d)
	} else {
		c.print(a, d)
	}
	switch {
	case refused != nil:
		return refused // the servers' findings may say why
	case err != nil:
		return err
	case a.ctx.Err() != nil:
		return a.ctx.Err()
	case d.Level >= doctor.Warn:
		return &exitError{code: exitFindings}
	}
	return nil
}

// colours are those of the levels on a terminal.
var colours = map[doctor.Level]string{doctor.OK: "32", doctor.Note: "36", doctor.Warn: "33", doctor.Fail: "31;1"}

// print prints the findings for people: a line for each, and one line each for why it
// matters and what to do.
func (c *doctorCmd) print(a *app, d diagnosis) {
	var count [doctor.Fail + 1]int
	for _, f := range d.Findings {
		count[f.Level]++
		if f.Level == doctor.OK && c.Quiet {
			continue
		}
		// Padded before it is coloured: escape sequences have no width.
		level := fmt.Sprintf("%-4v", f.Level)
		if a.color() {
			level = "\x1b[" + colours[f.Level] + "m" + level + "\x1b[0m"
		}
		where := ""
		if f.Where != "" {
			where = safeLine(f.Where) + ": "
		}
		a.printf("%s  %s: %s%s\n", level, f.Check, where, f.Found)
		if f.Why != "" {
			a.printf("      why: %s\n      do:  %s\n", f.Why, f.Change)
		}
	}
	a.printf("%d ok, %d to note, %d to change, %d of them urgent\n",
		count[doctor.OK], count[doctor.Note], count[doctor.Warn]+count[doctor.Fail], count[doctor.Fail])
}
