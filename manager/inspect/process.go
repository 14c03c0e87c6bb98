// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Process is a process that has nodes below the root. A process that has none, because
// it neither holds a lock nor waits for one, does not show.
type Process struct {
	Session  int64  // its ZooKeeper session; 0 if its nodes are not ephemeral
	Client   string // as of a Contender
	Host     string
	PID      int
	Label    string
	Endpoint string
	Identity string // what another client's node says; see manager.Contender

	Holds int // the locks that it holds, or that are about to be its own
	Waits int // the locks that it waits for
	Asks  int // the questions and revocations that it has put to other processes

	Since      time.Time // when the oldest of its nodes was created
	Unreadable bool      // this client may not read its nodes
}

// Processes are the processes that show below a root.
type Processes struct {
	All    []Process // sorted by host, pid and session
	Denied []string  // the directories that this client may not list
}

// Processes finds the processes that hold locks, wait for them, or ask other processes. It
// reads every contender's node.
func (r *Reader) Processes(ctx context.Context) (Processes, error) {
	var found Processes
	g := make(census)
	w := walk{reader: r, pick: first(-1)}
	err := w.all(ctx, "", func(d *directory) {
		if d.denied != nil {
			found.Denied = append(found.Denied, d.path)
		}
		for i := range d.queue {
			c := d.contender(i)
			if p := g.of(&c); c.Holds {
				p.Holds++
			} else {
				p.Waits++
			}
		}
	})
	if err != nil {
		return Processes{}, err
	}
	letters, denied, err := r.letters(ctx)
	if err != nil {
		return Processes{}, err
	}
	for i := range letters {
		g.of(&letters[i]).Asks++
	}
	found.Denied = append(found.Denied, denied...)
	slices.Sort(found.Denied)
	found.All = g.sorted()
	return found, nil
}

// asks is the name of the directory below the root in which processes put questions to
// each other: one directory for each process that was ever asked.
const asks = "_asks_"

// letters returns the questions that processes have put to each other, with the process
// that asks as the contender, and the directories that may not be listed.
func (r *Reader) letters(ctx context.Context) (all []Contender, denied []string, err error) {
	type found struct {
		all    []Contender
		denied []string
	}
	f, err := ask(ctx, r, func(s *zkio.Session) (f found, err error) {
		f.all, f.denied, err = letters(s, join(r.root, asks))
		return f, err
	})
	return f.all, f.denied, err
}

func letters(s *zkio.Session, dir string) (all []Contender, denied []string, err error) {
	boxes, denied, err := children(s, []string{dir})
	if err != nil {
		return nil, nil, err
	}
	paths, refused, err := children(s, boxes)
	if err != nil {
		return nil, nil, err
	}
	unread := make([]*Contender, len(paths))
	for i, path := range paths {
		unread[i] = &Contender{Contender: manager.Contender{Path: path}}
	}
	gone, err := describeAll(s, unread)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range unread {
		if !gone[c.Path] {
			all = append(all, *c)
		}
	}
	return all, append(denied, refused...), nil
}

// children returns the paths of the nodes in the directories, and those directories that
// may not be listed.
func children(s *zkio.Session, dirs []string) (paths, denied []string, err error) {
	for some := range slices.Chunk(dirs, mostLists) {
		reads := make([]*zkio.Read, len(some))
		for i, dir := range some {
			reads[i] = &zkio.Read{Path: dir, What: zkio.ReadChildren}
		}
		s.Read(reads...)
		for _, read := range reads {
			switch {
			case errors.Is(read.Err, zkio.ErrNoNode):
			case errors.Is(read.Err, zkio.ErrNoAuth):
				denied = append(denied, read.Path)
			case read.Err != nil:
				return nil, nil, read.Err
			}
			for _, name := range read.Names {
				paths = append(paths, join(read.Path, name))
			}
		}
	}
	return paths, denied, nil
}

// A census has the processes that were found so far. Nothing proves what a node says, so
// nodes of one session that differ in it count as two processes.
type census map[author]*Process

// An author is what tells processes apart.
type author struct {
	session     int64
	host, label string
	identity    string
	pid         int
}

// of returns the process that c's node belongs to.
func (g census) of(c *Contender) *Process {
	by := author{c.Session, c.Host, c.Label, c.Identity, c.PID}
	p := g[by]
	if p == nil {
		p = &Process{Session: c.Session, Client: c.Client, Host: c.Host, PID: c.PID, Label: c.Label, Endpoint: c.Endpoint,
			Identity: c.Identity, Since: c.Since, Unreadable: c.Unreadable}
		g[by] = p
	}
	if c.Since.Before(p.Since) {
		p.Since = c.Since
	}
	return p
}

// sorted returns the processes, those with nothing to say last.
func (g census) sorted() []Process {
	all := make([]Process, 0, len(g))
	for _, p := range g {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Process) int {
		return cmp.Or(
			cmp.Compare(len(b.Host), 0)-cmp.Compare(len(a.Host), 0),
			strings.Compare(a.Host, b.Host),
			cmp.Compare(a.PID, b.PID),
			strings.Compare(a.Identity, b.Identity),
			cmp.Compare(a.Session, b.Session),
			strings.Compare(a.Label, b.Label))
	})
	return all
}
