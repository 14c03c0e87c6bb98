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

	"github.com/holdfast-go/holdfast/internal/racing"
)

// leaseBench is a leaseTracker with a clock that the test moves.
type leaseBench struct {
	*leaseTracker
	now    atomic.Int64
	proofs atomic.Uint64
	mu     sync.Mutex
	told   []*Lease
}

// newLeaseBench returns the tracker of a session of timeout T = 12 s that was asked
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

// An askKind is what a request shows.
type askKind int

const (
	ping  askKind = iota // that the server is there
	sync_                // that the leader is
	write                // that a quorum is
)

// answer moves the clock to when a request that was sent then is answered.
func (b *leaseBench) answer(kind askKind, sent, at time.Duration) {
	b.at(at)
	b.answered(sent, at, kind != ping)
	if kind == write {
		b.proved(sent)
	}
}

// ends returns when the present lease ends; 0 if it is not in force.
func (b *leaseBench) ends() time.Duration {
	if l := b.current.Load(); l.InForce() {
		return time.Duration(l.until.Load())
	}
	return 0
}

// TestLeaseRule: min(s + T/2, p + 11/12 T) - margin, with T = 12 s.
func TestLeaseRule(t *testing.T) {
	type ask struct {
		kind           askKind
		sent, answered float64
	}
	for _, tt := range []struct {
		name   string
		asks   []ask
		margin float64
		want   float64
	}{
		{"a young connection: the connect request is p", []ask{{write, 2, 2.1}}, 0, 2 + 6},
		{"the connect request alone, later", []ask{{write, 5, 5.1}}, 0, 5 + 6},
		{"a ping does not count: nothing shows that it was reported", []ask{{ping, 4, 5}, {write, 8.5, 8.6}}, 0, 1 + 11},
		{"nor does it with a write that was answered later", []ask{{ping, 4, 4.5}, {write, 8, 8.6}, {write, 8.5, 8.6}}, 0, 1 + 11},
		{"a sync shows it", []ask{{ping, 4, 5}, {sync_, 8, 8.1}, {write, 8.5, 8.6}}, 0, 8.5 + 6},
		{"so does a write", []ask{{ping, 4, 5}, {write, 8, 8.1}, {write, 8.5, 8.6}}, 0, 8.5 + 6},
		{"of a ping answered T/4 before", []ask{{ping, 4, 5.01}, {sync_, 8, 8.1}, {write, 8.5, 8.6}}, 0, 1 + 11},
		{"of the newest of those", []ask{{ping, 2, 2.1}, {ping, 3, 3.1}, {ping, 7, 7.1}, {sync_, 8, 8.1}, {write, 8.5, 8.6}}, 0, 3 + 11},
		{"newest by sending, not by answer", []ask{{ping, 3, 3.2}, {ping, 2, 3.6}, {sync_, 7.5, 7.6}, {write, 8.5, 8.6}}, 0, 3 + 11},
		{"the newest sync counts", []ask{{ping, 4, 4.1}, {sync_, 6, 6.1}, {sync_, 8, 8.1}, {write, 8.5, 8.6}}, 0, 8.5 + 6},
		{"which had been answered when the write was sent", []ask{{ping, 4, 4.1}, {sync_, 6, 6.1}, {sync_, 8, 8.6}, {write, 8.5, 8.6}}, 0, 1 + 11},
		{"a proof that took long", []ask{{ping, 4, 4.1}, {sync_, 7.5, 7.6}, {write, 8, 11}}, 0, 8 + 6},
		{"so long that it proves nothing any more", []ask{{ping, 4, 4.1}, {sync_, 7.5, 7.6}, {write, 8, 14.5}}, 0, 0},
		{"with a margin", []ask{{write, 2, 2.1}}, 1.5, 2 + 6 - 1.5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newLeaseBench(sec(tt.margin))
			for _, a := range tt.asks {
				b.answer(a.kind, sec(a.sent), sec(a.answered))
			}
			if got := b.ends(); got != sec(tt.want) {
				t.Errorf("the lease ends at %v, want %v", got, sec(tt.want))
			}
		})
	}
}

