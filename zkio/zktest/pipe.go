// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// newPipe returns the two ends of an in-memory connection.
//
// Unlike net.Pipe, it has an unbounded buffer: a Write never waits for the other
// side to read. Neither side can block the other, so a program that works with
// sockets and their buffers cannot deadlock here. In a testing/synctest bubble,
// waiting on the sync.Cond counts as durably blocked, and the timers of deadlines
// run in virtual time.
func newPipe(client, server net.Addr) (clientEnd, serverEnd net.Conn) {
	up, down := newStream(), newStream()
	return &pipeEnd{in: down, out: up, local: client, remote: server},
		&pipeEnd{in: up, out: down, local: server, remote: client}
}

// A pipeAddr is the address of one end of an in-memory connection.
type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }

// A pipeEnd is one end of an in-memory connection.
type pipeEnd struct {
	in, out       *stream
	local, remote net.Addr
}

func (e *pipeEnd) Read(p []byte) (int, error) {
	n, err := e.in.read(p)
	return n, e.wrap("read", err)
}

func (e *pipeEnd) Write(p []byte) (int, error) {
	n, err := e.out.write(p)
	return n, e.wrap("write", err)
}

// Close ends both directions: the peer reads what was written before, then
// io.EOF; its writes fail.
func (e *pipeEnd) Close() error {
	e.in.closeReader()
	e.out.closeWriter()
	return nil
}

func (e *pipeEnd) LocalAddr() net.Addr  { return e.local }
func (e *pipeEnd) RemoteAddr() net.Addr { return e.remote }

func (e *pipeEnd) SetDeadline(t time.Time) error {
	e.in.setReadDeadline(t)
	e.out.setWriteDeadline(t)
	return nil
}

func (e *pipeEnd) SetReadDeadline(t time.Time) error {
	e.in.setReadDeadline(t)
	return nil
}

func (e *pipeEnd) SetWriteDeadline(t time.Time) error {
	e.out.setWriteDeadline(t)
	return nil
}

func (e *pipeEnd) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "pipe", Source: e.local, Addr: e.remote, Err: err}
}

// A stream is one direction of a pipe: a byte queue.
type stream struct {
	mu    sync.Mutex
	cond  sync.Cond // signals changes of the fields below
	buf   []byte
	off   int  // buf[:off] has been read
	ended bool // the writer has closed: EOF follows buf
	gone  bool // the reader has closed: writes fail

	readDeadline  time.Time
	writeDeadline time.Time
}

func newStream() *stream {
	s := new(stream)
	s.cond.L = &s.mu
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.gone:
			return 0, net.ErrClosed
		case passed(s.readDeadline):
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case s.off < len(s.buf):
			n := copy(p, s.buf[s.off:])
			s.off += n
			if s.off == len(s.buf) {
				s.buf, s.off = s.buf[:0], 0
				if cap(s.buf) > 1<<16 {
					s.buf = nil // do not keep the memory of one large answer
				}
			}
			return n, nil
		case s.ended:
			return 0, io.EOF
		}
		s.wait()
	}
}

// wait waits for a change or the read deadline. Setting a deadline is a change
// too, so the timer is never out of date.
func (s *stream) wait() {
	if !s.readDeadline.IsZero() {
		t := time.AfterFunc(time.Until(s.readDeadline), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.cond.Broadcast()
		})
		defer t.Stop()
	}
	s.cond.Wait()
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return 0, net.ErrClosed
	case s.gone:
		return 0, io.ErrClosedPipe
	case passed(s.writeDeadline):
		return 0, os.ErrDeadlineExceeded
	}
	if s.off > 0 && len(s.buf)+len(p) > cap(s.buf) {
		s.buf = s.buf[:copy(s.buf, s.buf[s.off:])] // make room before growing
		s.off = 0
	}
	s.buf = append(s.buf, p...)
	s.cond.Broadcast()
	return len(p), nil
}

func (s *stream) closeReader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.buf, s.off = nil, 0
	s.cond.Broadcast()
}

func (s *stream) closeWriter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.cond.Broadcast()
}

func (s *stream) setReadDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readDeadline = t
	s.cond.Broadcast()
}

func (s *stream) setWriteDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeDeadline = t
}

func passed(deadline time.Time) bool {
	return !deadline.IsZero() && !time.Now().Before(deadline)
}
