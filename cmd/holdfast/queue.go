// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

// queueCmd has the verbs for queues.
type queueCmd struct {
	Put  queuePutCmd  `cmd:"" help:"Put elements into a queue."`
	Take queueTakeCmd `cmd:"" help:"Take elements and print them."`
	Ls   queueLsCmd   `cmd:"" help:"List the elements of a queue."`

	Dead    queueDeadCmd    `cmd:"" help:"List the elements that were buried."`
	Requeue queueRequeueCmd `cmd:"" help:"Put buried elements into the queue again."`
	Drop    queueDropCmd    `cmd:"" help:"Delete buried elements."`
}

// Help is shown by holdfast queue --help.
func (*queueCmd) Help() string {
	return `Works with the queues of recipes/queue: each element is handled by one process, at least once.

Examples:
  holdfast queue put mails "$(cat mail.txt)"
  holdfast queue take mails
  holdfast queue ls mails
  holdfast queue requeue --all mails`
}

// openQueue opens a session and a queue. The caller closes the Manager.
func openQueue(a *app, name string) (*manager.Manager, *queue.Queue, error) {
	m, err := a.manager(a.ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	q, err := queue.New(m, name, queue.Options{})
	if err != nil {
		_ = m.Close()
		return nil, nil, err
	}
	return m, q, nil
}

// missingQueue returns the error of a queue that has no directory; nil if there is one.
func (a *app) missingQueue(m *manager.Manager, name string) error {
	path, err := m.Access().Path(name)
	if err != nil {
		return err
	}
	session := m.Access().Session()
	if there, err := session.There(path); there || err != nil {
		return nil //nolint:nilerr // what hinders this look hinders the verb, too, which says so
	}
	r, err := a.reader(session.Client())
	if err != nil {
		return err
	}
	return (&source{Reader: r}).missing(a.ctx, "queue", name)
}

type queueTakeCmd struct {
	Try   bool           `xor:"wait" help:"Do not wait: exit with 4 if there is no element."`
	Wait  *time.Duration `xor:"wait" placeholder:"D" help:"Wait no longer than this for each element, then exit with 4; without it, wait without limit."`
	Count int            `short:"n" default:"1" help:"Take so many elements; 0 goes on until the queue is empty, or the wait is over."`
	Name  string         `arg:"" help:"The queue."`
}

// Help is shown by holdfast queue take --help.
func (*queueTakeCmd) Help() string {
	return `Takes elements and prints them, each with a newline. An element is removed once it is printed. If this process dies before, another one takes it, so an element may be printed twice. With --try it is removed first, so it is printed once at most.

Without --try it also waits at a queue that does not exist yet, and makes it. It says so: the name may be mistyped.

Exit codes: 4 if there was no element; 1 if the element was lost to another process meanwhile.

Examples:
  holdfast queue take mails
  holdfast queue take --try mails || echo "nothing to do"
  holdfast queue take --count 0 --wait 1s --json mails | jq -r .data`
}

// takenFacts are the facts about an element that was taken, as JSON.
type takenFacts struct {
	Queue   string `json:"queue"`
	Element string `json:"element,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Token   uint64 `json:"token,omitempty"`
	payload
}

// A payload is the data of an element as JSON.
type payload struct {
	Data   *string `json:"data,omitempty"`   // if it is text
	Base64 string  `json:"base64,omitempty"` // if it is not
}

func payloadOf(data []byte) payload {
	if utf8.Valid(data) {
		text := string(data)
		return payload{Data: &text}
	}
	return payload{Base64: base64.StdEncoding.EncodeToString(data)}
}

// Run takes elements and prints them.
func (c *queueTakeCmd) Run(a *app) error {
	if c.Count < 0 {
		return usagef("--count must not be negative")
	}
	if err := checkWait(c.Wait); err != nil {
		return err
	}
	m, q, err := openQueue(a, c.Name)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := a.missingQueue(m, c.Name); err != nil && c.Try {
		return &exitError{exitNotGranted, err} // as if it were empty: a drained queue is removed, too
	} else if err != nil {
		a.warnf("%s; waiting for it", oneLine(err)) // a consumer may come before the first element
	}
	for n := 0; c.Count == 0 || n < c.Count; n++ {
		take := c.take
		if c.Try {
			take = c.poll
		}
		if err := take(a, q); err != nil {
			if c.Count == 0 && n > 0 && exitCode(err) == exitNotGranted {
				return nil // all there was
			}
			return err
		}
	}
	return nil
}

// take waits for an element, prints it, and acks it.
func (c *queueTakeCmd) take(a *app, q *queue.Queue) error {
	ctx, cancel := a.ctx, context.CancelFunc(func() {})
	if c.Wait != nil {
		ctx, cancel = context.WithTimeout(ctx, *c.Wait)
	}
	defer cancel()
	e, err := q.Take(ctx)
	if err != nil && ctx.Err() != nil && a.ctx.Err() == nil {
		return exitf(exitNotGranted, "%s: no element within %v", safe(c.Name), *c.Wait)
	} else if err != nil {
		return err
	}
	settling, cancel := context.WithTimeout(context.Background(), a.SessionTimeout)
	defer cancel()
	facts := takenFacts{Queue: c.Name, Element: e.Name(), Attempt: e.Attempt(), Token: e.Token(), payload: payloadOf(e.Data())}
	if err := c.print(a, e.Data(), facts); err != nil {
		return errors.Join(err, e.Return(settling))
	}
	return e.Ack(settling)
}

// poll prints an element that it has removed, if there is one.
func (c *queueTakeCmd) poll(a *app, q *queue.Queue) error {
	data, err := q.Poll(a.ctx)
	switch {
	case errors.Is(err, queue.ErrEmpty):
		return &exitError{exitNotGranted, err}
	case err != nil && !errors.Is(err, manager.ErrUnknownOutcome):
		return err
	}
	return errors.Join(c.print(a, data, takenFacts{Queue: c.Name, payload: payloadOf(data)}), err)
}

func (*queueTakeCmd) print(a *app, data []byte, facts takenFacts) error {
	if a.JSON {
		return a.json(facts)
	}
	_, err := fmt.Fprintf(a.stdout, "%s\n", data)
	return err
}

type queueLsCmd struct {
	Name  string `arg:"" help:"The queue."`
	Limit int    `default:"50" help:"Show this many elements at most; 0 shows all."`
}

// Help is shown by holdfast queue ls --help.
func (*queueLsCmd) Help() string {
	return `Lists the elements of a queue, the oldest first, and which processes have taken them. It creates no node. The queues of ZooKeeper's and Curator's DistributedQueue are shown, too.

Examples:
  holdfast queue ls mails
  holdfast queue ls --json mails | jq .length`
}

// queueFacts are the facts that queue ls prints as JSON.
type queueFacts struct {
	Queue    string         `json:"queue"`
	Path     string         `json:"path"` // of the directory of the elements
	Length   int            `json:"length"`
	Dead     int            `json:"dead,omitempty"`
	Elements []elementFacts `json:"elements"`
}

// elementFacts are the facts about an element, as JSON.
type elementFacts struct {
	Element string    `json:"element"`
	Bytes   int       `json:"bytes"`
	Since   time.Time `json:"since"`
	Attempt int       `json:"attempt"`            // how often it was taken
	TakenBy string    `json:"taken_by,omitempty"` // the process that has it, as far as it is known
	Session string    `json:"session,omitempty"`  // of that process
}

// Run lists the elements.
func (c *queueLsCmd) Run(a *app) error {
	if c.Limit < 0 {
		return usagef("--limit must not be negative")
	}
	s, err := a.source(c.Name)
	if err != nil {
		return err
	}
	defer s.close()
	path, err := manager.LockPath(s.root, c.Name)
	if err != nil {
		return err
	}
	facts, err := readQueue(s.client.Session(), c.Name, path, c.Limit)
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		return s.missing(a.ctx, "queue", c.Name)
	case err != nil:
		return failed("list the queue", c.Name, err)
	}
	if a.JSON {
		return a.json(facts)
	}
	a.printf("%s: %s", safe(c.Name), count(facts.Length, "element", "elements"))
	if facts.Dead > 0 {
		a.printf(", %s buried", figures.Number(facts.Dead))
	}
	a.printf("\n")
	if len(facts.Elements) == 0 {
		return nil
	}
	t := &table{}
	t.add("ELEMENT", ">BYTES", ">SINCE", ">ATTEMPT", "TAKEN BY", "SESSION")
	for _, e := range facts.Elements {
		t.add(safe(e.Element), figures.Number(e.Bytes), ageOf(e.Since, time.Now()), strconv.Itoa(e.Attempt), orDash(e.TakenBy), orDash(e.Session))
	}
	t.write(a.stdout)
	if more := facts.Length - len(facts.Elements); more > 0 {
		a.printf("… and %s more\n", figures.Number(more))
	}
	return nil
}

// readQueue reads the queue at path: up to limit elements, or all if limit is 0. Those of
// DistributedQueue are in the queue's directory itself.
func readQueue(s *zkio.Session, name, path string, limit int) (queueFacts, error) {
	facts := queueFacts{Queue: name, Path: path + "/items", Elements: []elementFacts{}}
	names, _, err := s.Children(facts.Path)
	if errors.Is(err, zkio.ErrNoNode) {
		facts.Path = path
		names, _, err = s.Children(path)
	}
	if err != nil {
		return facts, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "qn-") })
	slices.Sort(names)
	facts.Length = len(names)
	if limit > 0 && limit < len(names) {
		names = names[:limit]
	}
	consumers, err := readConsumers(s, path+"/consumers")
	if err != nil {
		return facts, err
	}
	for some := range slices.Chunk(names, 1000) {
		if err := facts.read(s, some, consumers); err != nil {
			return facts, err
		}
	}
	dead, _, err := s.Children(path + "/dead")
	if err != nil && !errors.Is(err, zkio.ErrNoNode) {
		return facts, err
	}
	facts.Dead = len(dead)
	return facts, nil
}

// read reads what there is about the elements of these names. Their data stay where they are.
func (q *queueFacts) read(s *zkio.Session, names []string, consumers map[int64]string) error {
	elements := make([]*zkio.Read, len(names))
	claims := make([]*zkio.Read, len(names))
	var claimed []*zkio.Read
	for i, name := range names {
		elements[i] = &zkio.Read{Path: q.Path + "/" + name, What: zkio.ReadStat}
		claims[i] = &zkio.Read{Path: q.Path + "/" + name + "/claim", What: zkio.ReadStat}
	}
	s.Read(elements...)
	for i, e := range elements {
		if e.Err == nil && e.Stat.NumChildren > 0 {
			claimed = append(claimed, claims[i])
		}
	}
	s.Read(claimed...)
	for i, r := range elements {
		switch {
		case errors.Is(r.Err, zkio.ErrNoNode):
			q.Length-- // it has gone since the list
			continue
		case r.Err != nil:
			return r.Err
		}
		e := elementFacts{
			Element: names[i], Bytes: int(r.Stat.DataLength), Since: time.UnixMilli(r.Stat.Ctime).UTC(),
			// Cversion counts creations and deletions of claims, and each change of the data says
			// that one of them was no attempt.
			Attempt: max(int(uint32(r.Stat.Cversion+r.Stat.NumChildren)/2)-int(r.Stat.Version), 0),
		}
		if claim := claims[i]; claim.Err == nil && claim.Stat.EphemeralOwner != 0 {
			e.TakenBy, e.Session = consumers[claim.Stat.EphemeralOwner], sessionText(claim.Stat.EphemeralOwner)
		}
		q.Elements = append(q.Elements, e)
	}
	return nil
}

// readConsumers returns what the processes that consume say of themselves, by session.
func readConsumers(s *zkio.Session, dir string) (map[int64]string, error) {
	names, _, err := s.Children(dir)
	if err != nil && !errors.Is(err, zkio.ErrNoNode) {
		return nil, err
	}
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = dir + "/" + name
	}
	by := make(map[int64]string)
	for _, read := range s.GetAll(paths...) {
		if read.Err == nil {
			c := manager.DescribeNode(read.Path, read.Data, read.Stat)
			by[c.Session] = whoElse(&c)
		}
	}
	return by, nil
}
