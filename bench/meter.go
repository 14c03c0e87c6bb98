// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A meter is a dialer that counts what one session sends, at next to no cost. It can
// also cut its connections, and have the server end its session. Its methods are safe
// for concurrent use.
type meter struct {
	requests atomic.Int64 // including pings, but not handshakes

	// expiring is held by expire. It keeps the session from being resumed meanwhile
	// by the client, whose connection the server closes then.
	expiring sync.RWMutex

	mu      sync.Mutex // protects the fields below
	conns   map[*meteredConn]struct{}
	session session // the latest
}

// A session is what a client needs to resume its session.
type session struct {
	id       int64
	password []byte
}

func (m *meter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	m.expiring.RLock()
	defer m.expiring.RUnlock()
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &meteredConn{Conn: conn, m: m}
	handshake := true
	c.sent.each = func([]byte) {
		if !handshake {
			m.requests.Add(1)
		}
		handshake = false
	}
	c.received.each = func(frame []byte) {
		if c.greeted {
			return
		}
		c.greeted = true
		r := jute.NewReader(frame)
		_, _ = r.Int32(), r.Int32() // version and timeout
		s := session{r.Int64(), append([]byte(nil), r.Buffer()...)}
		if r.Err() == nil && s.id != 0 { // 0: the session is over
			m.mu.Lock()
			defer m.mu.Unlock()
			m.session = s
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conns == nil {
		m.conns = make(map[*meteredConn]struct{})
	}
	m.conns[c] = struct{}{}
	return c, nil
}

// cut closes all connections.
func (m *meter) cut() {
	m.mu.Lock()
	conns := m.conns
	m.conns = nil
	m.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
}

// expire has the server at addr end the session, as it does when it has not heard of
// it: expire resumes the session on a connection of its own and closes it there. It
// returns when the server has done so.
func (m *meter) expire(ctx context.Context, addr string) error {
	m.expiring.Lock()
	defer m.expiring.Unlock()
	m.mu.Lock()
	s := m.session
	m.mu.Unlock()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends a Read
	hello := jute.AppendInt32(nil, 0)                           // version
	hello = jute.AppendInt64(hello, 0)                          // last zxid
	hello = jute.AppendInt32(hello, int32(10*time.Second/time.Millisecond))
	hello = jute.AppendInt64(hello, s.id)
	hello = jute.AppendBuffer(hello, s.password)
	hello = jute.AppendBool(hello, false) // read-only
	answer, err := exchange(conn, hello)
	if err != nil {
		return fmt.Errorf("resume the session %#x: %w", s.id, err)
	}
	r := jute.NewReader(answer)
	if _, timeout := r.Int32(), r.Int32(); timeout <= 0 {
		return fmt.Errorf("the session %#x is over already", s.id)
	}
	closing := jute.AppendInt32(jute.AppendInt32(nil, 1), jute.OpClose)
	if _, err := exchange(conn, closing); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("close the session %#x: %w", s.id, err)
	}
	return nil
}

// exchange sends a frame and returns the answer.
func exchange(conn net.Conn, frame []byte) ([]byte, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 1<<20 {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

// A meteredConn is a connection of a meter.
type meteredConn struct {
	net.Conn
	m *meter

	writing  sync.Mutex // protects sent
	sent     scanner
	reading  sync.Mutex // protects received and greeted
	received scanner
	greeted  bool
}

func (c *meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.writing.Lock()
	defer c.writing.Unlock()
	c.sent.scan(p[:n])
	return n, err
}

func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.reading.Lock()
	defer c.reading.Unlock()
	if !c.greeted {
		c.received.scan(p[:n])
	}
	return n, err
}

func (c *meteredConn) Close() error {
	c.m.mu.Lock()
	delete(c.m.conns, c)
	c.m.mu.Unlock()
	return c.Conn.Close()
}

// A scanner finds the frames of a stream.
type scanner struct {
	each func(frame []byte) // gets the beginning of each frame, which it must not keep

	began []byte // the beginning of the present frame, its length first
	left  int    // bytes of it that are still to come
}

// beginning is how much of a frame a scanner passes on: more than a handshake has.
const beginning = 128

// scan takes the next part of the stream.
func (s *scanner) scan(p []byte) {
	for len(p) > 0 {
		if missing := 4 - len(s.began); missing > 0 {
			n := min(missing, len(p))
			s.began, p = append(s.began, p[:n]...), p[n:]
			if len(s.began) < 4 {
				return
			}
			s.left = int(binary.BigEndian.Uint32(s.began))
		}
		n := min(s.left, len(p))
		if room := 4 + beginning - len(s.began); room > 0 {
			s.began = append(s.began, p[:min(n, room)]...)
		}
		p, s.left = p[n:], s.left-n
		if s.left == 0 {
			s.each(s.began[4:])
			s.began = s.began[:0]
		}
	}
}
