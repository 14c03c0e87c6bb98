// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
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
		lost := z.Faults().SwallowReply(zktest.Match{Op: zktest.OpMulti})
		time.Sleep(time.Minute)
		if lapses, _ := r.lapsed(); lost.Hits() != 1 || lapses != 0 || s.Err() != nil || !s.Lease().InForce() || s.Connection() != 2 {
			t.Errorf("%d answers lost, %d lapses, session %v, in force %v, connection %d", lost.Hits(), lapses, s.Err(), s.Lease().InForce(), s.Connection())
		}
		if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "answered a later request, but not multi") {
			t.Errorf("logged:\n%s", got)
		}
	})
}

// TestF089_RequestsAreNotAnswered: those who wait for an answer that never comes hear
// of it, and why, before the next ping has been answered for long; so workers
// are not lost to them.
func TestF089_RequestsAreNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		c := open(t, configure(z))
		must(t, c.Session().Create("/d", nil, nil))
		lost := z.Faults().SwallowReply(zktest.Match{Op: zktest.OpGetData, Times: 32})
		var ran atomic.Int32
		for i := range 32 {
			c.Submit([...]Queue{Fetches, Releases}[i/24], task(func(s *Session) {
				_, _, err := s.Get("/d")
				if !is(err, ErrUnknown) || !strings.Contains(err.Error(), "answered a later request, but not getData") {
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
		b.write(packet(1, jute.OpSync))
		began := time.Now()
		event := reply(-1, -1, 0, jute.AppendString(jute.AppendInt32(jute.AppendInt32(nil, jute.EventNodeDeleted), 3), "/p")...)
		var err error
		for err == nil {
			time.Sleep(500 * time.Millisecond)
			must(t, b.w.SetReadDeadline(time.Now().Add(b.w.patience()))) // as go-zookeeper does
			if time.Since(began) < 3*time.Second {
				_, err = b.read(event)
			} else {
				_, err = b.read()
			}
		}
		if took := time.Since(began); took != b.w.patience() || err.Error() != "the server has not answered sync for 4s" {
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

// TestRealRequestIsNotAnswered: the same with a real server, through a relay that
// leaves out the answer to one request and lets pass all else.
func TestRealRequestIsNotAnswered(t *testing.T) {
	t.Parallel()
	cfg, _, dir := setUp(t, realzk.Shared(t))
	var r recorder
	var forgetful forgetfulRelay
	cfg.Listener = &r
	cfg.Dialer = forgetful.dial
	log := logTo(&cfg)
	c := open(t, cfg)
	s := c.Session()
	mustCreate(t, s, dir, nil)
	for _, op := range []int32{jute.OpMulti, jute.OpGetData} {
		before := s.Connection()
		forgetful.forget.Store(op)
		began := time.Now()
		if op == jute.OpGetData {
			_, _, err := s.Get(dir)
			if !is(err, ErrUnknown) || !strings.Contains(err.Error(), "but not getData") {
				t.Errorf("error %v", err)
			}
		}
		until(t, "another connection", func() bool { return s.Connection() > before })
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

// A forgetfulRelay carries connections, and leaves out the answer to the next
// request of one kind.
type forgetfulRelay struct {
	forget atomic.Int32 // the kind; 0 is none
}

func (f *forgetfulRelay) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &forgetfulConn{Conn: conn, relay: f, omit: make(map[uint32]bool)}, nil
}

type forgetfulConn struct {
	net.Conn
	relay *forgetfulRelay
	rest  []byte // of the frame that is being read

	mu   sync.Mutex
	omit map[uint32]bool // answers, by xid
}

func (c *forgetfulConn) Write(p []byte) (int, error) {
	if op := int32(binary.BigEndian.Uint32(p[8:])); op != 0 && c.relay.forget.CompareAndSwap(op, 0) {
		c.mu.Lock()
		c.omit[binary.BigEndian.Uint32(p[4:])] = true
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

func (c *forgetfulConn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		frame := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, frame); err != nil {
			return 0, err
		}
		frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
		if _, err := io.ReadFull(c.Conn, frame[4:]); err != nil {
			return 0, err
		}
		c.mu.Lock()
		if !c.omit[binary.BigEndian.Uint32(frame[4:])] {
			c.rest = frame
		}
		c.mu.Unlock()
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
