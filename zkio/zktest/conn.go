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

// flushGrace bounds the time that a connection that the server closes has for
// its last answers; a client that does not read loses them.
const flushGrace = 5 * time.Second

// A conn is one connection of a client. Two goroutines serve it: the reader
// takes requests from the wire and executes them, one after the other; the
// writer sends what is queued. Since the queue has no bound, executing a
// request never waits for anybody's network, and a watch event costs its
// causer an append.
type conn struct {
	srv *Server
	nc  net.Conn
	raw net.Conn // nc, or what is below its TLS: closing it never waits

	// Only the reader uses these.
	in   frameReader
	held [][]byte // frames that arrived during a blackhole, or that a Block keeps; inbound.waiting is their number

	serial uint64 // in the order of the connections' making; set before its goroutines run

	// Server.mu protects these.
	lag     *Lag     // the view that it is served from, if that is not the lead
	session *session // whose conn this is; nil before the handshake, and when the server has parted with the connection
	sid     int64    // the session's id; written once, by the reader, which reads it without Server.mu
	who     []id     // the identities that the client has proved
	watches map[string]watching
	gone    bool // the server has parted with the connection: nothing that still arrives is executed

	// mu protects the rest. It is taken with and without Server.mu held, and
	// nothing is locked under it.
	mu        sync.Mutex
	cond      sync.Cond // something below has changed
	queue     []outgoing
	finishing bool // close the connection when the queue is empty
	aborted   bool // the connection is closed; forget the queue
	ready     bool // the reader can be woken: a TLS handshake cannot be interrupted
	holes     int  // blackholes that the connection is in
	inbound   gate // before the frames in held
	outbound  gate // before the frames in queue that are held
}

// An outgoing frame waits in a connection's queue.
type outgoing struct {
	frame []byte    // shared among connections if it is an event: never changed
	due   time.Time // not to be sent before; zero: at once
	held  bool      // it waits at the outbound gate
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{srv: s, nc: nc, raw: nc, in: frameReader{r: nc, limit: s.cfg.MaxBuffer}}
	if t, ok := nc.(*tls.Conn); ok {
		c.raw = t.NetConn()
	}
	c.cond.L = &c.mu
	host := "127.0.0.1" // what an in-memory connection passes for
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		host = a.IP.String()
	}
	c.who = []id{{"ip", host}}
	return c
}

// address returns the address that the client has connected to.
func (c *conn) address() string { return c.nc.LocalAddr().String() }

// view returns the data as the server shows them to the client. The caller
// holds Server.mu.
func (c *conn) view() *view {
	if c.lag != nil {
		return &c.lag.view
	}
	return &c.srv.lead
}

// send queues frame.
func (c *conn) send(frame []byte) { c.sendAfter(frame, 0) }

// sendAfter queues frame, to be sent no sooner than after delay. What is
// queued behind it waits too: the order on a connection never changes.
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

// finish closes the connection as soon as what is queued has been sent.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finishing || c.aborted {
		return
	}
	c.finishing = true
	if c.holes == 0 {
		// A write that is stuck already gets a bound, too.
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

// mute puts the connection into one more blackhole.
func (c *conn) mute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holes++
}

// unmute takes the connection out of one.
func (c *conn) unmute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holes--
	if c.holes == 0 {
		c.wake()
	}
}

// wake has reader and writer look whether something may pass that could not.
// The caller holds c.mu.
func (c *conn) wake() {
	c.cond.Broadcast()
	if c.ready {
		// The reader may be waiting in Read, with frames held back.
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// admit reports whether the first of the frames in held may be executed, and
// counts it as gone if so.
func (c *conn) admit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holes == 0 && c.inbound.pass()
}

// keep reports whether a frame that has just arrived has to wait, and counts it
// if so.
func (c *conn) keep() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holes == 0 && c.inbound.block == nil && c.inbound.waiting == 0 {
		return false
	}
	c.inbound.keep()
	return true
}

// putBack has frame wait before all others. It is good until the next call of
// next only, and so is copied.
func (c *conn) putBack(frame []byte) {
	c.held = append([][]byte{append([]byte(nil), frame...)}, c.held...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inbound.keep()
}

// writeLoop is the writer. It ends, and closes the connection, when that was
// aborted or is finished, or a write fails. Until then the server knows of the
// connection, so that Close can abort it.
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

// nextBatch waits until there is something to send and it may be sent, and
// takes it. It reports false when the connection is to be closed.
func (c *conn) nextBatch() ([]outgoing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.aborted:
			return nil, false
		case c.holes > 0:
			// Nothing passes, the end of the connection included.
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

// waitAtMost waits for a change, or for d. The caller holds c.mu.
func (c *conn) waitAtMost(d time.Duration) {
	t := time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cond.Broadcast()
	})
	defer t.Stop()
	c.cond.Wait()
}

// readLoop is the reader. When it ends the server has parted with the
// connection, and the writer ends too.
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

// serve executes what arrives on the connection until it ends. What arrives
// after the server has parted with the connection is read and thrown away, so
// that the last answers are not lost to a reset.
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

// next returns the next frame that arrives. During a blackhole or a Block it
// goes on reading, since that is how it learns that the client has left, but
// keeps what it reads until it may pass.
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
			// We were woken. The order matters: first the deadline is cleared,
			// then the loop looks whether something may pass.
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

// errFrame is wrapped by the error of a frame that no client may send.
var errFrame = errors.New("bad frame")

// A frameReader cuts a byte stream into frames: four bytes of length, then as
// many bytes. It keeps what it has when a read fails, so that it can go on
// after a deadline. Its buffer grows with what arrives, not with what a
// length field promises.
type frameReader struct {
	r     io.Reader
	limit int
	buf   []byte
	from  int // buf[from:] has arrived and not been returned
}

// next returns the next frame, without its length. It is good until the next
// call.
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

// pending returns up to n bytes that have arrived and not been returned.
func (f *frameReader) pending(n int) []byte {
	have := f.buf[f.from:]
	return have[:min(n, len(have))]
}

// fill reads once more from the wire.
func (f *frameReader) fill() error {
	if f.from > 0 {
		rest := copy(f.buf, f.buf[f.from:])
		f.buf, f.from = f.buf[:rest], 0
	}
	if len(f.buf) == 0 && cap(f.buf) > 1<<16 {
		f.buf = nil // one large request does not pin its memory
	}
	if len(f.buf) == cap(f.buf) {
		f.buf = append(make([]byte, 0, max(4096, 2*cap(f.buf))), f.buf...)
	}
	n, err := f.r.Read(f.buf[len(f.buf):cap(f.buf)])
	f.buf = f.buf[:len(f.buf)+n]
	if n > 0 {
		return nil // an error, if any, comes again
	}
	if err == io.EOF && len(f.buf) > 0 {
		return fmt.Errorf("%w: the connection ended inside it", errFrame)
	}
	return err
}
