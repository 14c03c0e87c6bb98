// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/manager/inspect"
)

type whoCmd struct {
	Name  string `arg:"" help:"The lock, or the recipe."`
	Limit int    `default:"50" help:"Show this many lines at most; 0 shows all."`
}

// Help is shown by holdfast who --help.
func (*whoCmd) Help() string {
	return `Shows the queue of a lock in the order of turns: the contenders that hold it, and behind them those that wait. Contenders of other clients, such as Curator and kazoo, are shown by what they tell. Of a recipe it shows those that take part: candidates, members, shards, permits, elements. It creates no node.

If a process that held the lock or waited for it was killed, and its session was closed for it, a line below the queue says so. ZooKeeper keeps notes of the last 64 such processes of all locks.

Examples:
  holdfast who jobs/nightly
  holdfast who --limit 0 jobs/nightly
  holdfast who scheduler
  holdfast who --json jobs/nightly | jq -r '.contenders[0].host'`
}

// whoFacts are the facts that who prints as JSON.
type whoFacts struct {
	lockFacts
	Contenders []*contenderFacts `json:"contenders"`
	Takeover   *takeoverFacts    `json:"takeover,omitempty"`
}

// takeoverFacts are the facts about a session that was closed for its process, as JSON.
type takeoverFacts struct {
	Label    string    `json:"label,omitempty"`
	Host     string    `json:"host,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Endpoint string    `json:"endpoint,omitempty"`
	Identity string    `json:"identity,omitempty"`
	Session  string    `json:"session"`
	Ended    time.Time `json:"ended"`
	After    float64   `json:"after_seconds"`
}

// factsOfTakeover returns the facts about t, which may be nil.
func factsOfTakeover(t *inspect.Takeover) *takeoverFacts {
	if t == nil {
		return nil
	}
	c := &t.From
	return &takeoverFacts{
		Label: c.Label, Host: c.Host, PID: c.PID, Endpoint: c.Endpoint, Identity: c.Identity,
		Session: sessionText(c.Session), After: t.After.Seconds(),
		// It is in UTC, unless another client has left the note. As that is, it can be written again;
		// in UTC it may be in the year 10000, which JSON has no form for.
		Ended: t.Ended,
	}
}

// Run shows the queue.
func (c *whoCmd) Run(a *app) error {
	if c.Limit < 0 {
		return usagef("--limit must not be negative")
	}
	s, err := a.source(c.Name)
	if err != nil {
		return err
	}
	defer s.close()
	details := c.Limit
	if details == 0 {
		details = -1
	}
	roster, found, err := s.Recipe(a.ctx, c.Name, details)
	if err != nil {
		return failed("show the queue of", c.Name, err)
	}
	if found {
		a.warnUnread(roster.Unread)
		if a.JSON {
			return a.json(factsOfRoster(&roster))
		}
		writeRoster(a.stdout, &roster, time.Now())
		return nil
	}
	q, err := s.Queue(a.ctx, c.Name, details)
	if err != nil {
		return failed("show the queue of", c.Name, err)
	}
	if a.JSON {
		facts := whoFacts{lockFacts: factsOfLock(&q.Lock), Contenders: []*contenderFacts{}, Takeover: factsOfTakeover(q.Takeover)}
		for i := range shown(&q, c.Limit) {
			facts.Contenders = append(facts.Contenders, factsOf(&q.Contenders[i], i+1))
		}
		if err := a.json(facts); err != nil {
			return err
		}
	}
	if q.Missing {
		if q.Takeover != nil && !a.JSON {
			fmt.Fprintln(a.stdout, takeoverText(q.Takeover, time.Now()))
		}
		return s.missing(a.ctx, "lock", c.Name)
	}
	if a.JSON {
		return nil
	}
	writeQueue(a.stdout, &q, c.Limit, time.Now())
	return nil
}

// shown returns the contenders that are to be shown; limit 0 shows all.
func shown(q *inspect.Queue, limit int) []inspect.Contender {
	if limit == 0 || limit > len(q.Contenders) {
		return q.Contenders
	}
	return q.Contenders[:limit]
}

// writeQueue writes a line for each contender, up to limit, and what else there is to say
// about the lock.
func writeQueue(w io.Writer, q *inspect.Queue, limit int, now time.Time) {
	name := safe(q.Name)
	if len(q.Contenders) == 0 {
		fmt.Fprintf(w, "%s is free: no process holds it or waits for it\n", name)
	} else {
		fmt.Fprintf(w, "%s (%s): %s, %s\n", name, q.Kind, holdsText(q.Holders), waitsText(q.Waiting))
		t := &table{}
		t.add(">#", "STATE", "KIND", "WHO", ">PID", ">SINCE", "ENDPOINT", "SESSION")
		for i, c := range shown(q, limit) {
			t.add(strconv.Itoa(i+1), stateText(&c), c.Kind.String(), who(&c), pidText(c.PID), ageOf(c.Since, now),
				orDash(safe(c.Endpoint)), orDash(sessionText(c.Session)))
		}
		t.write(w)
		if more := len(q.Contenders) - len(shown(q, limit)); more > 0 {
			fmt.Fprintf(w, "… and %s more\n", figures.Number(more))
		}
	}
	if q.Takeover != nil {
		fmt.Fprintln(w, takeoverText(q.Takeover, now))
	}
	for _, note := range notes(q, limit) {
		fmt.Fprintln(w, note)
	}
}

// takeoverText says from which process a lock was taken over. What is a day old has a date.
func takeoverText(t *inspect.Takeover, now time.Time) string {
	layout := time.TimeOnly
	if now.Sub(t.Ended) >= 24*time.Hour {
		layout = time.DateTime
	}
	return fmt.Sprintf("taken over: %s, which held it or waited for it, ended at %s (%s ago); its session %s was closed %v later",
		whoLong(&t.From), t.Ended.Local().Format(layout), age(now.Sub(t.Ended)), sessionText(t.From.Session), t.After.Round(time.Millisecond))
}

// stateText says whether a contender holds its lock.
func stateText(c *inspect.Contender) string {
	if c.Holds {
		return "holds"
	}
	return "waits"
}

func holdsText(n int) string { return count(n, "process holds it", "processes hold it") }

func waitsText(n int) string {
	if n == 0 {
		return "none waits"
	}
	return count(n, "waits", "wait")
}

// notes returns what an operator has to know about a queue besides its contenders.
func notes(q *inspect.Queue, limit int) (lines []string) {
	for i, c := range shown(q, limit) {
		if c.Persistent && c.Token != 0 {
			lines = append(lines, fmt.Sprintf("#%d: its node is not ephemeral, so it stays when its process is gone: holdfast break --node %s %s",
				i+1, safe(c.Path[strings.LastIndexByte(c.Path, '/')+1:]), safe(q.Name)))
		}
	}
	if q.Kind == "mixed" {
		lines = append(lines, "mutexes and read/write locks contend for this name: use one kind of lock per name")
	}
	if q.Recipe != "" {
		lines = append(lines, fmt.Sprintf("%s is used in this lock's directory, too, and both kinds are granted at the same time: give one of them another path", q.Recipe))
	}
	return lines
}
