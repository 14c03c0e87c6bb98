// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"cmp"
	"slices"
	"time"
)

// noBucket is the bucket of a session that is in none.
const noBucket = -1

// An expiryQueue sorts sessions by the tick at which they expire. However many
// sessions there are, touching one is cheap: it moves to another bucket, and most
// often stays in its own. service.mu protects all of it.
type expiryQueue struct {
	buckets map[int64]map[*session]struct{} // by tick since the server's start; no bucket is empty
}

func (q *expiryQueue) move(sess *session, tick int64) {
	if sess.bucket == tick {
		return
	}
	q.remove(sess)
	b := q.buckets[tick]
	if b == nil {
		b = make(map[*session]struct{})
		q.buckets[tick] = b
	}
	b[sess] = struct{}{}
	sess.bucket = tick
}

// first returns the earliest tick at which a session expires, if any does.
func (q *expiryQueue) first() (tick int64, ok bool) {
	for t := range q.buckets {
		if !ok || t < tick {
			tick, ok = t, true
		}
	}
	return tick, ok
}

func (q *expiryQueue) remove(sess *session) {
	b := q.buckets[sess.bucket]
	delete(b, sess)
	if b != nil && len(b) == 0 {
		delete(q.buckets, sess.bucket)
	}
	sess.bucket = noBucket
}

// due removes and returns the sessions that expire up to the given tick, ordered
// by tick and then by id.
func (q *expiryQueue) due(tick int64) []*session {
	var due []*session
	for t, bucket := range q.buckets {
		if t <= tick {
			for sess := range bucket {
				due = append(due, sess)
			}
		}
	}
	slices.SortFunc(due, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.id, b.id))
	})
	for _, sess := range due {
		q.remove(sess)
	}
	return due
}

// touch records a sign of life of sess's client. The session then expires at the
// first tick after now + timeout: never early, and at most one tick late.
func (s *service) touch(sess *session) {
	now := time.Now()
	sess.touched = now
	s.expiry.move(sess, int64((now.Sub(s.started)+sess.timeout)/s.cfg.TickTime)+1)
	s.alarm(s.tickTime(sess.bucket))
}

// tickTime returns the time of a tick.
func (s *service) tickTime(tick int64) time.Time {
	return s.started.Add(time.Duration(tick) * s.cfg.TickTime)
}

// An Expiry describes a session that timed out or was ended by ExpireSession.
type Expiry struct {
	Session    int64
	Timeout    time.Duration // negotiated
	LastTouch  time.Time     // the client's last sign of life
	At         time.Time     // when the session ended
	Ephemerals int           // number of nodes deleted with it
	Forced     bool          // ended by ExpireSession
}

// expire ends sess, if it is not over. The caller holds s.mu, and commits the transaction.
func (s *service) expire(sess *session, forced bool) *txn {
	if sess.over {
		return nil
	}
	e := Expiry{
		Session:    sess.id,
		Timeout:    sess.timeout,
		LastTouch:  sess.touched,
		At:         time.Now(),
		Ephemerals: len(s.tree.ephemerals[sess.id]),
		Forced:     forced,
	}
	s.expired = append(s.expired, e)
	if s.onExpire != nil {
		s.onExpire(e)
	}
	return s.endSession(sess)
}

// finish has the leader end sess after d, whatever the session does until then. If the leader is
// deposed meanwhile, all sessions begin anew with the next one.
func (s *service) finish(sess *session, d time.Duration) {
	leader, led := s.leader, s.leader.led
	end := func() {
		sess.closing = true
		leader.propose(nil, func() *txn { return s.expire(sess, false) })
	}
	if d == 0 {
		end()
		return
	}
	s.after(d, func() {
		switch {
		case s.leader != leader || leader.led != led || leader.role != leading:
		case leader.paused != nil:
			s.finish(sess, s.cfg.TickTime)
		default:
			end()
		}
	})
}

// clockLoop is the server's clock, one goroutine for the server's whole life. It
// ends sessions at their ticks, and deletes idle containers and nodes whose time
// to live is over. It sleeps until there may be something to do. Without sessions
// and such nodes it has no timer, so that synctest can report a test in virtual
// time whose goroutines are all blocked.
func (s *service) clockLoop() {
	defer s.wg.Done()
	for {
		now := time.Now()
		s.mu.Lock()
		s.attend(now)
		if s.hasLeader() {
			for i, sess := range s.expiry.due(int64(now.Sub(s.started) / s.cfg.TickTime)) {
				s.finish(sess, time.Duration(i)*s.cfg.BetweenEnds)
			}
		}
		if !s.sweepAt.IsZero() && !now.Before(s.sweepAt) {
			s.sweep()
			s.sweepAt = time.Time{}
		}
		s.wakeAt = time.Time{}
		s.scheduleSweep()
		if tick, ok := s.expiry.first(); ok && s.hasLeader() {
			s.alarm(s.tickTime(tick))
		}
		if len(s.agenda) > 0 {
			s.alarm(s.agenda[0].at)
		}
		wake := s.wakeAt
		select {
		case <-s.wakeClock: // wakeAt includes it already
		default:
		}
		s.mu.Unlock()

		var timer <-chan time.Time
		if !wake.IsZero() {
			timer = time.After(time.Until(wake))
		}
		select {
		case <-timer:
		case <-s.wakeClock: // wakeAt is earlier now
		case <-s.quit:
			return
		}
	}
}

// alarm makes the clock wake at the given time or earlier. The caller holds s.mu.
func (s *service) alarm(at time.Time) {
	if !s.wakeAt.IsZero() && !at.Before(s.wakeAt) {
		return
	}
	s.wakeAt = at
	select {
	case s.wakeClock <- struct{}{}: // resets its timer
	default: // already signalled
	}
}

// scheduleSweep makes the clock call sweep at the next multiple of the interval
// if there are containers or nodes with a time to live. The caller holds s.mu.
func (s *service) scheduleSweep() {
	if !s.hasLeader() || len(s.tree.containers)+len(s.tree.mortals) == 0 {
		return
	}
	if s.sweepAt.IsZero() {
		every := s.cfg.ContainerCheckInterval
		s.sweepAt = s.started.Add(time.Since(s.started).Truncate(every) + every)
	}
	s.alarm(s.sweepAt)
}

// sweep deletes idle containers and nodes whose time to live is over, each in a
// transaction of its own. A parent that loses its last child this way waits for
// the next sweep.
func (s *service) sweep() {
	if !s.hasLeader() {
		return
	}
	for _, n := range append(s.tree.idleContainers(), s.tree.expired(time.Now().UnixMilli())...) {
		s.leader.propose(nil, func() *txn {
			tx := s.begin(administrator, 0)
			if s.tree.node(n.path) == n && len(n.children) == 0 {
				tx.remove(n)
			}
			return tx
		})
	}
}
