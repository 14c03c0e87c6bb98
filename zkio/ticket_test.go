// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A session is closed at once: over several servers, of which some are of no use, and whether
// or not the first request or its answer is lost.
func TestF343_CloseSession(t *testing.T) {
	noServer := errors.New("no route to host")
	for name, tt := range map[string]struct {
		servers string // in any order
		arrange func(z *zktest.Server, s *Session)
		within  time.Duration
		asked   uint64 // requests to close the session that a server dealt with
		told    string // nodes of the session
	}{
		"one server":                {"zk", func(*zktest.Server, *Session) {}, 0, 1, "/d/n"},
		"the session has expired":   {"zk", func(z *zktest.Server, s *Session) { z.ExpireSession(s.ID()) }, 0, 0, ""},
		"a server is gone":          {"gone zk", func(*zktest.Server, *Session) {}, nextServer, 1, "/d/n"},
		"two servers do not answer": {"silent silent zk", func(*zktest.Server, *Session) {}, 2 * nextServer, 1, "/d/n"},
		"the request is lost":       {"zk", lost((*zktest.Faults).DropRequest), askAgain, 1, ""},
		"the answer is lost":        {"zk", lost((*zktest.Faults).DropReply), askAgain, 1, ""},
		"the answer does not come":  {"zk", lost((*zktest.Faults).SwallowReply), 2*time.Second + askAgain, 1, ""},
		"the handshake is lost":     {"zk", lostHandshake, askAgain, 1, ""},
		"the request is refused":    {"zk", refused, askAgain, 2, ""},
		"no answer names nodes":     {"zk", refusedNodes, 0, 1, ""},
		"the question ends it":      {"zk", lostNodes, askAgain, 1, ""},
		"the server lags behind":    {"late", func(z *zktest.Server, _ *Session) { z.Faults().Lag(1000) }, 0, 1, "/d/n"},
	} {
		// The servers are asked in another order each time.
		for i := range 10 {
			t.Run(fmt.Sprint(name, " ", i), func(t *testing.T) {
				bubble(t, func(t *testing.T, z *zktest.Server) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					cfg := configure(z)
					cfg.SessionTimeout = 6 * time.Second
					s := open(t, cfg).Session()
					must(t, s.EnsureDir("/d", nil))
					must(t, s.CreateEphemeral("/d/n", nil, nil))
					ticket := s.Ticket()
					tt.arrange(z, s)
					began, before := time.Now(), z.Requests(zktest.OpClose)

					closing := Config{Servers: strings.Fields(tt.servers), Logger: quiet}
					closing.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
						switch host, _, _ := strings.Cut(address, ":"); host {
						case "gone":
							return nil, noServer
						case "silent":
							ours, theirs := net.Pipe()
							go func() { _, _ = theirs.Read(make([]byte, 1<<10)); <-ctx.Done(); theirs.Close() }()
							return ours, nil
						}
						return z.Dial(ctx, network, address)
					}
					nodes, err := CloseSession(ctx, closing, ticket)
					must(t, err)
					if told := strings.Join(nodes, " "); told != tt.told {
						t.Errorf("it was told of the nodes %q, want %q", told, tt.told)
					}
					if took := time.Since(began); took > tt.within {
						t.Errorf("it took %v, want at most %v", took, tt.within)
					}
					if n := z.Requests(zktest.OpClose) - before; n != tt.asked {
						t.Errorf("%d requests to close the session, want %d", n, tt.asked)
					}
					if z.Exists("/d/n") {
						t.Error("the session's node is still there")
					}
					z.Faults().Clear()
					<-s.over // the owner, which lives here, learns of it
					if !s.Gone() {
						t.Errorf("the owner's session: %v", s.Err())
					}
					if nodes := z.Children("/d"); len(nodes) != 0 {
						t.Errorf("left: %q", nodes)
					}
				})
			})
		}
	}
}

// lost is a fault of the first request to close the session.
func lost(how func(*zktest.Faults, zktest.Match) *zktest.Fault) func(*zktest.Server, *Session) {
	return func(z *zktest.Server, s *Session) {
		how(z.Faults(), zktest.Match{Op: zktest.OpClose, Session: s.ID(), Times: 1})
	}
}

func lostHandshake(z *zktest.Server, s *Session) {
	z.Faults().DropReply(zktest.Match{Op: zktest.OpConnect, Session: s.ID(), Times: 1})
}

func refusedNodes(z *zktest.Server, s *Session) {
	z.Faults().FailRequest(zktest.Match{Op: zktest.OpGetEphemerals, Session: s.ID(), Times: 1}, zktest.CodeUnimplemented)
}

func lostNodes(z *zktest.Server, s *Session) {
	z.Faults().DropRequest(zktest.Match{Op: zktest.OpGetEphemerals, Session: s.ID(), Times: 1})
}

func refused(z *zktest.Server, s *Session) {
	z.Faults().FailRequest(zktest.Match{Op: zktest.OpClose, Session: s.ID(), Times: 1}, zktest.CodeMarshalling)
}

