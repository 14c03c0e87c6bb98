// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// A Server is a ZooKeeper server within this process. Use NewServer to create one
// and Close to end it. All methods are safe for concurrent use.
type Server struct {
	*service
	member
	faults *Faults

	// service.mu protects these.
	view        view   // the data as this server has it
	lags        []*Lag // views that lag behind it
	lastSession int64
	conns       map[*conn]struct{}
	lastConn    uint64 // serial number of the latest connection
	listeners   []net.Listener
	requests    map[Op]uint64
	received    uint64 // requests since the word srst
	traceMask   int64  // set and shown by four-letter words, without effect

	onRequest atomic.Pointer[func(session int64, op Op, path string)]
}

// NewServer starts an empty server. Clients reach it by Dial, or by TCP after
// Listen or Serve.
func NewServer(cfg Config) *Server {
	svc := newService(cfg)
	s := svc.add(svc.cfg.ID)
	svc.run()
	return s
}

// Listen accepts connections on a TCP address until Close; "127.0.0.1:0" picks a
// free port. It returns the address that clients can connect to. It may be called
// more than once.
func (s *Server) Listen(addr string) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("zktest: listen: %w", err)
	}
	if err := s.Serve(l); err != nil {
		return "", err
	}
	return l.Addr().String(), nil
}

// Serve accepts connections from l in the background until Close, which closes
// l. For TLS, pass a listener made by [tls.NewListener]. It may be called more
// than once.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(fmt.Errorf("zktest: serve on %s: server is closed: %w", l.Addr(), net.ErrClosed), l.Close())
	}
	s.listeners = append(s.listeners, l)
	s.wg.Add(1)
	s.log.Info("zktest: embedded ZooKeeper-protocol server, in memory, for development and tests only", "address", l.Addr().String())
	go s.acceptLoop(l)
	return nil
}

// acceptLoop accepts connections until l is closed.
func (s *Server) acceptLoop(l net.Listener) {
	defer s.wg.Done()
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed):
			return
		default:
			// Most likely there are no file descriptors left. Try again later.
			s.log.Warn("zktest: accept", "reason", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.quit:
				return
			}
			continue
		}
		if c := newConn(s, nc); !s.serve(c) {
			if tc, ok := c.raw.(*net.TCPConn); ok {
				_ = tc.SetLinger(0) // the client sees a reset
			}
			_ = c.raw.Close()
		}
	}
}

// Dial returns a new in-memory connection to the server. It ignores network, and
// uses address only as the connection's RemoteAddr. It never blocks. While
// connections are refused, between Stop and Start, and after Close, its error
// wraps syscall.ECONNREFUSED. In a testing/synctest bubble it works if the server
// was created in the same bubble.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	remote := pipeAddr(address)
	if err := ctx.Err(); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: remote, Err: err}
	}
	client, server := newPipe(pipeAddr("client"), remote)
	if !s.serve(newConn(s, server)) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: remote, Err: syscall.ECONNREFUSED}
	}
	return client, nil
}

// serve starts the two goroutines of a connection, or reports false if
// connections are refused.
func (s *Server) serve(c *conn) bool {
	s.mu.Lock()
	s.lastConn++
	c.serial = s.lastConn // before admit: a fault's timer may sort its connections then
	if s.closed || s.role == down || !s.faults.admit(c) {
		s.mu.Unlock()
		return false
	}
	s.conns[c] = struct{}{}
	s.wg.Add(2) // under mu: Close has not begun to wait
	s.mu.Unlock()
	go c.readLoop()
	go c.writeLoop()
	return true
}

// connections returns the open connections in the order of their creation. The
// caller holds s.mu.
func (s *Server) connections() []*conn { return inOrder(s.conns) }

// inOrder returns connections in the order of their creation, so that nothing
// depends on a map's order.
func inOrder(conns map[*conn]struct{}) []*conn {
	return slices.SortedFunc(maps.Keys(conns), func(a, b *conn) int { return cmp.Compare(a.serial, b.serial) })
}

// detach ends the server's dealings with c: it removes c's watches and the link to
// its session, and nothing that still arrives on c is executed. The caller holds
// s.mu.
func (s *Server) detach(c *conn) {
	c.gone = true
	c.view().watches.drop(c)
	if c.session != nil {
		c.session.leave(c)
		c.session = nil
	}
}

// forget removes a closed connection.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.faults.forget(c)
}

// Close ends the server at once, and all others of its ensemble, without notice
// to clients. When it returns, all of their goroutines have ended; the nodes can
// still be inspected. Close must not be called from an OnRequest hook. A second
// Close waits for the first.
func (s *Server) Close() error {
	s.mu.Lock()
	var err error
	if !s.closed {
		s.closed = true
		close(s.quit)
		var errs []error
		for _, srv := range s.servers {
			for _, l := range srv.listeners {
				errs = append(errs, l.Close())
			}
			for _, c := range srv.connections() {
				c.abort()
			}
		}
		err = errors.Join(errs...)
	}
	s.mu.Unlock()
	for _, srv := range s.servers {
		srv.faults.Clear()
	}
	s.wg.Wait()
	return err
}

// hex formats a session id or zxid as ZooKeeper does.
func hex(n int64) string { return fmt.Sprintf("0x%x", uint64(n)) }
