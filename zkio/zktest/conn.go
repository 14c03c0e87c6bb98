// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// flushGrace bounds how long the server tries to send the last answers on a
// connection that it closes. A client that does not read loses them.
const flushGrace = 5 * time.Second

// A conn is one connection of a client. Two goroutines serve it: the reader
// reads requests and executes them one by one, and the writer sends what is
// queued. The queue is unbounded, so executing a request never waits for any
// client's network, and notifying a watch costs no more than an append.
type conn struct {
	srv *Server
	nc  net.Conn
	raw net.Conn // nc, or what is below its TLS: closing it never waits

	// Only the reader uses these.
	in   frameReader
	held [][]byte // frames held back by a blackhole or a Block; inbound.waiting is their number

	serial uint64 // numbers connections in the order of their creation; set before the goroutines start

	// service.mu protects these.
	lag     *Lag     // whose view serves it; nil: the server's
	session *session // nil before the handshake, and once the server is done with the connection
	sid     int64    // the session's id; written once, before the reader goes on, which reads it without service.mu
	who     []id     // the ids that the client has proved
	watches map[string]watching
	busy    bool // the connect request waits for the leader
	gone    bool // the server is done with the connection, and executes nothing that still arrives

	// mu protects the rest. It may be locked while service.mu is held, and no
	// other mutex is locked while it is held.
	mu        sync.Mutex
	cond      sync.Cond // signals changes of the fields below
	queue     []outgoing
	finishing bool // close the connection when the queue is empty
	aborted   bool // the connection is closed, and the queue dropped
	ready     bool // the reader can be woken: a TLS handshake cannot be interrupted
	holes     int  // number of blackholes that the connection is in
	inbound   gate // for the frames in held
	outbound  gate // for the frames in queue that are held
}

// An outgoing frame waits in a connection's queue.
type outgoing struct {
	frame []byte    // an event's is shared by connections: never modified
	due   time.Time // earliest time to send it; zero: now
	held  bool      // waits at the outbound gate
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{srv: s, nc: nc, raw: nc, in: frameReader{r: nc, limit: s.cfg.MaxBuffer}}
	if t, ok := nc.(*tls.Conn); ok {
		c.raw = t.NetConn()
	}
	c.cond.L = &c.mu
	host := "127.0.0.1" // the address of in-memory connections
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		host = a.IP.String()
	}
	c.who = []id{{"ip", host}}
	return c
}

// view returns the view that serves the client. The caller holds service.mu.
func (c *conn) view() *view {
	if c.lag != nil {
		return &c.lag.view
	}
	return &c.srv.view
}

// send queues frame.
func (c *conn) send(frame []byte) { c.sendAfter(frame, 0) }

// sendAfter queues frame, to be sent after delay. Frames queued later wait for
// it: the order on a connection never changes.
func (c *conn) sendAfter(frame []byte, delay time.Duration) {
	o := outgoing{frame: frame}
	if delay > 0 {
		o.due = time.Now().Add(delay)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finishing || c.aborted {
		return
	}
	if c.outbound.block != nil {
		o.held = true
		c.outbound.keep()
	}
	c.queue = append(c.queue, o)
	c.cond.Broadcast()
}

// finish closes the connection once the queue has been sent.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finishing || c.aborted {
		return
	}
	c.finishing = true
	if c.holes == 0 {
		// This also bounds a write that is already stuck.
		_ = c.nc.SetWriteDeadline(time.Now().Add(flushGrace))
	}
	c.cond.Broadcast()
}

// abort closes the connection now.
func (c *conn) abort() {
	c.mu.Lock()
	c.aborted = true
	c.queue, c.outbound.waiting, c.outbound.lets = nil, 0, 0
	c.cond.Broadcast()
	c.mu.Unlock()
	_ = c.raw.Close()
}

// mute puts the connection into a blackhole.
func (c *conn) mute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holes++
}

// unmute takes the connection out of a blackhole.
func (c *conn) unmute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holes--
	if c.holes == 0 {
		c.wake()
	}
}

// wake makes the reader and the writer check again whether anything may pass.
// The caller holds c.mu.
func (c *conn) wake() {
	c.cond.Broadcast()
	if c.ready {
		// The reader may be in Read while it holds frames back.
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// admit reports whether the first frame in held may be executed, and if so
// counts it out.
func (c *conn) admit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holes == 0 && c.inbound.pass()
}

// keep reports whether a frame that has just arrived must wait, and if so counts
// it.
func (c *conn) keep() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holes == 0 && c.inbound.block == nil && c.inbound.waiting == 0 {
		return false
	}
	c.inbound.keep()
	return true
}

