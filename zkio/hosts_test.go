// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestHostsPauses: rounds of the list follow each other ever more slowly, and
// the attempts within one at once.
func TestHostsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts([]string{"a", "b", "c"}, newClock(nil))
		const timeout = 10 * time.Second
		pauses := func(n int) (rounds []time.Duration) {
			for range n {
				for i := range 3 {
					h.pick()
					d := h.pause(timeout)
					if i > 0 && d != 0 {
						t.Errorf("a pause of %v within a round", d)
					}
					if i == 0 {
						rounds = append(rounds, d)
					}
				}
			}
			return rounds
		}
		check := func() {
			t.Helper()
			got := pauses(12)
			if got[0] != 0 {
				t.Errorf("a pause of %v before the first round", got[0])
			}
			for i, d := range got[1:] {
				most := min(firstPause<<i, maxPause)
				if d < most/2 || d > most {
					t.Errorf("a pause of %v before round %d, want %v to %v", d, i+2, most/2, most)
				}
			}
		}
		check()
		h.pick()
		h.connected()
		time.Sleep(shortLived)
		check()
		// Connections that do not last do not count.
		for range 10 {
			h.pick()
			h.pause(timeout)
			h.connected()
		}
		longest := time.Duration(0)
		for range 3 {
			h.pick()
			longest = max(longest, h.pause(timeout))
		}
		if longest < maxPause/2 {
			t.Errorf("a pause of %v after connections that did not last", longest)
		}
	})
}

// TestHostsAttempt: in the first round, all servers together fit into the last
// third of the timeout; no attempt ever takes more than a third.
func TestHostsAttempt(t *testing.T) {
	for _, tt := range []struct {
		servers int
		timeout time.Duration
		want    []time.Duration // by round
	}{
		{1, 12 * time.Second, []time.Duration{4 * time.Second, 4 * time.Second}},
		{2, 12 * time.Second, []time.Duration{2 * time.Second, 4 * time.Second, 4 * time.Second}},
		{4, 12 * time.Second, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second}},
		{5, time.Second, []time.Duration{minAttempt, 2 * minAttempt, time.Second / 3}},
		{1, 150 * time.Millisecond, []time.Duration{50 * time.Millisecond}},
	} {
		h := newHosts(make([]string, tt.servers), newClock(nil))
		for round, want := range tt.want {
			for range tt.servers {
				h.pause(tt.timeout)
				if got := h.attempt(tt.timeout); got != want {
					t.Errorf("%d servers, timeout %v, round %d: %v, want %v", tt.servers, tt.timeout, round, got, want)
				}
			}
		}
	}
}

// TestHostsOrder: every server is tried in each round, and clients differ in
// the order.
func TestHostsOrder(t *testing.T) {
	servers := []string{"a", "b", "c", "d", "e"}
	first := make(map[string]int)
	for range 200 {
		h := newHosts(servers, newClock(nil))
		var round []string
		for range servers {
			round = append(round, h.pick())
		}
		first[round[0]]++
		for _, s := range round {
			if again := h.pick(); again != s {
				t.Fatalf("%s after %v", again, round)
			}
		}
		slices.Sort(round)
		if !slices.Equal(round, servers) {
			t.Fatalf("a round of %v", round)
		}
	}
	if len(first) != len(servers) {
		t.Errorf("first tried: %v", first)
	}
}

func TestHostsDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	h := newHosts([]string{"localhost:" + port}, newClock(nil))
	for range 4 { // whichever of its addresses comes first
		conn, raw, err := h.dial(t.Context(), &Config{}, "localhost:"+port)
		must(t, err)
		if conn != raw {
			t.Error("two connections without TLS")
		}
		conn.Close()
	}
	_, _, err = h.dial(t.Context(), &Config{}, "holdfast.invalid:2181")
	if dns := new(net.DNSError); !errors.As(err, &dns) {
		t.Errorf("error %v", err)
	}
	l.Close()
	_, _, err = h.dial(t.Context(), &Config{}, "localhost:"+port)
	if reason := reasonOf(err, 0); reason != "connection refused" {
		t.Errorf("reason %q", reason)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err = h.dial(ctx, &Config{}, "127.0.0.1:"+port); err == nil {
		t.Error("dialed after ctx had ended")
	}
}
