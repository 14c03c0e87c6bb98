// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/jute"
)

// A Ticket proves to any server that a session is one's own: [Session.Ticket] returns it, and
// [CloseSession] ends the session with it. It is a secret: with it another process can use the
// session, too. Printing, logging or marshaling it does not show the password.
type Ticket struct {
	ID       int64
	Timeout  time.Duration // of the session, as the servers granted it
	Password []byte
}

// String returns the session's id and timeout.
func (t Ticket) String() string { return fmt.Sprintf("session %#x, of %v", t.ID, t.Timeout) }

// Format prints t as String does, whatever the verb.
func (t Ticket) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// MarshalText returns what String returns.
func (t Ticket) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue returns what String returns.
func (t Ticket) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Ticket returns what another process can close the session with. It does not block, and may
// be called by any number of goroutines at the same time.
func (s *Session) Ticket() Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Ticket{s.ID(), s.Timeout(), bytes.Clone(s.password)}
}

const (
	// nextServer is how much later CloseSession asks each further server: usually the first
	// one has answered by then, and one that is gone costs no more than this.
	nextServer = 50 * time.Millisecond
	// askAgain is how long it waits before it asks a server again that did not confirm.
	askAgain = 100 * time.Millisecond
)

// CloseSession closes the session of a process that is gone: the session's ephemeral nodes are
// deleted, and its locks are free, without the wait for the session timeout. The caller must know
// that the process has ended, with all that it did under its locks: a living process learns of
// the end only when a server tells it, and may believe for as long as its lease lasts that it
// holds them. The next holder's fencing token tells apart what the dead process left in other
// sockets.
//
// CloseSession takes Servers, Dialer, TLS and Auth of cfg, and opens no session. It asks the
// servers, each a moment after the one before, again and again until one confirms that the
// session is over; then it returns nil. A request of the dead process that is still under way to
// a server has no effect after that: the session has moved away from the connection on which it
// comes. CloseSession blocks until then, or until ctx ends. The error says why each server did
// not confirm; the servers end the session by themselves when they have not heard of the process
// for its timeout. The error wraps ErrBadArguments if cfg or t cannot be right.
func CloseSession(ctx context.Context, cfg Config, t Ticket) error {
	const op = "close session"
	cfg, err := cfg.resolve(op)
	if err != nil {
		return err
	}
	if t.ID == 0 || t.Timeout <= 0 {
		return &opError{op: op, kind: ErrBadArguments, why: errors.New("the ticket is of no session")}
	}
	c := &closer{cfg: cfg, ticket: t, hosts: newHosts(cfg.Servers, newClock(nil))}
	asking, stop := context.WithCancel(ctx)
	var servers sync.WaitGroup
	defer servers.Wait()
	defer stop()
	over := make(chan struct{}, len(c.hosts.order))
	for i, server := range c.hosts.order {
		servers.Go(func() {
			if c.closeBy(asking, server, time.Duration(i)*nextServer) {
				over <- struct{}{}
			}
		})
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("zkio: close session %#x: not confirmed: %s: %w", t.ID, c.hosts.why(), ctxerr.Of(ctx))
	}
}

// A closer closes a session of another process.
type closer struct {
	cfg    Config
	ticket Ticket
	hosts  *hosts
}

// closeBy asks a server to close the session, from pause on, again and again until it confirms
// that the session is over. It reports false if ctx ends before.
func (c *closer) closeBy(ctx context.Context, server string, pause time.Duration) bool {
	for sleep(pause, ctx.Done()) {
		// A server that takes the connection and does not answer is asked on another one.
		attempt, cancel := context.WithTimeout(ctx, max(minAttempt, c.ticket.Timeout/3))
		err := c.ask(attempt, server)
		cancel()
		if err == nil {
			return true
		}
		c.hosts.noteFailure(server, reasonOf(err, 0))
		pause = askAgain
	}
	return false
}

// ask asks a server once, and returns nil if the session is over. The request to resume the
// session and that to close it go together, which saves a round trip. The former names no
// transaction, so that a server serves it which lags behind what the process has seen.
func (c *closer) ask(ctx context.Context, server string) (err error) {
	conn, raw, err := c.hosts.dial(ctx, &c.cfg, server)
	if err != nil {
		return err
	}
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer func() {
		if !stop() && err != nil {
			err = ctx.Err()
		}
	}()
	request := connectRequest(0, c.ticket)
	for _, a := range c.cfg.Auth {
		request = append(request, a.request()...)
	}
	request = append(request, jute.Frame(jute.AppendInt32(jute.AppendInt32(make([]byte, 4, 12), closeXid), jute.OpClose))...)
	if _, err := conn.Write(request); err != nil {
		return err
	}
	in := newFrames(conn)
	if _, err := in.greeting(c.ticket.ID); errors.Is(err, errSessionExpired) {
		return nil // the server's answer to a session that is over
	} else if err != nil {
		return err
	}
	if err := in.verdicts(c.cfg.Auth, server); err != nil {
		return err
	}
	return in.closed()
}

// closed reads the answer to the request to close the session. Events may come before it.
func (f *frames) closed() error {
	for {
		frame, err := f.readFrame(maxHandshake)
		if err != nil {
			return err
		}
		r := jute.NewReader(frame[4:])
		xid, _, code := r.Int32(), r.Int64(), r.Int32()
		switch {
		case r.Err() != nil:
			return r.Err()
		case xid != closeXid:
		case code != jute.ErrOK:
			return fmt.Errorf("the server refused to close the session: code %d", code)
		default:
			return nil
		}
	}
}
