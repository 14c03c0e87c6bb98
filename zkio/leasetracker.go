// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"sync"
	"sync/atomic"
	"time"
)

// A leaseTracker computes a session's leases from what the wire saw.
//
// The leader ends a session when it has not heard of it for the timeout T. The
// connection does not show that: a follower that is cut off from its leader
// goes on answering pings and reads, and a leader that is cut off from its
// followers goes on answering sync, while the rest of the ensemble, or the
// leader, counts down. What shows it is a write that was answered, because a
// quorum agreed on it. With
//
//	s  the time at which the last such write was sent, and
//	p  the time at which the newest request was sent that had been answered a
//	   quarter of T before s, or the connect request in a younger session,
//
// the lease ends at min(s + T/2, p + 11/12 T), less the margin that the user
// asked for. The write by itself does not count as a sign of life at the
// leader: a follower that forwards it reports the sessions that it has heard
// of with the leader's next ping, every half tick, and a tick is at most T/2.
// So by the time s the leader knew of whatever had been answered at s - T/4,
// which was sent at p or later, and cannot end the session before p + T. A
// twelfth of T is left for clocks that differ in speed.
//
// This takes that T is at least two ticks, and that every server has the same
// bounds for T: one with a lower bound shortens the session when it is resumed
// there, which the client learns only from the answer. Behind an ObserverMaster
// (ZooKeeper 3.6), where an observer reports to a follower and that one to the
// leader, the leader may learn of the session a tick later, and T must be at
// least four ticks.
type leaseTracker struct {
	now    func() time.Duration // the client's clock
	margin time.Duration
	lapses func(*Lease)                           // told of each lease that is over; must not block
	begins chan struct{}                          // of capacity 1: gets a value when a lease begins
	paused func(then time.Duration) time.Duration // see pulse.since
	proofs *atomic.Uint64

	current atomic.Pointer[Lease]

	// mu protects what follows, and serializes all changes of leases and what
	// is told about them. The reader of the wire takes it for each reply;
	// others only to end a lease. Nothing blocks under it.
	mu        sync.Mutex
	timeout   time.Duration // T
	asked     time.Duration // when the last connect request was written
	connected time.Duration // when the session's first connect request was written
	answers   answers
	proof     time.Duration // s
	ended     bool
}

func newLeaseTracker(now func() time.Duration, margin time.Duration, proofs *atomic.Uint64, lapses func(*Lease)) *leaseTracker {
	t := &leaseTracker{
		now:    now,
		margin: margin,
		lapses: lapses,
		begins: make(chan struct{}, 1),
		paused: func(time.Duration) time.Duration { return 0 },
		proofs: proofs,
	}
	t.current.Store(newLease(t, lapsed))
	return t
}

// connecting notes that a connect request is about to be written.
func (t *leaseTracker) connecting(now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = now
}

// greeted notes that the connect request was answered.
func (t *leaseTracker) greeted(now, timeout time.Duration, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.current.Load(); !first && timeout < t.timeout {
		// This server keeps sessions for a shorter time than the one before: a
		// lease computed from the longer timeout is too long.
		t.lapseLocked(l, l.until.Load())
	}
	t.timeout = timeout
	t.answers.step = timeout / answersPerTimeout
	if first {
		// The session was created by a transaction after this moment.
		t.connected, t.proof = t.asked, t.asked
	}
	t.answers.add(t.asked, now)
}

// answered notes that a request was answered.
func (t *leaseTracker) answered(sent, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers.add(sent, now)
}

// proved notes that a write sent at s was answered without error: it extends
// the lease, or begins one.
func (t *leaseTracker) proved(s time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.proof = max(t.proof, s)
	p, ok := t.answers.newest(s - t.timeout/4)
	if !ok {
		p = t.connected
	}
	end := min(s+t.timeout/2, p+t.timeout*11/12) - t.margin
	now := t.now()

	l := t.current.Load()
	until := l.until.Load()
	if until != lapsed && now >= time.Duration(until) {
		// It was over already, unnoticed.
		t.lapseLocked(l, until)
		until = lapsed
	}
	switch {
	case until == lapsed && end > now:
		t.current.Store(newLease(t, int64(end)))
		t.proofs.Add(1)
		select {
		case t.begins <- struct{}{}:
		default: // Client.watch has not taken the last one yet
		}
	case until != lapsed && end > time.Duration(until):
		l.until.CompareAndSwap(until, int64(end))
		t.proofs.Add(1)
	}
}

