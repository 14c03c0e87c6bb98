// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"cmp"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// leaseBench is a trust with a clock that the test moves.
type leaseBench struct {
	*leaseTracker
	now    atomic.Int64
	proofs atomic.Uint64
	mu     sync.Mutex
	told   []*Lease
}

// newLeaseBench returns a trust of a session of timeout T = 12 s that was asked
// for at 1 s and answered at 1.1 s.
func newLeaseBench(margin time.Duration) *leaseBench {
	b := new(leaseBench)
	b.leaseTracker = newLeaseTracker(func() time.Duration { return time.Duration(b.now.Load()) }, margin, &b.proofs, func(l *Lease) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.told = append(b.told, l)
	})
	b.at(sec(1))
	b.connecting(sec(1))
	b.at(sec(1.1))
	b.greeted(sec(1.1), 12*time.Second, true)
	return b
}

func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (b *leaseBench) at(t time.Duration) { b.now.Store(int64(t)) }

// end returns when the present lease ends; 0 if it is not in force.
func (b *leaseBench) ends() time.Duration {
	if l := b.current.Load(); l.InForce() {
		return time.Duration(l.until.Load())
	}
	return 0
}

// TestLeaseRule: min(s + T/2, p + 11/12 T) - margin, with T = 12 s.
func TestLeaseRule(t *testing.T) {
	type ask struct{ sent, answered float64 }
	for _, tt := range []struct {
		name   string
		asks   []ask // requests that prove nothing, such as pings
		proof  ask
		margin float64
		want   float64
	}{
		{"a young session: the connect request is p", nil, ask{2, 2.1}, 0, 2 + 6},
		{"the connect request alone, later", nil, ask{5, 5.1}, 0, 5 + 6},
		{"… and too late for s", nil, ask{8, 8.1}, 0, 1 + 11},
		{"a ping answered T/4 before s counts", []ask{{4, 5}}, ask{8, 8.1}, 0, 8 + 6},
		{"one answered later does not", []ask{{4, 5.01}}, ask{8, 8.1}, 0, 1 + 11},
		{"the newest of those that count", []ask{{2, 2.1}, {3, 3.1}, {7, 7.1}}, ask{8, 8.1}, 0, 3 + 11},
		{"newest by sending, not by answer", []ask{{3, 3.2}, {2, 3.6}}, ask{8, 8.1}, 0, 3 + 11},
		{"a proof that took long", []ask{{4, 4.1}}, ask{8, 11}, 0, 8 + 6},
		{"so long that it proves nothing any more", []ask{{4, 4.1}}, ask{8, 14.5}, 0, 0},
		{"with a margin", nil, ask{2, 2.1}, 1.5, 2 + 6 - 1.5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newLeaseBench(sec(tt.margin))
			for _, a := range tt.asks {
				b.at(sec(a.answered))
				b.answered(sec(a.sent), sec(a.answered))
			}
			b.at(sec(tt.proof.answered))
			b.answered(sec(tt.proof.sent), sec(tt.proof.answered))
			b.proved(sec(tt.proof.sent))
			if got := b.ends(); got != sec(tt.want) {
				t.Errorf("the lease ends at %v, want %v", got, sec(tt.want))
			}
		})
	}
}

// TestLeaseSteady: with a ping every third of T and a proof every sixth, the
// lease always has a third of T to go.
func TestLeaseSteady(t *testing.T) {
	b := newLeaseBench(0)
	for now := sec(2); now < sec(1000); now += sec(1) {
		b.at(now + sec(0.05))
		if int(now/time.Second)%4 == 0 {
			b.answered(now, now+sec(0.05))
		}
		if int(now/time.Second)%2 == 0 {
			b.answered(now, now+sec(0.05))
			b.proved(now)
		}
		if left := b.ends() - now; left < sec(4) {
			t.Fatalf("at %v the lease has %v left", now, left)
		}
	}
	if len(b.told) != 0 {
		t.Error("lapsed")
	}
}

