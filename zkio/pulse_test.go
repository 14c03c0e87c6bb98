// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A pause is told if a look was late by a second, or by a third of a session timeout of
// less than 3 s; by whichever goroutine looks first, and once.
func TestF315_Pulse(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		what    string
		timeout time.Duration
		looks   []time.Duration // after the one before
		want    []time.Duration // the pauses
	}{
		{"in time", 10 * time.Second, []time.Duration{250 * ms, 250 * ms, 10 * ms, 240 * ms}, nil},
		{"as late as on a busy machine", 10 * time.Second, []time.Duration{450 * ms, 1249 * ms}, nil},
		{"a second", 10 * time.Second, []time.Duration{250 * ms, 1250 * ms, 250 * ms}, []time.Duration{time.Second}},
		{"twice", 10 * time.Second, []time.Duration{16250 * ms, 1 * ms, 250 * ms, 5250 * ms}, []time.Duration{16 * time.Second, 5 * time.Second}},
		{"a short timeout", 600 * ms, []time.Duration{249 * ms, 250 * ms}, []time.Duration{200 * ms}},
		{"a long timeout", time.Minute, []time.Duration{1249 * ms, 1250 * ms}, []time.Duration{time.Second}},
	} {
		var now, total time.Duration
		var got []time.Duration
		p := newPulse(func() time.Duration { return now }, tt.timeout, func(d time.Duration) { got = append(got, d) })
		for _, d := range tt.looks {
			now += d
			p.last()
		}
		total = 0
		for _, d := range tt.want {
			total += d
		}
		if count, sum := p.stats(); !slices.Equal(got, tt.want) || count != uint64(len(got)) || sum != total {
			t.Errorf("%s: pauses of %v, want %v; %d of %v together", tt.what, got, tt.want, count, sum)
		}
		p.stop()
		now += time.Hour
		if n, _ := p.last(); n != uint64(len(tt.want)) {
			t.Errorf("%s: a pause after the last look", tt.what)
		}
	}
}

// A pause explains what is missing since a time if it was a third of what has passed.
func TestF315_PauseExplains(t *testing.T) {
	var now time.Duration
	p := newPulse(func() time.Duration { return now }, 10*time.Second, func(time.Duration) {})
	at := func(until, each time.Duration) {
		for now < until {
			now += each
			p.last()
		}
	}
	at(sec(10), p.interval)
	now = sec(26.25) // it was due at 10.25 s
	for _, tt := range []struct {
		now, since, want float64
	}{
		{26.25, 10, 16},
		{26.25, 26, 16},   // the end of it
		{26.25, 26.25, 0}, // it was over
		{26.25, 0, 16},
		{27, 26.5, 0},
		{27, 25, 16},
		{28, 25, 16},
		{30.25, 25, 0},  // 1.25 of 5.25 s
		{58, 10.25, 16}, // 16 of 47.75 s
		{58.5, 10.25, 0},
	} {
		at(sec(tt.now), p.interval)
		if got := p.since(sec(tt.since)); got != sec(tt.want) {
			t.Errorf("at %v s, of the time since %v s: %v, want %v s", tt.now, tt.since, got, tt.want)
		}
	}
}

// The machine of a client stands still. The lease that ends by that, the session, the
// connection and the log name it, and none blames the server.
func TestF315_PauseIsTold(t *testing.T) {
	for _, tt := range []struct {
		what   string
		asleep time.Duration
		over   bool     // the session has timed out
		told   []string // what the listener was told, each line's beginning
	}{
		{"shorter than the lease", 1200 * time.Millisecond, false, []string{"started 1", "paused for 1.2s"}},
		{"longer than the lease", 3 * time.Second, false, []string{"started 1", "paused for 3s", "lapsed"}},
		{"longer than the session", 16 * time.Second, true, []string{"started 1", "paused for 15.85s", "lapsed", "over 1: zkio: session is over: the server ended it, 16", "started 2"}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			bubble(t, func(t *testing.T, z *zktest.Server) {
				var m sleeper
				var r recorder
				cfg := configure(z)
				cfg.Listener, cfg.Suspended = &r, m.total
				log := logTo(&cfg)
				c := open(t, cfg)
				s := c.Session()
				mustCreate(t, s, "/d", nil)
				l := s.Lease()
				time.Sleep(20*time.Second + 100*time.Millisecond) // 0.15 s before the next look
				m.slept.Add(int64(tt.asleep))
				if tt.over {
					z.ExpireSession(s.ID()) // the client finds its connection closed
				}
				if out := c.Outage(); out != nil {
					t.Errorf("an outage: %v", out)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				told := slices.Compact(r.lines()) // the first lease after an outage can be too short
				if !slices.EqualFunc(told, tt.told, strings.HasPrefix) {
					t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(tt.told, "\n"))
				}
				noticed := tt.asleep
				if tt.over { // by the end of the connection, before the look was due
					noticed -= 150 * time.Millisecond
				}
				lost := len(tt.told) > 2
				if d := l.Paused(); (d > 0) != lost || lost && d != noticed {
					t.Errorf("the lease says that the process paused for %v", d)
				}
				if d := s.Paused(); (d > 0) != tt.over {
					t.Errorf("the session says that the process paused for %v", d)
				}
				st := c.Stats()
				if st.Pauses != 1 || st.Paused != noticed {
					t.Errorf("%d pauses, of %v together", st.Pauses, st.Paused)
				}
				text := log.String()
				if !strings.Contains(text, "this process did not run for a while: it was stopped or suspended, or got no processor") || strings.Contains(text, "because of the server") {
					t.Errorf("logged:\n%s", text)
				}
				if got := strings.Contains(text, `because="this process did not run for 1`); got != tt.over {
					t.Errorf("the end of the session names the pause: %t; logged:\n%s", got, text)
				}
			})
		})
	}
}

// The machine is suspended while an answer is due. That it comes too late is not the
// server's fault, and the log says so.
func TestF315_PausedWhileItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		var m sleeper
		var r recorder
		cfg := configure(z)
		cfg.Listener, cfg.Suspended = &r, m.total
		log := logTo(&cfg)
		c := open(t, cfg)
		s := c.Session()
		time.Sleep(10 * time.Second)
		silent := z.Faults().BlackholeAll()
		time.Sleep(s.Timeout() / 3) // a ping is sent
		m.suspend(16 * time.Second)
		eventually(t, "the connection is lost", func() bool { return !s.Connected() || s.Connection() > 1 })
		silent.Remove()
		time.Sleep(10 * time.Second)
		if got := log.String(); !strings.Contains(got, `level=INFO msg="lost the connection to zookeeper; connecting again"`) ||
			!strings.Contains(got, `cause="this process did not run for 16s"`) || strings.Contains(got, "because of the server") {
			t.Errorf("logged:\n%s", got)
		}
	})
}
