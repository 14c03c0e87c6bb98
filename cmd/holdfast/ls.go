// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/manager/inspect"
)

type lsCmd struct {
	Prefix string `arg:"" optional:"" help:"Only what has this name, or a name that continues it after a slash."`
}

// Help is shown by holdfast ls --help.
func (*lsCmd) Help() string {
	return `Lists the locks that a process holds or waits for: what kind of lock it is, the process that holds it, for how long that has been in the queue, and how many wait. Recipes have a line each, for all their locks: elections, groups, shards, semaphores, queues and barriers. It creates no node.

Examples:
  holdfast ls
  holdfast ls jobs
  holdfast ls --json | jq -r '.locks[] | select(.waiting > 10) | .lock'`
}

// lsFacts are the facts that ls prints as JSON.
type lsFacts struct {
	Root    string        `json:"root"`
	Prefix  string        `json:"prefix,omitempty"`
	Locks   []lockFacts   `json:"locks"`
	Recipes []recipeFacts `json:"recipes"`
	Denied  []string      `json:"denied,omitempty"`
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
	Missing bool            `json:"missing,omitempty"`
	Recipe  string          `json:"recipe,omitempty"`
	PartOf  string          `json:"part_of,omitempty"`
}

func factsOfLock(l *inspect.Lock) lockFacts {
	return lockFacts{
		Lock: l.Name, Path: l.Path, Kind: l.Kind, Holders: l.Holders, Waiting: l.Waiting, Missing: l.Missing, Recipe: l.Recipe, PartOf: l.PartOf,
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
	survey := s.Survey(prefix)
	survey.Recipes = true
	v, err := survey.Look(a.ctx)
	if err != nil {
		return failed("list the locks", prefix, err)
	}
	nothing := len(v.Locks)+len(v.Recipes) == 0
	if !nothing {
		a.warnDenied(v.Denied)
	}
	a.warnUnread(unread(&v))
	if a.JSON {
		facts := lsFacts{Root: s.root, Prefix: prefix, Denied: v.Denied, Locks: make([]lockFacts, len(v.Locks)), Recipes: make([]recipeFacts, len(v.Recipes))}
		for i := range v.Locks {
			facts.Locks[i] = factsOfLock(&v.Locks[i])
		}
		for i := range v.Recipes {
			facts.Recipes[i] = factsOfRecipe(&v.Recipes[i])
		}
		if err := a.json(facts); err != nil {
			return err
		}
	}
	switch {
	case nothing && len(v.Denied) > 0:
		return a.deniedAll(v.Denied)
	case a.JSON:
		return nil
	case nothing:
		a.printf("no locks under %s\n", under(s.root, prefix))
		return nil
	}
	writeLocks(a.stdout, &v, time.Now())
	return nil
}

// unread returns the nodes of recipes that could not be read.
func unread(v *inspect.View) (paths []string) {
	for i := range v.Recipes {
		paths = append(paths, v.Recipes[i].Unread...)
	}
	return paths
}

// writeLocks writes a line for each recipe, and for each lock that is not a recipe's.
func writeLocks(w io.Writer, v *inspect.View, now time.Time) {
	t := &table{}
	t.add("LOCK", "KIND", "HELD BY", ">PID", ">SINCE", ">WAITING")
	recipes := v.Recipes
	before := func(name string) { // those whose names come before that of a lock
		for ; len(recipes) > 0 && (name == "" || recipes[0].Name <= name); recipes = recipes[1:] {
			r := &recipes[0]
			t.add(safe(r.Name), string(r.Kind), recipeText(r), recipePID(r), ageOf(r.Since, now), figures.Number(r.Waiting))
		}
	}
	for i := range v.Locks {
		l := &v.Locks[i]
		if l.PartOf != "" {
			continue
		}
		before(l.Name)
		if l.Holder == nil {
			t.add(safe(l.Name), "-", "("+foreign(l)+")", "-", "-", "-")
			continue
		}
		t.add(safe(l.Name), kindText(l), holdersText(l), pidText(l.Holder.PID), ageOf(l.Holder.Since, now), figures.Number(l.Waiting))
	}
	before("")
	t.write(w)
	for i := range v.Locks {
		if l := &v.Locks[i]; l.Holder != nil && l.Recipe != "" {
			fmt.Fprintf(w, "%s: %s is used in its directory, too, and both kinds are granted at the same time\n", safe(l.Name), l.Recipe)
		}
	}
}

// kindText says what the holders of a lock do with it.
func kindText(l *inspect.Lock) string {
	switch l.Kind {
	case "mixed":
		return "mixed!"
	case "latch", "selector":
		return l.Kind
	}
	return l.Holder.Kind.String()
}

// holdersText names the holder of a lock, and says how many others there are.
func holdersText(l *inspect.Lock) string {
	text := who(l.Holder)
	if l.Holders > 1 {
		text += fmt.Sprintf(" and %s more", figures.Number(l.Holders-1))
	}
	return text
}

// foreign says which other kind of lock uses a lock's directory.
func foreign(l *inspect.Lock) string {
	return fmt.Sprintf("%s: %s", l.Recipe, count(l.Strangers, "node", "nodes"))
}