// TestLeaseLife: no lease before the first proof; one that has lapsed never
// comes back; each is told once.
func TestLeaseLife(t *testing.T) {
	b := newLeaseBench(0)
	none := b.current.Load()
	if none.InForce() || !none.Lapsed() || none.Remaining() != 0 {
		t.Fatal("a lease before the first proof")
	}
	b.proved(sec(1.2))
	first := b.current.Load()
	if first == none || !first.InForce() || first.Lapsed() || first.Remaining() != sec(1.2+6-1.1) {
		t.Fatalf("first lease: %v left", first.Remaining())
	}
	b.proved(sec(0.5)) // older than what is known: no step back
	if first.Remaining() != sec(1.2+6-1.1) {
		t.Fatal("shortened")
	}
	b.at(sec(7.1))
	b.answered(sec(7), sec(7.1))
	b.proved(sec(7)) // p is the connect request, still
	if b.current.Load() != first || first.until.Load() != int64(sec(12)) {
		t.Fatal("not extended")
	}
	b.at(sec(12) - 1)
	if !first.InForce() {
		t.Fatal("ended early")
	}
	b.at(sec(12))
	if first.Lapsed() {
		t.Error("Lapsed looked at the clock")
	}
	if first.InForce() || !first.Lapsed() || len(b.told) != 1 {
		t.Fatal("did not end")
	}
	b.at(sec(11)) // no clock does that; the latch holds even so
	if first.InForce() || first.Remaining() != 0 {
		t.Error("revived by the clock")
	}
	b.at(sec(12.5))
	b.answered(sec(12.4), sec(12.5))
	b.proved(sec(12.4))
	second := b.current.Load()
	if second == first || !second.InForce() || first.InForce() {
		t.Error("revived by a proof")
	}
	// A lease whose end nobody has noticed when the next proof comes.
	b.at(sec(30))
	b.answered(sec(29.9), sec(30))
	b.proved(sec(29.9))
	if !second.Lapsed() || b.current.Load().InForce() {
		t.Error("the second lease lives on, or the third is too long")
	}
	b.at(sec(33.2))
	b.proved(sec(33.1))
	third := b.current.Load()
	if !third.InForce() {
		t.Error("no third lease")
	}
	b.end()
	if third.InForce() || !third.Lapsed() {
		t.Error("in force after the end of the session")
	}
	b.end()
	b.proved(sec(33.15))
	if b.current.Load() != third {
		t.Error("a lease after the end of the session")
	}
	if len(b.told) != 3 || b.told[0] != first || b.told[1] != second || b.told[2] != third {
		t.Errorf("%d lapses told, want each once", len(b.told))
	}
}

// TestAnswersErrOnTheSafeSide compares the ring with a complete record.
func TestAnswersErrOnTheSafeSide(t *testing.T) {
	const timeout = 640 * time.Millisecond
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var a answers
		a.step = timeout / answersPerTimeout
		type pair struct{ sent, at time.Duration }
		all := []pair{{0, 0}} // the connect request
		a.add(0, 0)
		now := timeout
		for range rng.IntN(500) {
			now += time.Duration(rng.IntN(int(timeout / 50)))
			p := pair{now - time.Duration(rng.IntN(int(timeout/10))), now}
			all = append(all, p)
			a.add(p.sent, p.at)
		}
		for range 50 {
			q := now - time.Duration(rng.IntN(int(timeout)))
			var want time.Duration
			known := false
			for _, p := range all {
				if p.at <= q && (!known || p.sent > want) {
					want, known = p.sent, true
				}
			}
			got, ok := a.newest(q)
			if ok && (!known || got > want) {
				t.Fatalf("the ring says %v, %v; it was %v, %v", got, ok, want, known)
			}
			if known && now-q < timeout && (!ok || want-got > timeout/answersPerTimeout+timeout/10+timeout/50) {
				t.Fatalf("the ring says %v, %v; it was %v: too coarse", got, ok, want)
			}
		}
	}
}

// TestLeaseHammer lets everybody do everything at once. Whoever has seen a
// lease end never sees it in force again, nor does anybody else later.
func TestLeaseHammer(t *testing.T) {
	b := newLeaseBench(0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var leases atomic.Int64
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				l := b.current.Load()
				was := l.InForce()
				runtime.Gosched()
				if is := l.InForce(); is && !was {
					t.Error("revived")
					return
				}
				if !was && !l.Lapsed() {
					t.Error("over, and not latched")
					return
				}
			}
		})
	}
	wg.Go(func() { // time, in steps that often pass the end of a lease
		for leases.Load() < 200 {
			b.now.Add(int64(rand.N(sec(8))))
			runtime.Gosched()
		}
		close(stop)
	})
	wg.Go(func() { // proofs
		var last *Lease
		for {
			select {
			case <-stop:
				return
			default:
			}
			now := time.Duration(b.now.Load())
			b.answered(now, now)
			b.proved(now - sec(3))
			if l := b.current.Load(); l != last {
				last = l
				leases.Add(1)
			}
			runtime.Gosched()
		}
	})
	wg.Wait()
	b.end()
	seen := make(map[*Lease]bool)
	for _, l := range b.told {
		if seen[l] {
			t.Error("a lapse told twice")
		}
		seen[l] = true
	}
}

