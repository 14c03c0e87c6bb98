// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"testing"
	"time"
)

// TestConnState follows a connection through an outage.
func TestConnState(t *testing.T) {
	const servers, timeout = 2, 4 * time.Second
	w := new(wire)
	up := connState{attempts: 3, refusing: true, dialing: true, downSince: sec(1)}.up(w)
	if up != (connState{wire: w, downSince: sec(1)}) {
		t.Errorf("connected: %+v", up)
	}
	c := up.down(sec(10))
	if c != (connState{downSince: sec(10)}) {
		t.Errorf("disconnected: %+v", c)
	}
	for i, want := range []bool{false, false, true, true} {
		if c = c.attempting(); c.inVain(servers) != want {
			t.Errorf("attempt %d of %d servers: in vain %t", i+1, servers, !want)
		}
	}
	for _, tt := range []struct {
		now  time.Duration
		want bool
	}{{sec(20), false}, {sec(28), false}, {sec(28) + 1, true}} {
		var forTooLong bool
		if c, forTooLong = c.refused(tt.now, 2*timeout); forTooLong != tt.want {
			t.Errorf("at %v: refused for too long %t", tt.now, forTooLong)
		}
	}
	if c = c.up(w).down(sec(30)); c.inVain(servers) || c.refusing {
		t.Errorf("the next outage begins with %+v", c)
	}
}

// TestFaultLog: one line in a minute, which says how many there were not.
func TestFaultLog(t *testing.T) {
	var l faultLog
	for _, tt := range []struct {
		at      float64
		omitted int
		ok      bool
	}{{0, 0, true}, {1, 0, false}, {59, 0, false}, {60, 2, true}, {200, 0, true}, {201, 0, false}} {
		if omitted, ok := l.allow(sec(tt.at)); omitted != tt.omitted || ok != tt.ok {
			t.Errorf("at %v s: %d, %t; want %d, %t", tt.at, omitted, ok, tt.omitted, tt.ok)
		}
	}
}

func TestBackoff(t *testing.T) {
	const first, most = 50 * time.Millisecond, time.Second
	for n, want := range map[int]time.Duration{-1: first, 0: first, 1: 2 * first, 4: 16 * first, 5: most, 62: most, 63: most, 1 << 30: most} {
		least, longest := want, time.Duration(0)
		for range 1000 {
			d := Backoff(n, first, most)
			least, longest = min(least, d), max(longest, d)
		}
		if least <= want/2 || longest > want || longest-least < want/4 {
			t.Errorf("after %d: between %v and %v, want up to %v", n, least, longest, want)
		}
	}
}
