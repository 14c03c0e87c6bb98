// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

const (
	// maxFrame is the largest frame taken from a server. The list of a directory
	// can be far larger than the largest request.
	maxFrame = 64 << 20
	// maxHandshake is the largest answer to a connect request.
	maxHandshake = 4 << 10
	// rearmFrame is the largest frame that sets watches again.
	rearmFrame = 128 << 10
	// closeXid marks the request to close the session. The numbers of other calls are below
	// firstXid: the protocol's marks are above -10.
	closeXid int32 = -100
	firstXid int32 = -1000
	// replyHeader is how many bytes an answer begins with: the xid, the zxid and the code.
	replyHeader = 16
	// codeTooLarge is our own code, in place of an answer that is larger than maxFrame. No
	// server's code is that low.
	codeTooLarge int32 = -10_000
)

var (
	errWireClosed = errors.New("connection closed")
	errFenced     = errors.New("the session is over")
)

// A fault is why the client closed a connection: the server broke the protocol or
// stopped answering. It is logged, and part of the errors of pending requests.
type fault struct{ err error }

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// A wire is one connection to a server, on which the handshake is done. It sends every
// call and takes every answer:
//
//   - On a resumed session it sets the watches again, before any other request
//     is sent.
//   - It notes when each request was sent and answered, which is what leases are
//     made of.
//   - It checks that every request is answered, in order and in time, and cuts the
//     connection at a malformed answer.
//
// It is also the net.Conn that our dialer returns to go-zookeeper, which says when to
// ping, reads from one goroutine at a time, and dials again when Read fails. Write and
// Read are for go-zookeeper only, which gets nothing but the answer to its connect
// request. Write never fails: go-zookeeper can deadlock over that. The socket is closed
// instead, which the reader sees.
type wire struct {
	s    *Session
	addr string
	conn net.Conn // plain or TLS
	raw  net.Conn // what conn runs on: closing it never blocks

	// Used by the goroutine that reads: the one that dials, until the handshake
	// is done, and go-zookeeper's from then on.
	frames
	out  []byte // what is left of the answer to go-zookeeper's connect request
	rest int64  // how many bytes of an answer that was too long are to be passed over
	sets bool   // setWatches has been seen to set watches of children

	connection uint64 // its number: see Session.Connection. Written when the handshake is done

	// Used by the goroutine that calls Write.
	greeted bool // go-zookeeper's connect request was dropped: ours has been answered

	// turn is held by whichever goroutine writes. It is a channel and not a
	// mutex because its holder waits for the network.
	turn chan struct{}
	xid  int32 // of the last call; used by the holder of the turn

	mu      sync.Mutex  // protects what follows
	pending fifo[*call] // the unanswered ones, in the order they were sent

	once   sync.Once
	closed chan struct{}
	err    error // why; written before closed is closed
}

func newWire(s *Session, addr string, conn, raw net.Conn) *wire {
	return &wire{
		s:      s,
		addr:   addr,
		conn:   conn,
		raw:    raw,
		frames: newFrames(conn),
		turn:   make(chan struct{}, 1),
		xid:    firstXid,
		closed: make(chan struct{}),
	}
}

// cut closes the connection because of err. Only the first call counts.
func (w *wire) cut(err error) {
	first := false
	w.once.Do(func() {
		first = true
		w.err = err
		close(w.closed)
		_ = w.raw.Close() // there is nothing left to lose
	})
	if first && closedByPeer(err) {
		w.ended()
	}
	w.s.disconnected(w)
}

// acquire takes the turn to write. It fails if the wire is closed.
func (w *wire) acquire() error {
	if isClosed(w.closed) {
		return errWireClosed
	}
	select {
	case w.turn <- struct{}{}:
		return nil
	case <-w.closed:
		return errWireClosed
	}
}

func (w *wire) release() { <-w.turn }

// patience is how long the server may take over anything.
func (w *wire) patience() time.Duration { return w.s.Timeout() * 2 / 3 }

// post writes the packet of calls. Its error is errWireClosed if nothing was sent.
func (w *wire) post(calls ...*call) error {
	if err := w.acquire(); err != nil {
		return err
	}
	defer w.release()
	return w.send(calls...)
}

