// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"
)

// This file is how a session drives go-zookeeper. The library's main loop asks
// for a server (Next) and for a connection to it (dial), until it has one. Then
// it starts a sender, of the pings, and a receiver, and waits until both have ended,
// and begins again. It sends no requests: see exchange.

const (
	// sendBuffer is what go-zookeeper sends from: the connect request and the pings.
	sendBuffer = 4096
	// receiveBuffer is what it makes for each connection, to no use: the wire keeps all
	// answers to itself. By default it would make 1.5 MB.
	receiveBuffer = 4096
)

// opts makes a slice of go-zookeeper's options, whose type it does not export.
func opts[T any](o ...T) []T { return o }

// start connects. It returns at once; the session is established, or over, later.
func (s *Session) start() error {
	conn, events, err := zk.Connect(s.client.cfg.Servers, s.client.cfg.SessionTimeout, opts(
		zk.WithHostProvider(hostProvider{s}),
		zk.WithDialer(s.dial),
		zk.WithEventCallback(s.onEvent),
		zk.WithLogger(noLogger{}),
		zk.WithLogInfo(false),
		zk.WithMaxConnBufferSize(sendBuffer),
		zk.WithMaxBufferSize(receiveBuffer),
	)...)
	s.conn, s.events = conn, events
	return err
}

// onEvent is go-zookeeper's callback, on its goroutines. It tells of the session
// only, because the wire keeps watch events to itself, and the wire knows all that
// it tells before go-zookeeper does, but for the last.
//
// go-zookeeper's Close tells the main loop to quit, and then queues a request, for
// whose answer it waits a second. The loop answers what is queued when it quits,
// right after this call, which gives Close time to queue it. Should that not be
// enough, closing takes a second longer.
func (s *Session) onEvent(ev zk.Event) {
	if ev.State == zk.StateDisconnected && s.isQuitting() {
		<-time.After(2 * time.Millisecond)
	}
}

// hostProvider is what go-zookeeper asks for the next server.
type hostProvider struct{ s *Session }

func (hostProvider) Init([]string) error { return nil }

func (p hostProvider) Len() int { return len(p.s.client.hosts.servers) }

// Next returns the server to try next. Its second result makes go-zookeeper sleep for a
// second and look whether it was closed, which it does nowhere else between two attempts.
func (p hostProvider) Next() (server string, retryStart bool) {
	p.s.beginDialing()
	if p.s.isQuitting() {
		return p.s.client.hosts.servers[0], true
	}
	return p.s.client.hosts.pick(), false
}

func (p hostProvider) Connected() {}

// noLogger drops go-zookeeper's lines: our own say more.
type noLogger struct{}

func (noLogger) Printf(string, ...any) {}

// beginDialing notes that go-zookeeper's main loop has no connection.
func (s *Session) beginDialing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link.dialing = true
	s.changedLocked()
}

// dial is go-zookeeper's dialer: it connects to server and does the handshake.
// It does not connect once the session is over.
func (s *Session) dial(_, server string, _ time.Duration) (net.Conn, error) {
	hosts := s.client.hosts
	s.attempting()
	if !sleep(hosts.pause(s.Timeout()), s.over) {
		return nil, s.park()
	}
	began := s.client.clock.now()
	ctx, cancel := context.WithTimeout(s.ctx, hosts.attempt(s.Timeout()))
	defer cancel()
	w, err := s.connect(ctx, server)
	switch {
	case err == nil:
		return w, nil
	case s.Err() != nil:
		return nil, s.park()
	}
	hosts.noteFailure(server, reasonOf(err, s.client.clock.now()-began))
	return nil, err
}

// connect makes a connection to server the session's, by ctx's end.
func (s *Session) connect(ctx context.Context, server string) (*wire, error) {
	conn, raw, err := s.client.hosts.dial(ctx, &s.client.cfg, server)
	if err != nil {
		return nil, err
	}
	w := newWire(s, server, conn, raw)
	g, err := w.handshake(ctx)
	if err == nil && s.connected(w, g) {
		return w, nil
	}
	_ = raw.Close() // it is of no use any more
	switch {
	case err == nil:
		return nil, errFenced
	case errors.Is(err, ErrSessionOver), errors.Is(err, ErrAuthFailed):
		s.end(err, errors.Is(err, errSessionExpired))
	case s.ID() != 0 && wasRefused(err):
		s.refused()
	}
	return nil, err
}

// wasRefused reports whether the server refused the session in the handshake.
func wasRefused(err error) bool {
	return errors.Is(err, errNoLeader) || closedByPeer(err)
}

// closedByPeer reports whether the other end has closed the connection.
func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// park holds go-zookeeper's main loop in the dialer, once the session is over,
// until closeConn lets it go.
func (s *Session) park() error {
	<-s.quitting
	return errFenced
}

func (s *Session) isQuitting() bool { return isClosed(s.quitting) }

// closeConn closes go-zookeeper's connection object and joins its goroutines
// and the session's own. The session must be over.
//
// It waits until the main loop has no connection, which it will not have again. The loop
// may be dialing, or parked there; it notices that it is to quit.
func (s *Session) closeConn() {
	for {
		s.mu.Lock()
		dialing, change := s.link.dialing, s.change
		s.mu.Unlock()
		if dialing {
			break
		}
		<-change
	}
	close(s.quitting)
	s.conn.Close()
	for range s.events { // closed when the last of its goroutines has ended
	}
	s.group.Wait()
}
