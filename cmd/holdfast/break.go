// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
)

type breakCmd struct {
	Name string `arg:"" help:"The lock."`
	Node string `placeholder:"NODE" help:"The name of the node to delete: one of several holders', or a waiter's. By default it is the holder's."`
	All  bool   `help:"Delete the nodes of all holders, if several processes read."`
	Yes  bool   `short:"y" help:"Do not ask."`

	Grace time.Duration `default:"1s" placeholder:"D" help:"How long the holders have to give the lock up themselves, once they are told who breaks it. With 0s they are not told."`
}

// Help is shown by holdfast break --help.
func (*breakCmd) Help() string {
	return `Deletes the node of the process that holds a lock, after it has shown whose that is. The next process gets the lock at once. The one that held it is told at once if it is connected, but may be in the middle of its work: only the fencing token keeps the two apart. So try these first: holdfast revoke, and stopping the process.

The holders are told before, by a revocation, so that their logs say who has broken the lock. Nothing waits for those that do not answer for longer than --grace. If several processes hold the lock and --node names one of them, it is not told.

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
	switch {
	case c.Node != "" && c.All:
		return usagef("--node and --all exclude each other")
	case c.Grace < 0:
		return usagef("--grace is %v: it must not be negative", c.Grace)
	}
	s, err := a.source(c.Name)
	if err != nil {
		return err
	}
	defer s.close()
	if err := a.notRecipe(s.client, c.Name); err != nil {
		return err
	}
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
		if !c.Yes && !isTerminal(a.stdin) {
			return usagef("break asks before it deletes, and standard input is no terminal: give --yes")
		}
		describeDoomed(a.stderr, &q, doomed, time.Now())
		if !c.Yes {
			if ok, err := confirm(a.stdin, a.stderr, "Delete "+count(len(doomed), "node", "nodes")+"?"); err != nil || !ok {
				return errors.Join(err, errors.New("not confirmed: nothing was deleted"))
			}
		}
		c.tell(a, &q, doomed)
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
		fmt.Fprintf(w, "  node %s", safe(c.Path))
		if c.Holds && c.Token != 0 {
			fmt.Fprintf(w, ", token %d", c.Token)
		}
		fmt.Fprintln(w)
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

// tell revokes the lock, so that what its holders and their logs say of the loss has the cause.
// It waits until they have given the lock up, which spares them the loss, for --grace at most.
func (c *breakCmd) tell(a *app, q *inspect.Queue, doomed []*inspect.Contender) {
	holders := 0
	for i := range q.Contenders {
		if q.Contenders[i].Holds {
			holders++
		}
	}
	// A revocation is for all holders. If only one of them is to go, the others must not hear it.
	if c.Grace == 0 || !doomed[0].Holds || len(doomed) < holders {
		return
	}
	err := c.revoke(a)
	if told := errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, manager.ErrNoAnswer); err != nil && !told && a.ctx.Err() == nil {
		a.warnf("broken without notice: %s", oneLine(err))
	}
}

// revoke asks the holders to give the lock up.
func (c *breakCmd) revoke(a *app) error {
	m, err := a.manager(a.ctx, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	lock, err := m.Exclusive(c.Name) // as for holdfast revoke
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.ctx, c.Grace)
	defer cancel()
	reason := "holdfast break"
	if u, err := user.Current(); err == nil {
		reason += " by " + u.Username
	}
	if host, err := os.Hostname(); err == nil {
		reason += " on " + host
	}
	return lock.Revoke(ctx, reason)
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