// TestF370_LeaseAfterASilence: after a time in which the leader may have begun to end the
// session, a lease begins only with a write that is sent T/12 later, which is when the next one
// is due.
func TestF370_LeaseAfterASilence(t *testing.T) {
	ends := func(b *leaseBench, sent, want float64) {
		t.Helper()
		b.answer(write, sec(sent), sec(sent+0.01))
		if got := b.ends(); got != sec(want) {
			t.Errorf("with the write at %v: the lease ends at %v, want %v", sent, got, sec(want))
		}
	}
	for name, hear := range map[string]func(b *leaseBench){
		"own":             func(b *leaseBench) { b.answer(ping, sec(19.9), sec(20)) },
		"the server's":    func(b *leaseBench) { b.answer(ping, sec(15.1), sec(20)) },
		"while connected": func(b *leaseBench) { b.answer(ping, sec(17), sec(20)); b.answer(ping, sec(19), sec(20)) },
		"the network's": func(b *leaseBench) {
			b.connecting(sec(19.9))
			b.at(sec(20))
			b.greeted(sec(20), 12*time.Second, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newLeaseBench(0)
			ends(b, 7.99, 0) // the first answer after T/2
			b = newLeaseBench(0)
			b.answer(ping, sec(4), sec(4.1))
			ends(b, 9.98, 1+11) // before that time has passed
			ends(b, 11.9, 4+11)
			b.answer(ping, sec(13.5), sec(13.51))
			hear(b)
			ends(b, 20.01, 0)
			if due := b.due(); due != sec(21) {
				t.Errorf("the next write is due at %v", due)
			}
			ends(b, 20.99, 0)
			if name == "the network's" {
				ends(b, 21, 21+6) // the connect request is p
			} else {
				ends(b, 21, 13.5+11)
			}
		})
	}
}

// TestLeaseAfterReconnect: the connect request of the present connection is p, and
// what was answered on the one before counts no more.
func TestLeaseAfterReconnect(t *testing.T) {
	b := newLeaseBench(0)
	b.answer(ping, sec(4), sec(4.1))
	b.answer(write, sec(8), sec(8.1))
	b.connecting(sec(9))
	b.answer(write, sec(8.5), sec(9.1)) // which the connection before had still in its buffer
	if got := b.ends(); got != sec(8.5+6) {
		t.Errorf("the lease ends at %v, want %v", got, sec(8.5+6))
	}
	b.connecting(sec(12)) // the first attempt has failed
	b.at(sec(12.1))
	b.greeted(sec(12.1), 12*time.Second, false)
	for _, step := range []struct {
		sent, want float64
	}{
		{12.2, 12.2 + 6},
		{17.5, 12 + 11},
		{17.6, 12.2 + 11}, // by the second the leader knew of the first
	} {
		b.answer(write, sec(step.sent), sec(step.sent+0.1))
		if got := b.ends(); got != sec(step.want) {
			t.Errorf("with the write at %v: the lease ends at %v, want %v", step.sent, got, sec(step.want))
		}
	}
}

// TestLeaseSteady: with a write whenever one is due, the lease always has a third of
// T to go, whatever the pings' phase and how fast the answers are, within reason.
func TestLeaseSteady(t *testing.T) {
	const T = 12 * time.Second
	for phase := range 16 {
		for _, trip := range []time.Duration{0, T / 1000, T / 100, T / 30} {
			b := newLeaseBench(0)
			pings := sec(1) + T*time.Duration(phase)/48
			writes := sec(1.2)
			shortest := T
			for writes < sec(1000) {
				for ; pings < writes; pings += T / 3 {
					b.answer(ping, pings, pings+trip/2)
				}
				if writes > sec(1.2) {
					shortest = min(shortest, b.ends()-writes)
				}
				b.answer(write, writes, writes+trip)
				writes = b.due()
			}
			if want := T/3 - trip; shortest < want {
				t.Errorf("phase %d, answers after %v: the lease had %v left, want %v", phase, trip, shortest, want)
			}
			if len(b.told) != 0 {
				t.Errorf("phase %d, answers after %v: lapsed", phase, trip)
			}
		}
	}
}

