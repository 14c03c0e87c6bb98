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
// quorum agreed on it. The write by itself is no sign of life at the leader: the
// follower that forwards it reports the sessions that it has heard of in its
// answers to the leader's pings, which come every half tick, and a tick is at
// most T/2. With
//
//	s  the time at which the last such write was sent,
//	w  the time at which the newest request was sent that the leader had
//	   answered, a write or a sync, when s was sent, and
//	p  the time at which the newest request was sent that had been answered,
//	   by whichever server, a quarter of T before w,
//
// all on one connection, the lease ends at min(s + T/2, p + 11/12 T), less the
// margin that the user asked for. If there is no w or no p yet, the time at
// which the connect request was sent is p: the leader itself has answered that,
// and took it for a sign of life.
//
// The leader's pings and its answers come down to the follower in the order in
// which it sent them. So before the answer to w the follower got a ping that was
// sent a quarter of T before w or later. Its answer to that ping, or to one before,
// named the session if p had been answered by then, and went up before the write
// that was sent at s. The leader carried that write out, so it had got the report
// first, and does not end the session before p + T, unless it had begun to. If it
// is deposed meanwhile, its successor gives every session T again. A twelfth of T
// is left for clocks that differ in speed, and for pings that are a little late.
// That the lease ends T/2 after s at the latest makes up for pings that are late by
// up to T/2, because the leader's process was stopped.
//
// Unless it had begun to: the leader takes all sessions that end at a tick off its
// queue, and then ends one after the other. Until its turn comes, such a session can
// be resumed, and its writes are carried out; and it is ended all the same, within a
// tenth of a second if there are ten thousand. So where the leader may have come so far,
// a lease begins only with a write that is sent a twelfth of T later: after a reconnect,
// and after a silence, which is a time of T/2 or more from the sending of the newest
// request that was answered to the next answer. A session that keeps a lease writes
// every T/7, and a write is answered no more once its server is cut off from the leader,
// which heard of the session T/4 earlier at the most. So the silence is at least
// 3/4 T - T/7 long when the leader comes so far, and 0.55 T by a clock that is a twelfth
// slow. Pings are T/3
// apart, so one that is answered a little late makes none. A lease that is in force was
// made before the leader could begin to end the session, so it may be extended by any
// write. What this leaves is in docs/zookeeper.md.
//
// This takes that T is at least two ticks of every server, and that every server has
// the same bounds for T: one with a lower bound shortens the session when it is
// resumed there, which the client learns only from the answer. Behind an
// ObserverMaster (ZooKeeper 3.6), where an observer reports to a follower and that
// one to the leader, the leader may learn of the session a tick later, and T must be
// at least four ticks. There the order of messages shows only that the follower got
// the report: see docs/zookeeper.md.
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
	connected time.Duration // when the last one was written that was answered
	answers   answers       // to all requests since connected
	led       answers       // the leader's among them
	proof     time.Duration // s
	known     time.Duration // p
	settled   time.Duration // a write that is sent earlier begins no lease: T/12 after the last reconnect or silence
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
	t.timeout, t.connected = timeout, t.asked
	if !first {
		t.settled = now + timeout/12
	}
	t.answers.reset(timeout / answersPerTimeout)
	t.led.reset(timeout / answersPerTimeout)
	t.answers.add(t.asked, now)
	if first {
		t.proof = t.asked // the session was created by a transaction after this moment
	}
}

// answered notes that a request was answered, by the leader perhaps.
func (t *leaseTracker) answered(sent, now time.Duration, byLeader bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now-t.answers.sent >= t.timeout/2 {
		t.settled = now + t.timeout/12 // this answer has ended a silence
	}
	t.answers.add(sent, now)
	if byLeader {
		t.led.add(sent, now)
	}
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
	p := t.knownBy(s)
	t.known = max(t.known, p)
	end := min(s+t.timeout/2, p+t.timeout*11/12) - t.margin
	now := t.now()
	//holdfast:reached-if p+t.timeout*11/12 < s+t.timeout/2: lease: ended by what the leader had heard before the proof
	//holdfast:reached-if end <= now: lease: the proof came too late

	l := t.current.Load()
	until := l.until.Load()
	if until != lapsed && now >= time.Duration(until) {
		// It was over already, unnoticed.
		t.lapseLocked(l, until)
		until = lapsed
	}
	switch {
	case until == lapsed && s < t.settled:
		//holdfast:reached lease: a proof too soon after a silence begins none
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

// knownBy returns p for a write that is sent at s.
func (t *leaseTracker) knownBy(s time.Duration) time.Duration {
	if w, ok := t.led.newest(s); ok {
		return t.reportedBy(w)
	}
	return t.connected
}

// reportedBy returns p if the leader has answered a request that was sent at w.
func (t *leaseTracker) reportedBy(w time.Duration) time.Duration {
	if p, ok := t.answers.newest(w - t.timeout/4); ok {
		return p
	}
	return t.connected
}

// stale reports whether a write that is sent now would make a lease of less than a
// third of T, and a longer one if the leader answered another request first. That is
// so in a process that has done little for a while: it has pinged its server, and had
// no business with the leader.
func (t *leaseTracker) stale() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	p := t.knownBy(now)
	return p+t.timeout*11/12 < now+t.timeout/3 && t.reportedBy(now) > p
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

// due returns when the next write is due if nothing else is written: a seventh of
// the timeout after the last one. Then p is three such intervals before s: one of
// them is from s back to w, and the other two are more than the quarter from w to p.
// So a lease lasts 0.488 of the timeout. With a sixth, two intervals would be more than
// the quarter by much, and a lease would last five twelfths.
//
// A lease may be shorter, soon after an outage or when the process has done little:
// the answers before are old, and those since were too young to count for the last
// write. Then the next one is due as soon as they count.
func (t *leaseTracker) due() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := t.proof + t.timeout/7
	until := t.current.Load().until.Load()
	if until == lapsed && t.proof < t.settled {
		return t.settled // an earlier one begins no lease
	}
	if until == lapsed || t.known+t.timeout*11/12 >= t.proof+t.timeout*5/12 {
		return due
	}
	if t.reportedBy(t.led.sent) > t.known {
		return t.proof + t.answers.step // the last write has shown that a newer p was reported
	}
	if young, ok := t.answers.after(t.led.sent - t.timeout/4); ok {
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

// reset forgets all answers.
func (a *answers) reset(step time.Duration) { *a = answers{step: step} }

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
