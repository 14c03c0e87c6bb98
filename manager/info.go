// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// ManagerStats are a Manager's counters since Open, and its present state. They are read
// one after the other, so they are no snapshot of one moment.
type ManagerStats struct { //nolint:revive // Stats are a lock's
	Locks     int           // locks that exist in this process: busy or referenced
	Session   int64         // the id of the session; 0 if there is none
	Timeout   time.Duration // of the session, as the servers granted it
	Connected bool          // the session has a connection
	Outage    error         // what is wrong with the connection, and for how long; nil if nothing is
	Lease     time.Duration // how much longer locks are surely held without another answer; 0: not at all

	// SentinelErr is why Config.Sentinel has no helper at the moment: if this process is killed,
	// its locks stay until the session times out. It is nil if there is one, and without a
	// Sentinel.
	SentinelErr error

	Sessions    uint64            // sessions begun
	Reconnects  uint64            // times that a session was resumed
	Pauses      uint64            // times that this process did not run: see EventPaused
	Paused      time.Duration     // for how long, all of them together
	Requests    map[string]uint64 // requests sent, by the name of the operation, such as "multi"; it has no zeros
	Answers     uint64            // requests answered
	WatchEvents uint64            // watch events received

	Queued  int // tasks that wait for a worker
	Busy    int // workers at work
	Workers int // Config.Workers

	Grants        uint64 // rounds in which this process got the lock
	Losses        uint64 // rounds in which it lost the lock
	Failures      uint64 // rounds that ended without a grant
	Takeovers     uint64 // rounds in which it got the lock because another process was killed: see LockInfo.TakenOver
	DroppedEvents uint64 // events that Config.Observer was not told, because too many waited
}

// Stats returns the manager's counters and its state. It does no I/O and does not block. It
// looks at every lock, so it takes a few milliseconds if there are 100,000.
func (m *Manager) Stats() ManagerStats {
	c, s := m.client.Stats(), m.client.Session()
	st := ManagerStats{
		Timeout:       s.Timeout(),
		Connected:     s.Connected(),
		Outage:        m.outage(),
		Lease:         s.Lease().Remaining(),
		Sessions:      c.Sessions,
		Reconnects:    c.Reconnects,
		Pauses:        c.Pauses,
		Paused:        c.Paused,
		Requests:      c.Sent,
		Answers:       c.Answered,
		WatchEvents:   c.WatchEvents,
		Queued:        c.QueuedFetches + c.QueuedReleases,
		Busy:          c.Busy,
		Workers:       m.cfg.Workers,
		Grants:        m.totals.grants.Load(),
		Losses:        m.totals.lost.Load(),
		Failures:      m.totals.failures.Load(),
		Takeovers:     m.totals.takeovers.Load(),
		DroppedEvents: m.feed.drops(),
		SentinelErr:   m.sentinelErr(),
	}
	if s.Err() == nil {
		st.Session = s.ID()
	}
	for range m.registry.each() {
		st.Locks++
	}
	return st
}

// A LockInfo is the state of a lock in this process, at about one moment.
type LockInfo struct {
	Name  string
	Path  string // the directory in ZooKeeper in which its contenders queue
	Kind  Kind   // what this process asks for
	Stats Stats  // as Lock.Stats returns them

	// Of a lock that waits, Since and Node are known only with a Config.Observer.

	Since time.Time     // when it was granted; if it waits, when its first caller asked; else zero
	Node  string        // the path of this process's node; else ""
	Token uint64        // the fencing token; 0 if it is not held
	Lease time.Duration // how much longer it is surely held; 0 if it is not held

	Position   int         // how many contenders are ahead; 0 if that is not known
	Ahead      *Contender  // the contender that this process waits for; nil if that is not known
	Holder     *Contender  // the contender that holds the lock, if this process waits; nil if that is not known
	Contended  bool        // this process holds it, and has seen another one wait
	Yielding   bool        // this process holds it, and newcomers must let others go first
	Revocation *Revocation // which process has asked for it, and why; nil if none has
	TakenOver  *Takeover   // the process that was killed before this one got the lock; nil if none was, as far as its note in ZooKeeper tells
	LastLoss   *Loss       // the last time this process lost it, if it is among the Manager's last 1,000 losses
}

// sentinelErr is ManagerStats.SentinelErr.
func (m *Manager) sentinelErr() error {
	if m.cfg.Sentinel == nil {
		return nil
	}
	return m.cfg.Sentinel.Err()
}