// TestLeaseOfAnIdleProcess: a process that has only pinged is told to send a sync
// first. Then its lease is a third of T, and a quarter at least until the writes that are
// due bring it near the half.
func TestLeaseOfAnIdleProcess(t *testing.T) {
	const T = 12 * time.Second
	for phase := range 16 {
		b := newLeaseBench(0)
		b.answer(write, sec(1.2), sec(1.3))
		for at := sec(2.3); at < sec(100)+T*time.Duration(phase)/48; at += T / 3 {
			b.answer(ping, at, at+sec(0.01))
		}
		at := sec(100) + T*time.Duration(phase)/48
		b.at(at)
		if !b.stale() {
			t.Fatalf("phase %d: not stale", phase)
		}
		b.answer(sync_, at, at+sec(0.01))
		if b.stale() {
			t.Fatalf("phase %d: stale after the sync", phase)
		}
		b.answer(write, at+sec(0.02), at+sec(0.03))
		if left := b.ends() - b.proof; left < T/3-sec(0.02) {
			t.Errorf("phase %d: a lease of %v", phase, left)
		}
		var ends []time.Duration
		next := at + T/5 // the next ping
		for range 8 {
			at := max(b.due(), time.Duration(b.now.Load()))
			for ; next < at; next += T / 3 {
				b.answer(ping, next, next+sec(0.01))
			}
			b.answer(write, at, at+sec(0.01))
			ends = append(ends, b.ends()-at)
		}
		for i, left := range ends {
			if left < T/4 || i >= 2 && left < T/3 || i >= 5 && left < T*5/12 {
				t.Errorf("phase %d: leases of %v", phase, ends)
				break
			}
		}
		if b.stale() {
			t.Errorf("phase %d: stale at work", phase)
		}
	}
}

// TestLeaseLife: no lease before the first proof; one that has lapsed never comes
// back; each is told once.
func TestLeaseLife(t *testing.T) {
	b := newLeaseBench(0)
	none := b.current.Load()
	leases := []*Lease{none} // each that there was
	for _, step := range []struct {
		what  string
		now   float64
		proof float64 // when a write was sent that is answered now; 0: none
		lease int     // index in leases of the present one
		until float64 // when it ends; 0: it is over
	}{
		{"no proof yet", 1.1, 0, 0, 0},
		{"the first proof", 1.1, 1.2, 1, 1.2 + 6},
		{"an older one is no step back", 1.1, 0.5, 1, 1.2 + 6},
		{"extended, with the connect request as p", 7.15, 7.14, 1, 1 + 11},
		{"a moment before the end", 11.99, 0, 1, 1 + 11},
		{"the end", 12, 0, 1, 0},
		{"a step back, which no clock makes", 11, 0, 1, 0},
		{"another lease, with the first write as p", 12.13, 12.1, 2, 1.2 + 11},
		{"its end is unnoticed when the next proof comes", 30, 29.9, 2, 0},
		{"and too young for the next", 33.1, 33, 2, 0},
		{"the third", 33.5, 33.25, 3, 33.25 + 6},
	} {
		if b.at(sec(step.now)); step.proof > 0 {
			b.answer(write, sec(step.proof), sec(step.now))
		}
		l := b.current.Load()
		if l != leases[len(leases)-1] {
			leases = append(leases, l)
		}
		want := max(0, sec(step.until)-sec(step.now))
		if len(leases) != step.lease+1 || l.Remaining() != want || l.InForce() != (want > 0) || l.Lapsed() != (want == 0) {
			t.Errorf("%s: lease %d has %v left, in force %t, lapsed %t; want lease %d with %v",
				step.what, len(leases)-1, l.Remaining(), l.InForce(), l.Lapsed(), step.lease, want)
		}
		for _, old := range leases[:len(leases)-1] {
			if old.InForce() || !old.Lapsed() || old.Remaining() != 0 {
				t.Errorf("%s: an earlier lease is in force", step.what)
			}
		}
	}
	third := b.current.Load()
	b.at(sec(40))
	if third.Lapsed() {
		t.Error("Lapsed looked at the clock")
	}
	b.at(sec(33.2))
	for range 2 {
		b.leaseTracker.end(errSessionExpired)
		b.proved(sec(33.15))
		if third.InForce() || !third.Lapsed() || b.current.Load() != third {
			t.Error("a lease after the end of the session")
		}
	}
	if !slices.Equal(b.told, leases[1:]) {
		t.Errorf("%d lapses told, want each of %d once", len(b.told), len(leases)-1)
	}
}

// TestAnswersErrOnTheSafeSide compares the ring with a complete record.
func TestAnswersErrOnTheSafeSide(t *testing.T) {
	const timeout = 640 * time.Millisecond
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		a := answers{step: timeout / answersPerTimeout}
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
			want := time.Duration(-1)
			for _, p := range all {
				if p.at <= q {
					want = max(want, p.sent)
				}
			}
			got, ok := a.newest(q)
			coarse := want >= 0 && now-q < timeout && (!ok || want-got > timeout/answersPerTimeout+timeout/10+timeout/50)
			if ok && got > want || coarse {
				t.Fatalf("the ring says %v, %v; it was %v", got, ok, want)
			}
		}
	}
}

