// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/contender"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/summary"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A row is what a run has shown of one client.
type row struct {
	Client  string // as -contender names it; ours for Holdfast
	Seed    uint64
	Command string // that repeats the run
	Servers string // name and version
	Library string // the client's, name and version; "" for Holdfast
	Alone   bool   // the servers are not ZooKeeper's: nothing is known of sessions and nodes
	Named   bool   // it says which sessions have its locks; else nothing is known of losses
	Void    string // why the run says nothing; empty: it does

	Grants     pace
	Overlaps   int           // pairs of processes inside at once
	Longest    time.Duration // of those, while both ran
	LongestAt  time.Duration // after the beginning
	Told       int           // losses of which holders were told before the leader had ended the session
	Late       int           // those of which they were told afterwards
	Never      int           // sessions that the leader had ended, of holders that were never told
	Stuck      int           // waits that took longer than the processes ahead can take, or never ended
	Left       int           // nodes
	LateWrites int           // that the register refused, of holders that had not been told of a loss
}

// rowOf reads what a run has left.
func rowOf(client, dir string, s summary.Summary) (row, error) {
	r := row{Client: client, Seed: s.Seed, Command: s.Command, Left: s.Leaks}
	h, err := history.ReadHeader(dir)
	if err != nil {
		return r, err
	}
	r.Library = h.Library
	r.Alone = contender.BackendOf(client) != nil
	if r.Servers = h.ZooKeeper; !r.Alone {
		r.Servers = "ZooKeeper " + r.Servers
	}
	if s.History == nil {
		return r, fmt.Errorf("the run of %s has no history: %v", client, s.Reasons)
	}
	if s.History.Diverged != "" {
		r.Void = s.History.Why()
	}
	r.Never, r.Late = s.History.NeverTold, s.History.ToldLate-s.History.NeverTold
	r.Told = s.History.LossesJudged - r.Late
	for _, c := range s.History.Checks {
		if c.Name == verdict.Patience {
			r.Stuck = int(c.Found) //nolint:gosec // it is small
		}
	}
	t := newTimes(client == ours || client == ours+readers)
	for e, err := range history.All(dir) {
		if err != nil {
			return r, err
		}
		r.Named = r.Named || e.Kind == history.Granted && e.Session != ""
		t.event(e)
	}
	if r.Overlaps, r.Longest = t.overlaps(); r.Overlaps > 0 {
		r.LongestAt = time.Duration(t.longest - h.Begin)
	}
	r.LateWrites = t.lateWrites()
	r.Grants = t.pace(h.Begin)
	return r, nil
}
