// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/manager/inspect"
)

type watchCmd struct {
	Name string `arg:"" help:"The lock."`
}

// Help is shown by holdfast watch --help.
func (*watchCmd) Help() string {
	return `Prints a line for each change of a lock's holder and queue, until Ctrl-C: first what is there, then what changes. Contenders that come and go within a tenth of a second may not show. It creates no node.

Examples:
  holdfast watch jobs/nightly
  holdfast watch --json jobs/nightly | jq -r 'select(.event == "granted") | .contender.host'`
}

// A queueChange is what has become of a lock.
type queueChange struct {
	what      string             // see the names below
	contender *inspect.Contender // nil if the lock is free
	position  int                // of the contender in the queue, from 1; 0 if it has gone
}

// The names of changes, which are in docs/command.md.
const (
	changeHolds   = "holds"    // it held the lock when the watch began
	changeWaits   = "waits"    // it waited when the watch began
	changeGone    = "gone"     // it has held the lock: released, lost, or its node was deleted
	changeLeft    = "left"     // it has waited, and gave up or lost its session
	changeGranted = "granted"  // its turn has come
	changeJoined  = "joined"   // it has begun to wait
	changeUndone  = "put back" // it held the lock, and waits again
	changeFree    = "free"     // no process holds the lock
)

// queueChanges returns what has become of a lock from one look to the next. before is nil at the
// first look.
func queueChanges(before, after *inspect.Queue) (all []queueChange) {
	granted, joined := changeHolds, changeWaits
	old := make(map[string]*inspect.Contender)
	if before != nil {
		granted, joined = changeGranted, changeJoined
		here := make(map[string]bool, len(after.Contenders))
		for i := range after.Contenders {
			here[after.Contenders[i].Path] = true
		}
		for i := range before.Contenders {
			c := &before.Contenders[i]
			old[c.Path] = c
			switch {
			case here[c.Path]:
			case c.Holds:
				all = append(all, queueChange{changeGone, c, 0})
			default:
				all = append(all, queueChange{changeLeft, c, 0})
			}
		}
	}
	if len(after.Contenders) == 0 && (before == nil || len(before.Contenders) > 0) {
		all = append(all, queueChange{what: changeFree})
	}
	for i := range after.Contenders {
		c := &after.Contenders[i]
		was := old[c.Path]
		switch {
		case c.Holds && (was == nil || !was.Holds):
			all = append(all, queueChange{granted, c, i + 1})
		case !c.Holds && was == nil:
			all = append(all, queueChange{joined, c, i + 1})
		case !c.Holds && was.Holds:
			all = append(all, queueChange{changeUndone, c, i + 1})
		}
	}
	return all
}

// watchFacts are the facts about a change, as JSON.
type watchFacts struct {
	Time      time.Time       `json:"time"`
	Event     string          `json:"event"`
	Lock      string          `json:"lock"`
	Holders   int             `json:"holders"`
	Waiting   int             `json:"waiting"`
	Contender *contenderFacts `json:"contender,omitempty"`
}

// Run prints changes until the command is interrupted.
func (c *watchCmd) Run(a *app) error {
	s, err := a.source(c.Name)
	if err != nil {
		return err
	}
	defer s.close()
	if err := a.notRecipe(s.client, c.Name); err != nil {
		return err
	}
	var before *inspect.Queue
	for q, err := range s.Watch(a.ctx, c.Name) {
		if err != nil && a.ctx.Err() != nil {
			return nil // Ctrl-C is how it ends
		} else if err != nil {
			return failed("watch", c.Name, err)
		}
		if before == nil && q.Missing {
			a.warnf("%s", s.missing(a.ctx, "lock", c.Name)) // there may be one soon
		}
		for _, change := range queueChanges(before, &q) {
			if err := a.printChange(&q, change, time.Now()); err != nil {
				return err
			}
		}
		before = &q
	}
	return nil
}

// printChange prints a line about a change that led to q.
func (a *app) printChange(q *inspect.Queue, c queueChange, now time.Time) error {
	if a.JSON {
		return a.json(watchFacts{Time: now.UTC(), Event: c.what, Lock: q.Name, Holders: q.Holders, Waiting: q.Waiting, Contender: factsOf(c.contender, c.position)})
	}
	_, err := fmt.Fprintln(a.stdout, now.Format(time.TimeOnly)+" "+c.line(q, now))
	return err
}

// line describes a change for a person.
func (c queueChange) line(q *inspect.Queue, now time.Time) string {
	if c.contender == nil {
		return fmt.Sprintf("%-8s no process holds %s or waits for it", c.what, safe(q.Name))
	}
	text := fmt.Sprintf("%-8s %s", c.what, whoLong(c.contender))
	switch c.what {
	case changeJoined, changeWaits:
		return fmt.Sprintf("%s, as #%d", text, c.position)
	case changeGone, changeLeft:
		return fmt.Sprintf("%s, after %s in the queue", text, ageOf(c.contender.Since, now))
	case changeHolds, changeGranted:
		return fmt.Sprintf("%s, %s, token %d; %s", text, c.contender.Kind, c.contender.Token, waitsText(q.Waiting))
	}
	return text
}