// An ensemble is a model of a follower that a client is connected to, and of its
// leader, who ends the session. It goes by real time, the client by a clock of
// its own speed, which is rate seconds in a second.
//
// The follower reports the sessions that it has heard of every quarter of the
// timeout T, which is the longest that the bounds allow (half a tick, of which T
// has two at least), and the leader ends the session T after the last report
// that named it. From the moment cut on the two are cut off from each other:
// there are no reports, and no write is answered; pings still are.
type ensemble struct {
	rate  float64
	phase float64 // of the reports, in T/4
	trip  float64 // how long a request is under way, and its answer, in s
	cut   float64
	stall [2]float64 // the client sends nothing between these
}

// margin returns by how much the client's lease ends before the leader ends the
// session, in s. T is 12 s, and the session was asked for at 1 s.
func (e ensemble) margin() float64 {
	const T = 12.0
	b := newLeaseBench(0)
	type ask struct {
		sent  float64
		write bool
	}
	var asks []ask
	for every, write := range map[float64]bool{T / 3: false, T / 6: true} {
		for k := 1.0; k < 30; k++ {
			sent := (1 + k*every) / e.rate
			if sent > e.stall[0] && sent < e.stall[1] {
				sent = e.stall[1]
			}
			if sent < e.cut+T/2 {
				asks = append(asks, ask{sent, write})
			}
		}
	}
	// The pings first, where both are sent at the same moment: they are answered
	// first and, as far as the client knows, tell the leader of its life.
	slices.SortStableFunc(asks, func(a, b ask) int {
		if a.sent == b.sent && a.write != b.write {
			if a.write {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.sent, b.sent)
	})

	heard := []float64{1/e.rate + e.trip} // when the follower heard of the client
	own := func(at float64) time.Duration { return sec(at * e.rate) }
	for _, a := range asks {
		arrives, answered := a.sent+e.trip, a.sent+2*e.trip
		heard = append(heard, arrives)
		if a.write && arrives > e.cut {
			continue
		}
		b.at(own(answered))
		b.answered(own(a.sent), own(answered))
		if a.write {
			b.proved(own(a.sent))
		}
	}
	expires := 1/e.rate + e.trip + T // what created the session was the first sign of life
	for k := e.phase; k*T/4 <= e.cut; k++ {
		report := k * T / 4
		if slices.ContainsFunc(heard, func(at float64) bool { return report-T/4 < at && at <= report }) {
			expires = report + T
		}
	}
	until := b.current.Load().until.Load()
	if until == lapsed {
		return math.Inf(1)
	}
	return expires - time.Duration(until).Seconds()/e.rate
}

// TestF047_LeaseUnderDrift: as long as the clocks differ in speed by less than a
// twelfth, the lease is over before the leader ends the session, whatever the
// phases, whenever the follower is cut off, and if the client is late. Beyond
// that it need not be.
func TestF047_LeaseUnderDrift(t *testing.T) {
	for _, tt := range []struct {
		name string
		rate float64
		safe bool
	}{
		{"the client's clock is a twelfth slow", 11.0 / 12, true},
		{"a little slow", 23.0 / 24, true},
		{"true", 1, true},
		{"a little fast", 25.0 / 24, true},
		{"a twelfth fast", 13.0 / 12, true},
		{"a sixth slow", 10.0 / 12, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			least, worst := math.Inf(1), ensemble{}
			for phase := 0.0; phase < 1; phase += 1.0 / 16 {
				for cut := 1.25; cut < 40; cut += 0.25 {
					for _, trip := range []float64{0, 0.1} {
						for _, stall := range [][2]float64{{}, {14.5, 18}, {13, 21.9}, {20, 29}} {
							e := ensemble{tt.rate, phase, trip, cut, stall}
							if m := e.margin(); m < least {
								least, worst = m, e
							}
						}
					}
				}
			}
			t.Logf("the least margin is %.3f s of a timeout of 12 s: %+v", least, worst)
			if (least >= -1e-6) != tt.safe {
				t.Errorf("the least margin is %.3f s; safe: %v", least, tt.safe)
			}
		})
	}
}
