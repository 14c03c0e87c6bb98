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

// recipeFacts are the facts about a recipe, as JSON.
type recipeFacts struct {
	Name       string          `json:"name"`
	Path       string          `json:"path"`
	Kind       string          `json:"kind"`
	Foreign    string          `json:"foreign,omitempty"`
	Holders    int             `json:"holders"`
	Of         int             `json:"of,omitempty"`
	Waiting    int             `json:"waiting"`
	Members    int             `json:"members,omitempty"`
	Dead       int             `json:"dead,omitempty"`
	Round      uint64          `json:"round,omitempty"`
	Since      time.Time       `json:"since,omitzero"`
	Leader     *leaderFacts    `json:"leader,omitempty"`
	Run        *runFacts       `json:"run,omitempty"`
	Holder     *contenderFacts `json:"holder,omitempty"`
	Unreadable []string        `json:"unreadable,omitempty"`
}

// leaderFacts are what the leader of an election says in its record, as JSON.
type leaderFacts struct {
	ID      string `json:"id"`
	Token   uint64 `json:"token"`
	Present bool   `json:"present"`
	payload
}

// runFacts are what the record of a cron job says, as JSON.
type runFacts struct {
	Planned time.Time `json:"planned"`
	State   string    `json:"state"`
	Token   uint64    `json:"token,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	ID      string    `json:"id,omitempty"`
}

// entryFacts are the facts about an entry of a recipe, as JSON.
type entryFacts struct {
	Position int    `json:"position"`
	State    string `json:"state"`
	ID       string `json:"id,omitempty"`
	Bytes    *int   `json:"bytes,omitempty"`   // of an element
	Attempt  int    `json:"attempt,omitempty"` // of an element
	Waiting  int    `json:"waiting,omitempty"` // for a shard
	*nodeFacts
	payload
}

// nodeFacts are those of contenderFacts that every entry can have.
type nodeFacts struct {
	Node       string    `json:"node,omitempty"`
	Client     string    `json:"client,omitempty"`
	Label      string    `json:"label,omitempty"`
	Host       string    `json:"host,omitempty"`
	PID        int       `json:"pid,omitempty"`
	Endpoint   string    `json:"endpoint,omitempty"`
	Identity   string    `json:"identity,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Session    string    `json:"session,omitempty"`
	Token      uint64    `json:"token,omitempty"`
	Unreadable bool      `json:"unreadable,omitempty"`
}

// rosterFacts are the facts that who prints about a recipe as JSON.
type rosterFacts struct {
	recipeFacts
	Entries []entryFacts `json:"entries"`
}

func factsOfRecipe(r *inspect.Recipe) recipeFacts {
	facts := recipeFacts{
		Name: r.Name, Path: r.Path, Kind: string(r.Kind), Foreign: r.Foreign, Holders: r.Holders, Of: r.Of, Waiting: r.Waiting,
		Members: r.Members, Dead: r.Buried, Round: r.Round, Since: utc(r.Since), Holder: factsOf(r.Holder, 0), Unreadable: r.Unread,
	}
	if facts.Holder != nil {
		facts.Holder.Holds, facts.Holder.Kind = true, ""
	}
	if l := r.Leader; l != nil {
		facts.Leader = &leaderFacts{ID: l.ID, Token: l.Token, Present: l.Present, payload: payloadOf(l.Data)}
	}
	if run := r.Run; run != nil {
		facts.Run = &runFacts{Planned: run.Planned.UTC(), State: run.State, Token: run.Token, Attempt: run.Attempt, ID: run.ID}
	}
	return facts
}

func factsOfRoster(r *inspect.Roster) rosterFacts {
	facts := rosterFacts{recipeFacts: factsOfRecipe(&r.Recipe), Entries: make([]entryFacts, len(r.Entries))}
	for i := range r.Entries {
		e := &r.Entries[i]
		facts.Entries[i] = entryFacts{
			Position: i + 1, State: e.State, ID: e.ID, Attempt: e.Attempts, Waiting: e.Waiting,
			nodeFacts: &nodeFacts{
				Node: e.Path, Client: e.Client, Label: e.Label, Host: e.Host, PID: e.PID, Endpoint: e.Endpoint, Identity: e.Identity,
				Since: utc(e.Since), Session: sessionText(e.Session), Token: e.Token, Unreadable: e.Unreadable,
			},
		}
		switch r.Kind {
		case inspect.KindQueue:
			facts.Entries[i].Bytes = &e.Bytes
		case inspect.KindMembers:
			if !e.Unreadable {
				facts.Entries[i].payload = payloadOf(e.Data)
			}
		}
	}
	return facts
}

