// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"errors"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/queueio"
	"github.com/holdfast-go/holdfast/zkio"
)

// A line is the queue in a lock's directory, as ZooKeeper shows it: which contenders are there, in
// which order, and what their nodes say. It knows nothing of the rounds of this process, which are
// in it, too.
type line struct {
	m         *Manager
	path      string     // the directory of the contenders' nodes
	directory directory  // what is known about it
	kind      queue.Kind // as what this process queues
	latch     bool       // the nodes are called as those of Curator's LeaderLatch: see Access.Latch
}

// A directory is what a lock knows about its directory. Steps of the lock's rounds
// write it. Two of them run at the same time only for a moment at a hand-over, and
// a stale value costs a request.
type directory struct{ atomic.Uint32 }

const (
	dirUnknown uint32 = iota // not looked at yet, or perhaps not there
	dirEmpty                 // it has no data: one request can create a node and tell whether it is first
	dirShared                // as dirEmpty, and it had other children when this process last queued
	dirPlain                 // it has another client's data, or may not be written: create, then list
)

// countable reports whether one request can create a node and count the children.
func (d *directory) countable() bool {
	known := d.Load()
	return known == dirEmpty || known == dirShared
}

// list lists the queue, in the order of turns. A directory that is not there has no contenders.
func (l *line) list(s *zkio.Session) (queue.Queue, error) {
	return queueio.List(s, l.path, l.latch)
}

// queueOf returns the queue that a list has shown, in no order.
func (l *line) queueOf(names []string, dir zkio.Stat) queue.Queue {
	return queueio.Of(names, dir, l.latch)
}

// pathOf returns the path of the contender called name.
func (l *line) pathOf(name string) string { return l.path + "/" + name }

// contender returns what the name of a node in the directory tells.
func (l *line) contender(c queue.Contender) Contender {
	return Contender{Path: l.pathOf(c.Name), Kind: Kind(c.Kind), Sequence: c.Seq, Own: l.m.owns(c.Name)}
}

// isContender reports whether a child of the directory is a contender.
func (l *line) isContender(name string) bool {
	c, ok := queue.ParseName(name)
	return ok && c.Latch == l.latch
}

// read fills c in from its node. The error is ErrNoNode if the node is gone.
func (l *line) read(s *zkio.Session, c *Contender) error {
	data, stat, _, err := s.Look(c.Path)
	if err == nil {
		l.m.peers.describe(c, data, stat)
	}
	return err
}

// holder asks who holds the lock; nil: no contender. The error is never ErrNoNode.
func (l *line) holder(s *zkio.Session) (*Contender, error) {
	for {
		q, err := l.list(s)
		if err != nil || len(q.Contenders) == 0 {
			return nil, err
		}
		var c Contender
		at, err := queueio.First(q.Contenders, func(entry queue.Contender) error {
			c = l.contender(entry)
			c.Holds = true
			return l.read(s, &c)
		})
		q.Free()
		if err != nil {
			return nil, err
		} else if at >= 0 {
			return &c, nil
		}
	}
}

// all asks for the contenders, and reads the nodes of the first details, or of all if details is
// negative. It lists again if one has gone in whose place another may stand: see [queueio.First].
func (l *line) all(s *zkio.Session, details int) ([]Contender, error) {
	for {
		q, err := l.list(s)
		if err != nil || len(q.Contenders) == 0 {
			return nil, err
		}
		all, current, err := l.describe(s, &q, details)
		q.Free()
		if current || err != nil {
			return all, err
		}
	}
}

// describe returns the contenders of q that are still there, and reports whether no other can be
// ahead of them.
func (l *line) describe(s *zkio.Session, q *queue.Queue, details int) (all []Contender, current bool, err error) {
	if details < 0 || details > len(q.Contenders) {
		details = len(q.Contenders)
	}
	paths := make([]string, details)
	for i := range paths {
		paths[i] = l.pathOf(q.Contenders[i].Name)
	}
	reads := s.GetAll(paths...)
	kept := q.Contenders[:0]
	all = make([]Contender, 0, len(q.Contenders))
	for i, entry := range q.Contenders {
		c := l.contender(entry)
		if i < len(reads) {
			switch err := reads[i].Err; {
			case err == nil:
				l.m.peers.describe(&c, reads[i].Data, reads[i].Stat)
			case errors.Is(err, zkio.ErrNoNode) && entry.MayBeReplaced():
				return nil, false, nil
			case errors.Is(err, zkio.ErrNoNode):
				continue
			case !errors.Is(err, zkio.ErrNoAuth): // else it is there, and may not be read
				return nil, false, err
			}
		}
		kept, all = append(kept, entry), append(all, c)
	}
	q.Contenders = kept
	q.Sort()
	for i, c := range q.Contenders {
		all[i].Holds = c.Turn
	}
	return all, true, nil
}

// counted notes how many children the directory had when this process queued.
func (l *line) counted(children int) {
	if children > 1 {
		l.directory.Store(dirShared)
	} else {
		l.directory.Store(dirEmpty)
	}
}

// longTail is how many contenders a known tail must have for listAlong to do without
// a list. The list of a shorter queue costs a server less than the write before it.
const longTail = 100

// An along is the list that goes along with the request that creates a node. It is
// nil if there is none: see listAlong.
type along struct {
	read zkio.Read
	conn connection
}

// listAlong returns a list of the queue, to be sent right behind the request that creates a node:
// it costs no time then, and it shows that node. It is nil if it is likely to be of no use: other
// contenders are not expected, or tail tells of them and a list would be long.
func (l *line) listAlong(s *zkio.Session, tail *queue.Tail) *along {
	if l.directory.Load() != dirShared || tail != nil && tail.Len() >= cmp.Or(l.m.cfg.longTail, longTail) {
		return nil
	}
	return &along{zkio.Read{Path: l.path, What: zkio.ReadChildren}, connectionOf(s)}
}

// reads returns what is to be sent.
func (a *along) reads() []*zkio.Read {
	if a == nil {
		return nil
	}
	return []*zkio.Read{&a.read}
}

// listed returns what the list has shown, at the time now; nil if nothing.
func (a *along) listed(now int64) *listed {
	if a == nil || a.read.Err != nil {
		return nil
	}
	//holdfast:reached fetch: a list came with the node
	return &listed{a.read.Names, a.read.Stat, a.conn, now}
}

// connectionOf returns the connection that s has, or had last.
func connectionOf(s *zkio.Session) connection { return connection(s.Connection()) }

// listed is what a list of the queue has shown.
type listed struct {
	names []string
	stat  zkio.Stat
	conn  connection // before the list was asked for
	at    int64      // when it was answered, on the manager's clock
}