// putBack makes frame the first that waits. It copies frame, which is only valid
// until the next call of next.
func (c *conn) putBack(frame []byte) {
	c.held = append([][]byte{append([]byte(nil), frame...)}, c.held...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inbound.keep()
}

// writeLoop is the writer. It ends, and closes the connection, when the
// connection is aborted or finished or a write fails. Until then the server
// tracks the connection, so that Close can abort it.
func (c *conn) writeLoop() {
	defer c.srv.wg.Done()
	defer c.srv.forget(c)
	defer c.abort()
	var buf []byte
	for {
		batch, ok := c.nextBatch()
		if !ok {
			return
		}
		buf = buf[:0]
		for _, o := range batch {
			buf = append(buf, o.frame...)
		}
		if _, err := c.nc.Write(buf); err != nil {
			return
		}
		if cap(buf) > 1<<16 {
			buf = nil
		}
	}
}

// nextBatch waits for frames that may be sent and takes them off the queue. It
// reports false if the connection must be closed instead.
func (c *conn) nextBatch() ([]outgoing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.aborted:
			return nil, false
		case c.holes > 0:
			// Nothing passes, not even the end of the connection.
		case len(c.queue) == 0 && c.finishing:
			return nil, false
		case len(c.queue) > 0:
			now := time.Now()
			if wait := c.queue[0].due.Sub(now); wait > 0 {
				c.waitAtMost(wait)
				continue
			}
			n := 0
			for n < len(c.queue) && !c.queue[n].due.After(now) && (!c.queue[n].held || c.outbound.pass()) {
				n++
			}
			if n == 0 {
				break
			}
			batch := c.queue[:n:n]
			if c.queue = c.queue[n:]; len(c.queue) == 0 {
				c.queue = nil
			}
			if c.finishing {
				_ = c.nc.SetWriteDeadline(now.Add(flushGrace))
			}
			return batch, true
		}
		c.cond.Wait()
	}
}

// waitAtMost waits for a change for at most d. The caller holds c.mu.
func (c *conn) waitAtMost(d time.Duration) {
	t := time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cond.Broadcast()
	})
	defer t.Stop()
	c.cond.Wait()
}

// readLoop is the reader. When it ends, the server is done with the connection,
// and the writer ends too.
func (c *conn) readLoop() {
	s := c.srv
	defer s.wg.Done()
	err := c.serve()

	s.mu.Lock()
	s.detach(c)
	s.mu.Unlock()

	c.mu.Lock()
	flushing := c.finishing && c.holes == 0 && c.outbound.block == nil
	c.mu.Unlock()
	if !flushing {
		c.abort()
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
		s.log.Warn("zktest: connection dropped", "client", c.nc.RemoteAddr(), "session", hex(c.sid), "reason", err)
	}
}

// serve executes what arrives on the connection until it ends. When the server is
// done with the connection, serve reads on and discards what it reads: closing a
// connection with unread input would reset it and lose the last answers.
func (c *conn) serve() error {
	if t, ok := c.nc.(*tls.Conn); ok {
		if err := t.Handshake(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.ready = true
	c.mu.Unlock()
	if err := c.handshake(); err != nil {
		return err
	}
	for {
		frame, err := c.next()
		if err != nil {
			return err
		}
		if err := c.srv.handle(c, frame); err != nil {
			return err
		}
	}
}

// next returns the next frame to execute. During a blackhole or a Block it keeps
// reading, to learn that the client has left, and holds back what it reads.
func (c *conn) next() ([]byte, error) {
	for {
		if len(c.held) > 0 && c.admit() {
			frame := c.held[0]
			c.held = c.held[1:]
			return frame, nil
		}
		frame, err := c.in.next()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Woken. The deadline must be cleared before the loop checks what
			// may pass, or a wake in between would be lost.
			if err := c.nc.SetReadDeadline(time.Time{}); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		case c.keep():
			c.held = append(c.held, append([]byte(nil), frame...))
		default:
			return frame, nil
		}
	}
}

// errFrame is wrapped by the errors of malformed frames.
var errFrame = errors.New("bad frame")

// A frameReader splits a byte stream into frames: a length of four bytes, then
// as many bytes. When a read fails it keeps what it has, so it can continue after
// a deadline. Its buffer grows with what has arrived, whatever a length field
// claims.
type frameReader struct {
	r     io.Reader
	limit int
	buf   []byte
	from  int // buf[from:] has not been returned yet
}

// next returns the next frame without its length. The frame is valid until the
// next call.
func (f *frameReader) next() ([]byte, error) {
	for {
		have := f.buf[f.from:]
		if len(have) >= 4 {
			size := int(int32(binary.BigEndian.Uint32(have)))
			if size < 0 || size > f.limit {
				return nil, fmt.Errorf("%w: length %d is not between 0 and %d", errFrame, size, f.limit)
			}
			if len(have) >= 4+size {
				f.from += 4 + size
				return have[4 : 4+size : 4+size], nil
			}
		}
		if err := f.fill(); err != nil {
			return nil, err
		}
	}
}

// pending returns up to n bytes that have arrived and have not been returned.
func (f *frameReader) pending(n int) []byte {
	have := f.buf[f.from:]
	return have[:min(n, len(have))]
}

// fill reads once.
func (f *frameReader) fill() error {
	if f.from > 0 {
		rest := copy(f.buf, f.buf[f.from:])
		f.buf, f.from = f.buf[:rest], 0
	}
	if len(f.buf) == 0 && cap(f.buf) > 1<<16 {
		f.buf = nil // do not keep the memory of one large request
	}
	if len(f.buf) == cap(f.buf) {
		f.buf = append(make([]byte, 0, max(4096, 2*cap(f.buf))), f.buf...)
	}
	n, err := f.r.Read(f.buf[len(f.buf):cap(f.buf)])
	f.buf = f.buf[:len(f.buf)+n]
	if n > 0 {
		return nil // the next read reports the error, if any
	}
	if err == io.EOF && len(f.buf) > 0 {
		return fmt.Errorf("%w: the connection ended inside it", errFrame)
	}
	return err
}