// What cannot be confirmed is an error that says why of each server, and leaves nothing behind.
func TestF343_CloseSessionInVain(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		s := open(t, configure(z)).Session()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		refused := errors.New("refused")
		_, err := CloseSession(ctx, Config{
			Servers: []string{"a", "b:2"},
			Dialer:  func(context.Context, string, string) (net.Conn, error) { return nil, refused },
		}, s.Ticket())
		want := fmt.Sprintf("zkio: close session %#x: not confirmed: a:2181: refused; b:2: refused: ", s.ID())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s…", err, want)
		}
		if len(z.Sessions()) != 1 || s.Err() != nil {
			t.Errorf("%d sessions, %v", len(z.Sessions()), s.Err())
		}
		_, noServers := CloseSession(ctx, Config{}, s.Ticket())
		_, noSession := CloseSession(ctx, configure(z), Ticket{})
		for _, err := range []error{noServers, noSession} {
			if !errors.Is(err, ErrBadArguments) || !strings.Contains(err.Error(), "close session") {
				t.Errorf("%v, want bad arguments", err)
			}
		}
	})
}

// A server that resumes the session, and does not close it, is asked ever more rarely: each time
// keeps the session alive.
func TestF343_CloseSessionIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		s := open(t, configure(z)).Session()
		z.Faults().FailRequest(zktest.Match{Op: zktest.OpClose, Times: zktest.Every}, zktest.CodeMarshalling)
		defer z.Faults().Clear()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := CloseSession(ctx, configure(z), s.Ticket())
		if err == nil || !strings.Contains(err.Error(), "zk:2181: the server refused to close the session: code -5: ") {
			t.Error(err)
		}
		if n := z.Requests(zktest.OpClose); n < 5 || n > 8 {
			t.Errorf("%d requests in 10 s", n)
		}
	})
}

// A server that does not answer is named as such, however the wait ends.
func TestF343_CloseSessionIsNotAnswered(t *testing.T) {
	for limit, want := range map[time.Duration]string{time.Second: "1s", 2 * time.Second: "1.3", 4 * time.Second: "1.3"} {
		bubble(t, func(t *testing.T, z *zktest.Server) {
			s := open(t, configure(z)).Session()
			z.Faults().BlackholeAll()
			defer z.Faults().Clear()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := CloseSession(ctx, configure(z), s.Ticket())
			if err == nil || !strings.Contains(err.Error(), "zk:2181: no answer within "+want) {
				t.Errorf("limit %v: %v", limit, err)
			}
		})
	}
}

// The credentials are presented before the request to close the session: a server may want them
// of each connection.
func TestF343_CloseSessionPresentsCredentials(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		s := open(t, configure(z)).Session()
		var requests [5]zktest.Op
		var n atomic.Int32 // the owner, which lives, connects again after these
		z.OnRequest(func(_ int64, op zktest.Op, _ string) {
			if i := int(n.Add(1)) - 1; i < len(requests) {
				requests[i] = op
			}
		})
		cfg := configure(z)
		cfg.Auth = []Auth{{"digest", []byte("a:b")}, {"digest", []byte("c:d")}}
		_, err := CloseSession(t.Context(), cfg, s.Ticket())
		must(t, err)
		if got := fmt.Sprint(requests); got != "[connect auth auth getEphemerals close]" {
			t.Error(got)
		}
	})
}

func TestRealCloseSession(t *testing.T) {
	cfg, dir := setUp(t, realzk.Shared(t))
	// The owner does not come back until its session is closed: then the server would close the
	// connection on which it is asked for the nodes, and one that is asked again does not tell.
	ofOwner, closed := cfg, make(chan struct{})
	var dials atomic.Int32
	ofOwner.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			select {
			case <-closed:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	owner, other := open(t, ofOwner).Session(), open(t, cfg).Session()
	must(t, owner.EnsureDir(dir, nil))
	must(t, owner.CreateEphemeral(dir+"/n", nil, nil))
	nodes, err := CloseSession(t.Context(), cfg, owner.Ticket())
	close(closed)
	must(t, err)
	told := fmt.Sprintf("%q", nodes)
	if want := fmt.Sprintf("[%q]", dir+"/n"); told != want && !(nodes == nil && isOld(t, other)) {
		t.Errorf("it was told of the nodes %s, want %s", told, want)
	}
	if _, there, err := other.Exists(dir + "/n"); there || err != nil {
		t.Errorf("the node of the closed session: %t, %v", there, err)
	}
	<-owner.over
	if !owner.Gone() {
		t.Error(owner.Err())
	}
	_, err = CloseSession(t.Context(), cfg, owner.Ticket()) // it is over
	must(t, err)
	if err := other.Err(); err != nil {
		t.Errorf("the other session: %v", err)
	}
}

func TestTicketIsSecret(t *testing.T) {
	ticket := Ticket{ID: 0x1234, Timeout: 10 * time.Second, Password: []byte("secret")}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("a", "ticket", ticket)
	text, err := json.Marshal(map[string]any{"ticket": ticket})
	must(t, err)
	all := log.String() + string(text) + ticket.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		all += " " + fmt.Sprintf(verb, ticket) + fmt.Sprintf(verb, []any{ticket, &ticket})
	}
	for _, secret := range []string{"secret", "736563726574", "115 101", "c2VjcmV0"} {
		if strings.Contains(all, secret) {
			t.Errorf("it shows %q: %s", secret, all)
		}
	}
	if !strings.Contains(all, "session 0x1234, of 10s") {
		t.Error(all)
	}
}
