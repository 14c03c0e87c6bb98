// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A Relay forwards connections to a server, and can be cut. A cut relay is like a
// network that loses every packet: it neither closes nor refuses connections, and it
// delays data, including the end of a connection, until it is mended, as TCP does by
// retransmission. Its methods are safe for concurrent use.
//
// The members of an [Ensemble] are connected by relays, in both directions: each knows
// the others by their relays' addresses. So isolating a member needs no privileges
// and no particular operating system, and a killed test leaves nothing behind.
type Relay struct {
	listener net.Listener
	to       string // host:port of the server
	// protocol returns the forwarders of a connection.
	protocol func() (forth, back forwarder)

	ctx  context.Context // ends with the relay
	end  context.CancelFunc
	join sync.WaitGroup // all goroutines of the relay

	mu       sync.Mutex    // protects the fields below
	mended   chan struct{} // closed unless the relay is cut
	swallows []swallow     // of replies to requests that have not come
}

// NewRelay starts a relay to the server at address to, for this test.
func NewRelay(tb testing.TB, to string) *Relay {
	tb.Helper()
	r, err := newRelay(to)
	if err != nil {
		tb.Fatal(err)
	}
	r.protocol = r.clientProtocol
	r.serve()
	tb.Cleanup(r.Close)
	return r
}

// newRelay returns a relay that does not serve yet.
func newRelay(to string) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("realzk: listen for the connections to %s: %w", to, err)
	}
	r := &Relay{listener: listener, to: to, mended: make(chan struct{})}
	r.protocol = func() (forth, back forwarder) { return forwardAll, forwardAll }
	close(r.mended)
	r.ctx, r.end = context.WithCancel(context.Background())
	return r, nil
}

// Addr returns the relay's address, host:port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// port returns the relay's port.
func (r *Relay) port() int { return r.listener.Addr().(*net.TCPAddr).Port }

// serve starts forwarding connections.
func (r *Relay) serve() {
	r.join.Go(func() {
		for {
			from, err := r.listener.Accept()
			if err != nil {
				return // closed; on loopback nothing else fails
			}
			r.join.Go(func() { r.carry(from) })
		}
	})
}

// Close closes the relay and its connections, and waits for its goroutines. A second
// Close does nothing.
func (r *Relay) Close() {
	r.end()
	_ = r.listener.Close() // it fails only if closed before
	r.join.Wait()
}

// Cut stops forwarding. Data that is being written to a socket may still arrive.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.mended:
		r.mended = make(chan struct{})
	default: // it is cut
	}
}

// Mend resumes forwarding, beginning with what was delayed.
func (r *Relay) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.mended: // it is whole
	default:
		close(r.mended)
	}
}

// wait waits until the relay is not cut. It returns false if the relay is closed.
func (r *Relay) wait() bool {
	for {
		r.mu.Lock()
		mended := r.mended
		r.mu.Unlock()
		select {
		case <-mended:
			// It may have been cut again since.
			r.mu.Lock()
			whole := r.mended == mended
			r.mu.Unlock()
			if whole {
				return r.ctx.Err() == nil
			}
		case <-r.ctx.Done():
			return false
		}
	}
}

// carry forwards a connection until its end.
func (r *Relay) carry(from net.Conn) {
	defer from.Close()
	if !r.wait() {
		return
	}
	to, err := r.dial()
	if err != nil {
		return // and close the connection
	}
	defer to.Close()
	stop := context.AfterFunc(r.ctx, func() {
		_ = from.Close()
		_ = to.Close()
	})
	defer stop()
	var both sync.WaitGroup
	forth, back := r.protocol()
	both.Go(func() { r.pump(to, from, forth) })
	both.Go(func() { r.pump(from, to, back) })
	both.Wait()
}

// dial connects to the server. It waits for up to a second until the server listens:
// the relay has already accepted the connection, and a member whose connection to a
// starting leader is closed looks for another leader.
func (r *Relay) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(r.ctx, time.Second)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", r.to)
		if err == nil {
			return conn, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// pump copies from src to dst, including the end of the stream. On error it closes
// both.
func (r *Relay) pump(dst, src net.Conn, forward forwarder) {
	err := forward(waitingWriter{r, dst}, src)
	if !r.wait() {
		return
	}
	if half, ok := dst.(interface{ CloseWrite() error }); err != nil || !ok || half.CloseWrite() != nil {
		_ = src.Close() // which also ends the other pump
		_ = dst.Close()
	}
}

// A waitingWriter waits before each write until the relay is not cut.
type waitingWriter struct {
	relay *Relay
	w     io.Writer
}

func (w waitingWriter) Write(p []byte) (int, error) {
	if !w.relay.wait() {
		return 0, net.ErrClosed
	}
	return w.w.Write(p)
}

// An onlyReader keeps io.Copy from having the kernel copy, which could not wait.
type onlyReader struct{ io.Reader }

// A connection for electing a leader begins with the protocol's version, the number of
// the member that connects, the length of its address, and that address. This is the
// same in both versions.
const (
	greetingHead    = 8 + 8 + 4
	greetingV1      = -65536
	greetingV2      = -65535
	greetingMaximum = 512
)

// introduceAs returns a forwarder that replaces the address in the greeting with addr.
// A member that receives a connection from one with a lower number closes it
// and connects to the address in the greeting, which must be that of a relay, too.
func introduceAs(addr string) forwarder {
	return func(dst io.Writer, src io.Reader) error {
		head := make([]byte, greetingHead)
		if n, err := io.ReadFull(src, head); err != nil {
			_, werr := dst.Write(head[:n])
			return werr // the reader will see the end of src
		}
		version, length := int64(binary.BigEndian.Uint64(head)), binary.BigEndian.Uint32(head[16:])
		if version != greetingV1 && version != greetingV2 || length > greetingMaximum {
			return fmt.Errorf("not a greeting: version %d, length %d", version, length)
		}
		if _, err := io.CopyN(io.Discard, src, int64(length)); err != nil {
			return err
		}
		greeting := make([]byte, greetingHead+len(addr))
		copy(greeting, head)
		binary.BigEndian.PutUint32(greeting[16:], uint32(len(addr)))
		copy(greeting[greetingHead:], addr)
		if _, err := dst.Write(greeting); err != nil {
			return err
		}
		return forwardAll(dst, src)
	}
}
