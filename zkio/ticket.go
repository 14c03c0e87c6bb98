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

// A Ticket proves to any server that a session belongs to its bearer: [Session.Ticket] returns it, and
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
	// askAgain is how long it waits before it asks a server again that did not confirm: twice
	// as long each time. A server that cannot be reached is asked each maxPause at least. But
	// each request that gets to a server keeps the session alive for another session timeout.
	askAgain = 100 * time.Millisecond
)

// CloseSession closes the session of a process that is gone: the servers delete the session's
// ephemeral nodes, and with them its locks, at once instead of after the session timeout. The
// caller must know that the process has ended, and all that it did under its locks, too: a living
// process hears of the end only from a server, and until then trusts its lease, under which it
// holds them. Writes that the dead process has left in other sockets may still arrive after the
// next grant; fencing tokens tell them apart.
//
// CloseSession uses Servers, Dialer, TLS and Auth of cfg, and opens no session. It asks the
// servers, each a moment after the one before, again and again until one confirms that the
// session is over, and then returns nil. From then on no request of the dead process takes
// effect, even if it was sent before: the session has left the connection that the request is
// on. Servers answer a wrong password as if the session was over. So does a former leader that
// has not noticed yet that it is none, if the session is younger; then nil says too much.
//
// nodes are the paths of the session's ephemeral nodes just before, for people to be told: as the
// server saw them that has closed it, which may lag behind. They are nil if it did not say: servers
// older than ZooKeeper 3.6 do not, nor one that is asked a second time.
//
// A server that cannot resume sessions cannot close one of another process, either (ClickHouse
// Keeper). If there are no others, CloseSession returns an error that wraps [ErrUnsupported].
//
// CloseSession blocks until a server confirms, or until ctx ends. The error says what each server
// answered last; ZooKeeper ends the session by itself, one session timeout after ctx has ended at
// the latest. If cfg or t cannot be right, the error wraps ErrBadArguments. Goroutines may call
// CloseSession at the same time, even for one session.
func CloseSession(ctx context.Context, cfg Config, t Ticket) (nodes []string, err error) {
	const op = "close session"
	if cfg, err = cfg.resolve(op); err != nil {
		return nil, err
	}
	if t.ID == 0 || t.Timeout <= 0 {
		return nil, &opError{op: op, kind: ErrBadArguments, why: errors.New("the ticket is of no session")}
	}
	c := &closer{cfg: cfg, ticket: t, hosts: newHosts(cfg.Servers, newClock(nil))}
	asking, stop := context.WithCancel(ctx)
	var servers sync.WaitGroup
	defer servers.Wait()
	defer stop()
	outcomes := make(chan closing, len(c.hosts.order))
	for i, server := range c.hosts.order {
		servers.Go(func() {
			nodes, ok := c.closeBy(asking, server, time.Duration(i)*nextServer)
			outcomes <- closing{nodes, ok}
		})
	}
	for range c.hosts.order {
		if o := <-outcomes; o.confirmed {
			return o.nodes, nil
		}
	}
	if ctx.Err() == nil {
		return nil, fmt.Errorf("zkio: close session %#x: %w: %s: ZooKeeper ends it %v after its last sign of life", t.ID, trimmed{ErrUnsupported}, c.hosts.why(), t.Timeout)
	}
	return nil, fmt.Errorf("zkio: close session %#x: not confirmed: %s: %w", t.ID, c.hosts.why(), ctxerr.Of(ctx))
}

// A closing is what has come of asking one server.
type closing struct {
	nodes     []string
	confirmed bool
}

// A closer closes a session of another process.
type closer struct {
	cfg    Config
	ticket Ticket
	hosts  *hosts
}

// closeBy asks a server to close the session, from pause on, again and again until it confirms
// that the session is over. It reports false if ctx ends before, or if the server cannot. The first time it also asks for
// the session's nodes: a server that does not know the question may close the connection.
func (c *closer) closeBy(ctx context.Context, server string, pause time.Duration) (nodes []string, ok bool) {
	for n := 0; sleep(pause, ctx.Done()); n++ {
		// A server that takes the connection and does not answer is asked on another one.
		attempt, cancel := context.WithTimeout(ctx, max(minAttempt, c.ticket.Timeout/3))
		began := time.Now()
		nodes, resumed, err := c.ask(attempt, server, n == 0)
		cancel()
		if err == nil {
			return nodes, true
		}
		if n == 0 || ctx.Err() == nil { // else what came before says more
			c.hosts.noteFailure(server, reasonOf(err, time.Since(began)))
		}
		if errors.Is(err, errNotResumable) {
			break
		}
		pause = askAgain << min(n, 20)
		if n == 0 && resumed && errors.Is(err, io.EOF) {
			pause = 0 // it may not know the request for the nodes, as servers before ZooKeeper 3.6
		}
		if !resumed {
			pause = min(pause, maxPause)
		}
	}
	return nil, false
}

// ask asks a server once, and returns no error if the session is over. Otherwise it reports whether
// the server has resumed the session. The requests to resume the session, to list its nodes if
// list is true, and to close it go together, which saves round trips. The former names no transaction, so that a server serves
// it which lags behind what the process has seen.
func (c *closer) ask(ctx context.Context, server string, list bool) (nodes []string, resumed bool, err error) {
	conn, raw, err := c.hosts.dial(ctx, &c.cfg, server)
	if err != nil {
		return nil, false, err
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
	if list {
		b := jute.AppendInt32(jute.AppendInt32(make([]byte, 4, 20), nodesXid), jute.OpGetEphemerals)
		request = append(request, jute.Frame(jute.AppendString(b, "/"))...)
	}
	request = append(request, jute.Frame(jute.AppendInt32(jute.AppendInt32(make([]byte, 4, 12), closeXid), jute.OpClose))...)
	if _, err := conn.Write(request); err != nil {
		return nil, false, err
	}
	in := newFrames(conn)
	if _, err := in.greeting(c.ticket.ID); errors.Is(err, errSessionExpired) {
		return nil, false, nil // the server's answer to a session that is over
	} else if err != nil {
		return nil, false, err
	}
	if err := in.verdicts(c.cfg.Auth, server); err != nil {
		return nil, true, err
	}
	nodes, err = in.closed(c.cfg.largestFrame)
	return nodes, true, err
}

// nodesXid marks the request for the session's nodes. See closeXid.
const nodesXid = closeXid - 1

// closed reads up to the answer to the request to close the session. That to the request for its
// nodes may come before it, and so may events.
func (f *frames) closed(limit int) (nodes []string, err error) {
	for {
		frame, err := f.readFrame(limit)
		if err != nil {
			return nil, err
		}
		r := jute.NewReader(frame[4:])
		xid, _, code := r.Int32(), r.Int64(), r.Int32()
		switch {
		case r.Err() != nil:
			return nil, r.Err()
		case xid == nodesXid && code == jute.ErrOK:
			if found := r.Strings(); r.Err() == nil { // else it has answered without a list
				nodes = append(make([]string, 0, len(found)), found...)
			}
		case xid != closeXid:
		case code != jute.ErrOK:
			return nil, fmt.Errorf("the server refused to close the session: code %d", code)
		default:
			return nodes, nil
		}
	}
}