// send writes the packet of calls. The caller has the turn.
func (w *wire) send(calls ...*call) error {
	size := 0
	for _, c := range calls {
		size += 12 + len(c.body)
	}
	packet := make([]byte, 0, size)
	for _, c := range calls {
		if c.xid == 0 {
			c.xid = w.number()
		}
		packet = jute.AppendInt32(packet, int32(8+len(c.body)))
		packet = jute.AppendInt32(packet, c.xid)
		packet = jute.AppendInt32(packet, c.op)
		packet = append(packet, c.body...)
	}
	w.note(calls)
	err := w.conn.SetWriteDeadline(time.Now().Add(w.patience()))
	if err == nil {
		_, err = w.conn.Write(packet)
	}
	if isTimeout(err) {
		err = w.late(w.patience(), "the server has taken nothing for %v", w.patience())
	}
	if err != nil {
		w.cut(err)
	}
	return err
}

// number returns the next number of a call. The caller has the turn.
func (w *wire) number() int32 {
	if w.xid--; w.xid > firstXid {
		w.xid = firstXid - 1 // it has wrapped, after two billion requests
	}
	return w.xid
}

// late returns why the wire is closed because something was due for so long. That is a
// fault of the server's, unless this process has not run meanwhile.
func (w *wire) late(waited time.Duration, format string, args ...any) error {
	c := w.s.client
	if d := c.pulse.since(c.clock.now() - waited); d > 0 {
		return pausedError(d)
	}
	return &fault{fmt.Errorf(format, args...)}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded)
}

// Write takes one packet of go-zookeeper's, which makes one Write for each: the connect
// request, and then pings. It always reports success.
func (w *wire) Write(p []byte) (int, error) {
	if !w.greeted {
		w.greeted = true
	} else {
		w.post(&call{op: jute.OpPing, xid: jute.XidPing}) //nolint:errcheck // the reader sees it
	}
	return len(p), nil
}

// note enters calls that are about to be written. Their send time is taken
// here, after the wait for the turn and before the packet leaves: the server
// cannot have seen them earlier, whatever happens in between. The caller has the
// turn, so pending is in the order in which the server gets the requests.
func (w *wire) note(calls []*call) {
	now := w.s.client.clock.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range calls {
		c.sent = now
		w.s.client.stats.sent(c.op)
		w.pending.push(c)
	}
}

