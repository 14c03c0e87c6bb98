// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"bytes"
	"context"
	"io"
	"net"
	"time"
)

// A link is one direction of a connection that a relay carries. What is written to it
// arrives at the destination after the relay's delay, at its rate, and not while the relay
// is cut. One goroutine writes to it and closes it; another, which close joins, delivers.
type link struct {
	ctx    context.Context // ends with the connection
	relay  *Relay
	dst    io.Writer
	chunks chan chunk    // in flight
	done   chan struct{} // closed when nothing more is delivered
	err    error         // of delivering; written before done is closed, read after
}

// A chunk is data in flight.
type chunk struct {
	due  time.Time // when it arrives at the earliest
	data []byte
}

// inFlight is how many chunks a link takes before its writer waits. A chunk is a packet of
// a client or a server, or 32 KiB of one.
const inFlight = 256

func newLink(ctx context.Context, r *Relay, dst io.Writer) *link {
	l := &link{ctx: ctx, relay: r, dst: dst, chunks: make(chan chunk, inFlight), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.err = l.deliver()
	}()
	return l
}

// Write sends p on its way.
func (l *link) Write(p []byte) (int, error) {
	l.relay.mu.Lock()
	delay := l.relay.delay
	l.relay.mu.Unlock()
	select {
	case l.chunks <- chunk{time.Now().Add(delay), bytes.Clone(p)}:
		return len(p), nil
	case <-l.done:
		return 0, l.err // it is not nil, since the link is not closed
	}
}

// close waits until all has been delivered, or failed to.
func (l *link) close() error {
	close(l.chunks)
	<-l.done
	return l.err
}

// deliver delivers what is written until the link is closed, or the connection fails or
// ends.
func (l *link) deliver() error {
	for {
		select {
		case c, more := <-l.chunks:
			if !more {
				// The end of the connection, too, does not pass while the relay is cut.
				if !l.relay.wait(l.ctx) {
					return net.ErrClosed
				}
				return nil
			}
			if err := l.arrive(c); err != nil {
				return err
			}
		case <-l.ctx.Done():
			return net.ErrClosed
		}
	}
}

// arrive delivers a chunk when it is due. If the rate is limited, it does so in pieces.
func (l *link) arrive(c chunk) error {
	if !l.pause(time.Until(c.due)) {
		return net.ErrClosed
	}
	for len(c.data) > 0 {
		l.relay.mu.Lock()
		rate := l.relay.rate
		l.relay.mu.Unlock()
		piece := len(c.data)
		if rate > 0 {
			piece = min(piece, max(1, rate/20))
			if !l.pause(time.Duration(piece) * time.Second / time.Duration(rate)) {
				return net.ErrClosed
			}
		}
		if !l.relay.wait(l.ctx) {
			return net.ErrClosed
		}
		if _, err := l.dst.Write(c.data[:piece]); err != nil {
			return err
		}
		c.data = c.data[piece:]
	}
	return nil
}

// pause waits for d. It returns false if the connection has ended.
func (l *link) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// An onlyReader keeps io.Copy from having the kernel copy, which could not wait.
type onlyReader struct{ io.Reader }
