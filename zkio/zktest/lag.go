// SPDX-License-Identifier: Apache-2.0

package zktest

import "slices"

// A Lag serves some clients like a follower that has not yet learned of the
// latest transactions; see [Faults.Lag]. Its clients read
// old data and their watches fire late, but what they see is always a state that
// existed, and it never goes back:
//
//   - a write is executed at once, on the current state. Before the follower
//     answers, it catches up to the write, and fires watches on the way;
//   - it also catches up before it answers a sync, and to the beginning of a new
//     session;
//   - watches that are set again (setWatches) are compared with the old state;
//   - the follower refuses a client that has seen a later transaction than it
//     has, by closing the connection without an answer;
//   - the client of a session that has ended gets answers, from the past, until
//     the follower comes to the transaction that ended it.
//
// All clients of a Lag share its state. Its methods do not block, may be called
// by any goroutine, and have taken effect when they return.
type Lag struct {
	srv *Server
	hit chan struct{} // closed at the first hit

	// The clients that it serves.
	all      bool
	sessions []int64
	behind   int // the largest number of pending transactions; negative: any

	// service.mu protects the rest.
	view    view
	hits    int
	removed bool
}

// Lag serves the given sessions data that is up to behind transactions old. If
// behind is negative, the data stays as it is until [Lag.Advance] or
// [Lag.CatchUp]. The Lag begins with the current state. It serves the sessions on
// their current connections and on those that resume them; without sessions it
// serves all clients.
//
// If several Lags select a client, the latest serves it. The one before catches
// up when it loses the client.
func (fs *Faults) Lag(behind int, sessions ...int64) *Lag {
	l := &Lag{behind: behind, sessions: sessions, all: len(sessions) == 0}
	s := fs.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	l.srv, l.hit = s, make(chan struct{})
	l.view = view{tree: s.view.tree.clone(), watches: newWatchTable()}
	s.lags = append(s.lags, l)
	for _, c := range s.connections() {
		if c.session != nil && l.serves(c.sid) {
			s.move(c, l)
		}
	}
	return l
}

// serves reports whether l serves a session.
func (l *Lag) serves(session int64) bool { return l.all || slices.Contains(l.sessions, session) }

// lagOf returns the Lag that serves a session, or nil. The caller holds s.mu.
func (s *Server) lagOf(session int64) *Lag {
	for _, l := range slices.Backward(s.lags) {
		if l.serves(session) {
			return l
		}
	}
	return nil
}

// move makes l, which must be up to date, serve c; a nil l is the lead. The
// caller holds s.mu.
func (s *Server) move(c *conn, l *Lag) {
	s.catchUp(c) // a client never goes back
	watches := c.view().watches.drop(c)
	c.lag = l
	if c.gone {
		return // it has caught up with the end of its session
	}
	for path, modes := range watches {
		for side, mode := range modes {
			c.view().watches.set(c, path, watchSide(side), mode)
		}
	}
}

// count counts a request that was answered from the past. A nil Lag is the lead.
// The caller holds service.mu.
func (l *Lag) count(op Op) {
	if l == nil || len(l.view.pending) == 0 || op == OpPing {
		return
	}
	if l.hits++; l.hits == 1 {
		close(l.hit)
	}
	l.srv.faults.count(FaultLag)
}

// Kind returns FaultLag.
func (l *Lag) Kind() FaultKind { return FaultLag }

// Hits returns the number of requests that were answered while transactions were
// pending, whether or not those changed the answer.
func (l *Lag) Hits() int {
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	return l.hits
}

// Hit returns a channel that is closed at the first hit.
func (l *Lag) Hit() <-chan struct{} { return l.hit }

// Pending returns the number of transactions by which the data lags behind.
func (l *Lag) Pending() int {
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	return len(l.view.pending)
}

// Advance makes the next n pending transactions visible, or all if there are
// fewer, and returns their number. Watches fire.
func (l *Lag) Advance(n int) int {
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	n = max(0, min(n, len(l.view.pending)))
	l.view.advance(n)
	return n
}

// CatchUp makes all pending transactions visible. Later ones lag again.
func (l *Lag) CatchUp() {
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	l.view.advance(len(l.view.pending))
}

// Remove catches up and ends the fault: its clients see the current state from
// now on. Further calls do nothing.
func (l *Lag) Remove() {
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	l.removeLocked()
}

func (l *Lag) removeLocked() {
	s := l.srv
	if l.removed {
		return
	}
	l.removed = true
	l.view.advance(len(l.view.pending))
	for _, c := range s.connections() {
		if c.lag == l {
			s.move(c, nil)
		}
	}
	s.lags = slices.DeleteFunc(s.lags, func(other *Lag) bool { return other == l })
}
