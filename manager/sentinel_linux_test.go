// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Stats say whether the sentinel has its helper.
func TestSentinelErr(t *testing.T) {
	helper, err := sentinel.Start(sentinel.Config{})
	wantErr(t, "start", err, nil)
	defer helper.Close()
	m := &Manager{cfg: Config{Sentinel: helper}}
	wantErr(t, "with a helper", m.sentinelErr(), nil)
	helper.Close()
	expect(t, m.sentinelErr() != nil, "no error without a helper")
	m.cfg.Sentinel = nil
	wantErr(t, "without a sentinel", m.sentinelErr(), nil)
}

// A holder with a sentinel is killed: the lock passes on at once, and not after the session
// timeout. The sentinel has nothing to do if the process has closed its Manager, unless no server
// has confirmed that.
func TestF347_HolderIsKilled(t *testing.T) {
	for _, test := range []struct {
		name     string
		first    func(srv *zktest.Server, h *holder)
		takeover bool // of the session
		lock     bool // of the lock, in which the session had a node
	}{
		{"it is killed", func(*zktest.Server, *holder) {}, true, true},
		{"it has closed its Manager", func(_ *zktest.Server, h *holder) { h.says("close", "ok") }, false, false},
		{"it could not close its Manager", func(srv *zktest.Server, h *holder) {
			srv.Faults().DropRequest(zktest.Match{Op: zktest.OpClose, Session: srv.Sessions()[0].ID, Times: zktest.Every})
			expect(h.t, h.ask("close") != "ok", "Close succeeded")
			srv.Faults().Clear()
		}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := zktest.NewServer(zktest.Config{MaxSessionTimeout: time.Hour, Logger: slog.New(slog.DiscardHandler)})
			addr, err := srv.Listen("127.0.0.1:0")
			wantErr(t, "listen", err, nil)
			defer srv.Close()
			h := startHolder(t, addr, "x", childTimeout+"=1h", childSentinel+"=yes")
			test.first(srv, h)
			told := make(takeoverLog, 1)
			placed := make(chan Event, 10)
			m, err := Open(t.Context(), Config{Servers: []string{addr}, Logger: slog.New(told), Observer: func(e Event) {
				if e.Kind == EventPlaced {
					placed <- e
				}
			}})
			wantErr(t, "open", err, nil)
			defer m.Close()
			next := exclusive(t, m, "x").Acquire(t.Context())
			if test.lock {
				<-placed // it waits for the lock
			}
			h.kill() // it waits for the sentinel, which has the same standard error
			_, err = next.Granted().Wait(t.Context())
			wantErr(t, "the next process", err, nil)
			said := fmt.Sprint(h.cmd.Stderr)
			wantEq(t, "the sentinel has closed the session", strings.Contains(said, "is closed after"), test.takeover)
			if test.lock {
				<-told
				wantEq(t, "takeovers", m.Stats().Takeovers, 1)
			}
		})
	}
}

// A takeoverLog gets a line when a lock was taken over.
type takeoverLog chan string

func (l takeoverLog) Enabled(context.Context, slog.Level) bool { return true }
func (l takeoverLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l takeoverLog) WithGroup(string) slog.Handler            { return l }

func (l takeoverLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "took a lock over") {
		l <- r.Message
	}
	return nil
}
