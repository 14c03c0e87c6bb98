// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A call is a request that the wire sends itself, and the answer to it.
// go-zookeeper takes one request at a time from each goroutine and passes it
// through three others. The requests between a release and the next grant are
// sent from here instead: by the caller, several in one packet if it has several,
// which the server carries out in this order. Leases, watches and the check that
// every request is answered in order are the same for both.
type call struct {
	op    int32
	body  []byte // the encoded request
	watch string // the path whose watch it asks for, if any

	failed error // why there is no answer to rely on; see result

	trip *trip

	// Written by the goroutine that reads, before trip.done is closed.
	code  int32  // of the answer
	reply []byte // the answer's body, which [checkReply] has seen if code is ErrOK
}

// A trip waits for the answers to the calls of one packet.
type trip struct {
	left int           // calls that are not answered; used by the goroutine that reads
	done chan struct{} // closed when there are none
}

// answer is called by the goroutine that reads. body is not kept.
func (c *call) answer(code int32, body []byte) {
	c.code = code
	c.reply = append([]byte(nil), body...)
	if c.trip.left--; c.trip.left == 0 {
		close(c.trip.done)
	}
}

// result returns the body of the answer, or why there is none: the error of the answer or
// of exchange, which was called before. After a failed exchange it does not look at the
// answer, which may still come: the goroutine that reads has more of the connection in its
// buffer than it has looked at, and goes on when the connection is closed.
func (c *call) result() ([]byte, error) {
	if c.failed != nil {
		return nil, c.failed
	}
	if err := errorOfCode(c.code); err != nil {
		return nil, err
	}
	return c.reply, nil
}

// exchange sends calls in one packet and waits for the answers. If there is no
// connection it waits for one first. op and path are for errors. What becomes of each
// call is its result, whose error is one of go-zookeeper's: it wraps
// zk.ErrConnectionClosed if the answer to one of the calls is missing; or it is an
// *opError if nothing was sent.
func (s *Session) exchange(op, path string, calls ...*call) {
	if err := s.ask(op, path, calls); err != nil {
		for _, c := range calls {
			c.failed = err
		}
	}
}

// ask is exchange; it returns the error that all the calls have failed with.
func (s *Session) ask(op, path string, calls []*call) error {
	size := 0
	for _, c := range calls {
		size = max(size, len(c.body))
	}
	for {
		w, err := s.reach(op, path, size)
		if err != nil {
			return err
		}
		t, err := w.post(calls)
		switch {
		case errors.Is(err, errWireClosed):
			continue // nothing was sent
		case err != nil:
			return err
		}
		select {
		case <-t.done:
		case <-w.closed:
			// The reader may have answered at the same time.
			if !isClosed(t.done) {
				return w.unanswered()
			}
		}
		return nil
	}
}

// post writes the packet of calls. Its error is errWireClosed if nothing was sent.
func (w *wire) post(calls []*call) (*trip, error) {
	t := &trip{left: len(calls), done: make(chan struct{})}
	size := 0
	for _, c := range calls {
		c.trip = t
		size += 12 + len(c.body)
	}
	packet := make([]byte, 0, size)
	reqs := make([]request, len(calls))
	if err := w.acquire(); err != nil {
		return nil, err
	}
	defer w.release()
	for i, c := range calls {
		if w.xid--; w.xid > firstXid {
			w.xid = firstXid - 1 // it has wrapped, after two billion requests
		}
		packet = jute.AppendInt32(packet, int32(8+len(c.body)))
		packet = jute.AppendInt32(packet, w.xid)
		packet = jute.AppendInt32(packet, c.op)
		packet = append(packet, c.body...)
		reqs[i] = request{xid: w.xid, op: c.op, path: c.watch, call: c}
	}
	if err := w.send(packet, reqs...); err != nil {
		return nil, w.unanswered() // a part of the packet may have left
	}
	return t, nil
}

// unanswered returns the error of a call that was sent on w, which is closed: it
// wraps go-zookeeper's, and says why if we closed it. The session's own note of that
// may come later.
func (w *wire) unanswered() error {
	if f, ok := errors.AsType[*fault](w.err); ok {
		return fmt.Errorf("%w: %w", zk.ErrConnectionClosed, f)
	}
	return zk.ErrConnectionClosed
}

// readCall returns a read of the node at path, which asks for a watch if the path
// is armed.
func (s *Session) readCall(op int32, path string) *call {
	c := &call{op: op, body: jute.AppendString(make([]byte, 0, len(path)+5), path)}
	if s.client.watches.armed(path, op) {
		c.watch = path
	}
	c.body = jute.AppendBool(c.body, c.watch != "")
	return c
}