// Locks returns the state of each lock that callers of this process hold or wait for,
// in no particular order. The locks of Mutexes are among them, and the locks of a
// read/write pair come one by one. A lock that LockAll has acquired, or waits for, comes
// once for each such call. A lock comes once more, as one that is fetched, if callers wait for
// its next grant: while others hold it and newcomers may not enter, or while it is released,
// which lasts as long as an outage. If all is true, Locks also returns those with nothing going
// on that are still referenced.
//
// Locks does no I/O and does not block. It holds no lock of the manager's while the loop
// runs, so the loop may call any method of the Manager, and a slow loop delays no caller.
// Each LockInfo is made when the loop comes to it. Locks that begin or end during the loop
// may be missing.
func (m *Manager) Locks(all bool) iter.Seq[LockInfo] {
	return func(yield func(LockInfo) bool) {
		for open := range m.registry.each() {
			for l := range open.each() {
				r := l.cur.Load()
				info := r.info()
				if open.mutex != nil {
					info.Stats = open.mutex.Stats()
				}
				busy := info.Stats.Phase != state.Free || info.Stats.Holders > 0
				if (busy || all) && !yield(info) {
					return
				}
				for r := range r.awaited() {
					if open.mutex == nil && !yield(r.info()) { // a Mutex has counted its callers
						return
					}
				}
				for _, p := range l.own().places() {
					if p.round.word.Load().Phase() != state.Released && !yield(p.round.info()) {
						return
					}
				}
			}
		}
	}
}

// awaited ranges over the rounds behind r that callers wait for.
func (r *round) awaited() iter.Seq[*round] {
	return func(yield func(*round) bool) {
		for r = r.next.Load(); r != nil; r = r.next.Load() {
			if w := r.word.Load(); w.Phase() == state.Fetching && w.Holders() > 0 && !yield(r) {
				return
			}
		}
	}
}

// each returns the locks that are open under a name.
func (o locks) each() iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		switch {
		case o.rw != nil:
			o.rw.locks()(yield)
		case o.mutex != nil:
			yield(o.mutex.lock)
		default:
			yield(o.lock)
		}
	}
}

// info returns the state of the round, and of its lock.
func (r *round) info() LockInfo {
	l := r.lock
	m := l.m
	w := r.word.Load()
	info := LockInfo{
		Name:     l.Name(),
		Path:     l.path,
		Kind:     l.lockKind(),
		Stats:    l.Stats(),
		LastLoss: m.journal.losses.lastOf(l),
	}
	info.Stats.Phase, info.Stats.Holders = w.Phase(), w.Holders() // of this round
	p := r.promises()
	if p == nil {
		return info
	}
	t := p.io
	wall := func(at int64) time.Time { return time.Now().Add(time.Duration(at - m.now())) }
	switch w.Phase() {
	case state.Fetching:
		if tr := m.feed.traceOf(t); tr.asked != 0 {
			info.Since, info.Node = wall(tr.asked), tr.node
		}
		if p := t.position.Load(); p != nil {
			info.Position, info.Ahead, info.Holder = int(p.ahead), p.contender(), p.holder()
		}
	case state.Retained:
		info.Since, info.Node, info.Token = wall(t.tenure.since), t.tenure.path, t.tenure.token
		info.Lease = t.tenure.lease.Remaining()
		info.Contended = r.flags.Load().Has(state.Contended)
		info.Yielding = r.yields()
		if t.events.Load().Has(state.Heir) {
			info.TakenOver = m.takeovers.of(t)
		}
	}
	if r, revoked := t.revocation(); revoked {
		info.Revocation = &r
	}
	return info
}

// Stats returns the lock's counters. It does not block.
func (l *Lock) Stats() Stats {
	phase, holders := l.State()
	return Stats{
		Phase:       phase,
		Holders:     holders,
		Rounds:      l.rounds.Load(),
		Grants:      l.grants.Load(),
		Joins:       l.joins.Load(),
		Entries:     l.entries(),
		LostRaces:   l.races(),
		LongestRace: uint64(l.longestRace.Load()),
		Foreign:     int(l.foreign.Load()),
	}
}

// Stats returns the mutex's counters and its present state. Rounds and Grants count what
// the process asked of ZooKeeper and got; Entries counts the turns of goroutines that
// needed no request, because the process owned the lock. Stats does not block.
func (x *Mutex) Stats() Stats {
	s := x.lock.Stats()
	s.Phase, s.Holders = x.State()
	x.mu.Lock()
	defer x.mu.Unlock()
	s.Entries = x.entries
	return s
}