// recipeText says in a few words what a recipe has: the cell under HELD BY.
func recipeText(r *inspect.Recipe) string {
	of := func(one, many string) string {
		if r.Of == 0 {
			return count(r.Holders, one, many)
		}
		return fmt.Sprintf("%s of %s", figures.Number(r.Holders), count(r.Of, one, many))
	}
	switch r.Kind {
	case inspect.KindElection:
		if r.Holder == nil {
			return "(no leader)"
		}
		return who(r.Holder)
	case inspect.KindCron:
		if r.Holder == nil {
			return "(no process)"
		}
		return who(r.Holder)
	case inspect.KindMembers:
		return count(r.Holders, "member", "members")
	case inspect.KindShards:
		return of("shard", "shards") + ", " + count(r.Members, "member", "members")
	case inspect.KindSemaphore:
		return of("permit", "permits")
	case inspect.KindQueue:
		text := fmt.Sprintf("%s, %s taken", count(r.Holders+r.Waiting, "element", "elements"), figures.Number(r.Holders))
		if r.Buried > 0 {
			text += fmt.Sprintf(", %s buried", figures.Number(r.Buried))
		}
		return text
	case inspect.KindBarrier:
		return of("inside", "inside")
	case inspect.KindGate:
		return "shut by " + who(r.Holder)
	}
	return "-"
}

// recipePID returns the process id that goes with recipeText.
func recipePID(r *inspect.Recipe) string {
	if r.Holder == nil || r.Kind != inspect.KindElection && r.Kind != inspect.KindCron && r.Kind != inspect.KindGate {
		return "-"
	}
	return pidText(r.Holder.PID)
}

// recipeSummary is the first line about a recipe.
func recipeSummary(r *inspect.Recipe) string {
	switch r.Kind {
	case inspect.KindElection:
		if r.Holder == nil {
			return "no process leads, " + waitsText(r.Waiting)
		}
		return "1 process leads, " + waitsText(r.Waiting)
	case inspect.KindCron:
		if r.Holder == nil {
			return "no process runs it, " + waitsText(r.Waiting)
		}
		return "1 process runs it, " + waitsText(r.Waiting)
	case inspect.KindShards, inspect.KindSemaphore:
		verb := map[inspect.RecipeKind]string{inspect.KindShards: "owned", inspect.KindSemaphore: "in use"}[r.Kind]
		first, rest, _ := strings.Cut(recipeText(r), ",")
		return first + " " + verb + strings.TrimSuffix(","+rest, ",") + ", " + waitsText(r.Waiting)
	case inspect.KindQueue:
		if r.Foreign != "" { // its consumers have no nodes
			return recipeText(r)
		}
		return recipeText(r) + ", " + count(r.Members, "consumer", "consumers")
	case inspect.KindBarrier:
		return fmt.Sprintf("round %d: %s, %s", r.Round, recipeText(r), waitsText(r.Waiting))
	}
	return recipeText(r)
}

// writeRoster writes a line for each entry of a recipe, and what else there is to say.
func writeRoster(w io.Writer, r *inspect.Roster, now time.Time) {
	kind := string(r.Kind)
	if r.Foreign != "" {
		kind += ", " + r.Foreign
	}
	fmt.Fprintf(w, "%s (%s): %s\n", safe(r.Name), kind, recipeSummary(&r.Recipe))
	if l := r.Leader; l != nil {
		switch {
		case l.Present:
			fmt.Fprintf(w, "the leader is %s, token %d%s\n", orDash(safe(l.ID)), l.Token, saysText(l.Data))
		case r.Holder != nil:
			fmt.Fprintf(w, "the record is of an earlier leader, %s: the present one has not written it yet, or uses another client\n", orDash(safe(l.ID)))
		default:
			fmt.Fprintf(w, "the last leader was %s\n", orDash(safe(l.ID)))
		}
	}
	if r.Run != nil {
		fmt.Fprintln(w, runText(r.Run))
	}
	if len(r.Entries) > 0 {
		rosterTable(r, now).write(w)
	}
	if r.More > 0 && len(r.Entries) > 0 {
		fmt.Fprintf(w, "… and %s more\n", figures.Number(r.More))
	}
}