// answered takes the call that a reply belongs to. ZooKeeper answers the
// requests of a session in order, pings included. So if the reply is to a later
// request than the oldest, the oldest is never answered: a server that fails in
// the middle of a request may log that and keep the connection. The caller would
// wait for ever, so the connection is cut.
//
// code is that of the reply.
func (w *wire) answered(xid, code int32) (*call, error) {
	var skipped *call // that the server has passed over
	defer func() {
		if skipped != nil && optional(skipped.op) {
			w.owes(skipped, 2) // which says more than the end of a connection
		}
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.pending.len() {
		switch {
		case w.pending.at(i).xid != xid:
			continue
		case i == 0:
			c := w.pending.pop()
			w.s.client.basics.heard(c.op)
			return c, nil
		default:
			if w.pending.at(i).op == jute.OpMultiRead && code == jute.ErrUnimplemented {
				// Before ZooKeeper 3.6 a server says so at once, and closes the connection.
				w.s.noMultiRead.Store(true)
			}
			oldest := w.pending.at(0)
			skipped = oldest
			return nil, fmt.Errorf("the server answered a later request, but not %s, which was sent %v ago",
				opName(oldest.op), (w.s.client.clock.now() - oldest.sent).Round(time.Millisecond))
		}
	}
	return nil, fmt.Errorf("%w: an answer to a request that was not made, xid %d", jute.ErrMalformed, xid)
}

// oldest returns the oldest unanswered call, and how long it has been pending; nil if
// there is none.
func (w *wire) oldest() (c *call, age time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending.len() == 0 {
		return nil, 0
	}
	c = w.pending.at(0)
	return c, w.s.client.clock.now() - c.sent
}

// Read hands go-zookeeper the answer to its connect request. When that asks for more, it
// reads what the server sends, until the connection ends.
func (w *wire) Read(p []byte) (int, error) {
	if len(w.out) > 0 {
		n := copy(p, w.out)
		w.out = w.out[n:]
		return n, nil
	}
	for {
		if err := w.next(); err != nil {
			w.cut(err)
			return 0, err
		}
	}
}

// waits gives the server time for the next frame. An unanswered request has used up some
// already, so none is pending for longer, even if other frames arrive meanwhile.
func (w *wire) waits() {
	_, age := w.oldest()
	_ = w.conn.SetReadDeadline(time.Now().Add(w.patience() - age)) // fails if the connection is closed
}

// next reads a frame and deals with it.
func (w *wire) next() error {
	w.waits()
	var frame []byte
	err := w.passOver()
	if err == nil {
		frame, err = w.readFrame(w.s.client.cfg.largestFrame)
	}
	if long, ok := errors.AsType[*overlong](err); ok {
		frame, err = w.tooLarge(long)
	}
	switch {
	case isTimeout(err):
		if c, age := w.oldest(); c != nil {
			return w.late(age, "no answer to %s for %v", opName(c.op), age.Round(time.Millisecond))
		}
		return w.late(w.patience(), "the server has been silent for %v", w.patience())
	case errors.Is(err, errTooLong):
		return &fault{err}
	case err != nil:
		return err // the network's
	}
	err = w.reply(frame)
	if err == nil || errors.Is(err, errWireClosed) || errors.Is(err, errFenced) {
		return err
	}
	return &fault{err}
}

// tooLarge returns a frame that says that an answer is too long, in its place, and leaves the
// rest of the answer to passOver. The other requests on this connection go on, and the one that
// was answered is not sent again in vain. What claims to be longer than any answer, or is none,
// cannot be passed over: long is its error.
func (w *wire) tooLarge(long *overlong) ([]byte, error) {
	if long.n > math.MaxInt32 {
		return nil, long
	}
	var err error
	if w.frame, err = w.readMore(w.frame, replyHeader); err != nil {
		return nil, err
	}
	if int32(binary.BigEndian.Uint32(w.frame[4:])) == jute.XidWatchEvent {
		return nil, long
	}
	w.rest = int64(long.n) - replyHeader
	binary.BigEndian.PutUint32(w.frame, replyHeader)
	code := codeTooLarge
	binary.BigEndian.PutUint32(w.frame[replyHeader:], uint32(code)) // the header's last field
	return w.frame, nil
}

// passOver reads the rest of an answer that was too long. It comes after the answer was dealt
// with, which therefore does not count as unanswered, however long the rest takes. Requests
// that wait behind it do.
func (w *wire) passOver() error {
	for w.rest > 0 {
		n, err := io.CopyN(io.Discard, w.in, min(w.rest, keepFrame))
		if w.rest -= n; err != nil {
			return err
		}
		w.waits() // a server that keeps sending is not silent
	}
	return nil
}

// reply deals with a frame.
func (w *wire) reply(frame []byte) error {
	r := jute.NewReader(frame[4:])
	xid, zxid, code := r.Int32(), r.Int64(), r.Int32()
	if err := r.Err(); err != nil {
		return err
	}
	switch xid {
	case jute.XidWatchEvent:
		return w.event(r)
	case jute.XidAuth:
		return nil // the handshake is done: no request is waiting for it
	}
	c, err := w.answered(xid, code)
	if err != nil {
		return err
	}
	switch c.op {
	case jute.OpClose:
		w.s.end(ErrClosed, true)
		return errWireClosed
	case jute.OpSetWatches:
		if code != jute.ErrOK {
			// Some watches may be missing now. The next connection tries again, or does without.
			if notKnown(code) {
				w.s.client.basicsOnly(w.addr + ": setWatches is refused")
			}
			return fmt.Errorf("the server refused to set the watches again: code %d", code)
		}
		if c.tests && !w.sets {
			w.s.client.basicsOnly(w.addr + ": setWatches sets no watches of children")
			w.lookAgain()
		}
		w.bundled(c)
		c.arrived(code)
		return nil
	}
	now := w.s.client.clock.now()
	w.s.client.stats.answered.Add(1)
	proof := false
	if code == jute.ErrOK {
		if proof, err = c.answer.read(c.op, r); err != nil {
			return err
		}
	}
	w.s.leases.answered(c.sent, now, proof || c.op == jute.OpSync && code == jute.ErrOK)
	if proof {
		// Before the caller is woken: it finds the lease extended when the call returns.
		w.s.leases.proved(c.sent)
	}
	if c.watch != "" {
		w.watching(c, code)
	}
	w.bundled(c)
	if c.op != jute.OpPing && zxid > w.s.zxid.Load() {
		w.s.zxid.Store(zxid)
	}
	if code == jute.ErrSessionExpired {
		w.s.end(errSessionExpired, true)
		return errFenced
	}
	c.arrived(code)
	return nil
}

// event passes a watch event on to the dispatcher, before the answer to any later
// request is seen.
func (w *wire) event(r *jute.Reader) error {
	what := Change(r.Int32())
	r.Int32() // the connection's state, as the server sees it
	path := r.Buffer()
	if err := r.Err(); err != nil {
		return err
	}
	c := w.s.client
	c.stats.events.Add(1)
	if what == NodeDeleted && string(path) == noSuchNode {
		w.sets = true
		return nil
	}
	if what > 0 { // else it is about the session, of which the wire knows more
		if what == NodeDeleted && w.noWatchOfMissing(path) {
			return nil
		}
		c.watches.fired(path, what)
		if what == NodeDeleted && c.basics.on.Load() {
			w.changed(string(path), dataWatch|childWatch) // it may not be true
			return nil
		}
		c.dispatcher.push(notice{path: string(path), event: Event{what, w.connection}})
	}
	return nil
}

// noWatchOfMissing reports whether the server says that the node at path is deleted only
// because a bundle asks for a watch of it, and it is missing. Nothing has happened then: the
// watchers would look again, by a bundle perhaps, and be told again.
func (w *wire) noWatchOfMissing(path []byte) (missing bool) {
	if w.s.client.watches.watched(path) {
		return false // an earlier watch has fired
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.pending.len() {
		c := w.pending.at(i)
		if c.op != jute.OpSetWatches {
			continue
		}
		for _, part := range c.parts {
			if part.watch == string(path) {
				part.unset, missing = true, true
			}
		}
		if missing {
			break // the server answers them in this order
		}
	}
	return missing
}

// bundled notes the watches that the answered call c of a bundle has set. Of a node that was
// missing when the watches were set, and there when it was read, it tells the watchers, since no
// watch will.
func (w *wire) bundled(c *call) {
	for i, part := range c.parts {
		switch {
		case c.op == jute.OpSetWatches && !part.unset:
			part.stray = !w.s.client.watches.note(part.watch, dataWatch)
		case c.op == jute.OpMultiRead && part.unset && i < len(c.answer.nodes) && c.answer.nodes[i].code == jute.ErrOK:
			// The node was made between the two requests, and nothing would be told of it.
			w.s.tell(part.watch, NodeCreated)
		}
	}
}

// watching notes the watch that an answered read has set.
func (w *wire) watching(c *call, code int32) {
	var set watchKind
	switch {
	case c.op == jute.OpGetData && code == jute.ErrOK,
		c.op == jute.OpExists && code == jute.ErrOK:
		set = dataWatch
	case c.op == jute.OpExists && code == jute.ErrNoNode:
		set = existWatch
	case c.op == jute.OpGetChildren2 && code == jute.ErrOK:
		set = childWatch
	default:
		return
	}
	c.stray = !w.s.client.watches.note(c.watch, set)
}

// rearm sends the calls that set again the watches that the server had for
// this session. It runs on a goroutine of the session's, which was given the
// turn to write, so that these requests go first. It cannot run on the one that
// reads, because the server may have to be read from before it takes them all. It
// reports whether it wrote all.
func (w *wire) rearm(calls []*call) bool {
	defer w.release()
	for _, c := range calls {
		if w.send(c) != nil {
			return false
		}
	}
	return true
}

// Close is called by go-zookeeper when its loops end.
func (w *wire) Close() error {
	w.cut(errWireClosed)
	return nil
}

// The deadlines that go-zookeeper sets have no effect: next and send set their own.

func (w *wire) SetDeadline(time.Time) error { return nil }

func (w *wire) SetReadDeadline(time.Time) error { return nil }

func (w *wire) SetWriteDeadline(time.Time) error { return nil }

func (w *wire) LocalAddr() net.Addr { return w.conn.LocalAddr() }

func (w *wire) RemoteAddr() net.Addr { return w.conn.RemoteAddr() }
