// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// shortLived is how long a connection must last to be replaced at once.
	shortLived = 100 * time.Millisecond
	// minAttempt is the least time that an attempt to connect is given.
	minAttempt = 100 * time.Millisecond
	// firstPause and maxPause bound the pause after all servers have failed.
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
)

// hosts is the list of servers, and what became of the attempts to reach them.
// It outlives sessions.
//
// go-zookeeper's own list resolves names once, and sleeps for a second after each
// round. With this one every attempt resolves anew.
type hosts struct {
	servers []string // host:port, in the order of the configuration
	clock   *clock

	mu       sync.Mutex // protects what follows
	order    []string   // the servers as they are tried, shuffled so that clients spread
	next     int        // index into order
	failed   int        // attempts since a connection that lasted
	up       bool       // the last attempt brought a connection …
	upSince  time.Duration
	down     bool              // there is no connection …
	downAt   time.Duration     // … since then
	reasons  map[string]string // why the last attempt at a server failed
	resolved map[string]int    // how many addresses a server's name had
	turns    map[string]int    // how often a server was dialed
}

func newHosts(servers []string, c *clock) *hosts {
	h := &hosts{
		servers:  servers,
		clock:    c,
		down:     true,
		downAt:   c.now(),
		order:    append([]string(nil), servers...),
		reasons:  make(map[string]string),
		resolved: make(map[string]int),
		turns:    make(map[string]int),
	}
	rand.Shuffle(len(h.order), func(i, j int) { h.order[i], h.order[j] = h.order[j], h.order[i] })
	return h
}

// pick returns the server to try next, and notes that it is being tried.
func (h *hosts) pick() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.up {
		h.up = false
		if h.clock.now()-h.upSince >= shortLived {
			h.failed = 0
		}
	}
	server := h.order[h.next]
	h.next = (h.next + 1) % len(h.order)
	if h.reasons[server] == "" {
		h.reasons[server] = "no answer yet"
	}
	return server
}

// pause returns how long to wait before the next attempt: not at all within a
// round of the list, and ever longer, with jitter, after rounds that failed.
func (h *hosts) pause(timeout time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.order)
	attempts := h.failed
	h.failed++
	if attempts == 0 || attempts%n != 0 {
		return 0
	}
	return Backoff(attempts/n-1, firstPause, min(maxPause, max(timeout/8, firstPause)))
}

// attempt returns how long the next attempt may take, from the dial to the end
// of the handshake. Servers that accept connections and never answer must not
// cost the session. A silent connection is noticed after two thirds of the
// timeout, so the first attempts at all servers share the last third. A server
// that needs longer gets more in the attempts that follow.
func (h *hosts) attempt(timeout time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, s := range h.order {
		n += max(1, h.resolved[s])
	}
	round := max(0, h.failed-1) / len(h.order)
	d := max(minAttempt, timeout/time.Duration(3*n)) << min(round, 10)
	return min(d, timeout/3)
}

// connected notes that the last attempt brought a session.
func (h *hosts) connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.up, h.upSince = true, h.clock.now()
	h.down = false
	clear(h.reasons) // those of the next outage are other ones
}

// disconnected notes that the connection to server was lost, and why.
func (h *hosts) disconnected(server, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.down {
		h.down, h.downAt = true, h.clock.now()
	}
	if reason != "" {
		h.reasons[server] = reason
	}
}

// outage returns how long there has been no connection; false if there is one.
func (h *hosts) outage() (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock.now() - h.downAt, h.down
}

// noteFailure notes why an attempt at server, or its connection, failed.
func (h *hosts) noteFailure(server, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reasons[server] = reason
}

// why lists the servers and why the last attempt at each failed.
func (h *hosts) why() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	parts := make([]string, len(h.servers))
	for i, s := range h.servers {
		reason := h.reasons[s]
		if reason == "" {
			reason = "not tried yet"
		}
		parts[i] = s + ": " + reason
	}
	return strings.Join(parts, "; ")
}

// dial returns a connection to server, and the one below it if that is TLS.
func (h *hosts) dial(ctx context.Context, cfg *Config, server string) (conn, raw net.Conn, err error) {
	if cfg.Dialer != nil {
		raw, err = cfg.Dialer(ctx, "tcp", server)
	} else {
		raw, err = h.dialTCP(ctx, server)
	}
	if err != nil || cfg.TLS == nil {
		return raw, raw, err
	}
	conf := cfg.TLS.Clone()
	if conf.ServerName == "" {
		conf.ServerName, _, _ = net.SplitHostPort(server)
	}
	secured := tls.Client(raw, conf)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error says more
		return nil, nil, &tlsError{err}
	}
	return secured, raw, nil
}

// A tlsError is a failed TLS handshake.
type tlsError struct{ err error }

func (e *tlsError) Unwrap() error { return e.err }

func (e *tlsError) Error() string {
	text := "TLS handshake: " + e.err.Error()
	// A plain port takes the handshake for a request that is too long, and closes
	// the connection.
	if _, plain := errors.AsType[tls.RecordHeaderError](e.err); plain || wasRefused(e.err) {
		text += ": is this the server's port for TLS (secureClientPort)?"
	}
	return text
}

// dialTCP resolves the server's name and tries its addresses, each time beginning
// with another: an address that accepts connections and does not answer would
// hide the others for ever.
func (h *hosts) dialTCP(ctx context.Context, server string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	addrs := []string{host}
	if net.ParseIP(host) == nil {
		if addrs, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	h.resolved[server] = len(addrs)
	turn := h.turns[server]
	h.turns[server]++
	h.mu.Unlock()

	deadline, limited := ctx.Deadline()
	var firstErr error
	for i := range addrs {
		var d net.Dialer
		if left := len(addrs) - i; limited && left > 1 {
			d.Timeout = time.Until(deadline) / time.Duration(left)
		}
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(addrs[(turn+i)%len(addrs)], port))
		if err == nil {
			return conn, nil
		}
		if firstErr == nil {
			firstErr = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, firstErr
}

// lossOf says why a connection was lost. If this process did not run in that time, that is
// part of it: servers close the connection of a session that has timed out.
func (c *Client) lossOf(err error, since time.Duration) string {
	text := reasonOf(err, 0)
	switch {
	case errors.As(err, new(pausedError)):
		return text
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		text = "the server closed the connection"
	}
	if d := c.pulse.since(since); d > 0 {
		text += "; " + pausedError(d).Error()
	}
	return text
}

// reasonOf says why an attempt to connect failed, without the address.
func reasonOf(err error, after time.Duration) string {
	var dns *net.DNSError
	var errno syscall.Errno
	var secured *tlsError
	switch {
	case errors.As(err, &secured) && !errors.Is(err, context.DeadlineExceeded):
		return secured.Error()
	case errors.As(err, &dns):
		return "lookup " + dns.Name + ": " + dns.Err
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("no answer within %v", after.Round(time.Millisecond))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed the connection during the handshake: it is not serving, or this is its port for TLS"
	}
	return strings.TrimPrefix(err.Error(), "zkio: ")
}