// runText says what the record of a cron job says.
func runText(r *inspect.Run) string {
	planned := r.Planned.UTC().Format(time.RFC3339Nano)
	switch r.State {
	case "new":
		return "nothing has run yet; what is planned after " + planned + " will"
	case "begun":
		return fmt.Sprintf("the run planned for %s has begun: attempt %d, by %s, token %d", planned, r.Attempt, orDash(safe(r.ID)), r.Token)
	case "done":
		return fmt.Sprintf("the last run was planned for %s: attempt %d, by %s, token %d", planned, r.Attempt, orDash(safe(r.ID)), r.Token)
	}
	return fmt.Sprintf("the run planned for %s is %s", planned, safe(r.State))
}

// saysText returns what a leader proclaims, as the end of a line.
func saysText(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	return ", and says " + fit(safe(string(data)), 60)
}

// A column is one of a recipe's table. Some recipes have columns of their own.
type column struct {
	heading string
	of      func(i int, e *inspect.Entry) string
}

func rosterTable(r *inspect.Roster, now time.Time) *table {
	id := func(heading string) column {
		return column{heading, func(_ int, e *inspect.Entry) string { return orDash(safe(e.ID)) }}
	}
	columns := []column{
		{">#", func(i int, _ *inspect.Entry) string { return strconv.Itoa(i + 1) }},
		{"STATE", func(_ int, e *inspect.Entry) string { return e.State }},
	}
	since := column{">SINCE", func(_ int, e *inspect.Entry) string { return ageOf(e.Since, now) }}
	session := column{"SESSION", func(_ int, e *inspect.Entry) string { return orDash(sessionText(e.Session)) }}
	process := []column{
		{"WHO", func(_ int, e *inspect.Entry) string { return processText(e) }},
		{">PID", func(_ int, e *inspect.Entry) string { return pidText(e.PID) }},
		since,
		{"ENDPOINT", func(_ int, e *inspect.Entry) string { return orDash(safe(e.Endpoint)) }},
		session,
	}
	switch r.Kind {
	case inspect.KindMembers:
		columns = append(columns, id("MEMBER"), since, session, column{"DATA", func(_ int, e *inspect.Entry) string {
			if e.Unreadable {
				return "(may not be read)"
			}
			return orDash(fit(safe(string(e.Data)), 60))
		}})
	case inspect.KindShards:
		columns = append(append(columns, id(">SHARD"), column{">WAITING", func(_ int, e *inspect.Entry) string { return figures.Number(e.Waiting) }}), process...)
	case inspect.KindQueue:
		columns = append(append(columns, id("ELEMENT"),
			column{">BYTES", func(_ int, e *inspect.Entry) string { return figures.Number(e.Bytes) }},
			column{">ATTEMPT", func(_ int, e *inspect.Entry) string { return strconv.Itoa(e.Attempts) }}), process...)
	case inspect.KindBarrier:
		columns = append(append(columns, id("ID")), process...)
	default:
		columns = append(columns, process...)
	}
	t := &table{}
	headings := make([]string, len(columns))
	for i, c := range columns {
		headings[i] = c.heading
	}
	t.add(headings...)
	for i := range r.Entries {
		cells := make([]string, len(columns))
		for j, c := range columns {
			cells[j] = c.of(i, &r.Entries[i])
		}
		t.add(cells...)
	}
	return t
}

// processText names the process of an entry; "-" if the entry is no process's.
func processText(e *inspect.Entry) string {
	if e.Session == 0 && e.Host == "" && e.Identity == "" {
		return "-"
	}
	return who(&e.Contender)
}

// warnUnread says which nodes of recipes could not be read.
func (a *app) warnUnread(paths []string) {
	if len(paths) > 0 {
		a.warnf("may not read %s of recipes, so what they tell does not show: %s", count(len(paths), "node", "nodes"), some(paths))
	}
}
