// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// logTo has a client log to the buffer that is returned.
func logTo(cfg *Config) *lockedBuffer {
	log := new(lockedBuffer)
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	return log
}

// TestF089_HeartbeatIsNotAnswered: a server that leaves out one answer and goes on
// answering pings costs a connection, not the lease.
func TestF089_HeartbeatIsNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		var r recorder
		cfg := configure(z)
		cfg.Listener = &r
		log := logTo(&cfg)
		c := open(t, cfg)
		s := c.Session()
		mustCreate(t, s, "/d", nil)
		time.Sleep(20 * time.Second)
		lost := z.Faults().SwallowReply(zktest.Match{Op: zktest.OpMulti, Times: 1})
		time.Sleep(time.Minute)
		if lapses, _ := r.lapsed(); lost.Hits() != 1 || lapses != 0 || s.Err() != nil || !s.Lease().InForce() || s.Connection() != 2 {
			t.Errorf("%d answers lost, %d lapses, session %v, in force %v, connection %d", lost.Hits(), lapses, s.Err(), s.Lease().InForce(), s.Connection())
		}
		if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "answered a later request, but not multi") {
			t.Errorf("logged:\n%s", got)
		}
	})
}

// TestF089_RequestsAreNotAnswered: requests without an answer fail, and say why, soon
// after the next ping was answered, so they do not hold workers.
func TestF089_RequestsAreNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		c := open(t, configure(z))
		must(t, c.Session().Create("/d", nil, nil))
		lost := z.Faults().SwallowReply(zktest.Match{Op: zktest.OpSync, Times: 32})
		var ran atomic.Int32
		for i := range 32 {
			c.Submit([...]Queue{Fetches, Releases}[i/24], task(func(s *Session) {
				err := s.Sync("/d") // which goes in no bundle
				if !is(err, ErrUnknown) || !strings.Contains(err.Error(), "answered a later request, but not sync") {
					t.Errorf("error %v", err)
				}
				ran.Add(1)
			}))
		}
		time.Sleep(c.Session().Timeout() / 3)
		synctest.Wait()
		if ran.Load() != 32 || lost.Hits() != 32 || c.Session().Connection() != 2 {
			t.Errorf("%d of 32 tasks are done, %d answers were lost, connection %d", ran.Load(), lost.Hits(), c.Session().Connection())
		}
	})
}

// TestF089_RequestIsPendingForTooLong: other frames, such as events, do not give the
// server more time for an answer.
func TestF089_RequestIsPendingForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := connectedBench(t)
		b.ask(1, jute.OpSync)
		began := time.Now()
		event := reply(-1, -1, 0, jute.AppendString(jute.AppendInt32(jute.AppendInt32(nil, jute.EventNodeDeleted), 3), "/p")...)
		var wg sync.WaitGroup
		wg.Go(func() {
			for time.Since(began) < 3*time.Second {
				time.Sleep(500 * time.Millisecond)
				b.send(event)
			}
		})
		defer wg.Wait()
		time.Sleep(time.Second)
		err := b.end()
		if took := time.Since(began); took != b.w.patience() || err.Error() != "no answer to sync for 4s" {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// TestF090_FaultsAreLogged: a connection that is closed because of what the server
// sends is logged, but not each time, and the errors of requests say why.
func TestF090_FaultsAreLogged(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		cfg := configure(z)
		log := logTo(&cfg)
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := z.Dial(ctx, network, addr)
			return &insane{Conn: conn, from: time.Now().Add(time.Second)}, err
		}
		c := open(t, cfg)
		failed := 0
		for began := time.Now(); time.Since(began) < 110*time.Second; time.Sleep(300 * time.Millisecond) {
			if err := c.Session().Sync("/"); err != nil {
				failed++
				if !strings.Contains(err.Error(), "request that was not made, xid 12345") || !errors.Is(err, jute.ErrMalformed) {
					t.Fatalf("error %v", err)
				}
			}
		}
		got := log.String()
		if n := c.Stats().Reconnects; n < 50 || failed < 50 || strings.Count(got, "level=WARN") != 2 ||
			strings.Count(got, "request that was not made, xid 12345") != 2 || !strings.Contains(got, `"not logged since the last"=`) {
			t.Errorf("%d reconnects, %d errors; logged:\n%s", n, failed, got)
		}
	})
}

// An insane connection brings, from some time on, an answer to no request in
// place of any other.
type insane struct {
	net.Conn
	from time.Time
}

func (c *insane) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && time.Now().After(c.from) {
		n = copy(p, reply(12345, 0, jute.ErrOK))
	}
	return n, err
}

// TestRealRequestIsNotAnswered: a real server seems to leave out an answer.
func TestRealRequestIsNotAnswered(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	relay := realzk.NewRelay(t, zk.Addr())
	cfg, dir := setUp(t, zk)
	var r recorder
	cfg.Listener, cfg.Servers = &r, []string{relay.Addr()}
	log := logTo(&cfg)
	s := open(t, cfg).Session()
	mustCreate(t, s, dir, nil)
	for _, op := range []int32{jute.OpMulti, jute.OpGetData} {
		before := s.Connection()
		dropped := relay.SwallowReply(op)
		if op == jute.OpGetData {
			_, _, err := s.Get(dir)
			if !is(err, ErrUnknown) || !strings.Contains(err.Error(), "but not getData") {
				t.Errorf("error %v", err)
			}
		}
		<-dropped
		began := time.Now()
		eventually(t, "another connection", func() bool { return s.Connection() > before })
		if took := time.Since(began); took > s.Timeout()*2/3 {
			t.Errorf("%s: took %v", opName(op), took)
		}
	}
	if lapses, _ := r.lapsed(); lapses != 0 || s.Err() != nil || !s.Lease().InForce() {
		t.Errorf("%d lapses, session %v, in force %v", lapses, s.Err(), s.Lease().InForce())
	}
	if got := log.String(); !strings.Contains(got, "answered a later request, but not multi") {
		t.Errorf("logged:\n%s", got)
	}
}
