// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/manager/inspect"
)

type lsCmd struct {
	Prefix string `arg:"" optional:"" help:"Only this lock, and those whose names continue it after a slash."`
}

// Help is shown by holdfast ls --help.
func (*lsCmd) Help() string {
	return `Lists the locks that a process holds or waits for: what kind of lock it is, the process that holds it, for how long that has been in the queue, and how many wait. It creates no node.

Examples:
  holdfast ls
  holdfast ls jobs
  holdfast ls --json | jq -r '.locks[] | select(.waiting > 10) | .lock'`
}

// lsFacts are the facts that ls prints as JSON.
type lsFacts struct {
	Root   string      `json:"root"`
	Prefix string      `json:"prefix,omitempty"`
	Locks  []lockFacts `json:"locks"`
	Denied []string    `json:"denied,omitempty"`
}

// lockFacts are the facts about a lock, as JSON.
type lockFacts struct {
	Lock    string          `json:"lock"`
	Path    string          `json:"path"`
	Kind    string          `json:"kind,omitempty"`
	Holders int             `json:"holders"`
	Waiting int             `json:"waiting"`
	Holder  *contenderFacts `json:"holder,omitempty"`
	Next    *contenderFacts `json:"next,omitempty"`
	Recipe  string          `json:"recipe,omitempty"`
}

func factsOfLock(l *inspect.Lock) lockFacts {
	return lockFacts{
		Lock: l.Name, Path: l.Path, Kind: l.Kind, Holders: l.Holders, Waiting: l.Waiting, Recipe: l.Recipe,
		Holder: factsOf(l.Holder, 0), Next: factsOf(l.Next, 0),
	}
}

// Run lists the locks.
func (c *lsCmd) Run(a *app) error {
	prefix := strings.TrimSuffix(c.Prefix, "/")
	s, err := a.source(prefix)
	if err != nil {
		return err
	}
	defer s.close()
	v, err := s.Survey(prefix).Look(a.ctx)
	if err != nil {
		return failed("list the locks", prefix, err)
	}
	a.warnDenied(v.Denied)
	if a.JSON {
		facts := lsFacts{Root: s.root, Prefix: prefix, Denied: v.Denied, Locks: make([]lockFacts, len(v.Locks))}
		for i := range v.Locks {
			facts.Locks[i] = factsOfLock(&v.Locks[i])
		}
		return a.json(facts)
	}
	if len(v.Locks) == 0 {
		a.printf("no locks under %s\n", under(s.root, prefix))
		return nil
	}
	writeLocks(a.stdout, v.Locks, time.Now())
	return nil
}

// writeLocks writes a line for each lock.
func writeLocks(w io.Writer, locks []inspect.Lock, now time.Time) {
	t := &table{}
	t.add("LOCK", "KIND", "HELD BY", ">PID", ">SINCE", ">WAITING")
	for i := range locks {
		l := &locks[i]
		if l.Holder == nil {
			t.add(safe(l.Name), "-", "("+foreign(l)+")", "-", "-", "-")
			continue
		}
		t.add(safe(l.Name), kindText(l), holdersText(l), pidText(l.Holder.PID), ageOf(l.Holder.Since, now), thousands(l.Waiting))
	}
	t.write(w)
	for i := range locks {
		if l := &locks[i]; l.Holder != nil && l.Recipe != "" {
			fmt.Fprintf(w, "%s: %s is used in its directory, too, and both kinds are granted at the same time\n", safe(l.Name), l.Recipe)
		}
	}
}

// kindText says what the holders of a lock do with it.
func kindText(l *inspect.Lock) string {
	switch l.Kind {
	case "mixed":
		return "mixed!"
	case "latch":
		return l.Kind
	}
	return l.Holder.Kind.String()
}

// holdersText names the holder of a lock, and says how many others there are.
func holdersText(l *inspect.Lock) string {
	text := who(l.Holder)
	if l.Holders > 1 {
		text += fmt.Sprintf(" and %s more", thousands(l.Holders-1))
	}
	return text
}

// foreign says which other kind of lock uses a lock's directory.
func foreign(l *inspect.Lock) string {
	return fmt.Sprintf("%s: %s", l.Recipe, count(l.Strangers, "node", "nodes"))
}
