// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

const (
	// maxFrame is the largest frame taken from a server. The server's own limit
	// is about requests; a reply that lists a directory can be far larger.
	maxFrame = 64 << 20
	// maxHandshake is the largest answer to a connect request.
	maxHandshake = 4 << 10
	// frameStep is how much memory a frame gets at a time, so that a length
	// alone, which anybody can claim, allocates little.
	frameStep = 64 << 10
	// keepFrame is the largest buffer that is kept from one frame to the next.
	keepFrame = 1 << 20
	// rearmFrame is the largest frame that sets watches again.
	rearmFrame = 128 << 10
	// closeXid marks our own request to close the session. go-zookeeper numbers
	// its requests from 0 up, and the protocol's own marks are above -10.
	closeXid int32 = -100
)

var (
	errWireClosed = errors.New("connection closed")
	errFenced     = errors.New("the session is over")
)

// A wire is the net.Conn that go-zookeeper gets from our dialer, and one
// connection to a server. go-zookeeper makes exactly one Write per packet and
// has one goroutine that reads, which is what makes the wire possible. It does
// what go-zookeeper does not:
//
//   - In the handshake, which it holds to a deadline, it learns the session's id
//     and timeout, and keeps from go-zookeeper an answer that names another
//     session than ours. It presents the credentials.
//   - On a resumed session it sets the watches again, before any other request
//     is sent.
//   - It sets the watch bit of reads of armed paths, so that go-zookeeper holds
//     no watchers, and notes when each request was sent and answered, which is
//     what leases are made of.
//   - It takes frames apart before go-zookeeper does, which trusts the lengths
//     in them, and cuts the connection at a malformed one.
//   - It never fails a Write: it closes the socket, which the reader sees.
//     (go-zookeeper can deadlock over an error from Write.)
type wire struct {
	s    *Session
	addr string
	born time.Duration // when the dial began
	conn net.Conn      // plain or TLS
	raw  net.Conn      // what conn runs on: closing it never blocks
	in   *bufio.Reader

	// Used by the goroutine that reads: go-zookeeper's main loop during the
	// handshake, then its receive loop, which the main loop starts.
	frame []byte // the buffer of frames
	out   []byte // what is left of the frame that is being handed to go-zookeeper

	// Changed on the main loop only, which starts the goroutines that read it.
	greeted bool // the connect request was written
	up      bool // the handshake is done

	// turn is held by whoever writes. It is a channel and not a mutex because
	// its holder waits for the network.
	turn chan struct{}

	mu      sync.Mutex // protects what follows
	pending map[int32]request
	pings   fifo[time.Duration] // the send times of the unanswered ones

	once   sync.Once
	closed chan struct{}
	err    error // why; written before closed is closed
}

// A request is one that is not answered yet.
type request struct {
	op   int32
	sent time.Duration // on the client's clock, taken before the packet was written
	path string        // set if the request asks for a watch
}

func newWire(s *Session, addr string, born time.Duration, conn, raw net.Conn) *wire {
	return &wire{
		s:       s,
		addr:    addr,
		born:    born,
		conn:    conn,
		raw:     raw,
		in:      bufio.NewReaderSize(conn, 8<<10),
		turn:    make(chan struct{}, 1),
		pending: make(map[int32]request),
		closed:  make(chan struct{}),
	}
}

// cut closes the connection because of err. The first call decides.
func (w *wire) cut(err error) {
	w.once.Do(func() {
		w.err = err
		close(w.closed)
		_ = w.raw.Close() // there is nothing left to lose
	})
	w.s.disconnected(w)
}

// isClosed reports whether the connection was cut.
func (w *wire) isClosed() bool {
	select {
	case <-w.closed:
		return true
	default:
		return false
	}
}

// acquire takes the turn to write. It fails if the wire is closed.
func (w *wire) acquire() error {
	select {
	case <-w.closed:
		return errWireClosed
	default:
	}
	select {
	case w.turn <- struct{}{}:
		return nil
	case <-w.closed:
		return errWireClosed
	}
}

func (w *wire) release() { <-w.turn }

// send writes one frame. The caller has the turn.
func (w *wire) send(frame []byte) error {
	if w.up {
		// A server that takes nothing for so long is given up, like one that
		// sends nothing.
		w.conn.SetWriteDeadline(time.Now().Add(w.s.Timeout() * 2 / 3)) //nolint:errcheck // Write tells
	}
	if _, err := w.conn.Write(frame); err != nil {
		w.cut(err)
		return err
	}
	return nil
}

// Write takes one packet of go-zookeeper's. It always reports success.
func (w *wire) Write(p []byte) (int, error) {
	if !w.greeted {
		w.greeted = true
		w.s.trust.connecting(w.s.client.clock.now())
		w.s.client.stats.sent(opConnect)
		w.send(p) //nolint:errcheck // the reader sees it
		return len(p), nil
	}
	if len(p) < 12 {
		w.cut(fmt.Errorf("a packet of %d bytes cannot be a request", len(p)))
		return len(p), nil
	}
	xid := int32(binary.BigEndian.Uint32(p[4:]))
	req := request{op: int32(binary.BigEndian.Uint32(p[8:]))}
	switch req.op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren2:
		r := jute.NewReader(p[12:])
		if path := r.Buffer(); r.Len() == 1 && w.s.client.watches.armed(path) {
			req.path = string(path)
			p = append([]byte(nil), p...) // a Write must not change its argument
			p[len(p)-1] = 1               // "and watch it"
		}
	}
	if w.acquire() == nil {
		w.note(xid, req)
		w.send(p) //nolint:errcheck // the reader sees it
		w.release()
	}
	return len(p), nil
}

