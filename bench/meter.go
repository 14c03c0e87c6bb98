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
	"github.com/holdfast-go/holdfast/zkio"
)

// A meter is a dialer that counts what one session sends, at next to no cost. It can
// also cut its connection, and have the server end its session. Its methods are safe
// for concurrent use.
type meter struct {
	requests atomic.Int64 // including pings, but not handshakes

	// dialing is held by dial and by expire, which keeps the client from resuming the
	// session meanwhile: the server closes its connection then.
	dialing sync.Mutex
	conn    atomic.Pointer[meteredConn] // the latest
}

func (m *meter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	m.dialing.Lock()
	defer m.dialing.Unlock()
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &meteredConn{Conn: conn, sent: frames{each: func([]byte) { m.requests.Add(1) }}}
	m.conn.Store(c)
	return c, nil
}

// cut closes the connection.
func (m *meter) cut() { _ = m.conn.Load().Close() }

// expire has the server at addr end the session, as it does when it has not heard of
// it: expire resumes the session on a connection of its own and closes it there. It
// returns when the server has done so. zkio.CloseSession would also have it list the
// nodes of the session first, of which there are 100,000.
func (m *meter) expire(ctx context.Context, addr string, t zkio.Ticket) error {
	m.dialing.Lock()
	defer m.dialing.Unlock()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends a Read
	hello := jute.AppendInt32(make([]byte, 4), 0)               // version
	hello = jute.AppendInt64(hello, 0)                          // last zxid
	hello = jute.AppendInt32(hello, int32(10*time.Second/time.Millisecond))
	hello = jute.AppendInt64(hello, t.ID)
	hello = jute.AppendBuffer(hello, t.Password)
	hello = jute.AppendBool(hello, false) // read-only
	answer, err := exchange(conn, hello)
	if err != nil {
		return fmt.Errorf("resume the session %#x: %w", t.ID, err)
	}
	r := jute.NewReader(answer)
	if _, timeout := r.Int32(), r.Int32(); timeout <= 0 {
		return fmt.Errorf("the session %#x is over already", t.ID)
	}
	closing := jute.AppendInt32(jute.AppendInt32(make([]byte, 4), 1), jute.OpClose)
	if _, err := exchange(conn, closing); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("close the session %#x: %w", t.ID, err)
	}
	return nil
}

// exchange sends a request, with room for its length ahead, and returns the answer.
func exchange(conn net.Conn, request []byte) ([]byte, error) {
	if _, err := conn.Write(jute.Frame(request)); err != nil {
		return nil, err
	}
	var size uint32
	if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
		return nil, err
	}
	answer := make([]byte, min(size, 1<<20))
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

// A meteredConn is a connection of a meter. One goroutine at a time writes.
type meteredConn struct {
	net.Conn
	sent frames
}

func (c *meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	_, _ = c.sent.Write(p[:n])
	return n, err
}
