// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/recipes/queue"
)

type queueDeadCmd struct {
	Name  string `arg:"" help:"The queue."`
	Limit int    `default:"50" help:"Show this many elements at most; 0 shows all."`
}

// Help is shown by holdfast queue dead --help.
func (*queueDeadCmd) Help() string {
	return `Lists the elements that were buried, those first that were buried first, and their data. See holdfast queue requeue and holdfast queue drop.

Examples:
  holdfast queue dead mails
  holdfast queue dead --json --limit 0 mails | jq -r '.elements[].data'`
}

// deadFacts are the facts that queue dead prints as JSON.
type deadFacts struct {
	Queue    string        `json:"queue"`
	Elements []buriedFacts `json:"elements"`
}

// buriedFacts are the facts about a buried element, as JSON.
type buriedFacts struct {
	Element string    `json:"element"`
	Bytes   int       `json:"bytes"`
	Since   time.Time `json:"since"`
	payload
	data []byte
}

// Run lists the buried elements.
func (c *queueDeadCmd) Run(a *app) error {
	if c.Limit < 0 {
		return usagef("--limit must not be negative")
	}
	m, q, err := openQueue(a, c.Name)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := a.missingQueue(m, c.Name); err != nil {
		return err
	}
	facts, more := deadFacts{Queue: c.Name, Elements: []buriedFacts{}}, false
	for b, err := range q.Dead(a.ctx) {
		if err != nil {
			return err
		}
		if more = c.Limit > 0 && len(facts.Elements) == c.Limit; more {
			break
		}
		facts.Elements = append(facts.Elements, buriedFacts{
			Element: b.Name, Bytes: len(b.Data), Since: b.Since.UTC(), payload: payloadOf(b.Data), data: b.Data,
		})
	}
	if a.JSON {
		return a.json(facts)
	}
	a.printf("%s: ", safe(c.Name))
	if more {
		a.printf("the first ")
	}
	a.printf("%s buried\n", count(len(facts.Elements), "element", "elements"))
	if len(facts.Elements) == 0 {
		return nil
	}
	t := &table{}
	t.add("ELEMENT", ">BYTES", ">SINCE", "DATA")
	for _, e := range facts.Elements {
		t.add(safe(e.Element), figures.Number(e.Bytes), ageOf(e.Since, time.Now()), orDash(fit(safe(string(e.data)), 60)))
	}
	t.write(a.stdout)
	return nil
}

// A choice is of buried elements.
type choice struct {
	All      bool     `help:"All elements that are buried now."`
	Name     string   `arg:"" help:"The queue."`
	Elements []string `arg:"" optional:"" name:"element" help:"The elements, as holdfast queue dead names them."`
}

type queueRequeueCmd struct{ choice }

// Help is shown by holdfast queue requeue --help.
func (*queueRequeueCmd) Help() string {
	return `Puts buried elements at the end of the queue again, with no attempts behind them.

Examples:
  holdfast queue requeue mails qn-0000000017
  holdfast queue requeue --all mails`
}

// Run requeues the elements.
func (c *queueRequeueCmd) Run(a *app) error {
	return c.each(a, "requeued", func(q *queue.Queue, name string) error { return q.Requeue(a.ctx, name) })
}

type queueDropCmd struct{ choice }

// Help is shown by holdfast queue drop --help.
func (*queueDropCmd) Help() string {
	return `Deletes buried elements for ever.

Examples:
  holdfast queue drop mails qn-0000000017
  holdfast queue drop --all mails`
}

// Run deletes the elements.
func (c *queueDropCmd) Run(a *app) error {
	return c.each(a, "dropped", func(q *queue.Queue, name string) error { return q.Drop(a.ctx, name) })
}

// each calls fn with each element of the choice, until it fails, and says how many it has dealt
// with.
func (c *choice) each(a *app, done string, fn func(q *queue.Queue, name string) error) error {
	if c.All == (len(c.Elements) > 0) {
		return usagef("name the elements, or give --all")
	}
	m, q, err := openQueue(a, c.Name)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := a.missingQueue(m, c.Name); err != nil {
		return err
	}
	names := c.Elements
	if c.All {
		for b, err := range q.Dead(a.ctx) {
			if err != nil {
				return err
			}
			names = append(names, b.Name)
		}
	}
	n := 0
	for _, name := range names {
		err = fn(q, name)
		if c.All && errors.Is(err, queue.ErrNotDead) {
			err = nil // another process was faster
			continue
		}
		if err != nil {
			break
		}
		n++
	}
	switch {
	case !a.JSON:
		a.printf("%s: %s %s\n", safe(c.Name), count(n, "element", "elements"), done)
	case err == nil:
		return a.json(map[string]any{"queue": c.Name, done: n})
	}
	return err
}
