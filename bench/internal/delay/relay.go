// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A Relay forwards connections to a server and delays each direction. Its methods are
// safe for concurrent use.
type Relay struct {
	listener net.Listener
	server   string
	delay    time.Duration // without own
	own      time.Duration // what the relay itself takes, and its delay does not

	ctx  context.Context // ends with the relay
	end  context.CancelFunc
	join sync.WaitGroup // all goroutines of the relay
}

// Start starts a relay to the server at host:port. A round trip through it takes twice
// the delay longer than without it. It takes some time to find out what the relay
// itself takes, and deducts that; see own.
func Start(server string, delay time.Duration) (*Relay, error) {
	took, err := own()
	if err != nil {
		return nil, err
	}
	took = min(took, delay/4)
	r, err := start(server, delay-took)
	if err != nil {
		return nil, err
	}
	r.own = took
	return r, nil
}

// start starts a relay that does not deduct anything.
func start(server string, delay time.Duration) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for connections to %s: %w", server, err)
	}
	r := &Relay{listener: listener, server: server, delay: delay}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.join.Go(r.accept)
	return r, nil
}

// Own returns what of the delay the relay itself takes.
func (r *Relay) Own() time.Duration { return r.own }

// Addr returns the relay's address, host:port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Close closes the relay and its connections, and waits for its goroutines. Data in
// flight is lost. A second Close does nothing.
func (r *Relay) Close() {
	r.end()
	_ = r.listener.Close() // it fails only if closed before
	r.join.Wait()
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.join.Go(func() { r.carry(client) })
	}
}

// carry forwards a connection until both of its directions have ended.
func (r *Relay) carry(client net.Conn) {
	defer client.Close()
	var d net.Dialer
	server, err := d.DialContext(r.ctx, "tcp", r.server)
	if err != nil {
		return // and close the connection
	}
	defer server.Close()
	forth, err := newAlarm()
	if err != nil {
		return
	}
	defer forth.close()
	back, err := newAlarm()
	if err != nil {
		return
	}
	defer back.close()
	hangUp := func() {
		_ = client.Close()
		_ = server.Close()
		forth.close()
		back.close()
	}
	defer context.AfterFunc(r.ctx, hangUp)()
	var both sync.WaitGroup
	carry := func(to, from net.Conn, a *alarm) {
		both.Go(func() {
			if pump(to, from, r.delay, a.until) != nil || closeWrite(to) != nil {
				hangUp() // which ends the other direction, too
			}
		})
	}
	carry(server, client, forth)
	carry(client, server, back)
	both.Wait()
}

// closeWrite tells the receiver that no more data follows.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// A chunk is data in flight, or the end of the stream if it has none.
type chunk struct {
	due  time.Time // when it is delivered
	data []byte
}

// inFlight is the number of chunks of one direction that can be in flight. The
// benchmarks have a few at a time.
const inFlight = 4096

// pump copies src to dst until the end of src, and delivers each chunk when the delay
// after its arrival is over. It uses until to wait. An error of src is an end, which
// dst learns after the delay. pump returns the first error of dst, and goes on reading
// src until then: the caller closes src if it no longer wants that.
func pump(dst io.Writer, src io.Reader, delay time.Duration, until func(time.Time)) error {
	chunks := make(chan chunk, inFlight)
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(chunks)
		buf := make([]byte, 64<<10)
		for {
			n, err := src.Read(buf)
			c := chunk{time.Now().Add(delay), bytes.Clone(buf[:n])}
			if n > 0 || err != nil {
				select {
				case chunks <- c:
				case <-stop:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	var failed error
	for c := range chunks {
		until(c.due)
		if _, failed = dst.Write(c.data); failed != nil {
			break
		}
	}
	close(stop)
	if failed == nil {
		reader.Wait() // it has ended
		return nil
	}
	if c, ok := src.(io.Closer); ok {
		_ = c.Close() // ends the Read
	}
	reader.Wait()
	return failed
}
