// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bufio"
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
	// frameStep is how much memory a frame gets at a time: a length can be false.
	frameStep = 64 << 10
	// keepFrame is the largest buffer that is kept from one frame to the next.
	keepFrame = 1 << 20
	// rearmFrame is the largest frame that sets watches again.
	rearmFrame = 128 << 10
	// closeXid marks our own request to close the session, and those of calls are
	// below firstXid: go-zookeeper counts from 0 up, and the protocol's marks
	// are above -10.
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
	errTooLong    = errors.New("too long a frame")
)

// An overlong says that a frame has n bytes, more than the limit.
type overlong struct {
	n     uint32
	limit int
}

func (o *overlong) Error() string {
	return fmt.Sprintf("%v: a frame of %d bytes, more than the %d that are taken", errTooLong, o.n, o.limit)
}

func (o *overlong) Unwrap() error { return errTooLong }

// A fault is why the client closed a connection: the server broke the protocol or
// stopped answering. It is logged, and part of the errors of pending requests.
type fault struct{ err error }

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// A wire is the net.Conn that our dialer returns to go-zookeeper, and one
// connection to a server, on which the handshake is done. go-zookeeper makes
// exactly one Write per packet and reads from one goroutine at a time, which is
// what makes the wire possible. It does what go-zookeeper does not:
//
//   - On a resumed session it sets the watches again, before any other request
//     is sent.
//   - It sends the requests that ask for watches itself (see call), so that
//     go-zookeeper holds no watchers.
//   - It notes when each request was sent and answered, which is what leases are
//     made of.
//   - It checks that every request is answered, in order and in time.
//   - It takes frames apart before go-zookeeper does, which trusts the lengths
//     in them, and cuts the connection at a malformed one.
//   - It never fails a Write: it closes the socket, which the reader sees.
//     (go-zookeeper can deadlock over an error from Write.)
type wire struct {
	s    *Session
	addr string
	conn net.Conn // plain or TLS
	raw  net.Conn // what conn runs on: closing it never blocks
	in   *bufio.Reader

	// Used by the goroutine that reads: the one that dials, until the handshake
	// is done, and go-zookeeper's from then on.
	frame []byte // the buffer of frames
	out   []byte // what is left of the frame that is being handed to go-zookeeper
	rest  int64  // how many bytes of an answer that was too long are to be passed over

	// Used by the goroutine that calls Write.
	greeted bool // go-zookeeper's connect request was dropped: ours has been answered

	// turn is held by whichever goroutine writes. It is a channel and not a
	// mutex because its holder waits for the network.
	turn chan struct{}
	xid  int32 // of the last call; used by the holder of the turn

	mu      sync.Mutex    // protects what follows
	pending fifo[request] // the unanswered requests, in the order they were sent

	once   sync.Once
	closed chan struct{}
	err    error // why; written before closed is closed
}

// A request is one that is not answered yet.
type request struct {
	xid  int32
	op   int32
	sent time.Duration // on the client's clock, taken before the packet was written
	path string        // set if the request asks for a watch
	call *call         // nil if the request is go-zookeeper's, or has no caller
}

func newWire(s *Session, addr string, conn, raw net.Conn) *wire {
	return &wire{
		s:      s,
		addr:   addr,
		conn:   conn,
		raw:    raw,
		in:     bufio.NewReaderSize(conn, 8<<10),
		turn:   make(chan struct{}, 1),
		xid:    firstXid,
		closed: make(chan struct{}),
	}
}

