// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
	"github.com/holdfast-go/holdfast/zkio"
)

type shardsCmd struct {
	Name string `arg:"" help:"The work that is divided."`
}

// Help is shown by holdfast shards --help.
func (*shardsCmd) Help() string {
	return `Lists the shards of recipes/shards and the processes that own them. It creates no node.

Examples:
  holdfast shards mail-boxes
  holdfast shards --json mail-boxes | jq '[.shards[] | select(.owner == null)] | length'`
}

// shardsFacts are the facts that shards prints as JSON.
type shardsFacts struct {
	Name    string       `json:"name"`
	Path    string       `json:"path"`
	Members int          `json:"members"`
	Shards  []shardFacts `json:"shards"`
}

// shardFacts are the facts about a shard, as JSON.
type shardFacts struct {
	Shard   int             `json:"shard"`
	Waiting int             `json:"waiting"`
	Owner   *contenderFacts `json:"owner,omitempty"`

	owner *inspect.Contender
}

// Run lists the shards.
func (c *shardsCmd) Run(a *app) error {
	s, err := a.source(c.Name)
	if err != nil {
		return err
	}
	defer s.close()
	facts, err := c.read(a, s)
	if errors.As(err, new(*exitError)) {
		return err
	} else if err != nil {
		return failed("list the shards of", c.Name, err)
	}
	if a.JSON {
		return a.json(facts)
	}
	owned := 0
	t := &table{}
	t.add(">SHARD", "OWNER", ">PID", ">SINCE", ">WAITING")
	for _, f := range facts.Shards {
		if f.owner == nil {
			t.add(strconv.Itoa(f.Shard), "-", "-", "-", "-")
			continue
		}
		owned++
		t.add(strconv.Itoa(f.Shard), who(f.owner), pidText(f.owner.PID), ageOf(f.owner.Since, time.Now()), figures.Number(f.Waiting))
	}
	a.printf("%s: %s, %s of them owned, %s\n", safe(c.Name), count(len(facts.Shards), "shard", "shards"),
		figures.Number(owned), count(facts.Members, "member", "members"))
	t.write(a.stdout)
	return nil
}

// read reads how many shards there are, and which processes own them.
func (c *shardsCmd) read(a *app, s *source) (facts shardsFacts, err error) {
	facts.Name = c.Name
	if facts.Path, err = manager.LockPath(s.root, c.Name); err != nil {
		return facts, err
	}
	session := s.client.Session()
	data, _, err := session.Get(facts.Path + "/spec")
	if errors.Is(err, zkio.ErrNoNode) {
		return facts, s.missing(a.ctx, "divided work", c.Name)
	} else if err != nil {
		return facts, err
	}
	var spec struct{ Shards int }
	if err := json.Unmarshal(data, &spec); err != nil || spec.Shards < 1 {
		return facts, fmt.Errorf("%s/spec says %q, which is not of package shards", safe(facts.Path), data)
	}
	members, err := readMembers(session, c.Name, facts.Path+"/members")
	if err != nil && !errors.Is(err, zkio.ErrNoNode) {
		return facts, err
	}
	v, err := s.Survey(c.Name + "/shards").Look(a.ctx)
	if err != nil {
		return facts, err
	}
	a.warnDenied(v.Denied)
	facts.Members, facts.Shards = len(members.Members), make([]shardFacts, spec.Shards)
	for i := range facts.Shards {
		facts.Shards[i].Shard = i
	}
	for i := range v.Locks {
		l := &v.Locks[i]
		n, err := strconv.Atoi(l.Name[strings.LastIndexByte(l.Name, '/')+1:])
		if err != nil || n < 0 || n >= spec.Shards {
			continue
		}
		facts.Shards[n] = shardFacts{Shard: n, Waiting: l.Waiting, Owner: factsOf(l.Holder, 0), owner: l.Holder}
	}
	return facts, nil
}
