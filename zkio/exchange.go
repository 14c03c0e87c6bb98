// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A call is a request, and the answer to it. Every request but the handshake's is one:
// those of callers, which exchange sends and waits for, and those that nothing waits for,
// which are go-zookeeper's pings, the watches set again, and the end of the session.
type call struct {
	what, path string // for errors

	op    int32
	body  []byte // the encoded request
	watch string // the path whose watch it asks for, if any

	// For a bundle: see bundler.
	bundled    bool    // the call may be sent together with other workers' calls
	dir        string  // where it makes a node; "" if it makes none
	operations int     // how many operations it has
	parts      []*call // of a call that a bundle makes: those that it stands for

	xid  int32 // a mark of the protocol's or of ours; 0: the wire gives it a number
	trip *trip // nil if nothing waits for the answer

	failed error         // of exchange: why there is no answer to rely on
	sent   time.Duration // on the client's clock, taken before the packet was written

	// Written by the goroutine that reads, before trip.done is closed.
	code   int32 // of the answer
	stray  bool  // it has set a watch that nothing wants any more
	tests  bool  // it asks for the watch of noSuchNode; written before it is sent
	unset  bool  // its bundle's setWatches found no node, and so has set no watch
	answer answer
}

// A trip waits for the answers to the calls of one packet.
type trip struct {
	left int           // calls that are not answered; used by the goroutine that reads
	done chan struct{} // closed when there are none
}

// arrived notes that c's answer is there, with this code. It is called by the goroutine
// that reads.
func (c *call) arrived(code int32) {
	c.code = code
	if t := c.trip; t != nil {
		if t.left--; t.left == 0 {
			close(t.done)
		}
	}
}

// changes reports whether a request of this kind changes something, so that its success
// proves that the leader acted for the session.
func changes(op int32) bool {
	switch op {
	case jute.OpCreate, jute.OpCreateContainer, jute.OpDelete, jute.OpSetData, jute.OpMulti:
		return true
	}
	return false
}

// deletes reports whether c is a change that makes no node: what releases send. It is served
// apart from what fetches send, so that a release is not late because fetches are many and slow.
func deletes(c *call) bool { return changes(c.op) && c.dir == "" }

// maxRequest is the largest request sent: a server's default limit, less some.
const maxRequest = 1<<20 - 8192

// exchange sends calls, which the server carries out in this order, and waits for the
// answers: see result. If a path is malformed, nothing is sent. If there is no connection it
// waits for one first.
func (s *Session) exchange(calls ...*call) {
	if s.client.pool.backlog(deletes(calls[0])) && s.bundler.exchange(calls) {
		return
	}
	s.exchangeAlone(calls)
}

// exchangeAlone is exchange in one packet that has no other calls.
func (s *Session) exchangeAlone(calls []*call) {
	w, err := s.send(calls)
	if err != nil {
		for _, c := range calls {
			c.failed = err
		}
		return
	}
	s.takeBack(w, calls)
}

// send sends calls in one packet and waits for the answers, as exchange does. It returns the
// connection on which it did, or the error that all the calls have failed with. Its class is
// Unknown if they may have been sent.
func (s *Session) send(calls []*call) (*wire, error) {
	t := &trip{left: len(calls), done: make(chan struct{})}
	for _, c := range calls {
		if err := checkPath(c.path); err != nil {
			return nil, &opError{op: c.what, path: c.path, kind: ErrBadArguments, why: err}
		}
		if n := len(c.body); n > maxRequest { // a server would close the connection over it
			return nil, badArguments(c.what, c.path, "a request of %d bytes is more than the %d that a server takes", n, maxRequest)
		}
		c.trip = t
	}
	what, path := calls[0].what, calls[0].path
	for {
		w := s.connection()
		switch err := s.Err(); {
		case w != nil:
		case err != nil:
			return nil, overError(what, path, err)
		default:
			return nil, &opError{op: what, path: path, kind: ErrNotSent, why: errors.New(s.client.hosts.why())}
		}
		switch err := w.post(calls...); {
		case errors.Is(err, errWireClosed):
			continue // nothing was sent
		case err != nil:
			// A part of the packet may have left.
			return nil, &opError{op: what, path: path, kind: ErrUnknown, why: w.unanswered()}
		}
		select {
		case <-t.done:
		case <-w.closed:
			// The reader may have answered at the same time.
			if !isClosed(t.done) {
				return nil, &opError{op: what, path: path, kind: ErrUnknown, why: w.unanswered()}
			}
		}
		return w, nil
	}
}

// takeBack has the server forget the watches that calls answered on w have set, and that
// nothing wants: their watchers went while the calls were under way, and had it forget only
// what it was known to have. If w is closed, its watches are gone.
func (s *Session) takeBack(w *wire, calls []*call) {
	for _, c := range calls {
		switch {
		case !c.stray || isClosed(w.closed):
		case c.op == jute.OpGetChildren2:
			s.forget(c.watch, c.op, watcherOfChildren, NodeChildrenChanged)
		default:
			s.forget(c.watch, c.op, watcherOfData, NodeDataChanged)
		}
	}
}

// unanswered returns why there is no answer to what was sent on w, which is closed: it
// wraps go-zookeeper's error, and says why if we closed it.
func (w *wire) unanswered() error {
	if f, ok := errors.AsType[*fault](w.err); ok {
		return fmt.Errorf("%w: %w", zk.ErrConnectionClosed, f)
	}
	return zk.ErrConnectionClosed
}

// err returns what went wrong with c by exchange or by its answer. After a failed exchange
// it does not look at the answer, which may still come: the goroutine that reads has more
// of the connection in its buffer than it has looked at, and goes on when the connection
// is closed.
func (c *call) err() error {
	if c.failed != nil || c.code == jute.ErrOK {
		return c.failed
	}
	return refusal(c.what, c.path, c.code)
}

// result returns what the server says, once exchange has returned, or the error for the
// caller.
func (s *Session) result(c *call) (*answer, error) {
	if err := s.final(c, c.err()); err != nil {
		return nil, err
	}
	return &c.answer, nil
}

// final makes the error for the caller from that of the call, or from the session's end:
// once that has come, no result can be relied on. Of a change the error then wraps
// ErrUnknown as well, unless that of the call says that nothing was changed.
func (s *Session) final(c *call, err error) error {
	over := s.Err()
	switch sent := c.failed == nil || ClassOf(c.failed) == Unknown; {
	case over == nil || !sent:
		return err
	case !changes(c.op) || err != nil && !mayHaveHappened(err):
		return overError(c.what, c.path, over)
	}
	return overError(c.what, c.path, &joined{unprefixed(over) + "; the request may have been carried out before", []error{over, ErrUnknown}})
}

// ask makes one call and returns its result.
func (s *Session) ask(c *call) (*answer, error) {
	s.exchange(c)
	return s.result(c)
}
