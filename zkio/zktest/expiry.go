// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"cmp"
	"slices"
	"time"
)

// noBucket marks a session that is in no bucket.
const noBucket = -1

// An expiryQueue sorts the sessions by the tick at which they expire. Touching
// a session is cheap, however many there are: it moves from one bucket into
// another, and mostly not even that. Server.mu protects all of it.
type expiryQueue struct {
	buckets map[int64]map[*session]struct{} // by tick, counted from the server's start
	last    int64                           // the last tick that was looked at
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

func (q *expiryQueue) remove(sess *session) {
	b := q.buckets[sess.bucket]
	delete(b, sess)
	if b != nil && len(b) == 0 {
		delete(q.buckets, sess.bucket)
	}
	sess.bucket = noBucket
}

// due takes out the sessions that expire up to the given tick, in order of
// their ids within a tick.
func (q *expiryQueue) due(tick int64) []*session {
	var due []*session
	for ; q.last < tick; q.last++ {
		from := len(due)
		for sess := range q.buckets[q.last+1] {
			due = append(due, sess)
		}
		slices.SortFunc(due[from:], func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	}
	for _, sess := range due {
		q.remove(sess)
	}
	return due
}

// touch notes that sess's client was heard of. The session expires at the
// first tick that is later than now + timeout: so never early, and at most one
// tick late.
func (s *Server) touch(sess *session) {
	now := time.Now()
	sess.touched = now
	s.expiry.move(sess, int64((now.Sub(s.started)+sess.timeout)/s.cfg.TickTime)+1)
}

// An Expiry tells of a session that the server has ended because it did not
// hear of the client, or because it was told to.
type Expiry struct {
	Session    int64
	Timeout    time.Duration // negotiated
	LastTouch  time.Time     // when the client was last heard of
	At         time.Time     // when the session ended
	Ephemerals int           // nodes that went with it
	Forced     bool          // ended by ExpireSession, not by time
}

// expire ends sess and cuts its connection off, after what is queued for it.
// The caller holds s.mu.
func (s *Server) expire(sess *session, forced bool) {
	s.expired = append(s.expired, Expiry{
		Session:    sess.id,
		Timeout:    sess.timeout,
		LastTouch:  sess.touched,
		At:         time.Now(),
		Ephemerals: len(s.tree.ephemerals[sess.id]),
		Forced:     forced,
	})
	c := sess.conn
	s.endSession(sess)
	if c != nil {
		s.detach(c)
		c.finish()
	}
}

// tickLoop is the server's clock: it ends sessions at the ticks, and deletes
// idle containers. It is one goroutine for the server's whole life. While
// there is neither a session nor a container it has no timer set, so that a
// test in virtual time whose goroutines are all stuck is reported as such.
func (s *Server) tickLoop() {
	defer s.wg.Done()
	nextContainerCheck := s.started.Add(s.cfg.ContainerCheckInterval)
	for {
		now := time.Now()
		s.mu.Lock()
		for _, sess := range s.expiry.due(int64(now.Sub(s.started) / s.cfg.TickTime)) {
			s.expire(sess, false)
		}
		if !now.Before(nextContainerCheck) {
			s.sweepContainers()
			for !now.Before(nextContainerCheck) {
				nextContainerCheck = nextContainerCheck.Add(s.cfg.ContainerCheckInterval)
			}
		}
		var wake time.Time
		if len(s.sessions) > 0 {
			wake = s.started.Add(time.Duration(s.expiry.last+1) * s.cfg.TickTime)
		}
		if len(s.tree.containers) > 0 && (wake.IsZero() || nextContainerCheck.Before(wake)) {
			wake = nextContainerCheck
		}
		s.idle = wake.IsZero()
		s.mu.Unlock()

		var timer <-chan time.Time
		if !wake.IsZero() {
			timer = time.After(time.Until(wake))
		}
		select {
		case <-timer:
		case <-s.wakeClock: // there is something to do again
		case <-s.quit:
			return
		}
	}
}

// rouse wakes the clock if it sleeps without a timer. The caller holds s.mu
// and has just entered a session or a container.
func (s *Server) rouse() {
	if !s.idle {
		return
	}
	s.idle = false
	select {
	case s.wakeClock <- struct{}{}:
	default: // it has been woken already
	}
}

// sweepContainers deletes the idle containers, each in a transaction of its
// own. One that becomes idle by that, its parent, waits for the next sweep.
func (s *Server) sweepContainers() {
	for _, n := range s.tree.idleContainers() {
		tx := s.begin(administrator, 0)
		tx.remove(n)
		s.commit(tx)
	}
}