// cut closes the connection because of err. Only the first call counts.
func (w *wire) cut(err error) {
	w.once.Do(func() {
		w.err = err
		close(w.closed)
		_ = w.raw.Close() // there is nothing left to lose
	})
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

// patience is how long go-zookeeper waits for a frame.
func (w *wire) patience() time.Duration { return w.s.Timeout() * 2 / 3 }

// send notes requests and writes the packet that has them. The caller has the turn.
func (w *wire) send(packet []byte, reqs ...request) error {
	w.note(reqs)
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

// Write takes one packet of go-zookeeper's. It always reports success.
func (w *wire) Write(p []byte) (int, error) {
	if !w.greeted {
		w.greeted = true
		return len(p), nil
	}
	if len(p) < 12 {
		w.cut(&fault{fmt.Errorf("a packet of %d bytes cannot be a request", len(p))})
		return len(p), nil
	}
	req := request{xid: int32(binary.BigEndian.Uint32(p[4:])), op: int32(binary.BigEndian.Uint32(p[8:]))}
	if w.acquire() == nil {
		w.send(p, req) //nolint:errcheck // the reader sees it
		w.release()
	}
	return len(p), nil
}

// note enters requests that are about to be written. Their send time is taken
// here, after the wait for the turn and before the packet leaves: the server
// cannot have seen them earlier, whatever happens in between. The caller has the
// turn, so pending is in the order in which the server gets the requests.
func (w *wire) note(reqs []request) {
	now := w.s.client.clock.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, req := range reqs {
		req.sent = now
		w.s.client.stats.sent(req.op)
		w.pending.push(req)
	}
}

// answered takes the request that a reply belongs to. ZooKeeper answers the
// requests of a session in order, pings included. So if the reply is to a later
// request than the oldest, the oldest is never answered: a server that fails in
// the middle of a request may log that and keep the connection. The caller would
// wait for ever, so the connection is cut.
func (w *wire) answered(xid int32) (request, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.pending.len() {
		switch req := w.pending.at(i); {
		case req.xid != xid:
			continue
		case i == 0:
			return w.pending.pop(), nil
		default:
			oldest := w.pending.at(0)
			return request{}, fmt.Errorf("the server answered a later request, but not %s, which was sent %v ago",
				opName(oldest.op), (w.s.client.clock.now() - oldest.sent).Round(time.Millisecond))
		}
	}
	return request{}, fmt.Errorf("%w: an answer to a request that was not made, xid %d", jute.ErrMalformed, xid)
}

// oldest returns the oldest unanswered request and how long it has been pending;
// false if there is none.
func (w *wire) oldest() (req request, age time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending.len() == 0 {
		return request{}, 0, false
	}
	req = w.pending.at(0)
	return req, w.s.client.clock.now() - req.sent, true
}

// Read hands go-zookeeper the frames that are meant for it.
func (w *wire) Read(p []byte) (int, error) {
	for len(w.out) == 0 {
		if err := w.next(); err != nil {
			w.cut(err)
			return 0, err
		}
		if len(w.out) == 0 { // go-zookeeper does not see it, so it does not move the deadline
			_ = w.SetReadDeadline(time.Now().Add(w.patience())) // fails if the connection is closed
		}
	}
	n := copy(p, w.out)
	w.out = w.out[n:]
	return n, nil
}

// next reads a frame, and puts it into out if it is meant for go-zookeeper.
func (w *wire) next() error {
	var frame []byte
	err := w.passOver()
	if err == nil {
		frame, err = w.readFrame(maxFrame)
	}
	if long, ok := errors.AsType[*overlong](err); ok {
		frame, err = w.tooLarge(long)
	}
	switch {
	case isTimeout(err):
		if req, age, ok := w.oldest(); ok {
			return w.late(age, "no answer to %s for %v", opName(req.op), age.Round(time.Millisecond))
		}
		return w.late(w.patience(), "the server has been silent for %v", w.patience())
	case errors.Is(err, errTooLong):
		return &fault{err}
	case err != nil:
		return err // the network's
	}
	deliver, err := w.reply(frame)
	switch {
	case errors.Is(err, errWireClosed), errors.Is(err, errFenced):
		return err
	case err != nil:
		return &fault{err}
	case deliver:
		w.out = frame
	}
	return nil
}

// readFrame reads one frame, its length included, into the wire's buffer.
func (w *wire) readFrame(limit int) ([]byte, error) {
	if cap(w.frame) > keepFrame {
		w.frame = nil
	}
	var err error
	if w.frame, err = w.readMore(w.frame[:0], 4); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(w.frame)
	if n > uint32(limit) {
		return nil, &overlong{n, limit}
	}
	for rest := int(n); rest > 0; {
		step := min(rest, max(frameStep, len(w.frame)))
		if w.frame, err = w.readMore(w.frame, step); err != nil {
			return nil, err
		}
		rest -= step
	}
	return w.frame, nil
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
		// A server that keeps sending is not silent.
		_ = w.SetReadDeadline(time.Now().Add(w.patience())) // fails if the connection is closed
	}
	return nil
}

// readMore appends the next n bytes to b.
func (w *wire) readMore(b []byte, n int) ([]byte, error) {
	have := len(b)
	if cap(b)-have < n {
		b = append(b, make([]byte, n)...)
	}
	b = b[:have+n]
	_, err := io.ReadFull(w.in, b[have:])
	return b, err
}

// reply looks at a frame, and reports whether it is meant for go-zookeeper.
func (w *wire) reply(frame []byte) (deliver bool, err error) {
	r := jute.NewReader(frame[4:])
	xid, zxid, code := r.Int32(), r.Int64(), r.Int32()
	if err := r.Err(); err != nil {
		return false, err
	}
	switch xid {
	case jute.XidWatchEvent:
		return false, w.event(r)
	case jute.XidAuth:
		return false, nil // the handshake is done: no request is waiting for it
	}
	req, err := w.answered(xid)
	if err != nil {
		return false, err
	}
	switch xid {
	case closeXid:
		w.s.end(ErrClosed, true)
		return false, errWireClosed
	case jute.XidSetWatches:
		if code != jute.ErrOK {
			// Some watches may be missing now. The next connection tries again.
			return false, fmt.Errorf("the server refused to set the watches again: code %d", code)
		}
		return false, nil
	}
	now := w.s.client.clock.now()
	w.s.client.stats.answered.Add(1)
	proof := false
	if code == jute.ErrOK {
		if proof, err = checkReply(req.op, r); err != nil {
			return false, err
		}
	}
	w.s.leases.answered(req.sent, now)
	if proof {
		// Before the caller is woken, by us or by go-zookeeper: it finds the lease
		// extended when the call returns.
		w.s.leases.proved(req.sent)
	}
	if req.path != "" {
		w.watching(req, code)
	}
	if (xid >= 0 || req.call != nil) && zxid > w.s.zxid.Load() {
		w.s.zxid.Store(zxid)
	}
	if code == jute.ErrSessionExpired {
		w.s.end(errSessionExpired, true)
		return false, errFenced
	}
	if req.call != nil {
		req.call.answer(code, frame[20:])
		return false, nil
	}
	return true, nil
}

// event passes a watch event on to the dispatcher, before the answer to any later
// request is seen.
func (w *wire) event(r *jute.Reader) error {
	ev := Event(r.Int32())
	r.Int32() // the connection's state, as the server sees it
	path := r.Buffer()
	if err := r.Err(); err != nil {
		return err
	}
	c := w.s.client
	c.stats.events.Add(1)
	if ev > 0 { // else it is about the session, of which the wire knows more
		c.watches.fired(path, ev)
		c.dispatcher.push(notice{path: string(path), event: ev})
	}
	return nil
}

// watching notes the watch that an answered read has set.
func (w *wire) watching(req request, code int32) {
	switch {
	case req.op == jute.OpGetData && code == jute.ErrOK,
		req.op == jute.OpExists && code == jute.ErrOK:
		w.s.client.watches.note(req.path, dataWatch)
	case req.op == jute.OpExists && code == jute.ErrNoNode:
		w.s.client.watches.note(req.path, existWatch)
	case req.op == jute.OpGetChildren2 && code == jute.ErrOK:
		w.s.client.watches.note(req.path, childWatch)
	}
}

// rearm writes the requests that set again the watches that the server had for
// this session. It runs on a goroutine of the session's, which was given the
// turn to write, so that these requests go first. It cannot run on the one that
// reads, because the server may have to be read from before it takes them all. It
// reports whether it wrote all.
func (w *wire) rearm(frames [][]byte) bool {
	defer w.release()
	for _, frame := range frames {
		if w.send(frame, request{xid: jute.XidSetWatches, op: jute.OpSetWatches}) != nil {
			return false
		}
	}
	return true
}

// sendClose asks the server to end the session. The reader sees the answer.
func (w *wire) sendClose() {
	if w.acquire() != nil {
		return
	}
	defer w.release()
	b := jute.AppendInt32(make([]byte, 4, 12), closeXid)
	frame := jute.Frame(jute.AppendInt32(b, jute.OpClose))
	w.send(frame, request{xid: closeXid, op: jute.OpClose}) //nolint:errcheck // the reader sees it
}

// Close is called by go-zookeeper when its loops end.
func (w *wire) Close() error {
	w.cut(errWireClosed)
	return nil
}

// SetReadDeadline sets the deadline for the next frame. go-zookeeper asks for
// patience from now on; an unanswered request has used up some of it already. So
// no request is pending for longer, even if other frames arrive meanwhile.
func (w *wire) SetReadDeadline(t time.Time) error {
	if _, age, ok := w.oldest(); ok && !t.IsZero() {
		t = t.Add(-age)
	}
	return w.conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing: send sets the deadline of each write.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is not called by go-zookeeper.
func (w *wire) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }

func (w *wire) LocalAddr() net.Addr { return w.conn.LocalAddr() }

func (w *wire) RemoteAddr() net.Addr { return w.conn.RemoteAddr() }
