// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
)

type psCmd struct{}

// Help is shown by holdfast ps --help.
func (*psCmd) Help() string {
	return `Lists the processes that hold locks, wait for them, or ask other processes, as far as ZooKeeper shows: a process that does nothing of that has no node, and does not show. A process with two sessions is listed twice. It reads every contender's node, and creates none.

Examples:
  holdfast ps
  holdfast ps --json | jq '.processes[] | select(.holds > 100)'`
}

// psFacts are the facts that ps prints as JSON.
type psFacts struct {
	Root      string         `json:"root"`
	Processes []processFacts `json:"processes"`
	Denied    []string       `json:"denied,omitempty"`
}

// processFacts are the facts about a process, as JSON.
type processFacts struct {
	Label      string    `json:"label,omitempty"`
	Host       string    `json:"host,omitempty"`
	PID        int       `json:"pid,omitempty"`
	Client     string    `json:"client,omitempty"`
	Identity   string    `json:"identity,omitempty"`
	Endpoint   string    `json:"endpoint,omitempty"`
	Session    string    `json:"session,omitempty"`
	Holds      int       `json:"holds"`
	Waits      int       `json:"waits"`
	Asks       int       `json:"asks"`
	Since      time.Time `json:"since,omitzero"`
	Unreadable bool      `json:"unreadable,omitempty"`
}

// Run lists the processes.
func (c *psCmd) Run(a *app) error {
	s, err := a.source("")
	if err != nil {
		return err
	}
	defer s.close()
	found, err := s.Processes(a.ctx)
	if err != nil {
		return failed("list the processes", "", err)
	}
	if len(found.All) > 0 {
		a.warnDenied(found.Denied)
	}
	if a.JSON {
		facts := psFacts{Root: s.root, Denied: found.Denied, Processes: make([]processFacts, len(found.All))}
		for i, p := range found.All {
			facts.Processes[i] = processFacts{
				Label: p.Label, Host: p.Host, PID: p.PID, Client: p.Client, Identity: p.Identity, Endpoint: p.Endpoint,
				Session: sessionText(p.Session), Holds: p.Holds, Waits: p.Waits, Asks: p.Asks, Since: utc(p.Since), Unreadable: p.Unreadable,
			}
		}
		if err := a.json(facts); err != nil {
			return err
		}
	}
	switch {
	case len(found.All) == 0 && len(found.Denied) > 0:
		return a.deniedAll(found.Denied)
	case a.JSON:
		return nil
	case len(found.All) == 0:
		a.printf("no process holds a lock under %s or waits for one\n", safe(s.root))
		return nil
	}
	writeProcesses(a.stdout, found.All, time.Now())
	return nil
}

// writeProcesses writes a line for each process.
func writeProcesses(w io.Writer, all []inspect.Process, now time.Time) {
	t := &table{}
	t.add("WHO", ">PID", ">HOLDS", ">WAITS", ">ASKS", ">SINCE", "ENDPOINT", "SESSION")
	for _, p := range all {
		c := inspect.Contender{
			Contender: manager.Contender{Label: p.Label, Host: p.Host, Identity: p.Identity},
			Client:    p.Client, Unreadable: p.Unreadable,
		}
		session := sessionText(p.Session)
		if session == "" {
			session = "none: its nodes stay"
		}
		t.add(who(&c), pidText(p.PID), figures.Number(p.Holds), figures.Number(p.Waits), figures.Number(p.Asks), ageOf(p.Since, now), orDash(safe(p.Endpoint)), session)
	}
	t.write(w)
}
