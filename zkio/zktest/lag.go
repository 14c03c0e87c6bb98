// SPDX-License-Identifier: Apache-2.0

package zktest

import "slices"

// A Lag serves some clients as a follower does that has not yet learned of the
// latest transactions; [Faults.Lag] and [Faults.LagServer] make one. What they
// read is old, and their watches fire late, but what they see is always a state
// that there has been, and never goes back:
//
//   - a write is made at once, in the present state; before it is answered the
//     follower catches up to it, and fires the watches on the way;
//   - so it does before it answers a sync, or has made a session;
//   - a watch that is set again (setWatches) is compared with the old state;
//   - a client that has seen a later transaction than the follower is not
//     taken: its connection is closed without an answer;
//   - a session is kept alive, but if it ends its connection goes on being
//     answered, from the past, until the follower comes to that transaction.
//
// All clients of a Lag share its state. Its methods never block and may be
// called by any goroutine; what they change is in force when they return.
type Lag struct {
	srv *Server
	hit chan struct{} // closed at the first hit

	// Whom it serves.
	all      bool
	sessions []int64
	address  string
	behind   int // the largest number of pending transactions; negative: any

	// Server.mu protects the rest.
	view    view
	hits    int
	removed bool
}

// Lag has the given sessions served with data that lag behind by up to behind
// transactions, or, if behind is negative, by all that are made until
// [Lag.Advance] or [Lag.CatchUp] is called. It begins with the present state,
// and serves the sessions on their present connections as well as on those on
// which they are resumed. Without sessions it serves everybody.
//
// Of two Lags that a client could be served by, the one that was made last
// serves it; the one before catches up at that moment.
func (fs *Faults) Lag(behind int, sessions ...int64) *Lag {
	return fs.lag(&Lag{behind: behind, sessions: sessions, all: len(sessions) == 0})
}

// LagServer is Lag for all clients that have connected, or will connect, to an
// address: that given to [Server.Dial], or that returned by [Server.Listen].
// So a client that is given several addresses can find one of them refusing
// it, and turn to the next.
func (fs *Faults) LagServer(behind int, address string) *Lag {
	return fs.lag(&Lag{behind: behind, address: address})
}

func (fs *Faults) lag(l *Lag) *Lag {
	s := fs.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	l.srv, l.hit = s, make(chan struct{})
	l.view = view{tree: s.lead.tree.clone(), watches: newWatchTable()}
	s.lags = append(s.lags, l)
	for _, c := range s.connections() {
		if c.session != nil && l.serves(c.sid, c.address()) {
			s.move(c, l)
		}
	}
	return l
}

// serves reports whether l serves a session on a connection to an address.
func (l *Lag) serves(session int64, address string) bool {
	return l.all || slices.Contains(l.sessions, session) || l.address != "" && l.address == address
}

// lagOf returns the Lag that serves a session on a connection to an address,
// or nil. The caller holds s.mu.
func (s *Server) lagOf(session int64, address string) *Lag {
	for _, l := range slices.Backward(s.lags) {
		if l.serves(session, address) {
			return l
		}
	}
	return nil
}

// move has l, or the lead if l is nil, serve c from now on, which must be up to
// date. The caller holds s.mu.
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

// count counts a request that was answered from the past. The caller holds
// Server.mu. A nil Lag is the lead.
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

// Hits returns how many requests were answered with data that were behind.
// Whether those that were asked for had changed does not count.
func (l *Lag) Hits() int {
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	return l.hits
}

// Hit returns a channel that is closed at the first of them.
func (l *Lag) Hit() <-chan struct{} { return l.hit }

// Pending returns by how many transactions the data lag behind now.
func (l *Lag) Pending() int {
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	return len(l.view.pending)
}

// Advance has the next n transactions become visible, or all that are pending
// if there are fewer, and returns their number. Watches fire.
func (l *Lag) Advance(n int) int {
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	n = max(0, min(n, len(l.view.pending)))
	l.srv.advance(&l.view, n)
	return n
}

// CatchUp is Advance by all that are pending. Later transactions lag again.
func (l *Lag) CatchUp() {
	l.srv.mu.Lock()
	defer l.srv.mu.Unlock()
	l.srv.advance(&l.view, len(l.view.pending))
}

// Remove catches up and ends the fault: the clients see the present state from
// now on. Removing it again does nothing.
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
	s.advance(&l.view, len(l.view.pending))
	for _, c := range s.connections() {
		if c.lag == l {
			s.move(c, nil)
		}
	}
	s.lags = slices.DeleteFunc(s.lags, func(other *Lag) bool { return other == l })
}
