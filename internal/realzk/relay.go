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

// A Relay carries connections to a server, and can be cut. A cut relay is like
// a network that loses every packet: it closes nothing and refuses nothing, and
// what was sent, the end of a connection included, waits until it is mended, as
// TCP would send it again. Its methods may be called by any goroutine.
//
// Between the members of an [Ensemble] there are relays in both directions:
// each knows the others by their addresses. So it takes neither rights over the
// machine's network nor a particular operating system to isolate a member, and
// nothing stays behind when a test is killed.
type Relay struct {
	listener net.Listener
	to       string // host:port of the server
	// begin, if set, passes on what a connection begins with, changed.
	begin func(dst io.Writer, src io.Reader) error

	ctx  context.Context // ends with the relay
	end  context.CancelFunc
	join sync.WaitGroup // all goroutines of the relay

	mu     sync.Mutex    // protects mended
	mended chan struct{} // closed while the relay is whole, else when it is mended
}

// NewRelay starts a relay to the server at address to, for this test.
func NewRelay(tb testing.TB, to string) *Relay {
	tb.Helper()
	r, err := newRelay(to)
	if err != nil {
		tb.Fatal(err)
	}
	r.serve()
	tb.Cleanup(r.Close)
	return r
}

// newRelay makes a relay that does not serve yet.
func newRelay(to string) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("realzk: listen for the connections to %s: %w", to, err)
	}
	r := &Relay{listener: listener, to: to, mended: make(chan struct{})}
	close(r.mended)
	r.ctx, r.end = context.WithCancel(context.Background())
	return r, nil
}

// Addr returns where the relay listens, host:port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// port is the port on which it listens.
func (r *Relay) port() int { return r.listener.Addr().(*net.TCPAddr).Port }

// serve begins to carry connections.
func (r *Relay) serve() {
	r.join.Go(func() {
		for {
			from, err := r.listener.Accept()
			if err != nil {
				return // closed; there is nothing else that fails on loopback
			}
			r.join.Go(func() { r.carry(from) })
		}
	})
}

// Close ends the relay and its connections, and returns when all is quiet. From
// then on connections are refused. A second Close does nothing.
func (r *Relay) Close() {
	r.end()
	_ = r.listener.Close() // it fails only if it was closed before
	r.join.Wait()
}

// Cut lets nothing pass from now on; only what is being written to a socket at
// this moment may yet arrive.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.mended:
		r.mended = make(chan struct{})
	default: // it is cut
	}
}

// Mend lets pass what has waited, and whatever comes.
func (r *Relay) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.mended: // it is whole
	default:
		close(r.mended)
	}
}

// wait returns true as soon as the relay is whole, and false if it ends.
func (r *Relay) wait() bool {
	for {
		r.mu.Lock()
		mended := r.mended
		r.mu.Unlock()
		select {
		case <-mended:
			// It may have been cut again before we got here.
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

// carry carries one connection to its end.
func (r *Relay) carry(from net.Conn) {
	defer from.Close()
	if !r.wait() {
		return
	}
	to, err := r.dial()
	if err != nil {
		return // which tells the other side
	}
	defer to.Close()
	stop := context.AfterFunc(r.ctx, func() {
		_ = from.Close()
		_ = to.Close()
	})
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { r.pump(to, from, r.begin) })
	both.Go(func() { r.pump(from, to, nil) })
	both.Wait()
}

// dial connects to the member. One that does not listen yet is given a second:
// we have accepted the connection before we know, and a member that is accepted
// and then dropped by a leader that has not quite begun looks for another.
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

// pump passes on what src sends, and then that it has ended. If that is not
// possible it ends both.
func (r *Relay) pump(dst, src net.Conn, begin func(io.Writer, io.Reader) error) {
	out := waitingWriter{r, dst}
	var err error
	if begin != nil {
		err = begin(out, src)
	}
	if err == nil {
		_, err = io.Copy(out, onlyReader{src})
	}
	if !r.wait() {
		return
	}
	if half, ok := dst.(interface{ CloseWrite() error }); err != nil || !ok || half.CloseWrite() != nil {
		_ = src.Close() // the other pump ends too then
		_ = dst.Close()
	}
}

// A waitingWriter writes when the relay is whole.
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

// An onlyReader keeps io.Copy from letting the kernel pass data on by itself.
type onlyReader struct{ io.Reader }

// The first bytes of a connection between members that agree on a leader: the
// protocol's version, the number of the member that connects, and the length of
// the address that follows, at which it says it can be reached itself. Both
// versions begin like that.
const (
	greetingHead    = 8 + 8 + 4
	greetingV1      = -65536
	greetingV2      = -65535
	greetingMaximum = 512
)

// introduceAs returns what changes the address in a greeting to addr. A member
// that is called by one with a lower number hangs up and calls back, at the
// address in the greeting: it must be that of a relay too, or it goes around it.
func introduceAs(addr string) func(io.Writer, io.Reader) error {
	return func(dst io.Writer, src io.Reader) error {
		head := make([]byte, greetingHead)
		if n, err := io.ReadFull(src, head); err != nil {
			_, werr := dst.Write(head[:n])
			return werr // whoever reads on finds the end himself
		}
		version, length := int64(binary.BigEndian.Uint64(head)), binary.BigEndian.Uint32(head[16:])
		if version != greetingV1 && version != greetingV2 || length > greetingMaximum {
			return fmt.Errorf("no greeting: it begins with version %d and length %d", version, length)
		}
		if _, err := io.CopyN(io.Discard, src, int64(length)); err != nil {
			return err
		}
		greeting := make([]byte, greetingHead+len(addr))
		copy(greeting, head)
		binary.BigEndian.PutUint32(greeting[16:], uint32(len(addr)))
		copy(greeting[greetingHead:], addr)
		_, err := dst.Write(greeting)
		return err
	}
}
