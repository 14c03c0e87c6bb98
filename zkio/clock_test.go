// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A sleeper is a machine that the test suspends.
type sleeper struct{ slept atomic.Int64 }

func (s *sleeper) total() time.Duration { return time.Duration(s.slept.Load()) }

// suspend suspends the machine for d. Its monotonic clock runs while it goes to
// sleep and wakes up: see looksLast.
func (s *sleeper) suspend(d time.Duration) {
	time.Sleep(looksLast / 2)
	s.slept.Add(int64(d))
	time.Sleep(looksLast / 2)
}

// The clock counts suspended time, once, and takes no pause between two readings
// for it.
func TestClockCountsSuspensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var readings []time.Duration // to come; the last one stays
		read := func() time.Duration {
			r := readings[0]
			if len(readings) > 1 {
				readings = readings[1:]
			}
			return r
		}
		const ms = time.Millisecond
		readings = []time.Duration{70*ms + 30*ms, 70 * ms} // a pause in the first one
		c := newClock(read)
		for _, tt := range []struct {
			what     string
			readings []time.Duration
			want     time.Duration
		}{
			{"nothing", []time.Duration{70 * ms}, 0},
			{"noise", []time.Duration{71*ms - 1}, 0},
			{"a pause between the two clocks", []time.Duration{5070 * ms, 70 * ms}, 0},
			{"pauses", []time.Duration{5070 * ms, 90 * ms, 80 * ms, 70*ms + 7}, 0},
			{"a suspension", []time.Duration{100 * ms}, 30 * ms},
			{"no other", []time.Duration{100 * ms}, 30 * ms},
			{"another, with a pause", []time.Duration{900 * ms, 170 * ms, 1000 * ms, 170 * ms}, 100 * ms},
			{"a step back, which no such clock makes", []time.Duration{0}, 100 * ms},
			{"too little to count", []time.Duration{170*ms + ms*6/10}, 100 * ms},
			{"now it is enough", []time.Duration{170*ms + ms*12/10}, 100*ms + ms*12/10},
			{"an hour", []time.Duration{time.Hour + 70*ms}, time.Hour},
		} {
			time.Sleep(time.Second) // virtual
			readings = tt.readings
			if got := c.now() - time.Since(c.start); got != tt.want {
				t.Errorf("%s: %v were counted, want %v", tt.what, got, tt.want)
			}
		}
	})
}

// The suspended time is asked for at most once in a millisecond, by the monotonic
// clock, and a suspension is noticed by the first reading after it.
func TestF045_LookHoldsAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		var machine sleeper
		looks := 0
		c := newClock(func() time.Duration { looks++; return machine.total() })
		time.Sleep(time.Second)
		c.now()
		for _, tt := range []struct {
			what    string
			pass    time.Duration
			suspend time.Duration
			look    bool
		}{
			{"at once", 0, 0, false},
			{"almost a millisecond later", ms - 1, 0, false},
			{"after a millisecond", 1, 0, true},
			{"after that look", ms - 1, 0, false},
			{"after a millisecond again", 1, 0, true},
			{"after a suspension", 0, time.Minute, true},
			{"after that", ms - 1, 0, false},
			{"after another, which is longer", 0, time.Hour, true},
			{"and one more", 0, time.Second, true},
			{"an hour later", time.Hour, 0, true},
		} {
			time.Sleep(tt.pass)
			if tt.suspend > 0 {
				machine.suspend(tt.suspend)
			}
			looks = 0
			if got, want := c.now(), time.Since(c.start)+machine.total(); got != want {
				t.Errorf("%s: the clock says %v, want %v", tt.what, got, want)
			}
			if (looks > 0) != tt.look {
				t.Errorf("%s: %d looks; want one: %v", tt.what, looks, tt.look)
			}
		}
	})
}

// Many look at once while the machine is suspended again and again: time never
// goes back, nothing is counted twice, and all is counted in the end.
func TestClockHammer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var machine sleeper
		c := newClock(machine.total)
		const suspensions = 1000
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				last := time.Duration(0)
				for range 2 * suspensions {
					now := c.now()
					if now < last {
						t.Errorf("%v after %v", now, last)
					}
					last = now
					time.Sleep(looksLast * time.Duration(i+1) / 4)
				}
			})
		}
		for range suspensions {
			machine.suspend(time.Minute)
			if got, want := c.now(), time.Since(c.start)+machine.total(); got != want {
				t.Errorf("the clock says %v, want %v", got, want)
			}
		}
		wg.Wait()
	})
}

// The system's clocks count no suspension while the machine is not suspended.
func TestSystemSuspended(t *testing.T) {
	c := newClock(nil)
	for range 10_000 {
		c.now()
	}
	if slept := c.asleep(0); slept != 0 {
		t.Errorf("suspended for %v during the test", slept)
	}
}

// The machine is suspended under a client: its lease is over when that took
// longer than it had left, and no proof revives it.
func TestF045_LeaseCountsSuspensions(t *testing.T) {
	for _, tt := range []struct {
		name  string
		slept time.Duration
		look  func(z *zktest.Server, s *Session, l *Lease) // before time goes on
		lost  bool
	}{
		{"shorter than the lease", time.Second, func(*zktest.Server, *Session, *Lease) {}, false},
		{"longer, and the lease is asked", 3 * time.Second, func(_ *zktest.Server, _ *Session, l *Lease) { l.InForce() }, true},
		{"longer, and the lease is not asked", 3 * time.Second, func(*zktest.Server, *Session, *Lease) {}, true},
		{"longer, and a write is answered first", 3 * time.Second, func(_ *zktest.Server, s *Session, _ *Lease) {
			if _, err := s.Set("/d", nil, -1); err != nil {
				panic(err)
			}
		}, true},
		{"longer, and nothing is answered any more", 3 * time.Second, func(z *zktest.Server, s *Session, _ *Lease) {
			f := z.Faults().Blackhole(s.ID())
			time.AfterFunc(time.Second, f.Remove)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, z *zktest.Server) {
				var machine sleeper
				var r recorder
				cfg := configure(z)
				cfg.Suspended, cfg.Listener = machine.total, &r
				c := open(t, cfg)
				s := c.Session()
				n := mustCreate(t, s, "/d", nil)
				time.Sleep(10*time.Second + 10*time.Millisecond)
				l := s.Lease()
				if !l.InForce() {
					t.Fatal("no lease")
				}
				machine.suspend(tt.slept)
				tt.look(z, s, l)
				synctest.Wait()
				time.Sleep(4 * time.Second / 6)
				synctest.Wait()
				lapses, _ := r.lapsed()
				if !tt.lost {
					if lapses != 0 || s.Lease() != l || !l.InForce() {
						t.Error("the lease has lapsed")
					}
				} else {
					// Noticed by now; perhaps there was a short one since.
					if lapses == 0 || !l.Lapsed() || l.InForce() {
						t.Errorf("%d lapses; in force: %v", lapses, l.InForce())
					}
					time.Sleep(4 * time.Second)
					if s.Err() != nil || s.Lease() == l || !s.Lease().InForce() {
						t.Error("the session, which lives, has no new lease")
					}
				}
				must(t, n.Delete(s))
			})
		})
	}
}

// BenchmarkClock measures readings in quick succession, and a look.
func BenchmarkClock(b *testing.B) {
	c := newClock(nil)
	b.Run("what=now", func(b *testing.B) {
		for b.Loop() {
			c.now()
		}
	})
	b.Run("what=look", func(b *testing.B) {
		for b.Loop() {
			c.asleep(0)
		}
	})
}
