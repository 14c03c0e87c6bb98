// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestExpiryTimes: a session ends at the first tick after the last sign of life
// plus the timeout: never early, and at most a tick late.
func TestExpiryTimes(t *testing.T) {
	const tick = 500 * time.Millisecond
	for _, tc := range []struct {
		timeout time.Duration
		touch   time.Duration // last sign of life, from the server's start
		end     time.Duration // first tick later than touch + timeout
	}{
		{3 * time.Second, 0, 3500 * time.Millisecond},
		{3 * time.Second, 1 * time.Millisecond, 3500 * time.Millisecond},
		{3 * time.Second, 499 * time.Millisecond, 3500 * time.Millisecond},
		{3 * time.Second, 500 * time.Millisecond, 4 * time.Second},
		{3 * time.Second, 501 * time.Millisecond, 4 * time.Second},
		{1 * time.Second, 700 * time.Millisecond, 2 * time.Second},
		{1234 * time.Millisecond, 10 * time.Second, 11500 * time.Millisecond},
		{time.Hour, 26 * time.Hour, 27*time.Hour + tick},
	} {
		t.Run(fmt.Sprintf("T=%v,touched=%v", tc.timeout, tc.touch), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				start := time.Now()
				d := rawSession(t, srv, tc.timeout)
				d.do(`create "/e" flags=1`)
				for at := tc.touch % (tc.timeout / 2); at <= tc.touch; at += tc.timeout / 2 {
					time.Sleep(time.Until(start.Add(at)))
					d.do("ping")
				}
				if got := srv.Sessions()[0]; !got.LastTouch.Equal(start.Add(tc.touch)) || !got.Expires.Equal(start.Add(tc.end)) || got.Timeout != tc.timeout || !got.Connected {
					t.Errorf("session %+v, want it touched at %v, ending at %v", got, tc.touch, tc.end)
				}
				time.Sleep(time.Until(start.Add(tc.end - 1)))
				synctest.Wait()
				if !srv.Exists("/e") || len(srv.Expired()) > 0 {
					t.Fatalf("expired a moment before %v", tc.end)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if srv.Exists("/e") || len(srv.Sessions()) > 0 {
					t.Fatalf("not expired at %v", tc.end)
				}
				want := zktest.Expiry{Session: d.session, Timeout: tc.timeout, LastTouch: start.Add(tc.touch), At: start.Add(tc.end), Ephemerals: 1}
				if got := srv.Expired(); len(got) != 1 || got[0] != want {
					t.Errorf("Expired = %+v, want %+v", got, want)
				}
				if frame, end := d.readFrame(); end != "connection closed" {
					t.Errorf("after the expiry the connection has %x, %s; want it closed", frame, end)
				}
			})
		})
	}
}

// TestTimeoutBounds: requested timeouts are moved into the bounds.
func TestTimeoutBounds(t *testing.T) {
	for _, tc := range []struct {
		cfg               zktest.Config
		shortest, longest time.Duration
	}{
		{zktest.Config{}, 4 * time.Second, 40 * time.Second},
		{zktest.Config{TickTime: 100 * time.Millisecond}, 200 * time.Millisecond, 2 * time.Second},
		{zktest.Config{MinSessionTimeout: time.Second, MaxSessionTimeout: 3 * time.Second}, time.Second, 3 * time.Second},
		{zktest.Config{MinSessionTimeout: time.Minute}, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(t, tc.cfg)
			for ask, want := range map[time.Duration]time.Duration{0: tc.shortest, time.Millisecond: tc.shortest, tc.shortest: tc.shortest, tc.longest: tc.longest, time.Hour: tc.longest} {
				d := rawSession(t, srv, ask)
				for _, s := range srv.Sessions() {
					if s.ID == d.session && s.Timeout != want {
						t.Errorf("%+v: asked for %v, got %v, want %v", tc.cfg, ask, s.Timeout, want)
					}
				}
			}
		})
	}
}

// TestSessionIDs: ids have the server's number in the high byte and do not repeat,
// not even in servers that start one after the other.
func TestSessionIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[int64]bool)
		for range 3 {
			for _, id := range []uint8{0, 7, 255} {
				srv := newServer(t, zktest.Config{ID: id})
				for range 3 {
					s := rawSession(t, srv, time.Second).session
					if seen[s] {
						t.Errorf("session %x twice", s)
					}
					seen[s] = true
					if want := max(id, 1); uint64(s)>>56 != uint64(want) {
						t.Errorf("session %x of server %d", s, want)
					}
				}
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// TestSequenceFreezes: from 2^31-1 on, sequence numbers repeat, and those of one
// transaction continue into the negative, as on a real server.
func TestSequenceFreezes(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		newRecord(t, dialing(srv)).control(srv).expect(`
A: connect -> S1 for 10000 ms
A: create "/d" -> z+1 0 /d
server: SetSequence /d 2147483646
A: create "/d/a-" flags=2 -> z+3 0 /d/a-2147483646
A: create "/d/b-" flags=2 -> z+4 0 /d/b-2147483647
A: create "/d/c-" flags=2 -> z+5 0 /d/c-2147483647
A: create "/d/c-" flags=2 -> z+6 -110
A: multi create "/d/m-" flags=2 | create "/d/m-" flags=2 | create "/d/m-" flags=2 -> z+7 0
      [1 false 0] /d/m-2147483647
      [1 false 0] /d/m--2147483648
      [1 false 0] /d/m--2147483647
      [-1 true -1]
A: removeAll "/d"
A: create "/d" -> z+15 0 /d
A: create "/d/n-" flags=2 -> z+16 0 /d/n-0000000000
`)
	})
}

// TestManySessions: a thousand sessions that expire at different ticks.
func TestManySessions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var wg sync.WaitGroup
		const n = 1000
		start := time.Now()
		for i := range n {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				d := rawSession(t, srv, time.Duration(1000+i)*time.Millisecond)
				d.do(fmt.Sprintf(`create "/%d" flags=1`, i))
			})
		}
		wg.Wait()
		if got := len(srv.Sessions()); got != n {
			t.Fatalf("%d sessions, want %d", got, n)
		}
		time.Sleep(10 * time.Second)
		expired := srv.Expired()
		if len(expired) != n || len(srv.Nodes()) != 0 {
			t.Fatalf("%d of %d sessions expired, %d nodes left", len(expired), n, len(srv.Nodes()))
		}
		for _, x := range expired {
			if late := x.At.Sub(x.LastTouch) - x.Timeout; late <= 0 || late > 500*time.Millisecond {
				t.Errorf("session expired %v after its timeout", late)
			}
			if x.At.Sub(start)%(500*time.Millisecond) != 0 {
				t.Errorf("session expired between two ticks, at %v", x.At.Sub(start))
			}
		}
	})
}