// note enters a request that is about to be written. Its send time is taken
// here, after the waiting for the turn and before the packet leaves: the
// server cannot have seen it earlier, whatever happens in between.
func (w *wire) note(xid int32, req request) {
	req.sent = w.s.client.clock.now()
	w.s.client.stats.sent(req.op)
	w.mu.Lock()
	defer w.mu.Unlock()
	if xid == jute.XidPing {
		w.pings.push(req.sent)
		return
	}
	w.pending[xid] = req
}

// answered takes the request that a reply belongs to.
func (w *wire) answered(xid int32) (request, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if xid == jute.XidPing {
		if w.pings.len() == 0 {
			return request{}, false
		}
		return request{op: jute.OpPing, sent: w.pings.pop()}, true
	}
	req, ok := w.pending[xid]
	delete(w.pending, xid)
	return req, ok
}

// Read hands go-zookeeper the frames that are meant for it.
func (w *wire) Read(p []byte) (int, error) {
	for len(w.out) == 0 {
		if err := w.next(); err != nil {
			w.cut(err)
			return 0, err
		}
	}
	n := copy(p, w.out)
	w.out = w.out[n:]
	return n, nil
}

// next reads a frame, and puts it into out if go-zookeeper shall have it.
func (w *wire) next() error {
	if !w.up {
		return w.handshake()
	}
	frame, err := w.readFrame(maxFrame)
	if err != nil {
		return err
	}
	deliver, err := w.reply(frame)
	if err != nil {
		return err
	}
	if deliver {
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
		if !w.up {
			return nil, errors.New("the answer is not ZooKeeper's: is this ZooKeeper's client port, and is TLS on at both ends or at neither?")
		}
		return nil, fmt.Errorf("the server sent a frame of %d bytes, more than the %d that are taken", n, limit)
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

// reply looks at a frame of an established connection, and reports whether
// go-zookeeper shall have it.
func (w *wire) reply(frame []byte) (deliver bool, err error) {
	r := jute.NewReader(frame[4:])
	xid, zxid, code := r.Int32(), r.Int64(), r.Int32()
	if err := r.Err(); err != nil {
		return false, err
	}
	switch xid {
	case jute.XidWatchEvent:
		return true, w.event(r)
	case jute.XidAuth:
		return false, nil // nobody asked again after the handshake
	case jute.XidSetWatches:
		if code != jute.ErrOK {
			// Some watches may be missing now. The next connection tries again.
			return false, fmt.Errorf("the server refused to set the watches again: code %d", code)
		}
		return false, nil
	case closeXid:
		w.s.end(ErrClosed, true)
		return false, errWireClosed
	}
	req, ok := w.answered(xid)
	if !ok {
		return false, fmt.Errorf("%w: an answer to a request that was not made, xid %d", jute.ErrMalformed, xid)
	}
	now := w.s.client.clock.now()
	w.s.client.stats.answered.Add(1)
	proof := false
	if code == jute.ErrOK {
		if proof, err = checkReply(req.op, r); err != nil {
			return false, err
		}
	}
	w.s.trust.answered(req.sent, now)
	if proof {
		// Before go-zookeeper sees the reply: whoever made the request finds
		// the lease extended when the call returns.
		w.s.trust.proved(req.sent)
	}
	if req.path != "" {
		w.watching(req, code)
	}
	if xid >= 0 && zxid > w.s.zxid.Load() {
		w.s.zxid.Store(zxid)
	}
	if code == jute.ErrSessionExpired {
		w.s.end(errSessionExpired, true)
		return false, errFenced
	}
	return true, nil
}

// event notes a watch event. go-zookeeper decodes it again and hands it to the
// session's callback.
func (w *wire) event(r *jute.Reader) error {
	ev := Event(r.Int32())
	r.Int32() // the connection's state, as the server sees it
	path := r.Buffer()
	if err := r.Err(); err != nil {
		return err
	}
	w.s.client.stats.events.Add(1)
	w.s.client.watches.fired(path, ev)
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
// turn to write, so that these requests go first; it cannot run on the one that
// reads, because the server may have to be read from before it takes them all.
func (w *wire) rearm(frames [][]byte) {
	defer w.release()
	for _, frame := range frames {
		w.s.client.stats.sent(jute.OpSetWatches)
		if w.send(frame) != nil {
			return
		}
	}
}

// sendClose asks the server to end the session. The answer, or the lack of
// one, is seen by the goroutine that reads.
func (w *wire) sendClose() {
	if w.acquire() != nil {
		return
	}
	defer w.release()
	w.s.client.stats.sent(jute.OpClose)
	b := jute.AppendInt32(make([]byte, 4, 12), closeXid)
	w.send(jute.Frame(jute.AppendInt32(b, jute.OpClose))) //nolint:errcheck // the reader sees it
}

// Close is called by go-zookeeper when its loops end.
func (w *wire) Close() error {
	w.cut(errWireClosed)
	return nil
}

// SetReadDeadline sets go-zookeeper's deadline for the next frame, two thirds
// of the session timeout. During the handshake ours stands: go-zookeeper's
// would be almost seven timeouts, and for the first four bytes only.
func (w *wire) SetReadDeadline(t time.Time) error {
	if !w.up {
		return nil
	}
	return w.conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing: send sets the deadline of each write, whoever
// makes it.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is not called by go-zookeeper.
func (w *wire) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }

// LocalAddr returns the address of this end of the connection.
func (w *wire) LocalAddr() net.Addr { return w.conn.LocalAddr() }

// RemoteAddr returns the server's address.
func (w *wire) RemoteAddr() net.Addr { return w.conn.RemoteAddr() }
