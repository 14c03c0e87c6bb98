// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

// Holder returns the contender that holds the lock, or nil if the lock is free. The
// two locks of a read/write pair have one answer: the writer, or the first of the
// readers in the queue. Holder finds the contenders of other ZooKeeper clients, too.
//
// If this process holds the lock, or the other lock of the pair, Holder returns this
// process at once and sends no request. Otherwise it sends two reads, however long
// the queue is, or one if the lock is free.
//
// The answer describes the server that was asked, and can be out of date in two ways.
// The contender's turn may have come just now, so that its process does not know yet.
// And a server lags behind ZooKeeper's leader: usually by milliseconds, but by up to
// syncLimit if the network separates the two. Call [Manager.Sync] first for an answer
// that is no older than that call. Even so, the lock may change hands at any moment: a
// process that receives a message for the lock's holder must check [Hold.Err] before
// it acts on it.
//
// Holder blocks until ZooKeeper has answered or ctx ends. Without a connection it
// waits for one. On failure it returns an [*Error], which wraps ctx.Err() and
// context.Cause(ctx), [ErrClosed], or the server's refusal. To ask often, use
// [Lock.CachedHolder]; to follow the changes, [Lock.WatchHolder].
func (l *Lock) Holder(ctx context.Context) (*Contender, error) {
	const op = "holder"
	if c := l.ownHold(); c != nil && ctx.Err() == nil {
		return c, nil
	}
	var found *Contender
	err := l.m.call(ctx, op, l.Name(), func(s *zkio.Session) (err error) {
		found, err = l.findHolder(s)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.toldHolder(found)
	return found, nil
}

// findHolder asks for the holder. The error is never ErrNoNode.
//
// A node that has gone between the list and the look at it says nothing about the
// next in the list, but that no contender can have come in ahead of it. So the first
// that is still there holds the lock, with one exception: when a write goes, the read
// that came out of it by a downgrade may be missing in the list.
func (l *Lock) findHolder(s *zkio.Session) (*Contender, error) {
	for {
		q, err := l.list(s)
		if err != nil || len(q.Contenders) == 0 {
			return nil, err
		}
		c, err := l.firstOf(s, q)
		q.Free()
		if c != nil || err != nil {
			return c, err
		}
	}
}

// list lists the lock's queue, in the order of turns. A directory that is not there
// has no contenders.
func (l *Lock) list(s *zkio.Session) (queue.Queue, error) {
	names, stat, err := s.Children(l.path)
	if errors.Is(err, zkio.ErrNoNode) {
		return queue.Queue{}, nil
	} else if err != nil {
		return queue.Queue{}, err
	}
	q := queue.List(names, l.latch, queue.NextNumber(stat.Cversion, stat.NumChildren))
	if q.Exhausted {
		if err := l.number(s, &q); err != nil {
			return queue.Queue{}, err
		}
	}
	q.Sort()
	return q, nil
}

// number finds the transactions that created the contenders whose numbers say
// nothing. Those that have gone since the list was made leave the queue: no
// process waits for them, and without a transaction they would be the first.
func (l *Lock) number(s *zkio.Session, q *queue.Queue) error {
	var paths []string
	var at []int
	for i, c := range q.Contenders {
		if queue.Exhausted(c.Seq) {
			paths, at = append(paths, l.path+"/"+c.Name), append(at, i)
		}
	}
	gone := make(map[string]bool)
	for i, read := range s.GetAll(paths...) {
		c := &q.Contenders[at[i]]
		if errors.Is(read.Err, zkio.ErrNoNode) {
			gone[c.Name] = true
		} else if read.Err != nil {
			return read.Err
		}
		c.Czxid = read.Stat.Czxid
	}
	q.Contenders = slices.DeleteFunc(q.Contenders, func(c queue.Contender) bool { return gone[c.Name] })
	return nil
}

// firstOf returns the first contender of q that is still there; nil if the queue has
// to be listed again.
func (l *Lock) firstOf(s *zkio.Session, q queue.Queue) (*Contender, error) {
	for _, entry := range q.Contenders {
		c := l.contender(entry)
		data, stat, _, err := s.Look(c.Path)
		switch {
		case err == nil:
			l.m.peers.describe(&c, data, stat)
			c.Holds = true
			return &c, nil
		case !errors.Is(err, zkio.ErrNoNode):
			return nil, err
		case entry.MayBeReplaced():
			return nil, nil
		}
	}
	return nil, nil
}

// nameHolder fills in the holder in the error of a TryLock that stood at position p.
// Usually the holder is known. It takes a read if the waiter does not watch its node
// and this process has never read a node of that process.
func (l *Lock) nameHolder(ctx context.Context, e *Error, p *position) {
	e.Holder = p.holder()
	if e.Holder == nil || p.first.unread {
		var found *Contender
		err := l.m.call(ctx, e.Op, e.Name, func(s *zkio.Session) (err error) {
			if p.first != nil {
				found, err = l.readNode(s, p.holder())
			}
			if found == nil && err == nil {
				found, err = l.findHolder(s)
			}
			return err
		})
		if err == nil && found != nil && !found.Own { // our own node goes
			e.Holder = found
		}
	}
	if e.Holder != nil {
		l.told(e.Holder.Path)
	}
}

// readNode fills c in from its node, and returns c; nil if the node is gone.
func (l *Lock) readNode(s *zkio.Session, c *Contender) (*Contender, error) {
	data, stat, _, err := s.Look(c.Path)
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err
	}
	l.m.peers.describe(c, data, stat)
	return c, nil
}

// Queue returns the lock's contenders in the order of their turns: those that hold the
// lock, with Holds set, and behind them those that wait. It includes the contenders of
// both locks of a read/write pair, and those of other ZooKeeper clients. The result is
// empty if the lock is free.
//
// Queue reads the nodes of the first details contenders, or of all of them if details
// is negative, and fills in every field of these. Of the others it knows only Path,
// Kind, Sequence, Own and Holds.
//
// Queue sends one request for the list. Unless details is 0, it then sends one read for
// every few thousand contenders, or one for each if the server is older than ZooKeeper
// 3.6. A contender that leaves between the list and its read is left out. See
// [Lock.Holder] for how far the answer can be out of date.
//
// Queue blocks until ZooKeeper has answered or ctx ends. Without a connection it waits
// for one. It fails as Holder does.
func (l *Lock) Queue(ctx context.Context, details int) ([]Contender, error) {
	var found []Contender
	err := l.m.call(ctx, "queue", l.Name(), func(s *zkio.Session) (err error) {
		found, err = l.findQueue(s, details)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// findQueue asks for the queue. It lists again if a write has gone meanwhile: see
// findHolder.
func (l *Lock) findQueue(s *zkio.Session, details int) ([]Contender, error) {
	for {
		q, err := l.list(s)
		if err != nil || len(q.Contenders) == 0 {
			return nil, err
		}
		all, current, err := l.describeAll(s, &q, details)
		q.Free()
		if current || err != nil {
			return all, err
		}
	}
}

// describeAll returns the contenders of q that are still there, and reports whether no
// other can be ahead of them.
func (l *Lock) describeAll(s *zkio.Session, q *queue.Queue, details int) (all []Contender, current bool, err error) {
	if details < 0 || details > len(q.Contenders) {
		details = len(q.Contenders)
	}
	paths := make([]string, details)
	for i := range paths {
		paths[i] = l.path + "/" + q.Contenders[i].Name
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

// Sync brings the server that this process is connected to up to date: calls of
// [Lock.Holder] and [Lock.Queue] that begin after Sync has returned nil see everything
// that ZooKeeper's leader had committed when Sync was called.
//
// Use it sparingly. The server must ask the leader, and answers a session's requests in
// order: if it has lost the leader, all later requests of this process wait behind the
// Sync, even if ctx has ended.
//
// Sync blocks until the server has answered or ctx ends. Without a connection it waits
// for one.
func (m *Manager) Sync(ctx context.Context) error {
	return m.call(ctx, "sync", "", func(s *zkio.Session) error { return s.Sync(m.cfg.Root) })
}
