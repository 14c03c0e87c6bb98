// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

type membersCmd struct {
	Name string `arg:"" help:"The group."`
}

// Help is shown by holdfast members --help.
func (*membersCmd) Help() string {
	return `Lists the members of a group of recipes/members, or of Curator's GroupMember, with what they say: their data, for how long they have been members, and their sessions. It creates no node.

Examples:
  holdfast members workers
  holdfast members --json workers | jq -r '.members[].data'`
}

// groupFacts are the facts that members prints as JSON.
type groupFacts struct {
	Group   string        `json:"group"`
	Path    string        `json:"path"`
	Members []memberFacts `json:"members"`
}

// memberFacts are the facts about a member, as JSON. The node's name is its id, escaped.
type memberFacts struct {
	Node    string    `json:"node"`
	Since   time.Time `json:"since"`
	Token   uint64    `json:"token"`
	Session string    `json:"session"`
	payload

	data []byte
}

// Run lists the members.
func (c *membersCmd) Run(a *app) error {
	s, err := a.source(c.Name)
	if err != nil {
		return err
	}
	defer s.close()
	path, err := manager.LockPath(s.root, c.Name)
	if err != nil {
		return err
	}
	facts, err := readMembers(s.client.Session(), c.Name, path)
	missing := errors.Is(err, zkio.ErrNoNode)
	if err != nil && !missing {
		return failed("list the members of", c.Name, err)
	}
	if a.JSON {
		if err := a.json(facts); err != nil {
			return err
		}
	}
	switch {
	case missing:
		return s.missing(a.ctx, "group", c.Name)
	case a.JSON:
		return nil
	}
	a.printf("%s: %s\n", safe(c.Name), count(len(facts.Members), "member", "members"))
	if len(facts.Members) == 0 {
		return nil
	}
	t := &table{}
	t.add("MEMBER", ">SINCE", "SESSION", "DATA")
	for _, m := range facts.Members {
		t.add(safe(m.Node), ageOf(m.Since, time.Now()), m.Session, orDash(fit(safe(string(m.data)), 60)))
	}
	t.write(a.stdout)
	return nil
}

// readMembers reads the members whose group is at path: its ephemeral children. The error
// wraps zkio.ErrNoNode if the group has no directory, which goes some time after its last
// member has.
func readMembers(s *zkio.Session, name, path string) (groupFacts, error) {
	facts := groupFacts{Group: name, Path: path, Members: []memberFacts{}}
	names, _, err := s.Children(path)
	if err != nil {
		return facts, err
	}
	slices.Sort(names)
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = path + "/" + name
	}
	for i, read := range s.GetAll(paths...) {
		switch {
		case errors.Is(read.Err, zkio.ErrNoNode), read.Err == nil && read.Stat.EphemeralOwner == 0:
			continue // gone since, or no member
		case read.Err != nil:
			return facts, read.Err
		}
		facts.Members = append(facts.Members, memberFacts{
			Node: names[i], Since: time.UnixMilli(read.Stat.Ctime).UTC(), Token: uint64(read.Stat.Czxid),
			Session: sessionText(read.Stat.EphemeralOwner), payload: payloadOf(read.Data), data: read.Data,
		})
	}
	return facts, nil
}