// lapse ends l if its end is still until, and reports whether it did.
func (t *leaseTracker) lapse(l *Lease, until int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lapseLocked(l, until)
}

func (t *leaseTracker) lapseLocked(l *Lease, until int64) bool {
	if until == lapsed || l.until.Load() != until {
		return false
	}
	l.paused = t.paused(t.proof)
	l.until.Store(lapsed)
	t.lapses(l)
	return true
}

// end ends the present lease because the session is over, for the reason why. There will
// be no other.
func (t *leaseTracker) end(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	l := t.current.Load()
	if !l.Lapsed() {
		l.session = why
		t.lapseLocked(l, l.until.Load())
	}
}

// heard returns when the newest request was sent that was answered.
func (t *leaseTracker) heard() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answers.sent
}

// due returns when the next write is due if nothing else is written: a sixth of
// the timeout after the last one. Soon after an outage the lease may end before
// the write after that: answers from before the outage are old, and those since
// were too young to count for the last write. Then the write is due as soon as
// they count.
func (t *leaseTracker) due() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := t.proof + t.timeout/6
	until := t.current.Load().until.Load()
	if until == lapsed || time.Duration(until) >= t.proof+t.timeout/3 {
		return due
	}
	if young, ok := t.answers.after(t.proof - t.timeout/4); ok {
		due = min(due, young+t.timeout/4)
	}
	return due
}

const (
	// answersPerTimeout is the resolution of answers.
	answersPerTimeout = 64
	// answersKept is how many are kept: a time and a half the timeout. Nothing
	// older is asked for: a request is answered within two thirds of the
	// timeout, or the connection is given up.
	answersKept = 96
)

// answers remembers which requests were answered when, in bounded memory. Its
// owner serializes the access to it.
type answers struct {
	step time.Duration // entries are at least so far apart
	ring [answersKept]answerTimes
	n    int           // entries ever made
	sent time.Duration // of the newest answered request
}

// An answerTimes says that by the time first, a request sent at firstSent had been
// answered and none newer, and the same of last and lastSent. What happened in
// between, in less than a step, is forgotten.
type answerTimes struct {
	first, firstSent time.Duration
	last, lastSent   time.Duration
}

// add notes that a request sent at sent was answered at at. It is called in
// the order of at.
func (a *answers) add(sent, at time.Duration) {
	if a.n == 0 || sent > a.sent {
		a.sent = sent
	}
	if a.n > 0 {
		if e := &a.ring[(a.n-1)%answersKept]; at-e.first < a.step {
			e.last, e.lastSent = at, a.sent
			return
		}
	}
	a.ring[a.n%answersKept] = answerTimes{at, a.sent, at, a.sent}
	a.n++
}

// newest returns when the newest request was sent that was answered at or
// before at, or when an older one was; false if none is known. An older one
// makes a lease shorter, which is the safe side.
func (a *answers) newest(at time.Duration) (time.Duration, bool) {
	for i := a.n - 1; i >= max(0, a.n-answersKept); i-- {
		switch e := &a.ring[i%answersKept]; {
		case e.last <= at:
			return e.lastSent, true
		case e.first <= at:
			return e.firstSent, true
		}
	}
	return 0, false
}

// after returns when the first answer came that came after at; false if there is
// none.
func (a *answers) after(at time.Duration) (first time.Duration, ok bool) {
	for i := a.n - 1; i >= max(0, a.n-answersKept); i-- {
		e := &a.ring[i%answersKept]
		if e.last <= at {
			break
		}
		if first, ok = e.last, true; e.first > at {
			first = e.first
		}
	}
	return first, ok
}
