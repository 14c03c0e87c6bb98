// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/manager/inspect"
)

type breakCmd struct {
	Name string `arg:"" help:"The lock."`
	Node string `placeholder:"NODE" help:"The name of the node to delete: one of several holders', or a waiter's. By default it is the holder's."`
	All  bool   `help:"Delete the nodes of all holders, if several processes read."`
	Yes  bool   `short:"y" help:"Do not ask."`
}

// Help is shown by holdfast break --help.
func (*breakCmd) Help() string {
	return `Deletes the node of the process that holds a lock, after it has shown whose that is. The next process gets the lock at once. The one that held it is told at once if it is connected, but may be in the middle of its work: only the fencing token keeps the two apart. So try these first: holdfast revoke, and stopping the process.

It is meant for a node that no process will delete: a persistent one that was made by hand, or one of a session that a hanging process keeps alive. It needs the right to delete in the lock's directory.

Examples:
  holdfast break jobs/nightly
  holdfast break --yes jobs/nightly
  holdfast break --node lock-0000000041 jobs/nightly`
}

// breakFacts are the facts that break prints as JSON.
type breakFacts struct {
	Lock    string            `json:"lock"`
	Deleted []*contenderFacts `json:"deleted"`
	Holder  *contenderFacts   `json:"holder,omitempty"` // after that
	Waiting int               `json:"waiting"`
}

// Run breaks the lock.
func (c *breakCmd) Run(a *app) error {
	if c.Node != "" && c.All {
		return usagef("--node and --all exclude each other")
	}
	if !c.Yes && !isTerminal(a.stdin) {
		return usagef("break asks before it deletes, and standard input is no terminal: give --yes")
	}
	s, err := a.source(c.Name)
	if err != nil {
		return err
	}
	defer s.close()
	q, err := s.Queue(a.ctx, c.Name, -1)
	if err != nil {
		return failed("break", c.Name, err)
	}
	if q.Missing {
		return s.missing(a.ctx, "lock", c.Name)
	}
	doomed, err := c.chosen(&q)
	if err != nil {
		return err
	}
	if len(doomed) == 0 && !a.JSON {
		a.printf("%s is free: there is nothing to break\n", safe(q.Name))
		return nil
	}
	if len(doomed) > 0 {
		describeDoomed(a.stderr, &q, doomed, time.Now())
		if !c.Yes {
			if ok, err := confirm(a.stdin, a.stderr, "Delete "+count(len(doomed), "node", "nodes")+"?"); err != nil || !ok {
				return errors.Join(err, errors.New("not confirmed: nothing was deleted"))
			}
		}
	}
	return c.delete(a, s, doomed)
}

// chosen returns the contenders whose nodes are to be deleted.
func (c *breakCmd) chosen(q *inspect.Queue) (doomed []*inspect.Contender, err error) {
	for i := range q.Contenders {
		at := &q.Contenders[i]
		if c.Node == "" && at.Holds || c.Node != "" && strings.HasSuffix(at.Path, "/"+c.Node) {
			doomed = append(doomed, at)
		}
	}
	switch {
	case c.Node != "" && len(doomed) == 0:
		return nil, fmt.Errorf("cannot break %s: no contender has the node %s: see holdfast who --json", safe(q.Name), safe(c.Node))
	case len(doomed) > 1 && !c.All:
		var nodes []string
		for _, at := range doomed[:min(len(doomed), 5)] {
			nodes = append(nodes, fmt.Sprintf("--node %s (%s)", at.Path[strings.LastIndexByte(at.Path, '/')+1:], whoLong(at)))
		}
		return nil, usagef("%s hold %s: give --all, or one of %s", count(len(doomed), "process", "processes"), safe(q.Name), strings.Join(nodes, ", "))
	}
	return doomed, nil
}

// describeDoomed says whose nodes are about to be deleted, and what that does.
func describeDoomed(w io.Writer, q *inspect.Queue, doomed []*inspect.Contender, now time.Time) {
	for _, c := range doomed {
		fmt.Fprintf(w, "%s %s %s (%s), in the queue for %s\n", whoLong(c), stateText(c), safe(q.Name), c.Kind, ageOf(c.Since, now))
		fmt.Fprintf(w, "  node %s\n", safe(c.Path))
		switch {
		case c.Persistent:
			fmt.Fprintln(w, "  not ephemeral: it belongs to no session, and no process will delete it")
		case c.Holds:
			fmt.Fprintf(w, "  session %s: alive, or not timed out yet. The process is told of its loss at once if it is connected, and may go on working for a moment: use fencing tokens\n", sessionText(c.Session))
		default:
			fmt.Fprintf(w, "  session %s: alive, or not timed out yet\n", sessionText(c.Session))
		}
	}
	if q.Next != nil {
		fmt.Fprintf(w, "%s; the first of them is %s\n", waitsText(q.Waiting), whoLong(q.Next))
	}
}

// confirm asks a question, and reports whether the answer is yes.
func confirm(in io.Reader, out io.Writer, question string) (bool, error) {
	fmt.Fprintf(out, "%s [y/N] ", question)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// delete deletes the nodes, and says which process has the lock now.
func (c *breakCmd) delete(a *app, s *source, doomed []*inspect.Contender) error {
	facts := breakFacts{Lock: c.Name, Deleted: []*contenderFacts{}}
	for _, at := range doomed {
		deleted, err := s.Delete(a.ctx, at)
		switch {
		case err != nil:
			return failed("break", c.Name, err)
		case deleted:
			facts.Deleted = append(facts.Deleted, factsOf(at, 0))
			if !a.JSON {
				a.printf("deleted the node of %s\n", whoLong(at))
			}
		case !a.JSON:
			a.printf("%s has left meanwhile: nothing to delete\n", whoLong(at))
		}
	}
	q, err := s.Queue(a.ctx, c.Name, 1)
	if err != nil {
		return failed("show the queue of", c.Name, err)
	}
	if a.JSON {
		facts.Lock, facts.Holder, facts.Waiting = q.Name, factsOf(q.Holder, 0), q.Waiting
		return a.json(facts)
	}
	if q.Holder == nil {
		a.printf("%s is free\n", safe(q.Name))
		return nil
	}
	a.printf("%s is held by %s; %s\n", safe(q.Name), holdersText(&q.Lock), waitsText(q.Waiting))
	return nil
}