// deleteCall returns the request that deletes the node at path.
func deleteCall(path string, version int32) *call {
	body := jute.AppendString(make([]byte, 0, len(path)+8), path)
	return &call{op: jute.OpDelete, body: jute.AppendInt32(body, version)}
}

// multiCall returns the transaction of ops.
func multiCall(ops []Op) *call {
	size := 9
	for _, o := range ops {
		size += o.size()
	}
	b := make([]byte, 0, size)
	for _, o := range ops {
		b = o.append(b)
	}
	return &call{op: jute.OpMulti, body: appendMultiHeader(b, -1, true)}
}

// appendMultiHeader appends what precedes each operation of a transaction, or
// follows the last.
func appendMultiHeader(b []byte, op int32, last bool) []byte {
	b = jute.AppendInt32(b, op)
	b = jute.AppendBool(b, last)
	return jute.AppendInt32(b, -1) // the error, which a request has not
}

// multiResults takes the answer to a transaction apart. The error is that of the
// first operation that has one, whose index is failed.
func multiResults(reply []byte) (results []OpResult, failed int, err error) {
	r := jute.NewReader(reply)
	for {
		kind, done, code := r.Int32(), r.Bool(), jute.ErrOK
		r.Int32()
		if done {
			return results, failed, err
		}
		var res OpResult
		switch kind {
		case jute.OpCreate:
			res.Path = r.String()
		case jute.OpSetData:
			res.Stat = readStat(r)
		case jute.OpError:
			code = r.Int32()
		}
		if code != jute.ErrOK && err == nil {
			// The errors after the first say only that those were not attempted.
			failed, err = len(results), errorOfCode(code)
		}
		results = append(results, res)
	}
}

// multiReadCall returns the request for the data of the nodes at paths. It sets no
// watches.
func multiReadCall(paths []string) *call {
	size := 9
	for _, path := range paths {
		size += 14 + len(path)
	}
	b := make([]byte, 0, size)
	for _, path := range paths {
		b = appendMultiHeader(b, jute.OpGetData, false)
		b = jute.AppendString(b, path)
		b = jute.AppendBool(b, false)
	}
	return &call{op: jute.OpMultiRead, body: appendMultiHeader(b, -1, true)}
}

// readStat reads a Stat.
func readStat(r *jute.Reader) (st Stat) {
	st.Czxid, st.Mzxid, st.Ctime, st.Mtime = r.Int64(), r.Int64(), r.Int64(), r.Int64()
	st.Version, st.Cversion, st.Aversion = r.Int32(), r.Int32(), r.Int32()
	st.EphemeralOwner, st.DataLength, st.NumChildren = r.Int64(), r.Int32(), r.Int32()
	st.Pzxid = r.Int64()
	return st
}

// readNames reads a list of names. They share one string: there can be thousands.
func readNames(r *jute.Reader) []string {
	all := string(r.Rest())
	names := make([]string, 0, r.Count(4))
	at := 4
	for range cap(names) {
		n := len(r.Buffer())
		names = append(names, all[at+4:at+4+n])
		at += 4 + n
	}
	return names
}

// errorsOfCodes has go-zookeeper's errors for the codes of answers.
var errorsOfCodes = map[int32]error{
	jute.ErrOK:                      nil,
	jute.ErrBadArguments:            zk.ErrBadArguments,
	jute.ErrNoNode:                  zk.ErrNoNode,
	jute.ErrNoAuth:                  zk.ErrNoAuth,
	jute.ErrBadVersion:              zk.ErrBadVersion,
	jute.ErrNoChildrenForEphemerals: zk.ErrNoChildrenForEphemerals,
	jute.ErrNodeExists:              zk.ErrNodeExists,
	jute.ErrNotEmpty:                zk.ErrNotEmpty,
	jute.ErrSessionExpired:          zk.ErrSessionExpired,
	jute.ErrInvalidACL:              zk.ErrInvalidACL,
	jute.ErrAuthFailed:              zk.ErrAuthFailed,
	jute.ErrSessionMoved:            zk.ErrSessionMoved,
}

// errorOfCode returns go-zookeeper's error for the code of an answer.
func errorOfCode(code int32) error {
	err, known := errorsOfCodes[code]
	if !known {
		return fmt.Errorf("unknown error: %d", code) // as go-zookeeper says it: see sentinelOf
	}
	return err
}
