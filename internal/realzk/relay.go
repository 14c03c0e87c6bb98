// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// A Relay forwards connections to a server, and can be made a bad network. Its methods
// are safe for concurrent use.
//
// A cut relay is like a network that loses every packet: it neither closes nor refuses
// connections, and it delays data, including the end of a connection, until it is mended,
// as TCP does by retransmission.
//
// The members of an ensemble are connected by relays, in both directions: each knows
// the others by their relays' addresses. So isolating a member needs no privileges
// and no particular operating system, and a killed process leaves nothing behind.
type Relay struct {
	listener net.Listener
	to       string        // host:port of the server
	patience time.Duration // for how long a connection waits until the server listens
	// protocol returns the forwarders of a connection.
	protocol func() (forth, back forwarder)

	ctx  context.Context // ends with the relay
	end  context.CancelFunc
	join sync.WaitGroup // all goroutines of the relay

	mu       sync.Mutex         // protects the fields below
	mended   chan struct{}      // closed unless the relay is cut
	delay    time.Duration      // of each direction
	rate     int                // bytes per second of each direction of a connection; 0: no limit
	calls    map[*call]struct{} // the connections that are carried
	swallows []swallow          // of replies to requests that have not come
}

// A call is a connection that a relay carries.
type call struct {
	ctx    context.Context // ends with the connection
	hangUp context.CancelFunc
}

// NewRelay starts a relay to the server at address to, for this test.
func NewRelay(tb testing.TB, to string) *Relay {
	tb.Helper()
	r, err := RunRelay(to)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}

// RunRelay starts a relay between clients and the server at address to. The caller closes
// it.
func RunRelay(to string) (*Relay, error) {
	r, err := newRelay(to)
	if err != nil {
		return nil, err
	}
	r.protocol = r.clientProtocol
	r.serve()
	return r, nil
}

// newRelay returns a relay that does not serve yet.
func newRelay(to string) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("realzk: listen for the connections to %s: %w", to, err)
	}
	r := &Relay{listener: listener, to: to, mended: make(chan struct{}), calls: make(map[*call]struct{})}
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

// Delay makes each direction a link on which data takes d. Chunks of data are in flight at
// the same time, in their order. 0 ends that.
func (r *Relay) Delay(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = d
}

// Throttle limits each direction of each connection to that many bytes per second. 0 ends
// that.
func (r *Relay) Throttle(bytesPerSecond int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rate = bytesPerSecond
}

// Sever closes the connections that there are, even if the relay is cut, and returns how
// many there were. Later ones are accepted.
func (r *Relay) Sever() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.calls {
		c.hangUp()
	}
	return len(r.calls)
}

// Connections returns how many connections there are.
func (r *Relay) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

// wait waits until the relay is not cut. It returns false if ctx, which ends with the
// relay at the latest, has ended.
func (r *Relay) wait(ctx context.Context) bool {
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
				return ctx.Err() == nil
			}
		case <-ctx.Done():
			return false
		}
	}
}

// carry forwards a connection until its end.
func (r *Relay) carry(from net.Conn) {
	defer from.Close()
	var c call
	c.ctx, c.hangUp = context.WithCancel(r.ctx)
	defer c.hangUp()
	r.mu.Lock()
	r.calls[&c] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, &c)
	}()
	// A client that gives up while the relay is cut or the server does not listen is not
	// noticed before that has ended.
	if !r.wait(c.ctx) {
		return
	}
	to, err := r.dial(c.ctx)
	if err != nil {
		return // and close the connection
	}
	defer to.Close()
	stop := context.AfterFunc(c.ctx, func() {
		_ = from.Close()
		_ = to.Close()
	})
	defer stop()
	var both sync.WaitGroup
	forth, back := r.protocol()
	both.Go(func() { r.pump(&c, to, from, forth) })
	both.Go(func() { r.pump(&c, from, to, back) })
	both.Wait()
}

// memberPatience is the patience of relays between members: the relay has already accepted
// the connection, and a member whose connection to a starting leader is closed looks for
// another leader.
const memberPatience = time.Second

// dial connects to the server. It waits for the relay's patience until the server listens.
func (r *Relay) dial(ctx context.Context) (net.Conn, error) {
	patience := time.NewTimer(r.patience)
	defer patience.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", r.to)
		if err == nil {
			return conn, nil
		}
		if r.patience == 0 {
			return nil, err
		}
		select {
		case <-poll.C:
		case <-patience.C:
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
	}
}

// pump copies from src to dst, including the end of the stream. On error it hangs up.
func (r *Relay) pump(c *call, dst, src net.Conn, forward forwarder) {
	l := newLink(c.ctx, r, dst)
	err := forward(l, src)
	if lerr := l.close(); err == nil {
		err = lerr
	}
	if half, ok := dst.(interface{ CloseWrite() error }); err != nil || !ok || half.CloseWrite() != nil {
		c.hangUp() // which also ends the other pump
	}
}