// TestLeaseHammer lets time pass, proofs arrive and readers look all at once. A
// lease that any of them has seen over is never in force again.
func TestLeaseHammer(t *testing.T) {
	b := newLeaseBench(0)
	var wg sync.WaitGroup
	var leases atomic.Int64
	loop := func(do func()) {
		wg.Go(func() {
			for leases.Load() < 200 && !t.Failed() {
				do()
				runtime.Gosched()
			}
		})
	}
	for range 4 {
		loop(func() {
			l := b.current.Load()
			was := l.InForce()
			runtime.Gosched()
			if !was && (l.InForce() || !l.Lapsed()) {
				t.Error("revived, or over and not latched")
			}
		})
	}
	loop(func() { b.now.Add(int64(rand.N(sec(8)))) }) // which often passes the end of a lease
	var last *Lease
	loop(func() {
		now := time.Duration(b.now.Load())
		b.answered(now, now, true)
		b.proved(now - sec(3))
		if l := b.current.Load(); l != last {
			last = l
			leases.Add(1)
		}
	})
	wg.Wait()
	b.end(errSessionExpired)
	for i, l := range b.told {
		if slices.Contains(b.told[:i], l) {
			t.Error("a lapse told twice")
		}
	}
}

// An ensemble is a model of a follower that a client is connected to, and of its
// leader, which ends the session. It goes by real time, the client by a clock of
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
		sent float64
		kind askKind
	}
	var asks []ask
	// The pings first, where both are sent at the same moment: they are answered
	// first and, as far as the client knows, tell the leader of its life.
	for _, kind := range []askKind{ping, write} {
		every := map[askKind]float64{ping: T / 3, write: T / 7}[kind]
		for k := 1.0; k < 30; k++ {
			sent := (1 + k*every) / e.rate
			if sent > e.stall[0] && sent < e.stall[1] {
				sent = e.stall[1]
			}
			if sent < e.cut+T/2 {
				asks = append(asks, ask{sent, kind})
			}
		}
	}
	slices.SortStableFunc(asks, func(a, b ask) int { return cmp.Compare(a.sent, b.sent) })

	heard := []float64{1/e.rate + e.trip} // when the follower heard of the client
	own := func(at float64) time.Duration { return sec(at * e.rate) }
	for _, a := range asks {
		arrives, answered := a.sent+e.trip, a.sent+2*e.trip
		heard = append(heard, arrives)
		if a.kind == write && arrives > e.cut {
			continue
		}
		b.answer(a.kind, own(a.sent), own(answered))
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

// A lease knows whether it has ended with its session, or before.
func TestLeaseEndsWithSession(t *testing.T) {
	for name, late := range map[string]time.Duration{"session": sec(2), "lease": sec(100)} {
		b := newLeaseBench(0)
		b.answer(write, sec(1.2), sec(1.3))
		l := b.current.Load()
		if l.SessionErr() != nil {
			t.Errorf("%s: ended while it is in force", name)
		}
		b.at(late)
		inForce := l.InForce()
		b.end(errSessionExpired)
		if err := l.SessionErr(); l.InForce() || (err == errSessionExpired) != inForce || inForce != (name == "session") {
			t.Errorf("%s: in force before the end: %t; ended with the session: %v", name, inForce, err)
		}
	}
}

// TestF047_LeaseUnderDrift: while the clocks differ in speed by a twelfth at most,
// the lease is over before the leader ends the session, whatever the phases,
// whenever the follower is cut off, and if the client is late.
func TestF047_LeaseUnderDrift(t *testing.T) {
	for rate, safe := range map[float64]bool{ // how fast the client's clock is
		11.0 / 12: true,
		23.0 / 24: true,
		1:         true,
		25.0 / 24: true,
		13.0 / 12: true,
		10.0 / 12: false,
	} {
		least, worst := math.Inf(1), ensemble{}
		cases := 0
		for phase := 0.0; phase < 1; phase += 1.0 / 16 {
			for cut := 1.25; cut <= 40; cut += 0.25 {
				for _, trip := range []float64{0, 0.1} {
					for _, stall := range [][2]float64{{}, {14.5, 18}, {13, 21.9}, {20, 29}} {
						if cases++; !racing.Some(cases) {
							continue
						}
						e := ensemble{rate, phase, trip, cut, stall}
						if m := e.margin(); m < least {
							least, worst = m, e
						}
					}
				}
			}
		}
		t.Logf("the least margin is %.3f s of a timeout of 12 s: %+v", least, worst)
		if (least >= -1e-6) != safe {
			t.Errorf("the least margin is %.3f s; safe: %v", least, safe)
		}
	}
}
