// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"

	"github.com/holdfast-go/holdfast/zkio"
)

// Holder returns the contender that holds the lock, or nil if the lock is free. The
// two locks of a read/write pair have one answer: the writer, or the first of the
// readers in the queue. Holder finds the contenders of other ZooKeeper clients, too.
//
// If this process holds the lock, or the other lock of the pair, Holder returns this
// process at once and sends no request, unless the last answer has named a holder whose token
// is higher, or none: this process may be about to learn that it has lost the lock. Otherwise
// Holder sends two reads, however long the queue is, or one if the lock is free.
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
	if c := l.own().asHolder(); c != nil && ctx.Err() == nil && !l.observer.overtakes(c.Path, c.Token) {
		return c, nil
	}
	found := new(sighting)
	err := l.m.call(ctx, op, l.Name(), func(s *zkio.Session) (err error) {
		found.from = s.Zxid()
		found.holder, err = l.holder(s)
		found.upto = s.Zxid()
		return err
	})
	if err != nil {
		return nil, err
	}
	l.own().told(found)
	return found.holder, nil
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
		found, err = l.all(s, details)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
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
