// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Hold keeps a session's requests from the server, or the server's answers
// from the session's client, until it is told to let them pass;
// [Faults.HoldRequests] and [Faults.HoldReplies] make one. With a Hold for each
// of several sessions a test decides whose request is executed next, or who
// hears first of what has happened. Within one session the order never changes.
//
//	a, b := srv.Faults().HoldRequests(first), srv.Faults().HoldRequests(second)
//	// … both clients send a request …
//	synctest.Wait() // a.Waiting() == 1 && b.Waiting() == 1
//	b.Let(1)
//	synctest.Wait() // second's has been executed, and answered
//	a.Remove()
//
// What waits is lost if the connection ends, as it is in a network. Pings wait
// like everything else, so that a session whose requests are held for too long
// expires, unless its client connects anew. The Hold goes on when the session is resumed; the handshake itself,
// and its answer, pass.
//
// The methods of a Hold never block and may be called by any goroutine. What
// may pass is on its way when they return, no more: to wait for the effect is
// the caller's affair.
type Hold struct {
	faults  *Faults
	kind    FaultKind
	session int64

	hits  atomic.Int64
	first sync.Once     // closes hit
	hit   chan struct{} // closed at the first hit

	// Faults.mu protects these.
	conns   map[*conn]struct{} // on which it acts: the session's, also earlier ones that have not ended yet
	removed bool
}

// HoldRequests keeps what the session's client sends from being executed until
// the Hold lets it pass. A session has one such Hold: asked for again, it is
// the same. See also [Server.OnRequest], which looks at each request and can
// hold up the connection by not returning.
func (fs *Faults) HoldRequests(session int64) *Hold { return fs.hold(FaultHoldRequest, session) }

// HoldReplies keeps what the server sends to the session's client, answers and
// watch events alike, until the Hold lets it pass: the requests are executed,
// and others see what they have done. A session has one such Hold: asked for
// again, it is the same.
func (fs *Faults) HoldReplies(session int64) *Hold { return fs.hold(FaultHoldReply, session) }

func (fs *Faults) hold(kind FaultKind, session int64) *Hold {
	s := fs.srv
	s.mu.Lock() // under which connections get their sessions
	defer s.mu.Unlock()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, h := range fs.holds {
		if h.kind == kind && h.session == session {
			return h
		}
	}
	h := &Hold{faults: fs, kind: kind, session: session, hit: make(chan struct{}), conns: make(map[*conn]struct{})}
	fs.holds = append(fs.holds, h)
	for c := range s.conns {
		if c.session != nil && c.session.id == session {
			h.attach(c)
		}
	}
	return h
}

// holdSession has the Holds of the session act on c, its new connection. The
// caller holds Server.mu.
func (fs *Faults) holdSession(c *conn, session int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, h := range fs.holds {
		if h.session == session {
			h.attach(c)
		}
	}
}

func (h *Hold) attach(c *conn) {
	h.conns[c] = struct{}{}
	c.mu.Lock()
	defer c.mu.Unlock()
	h.gate(c).hold = h
}

// gate returns the gate of c that h keeps closed.
func (h *Hold) gate(c *conn) *gate {
	if h.kind == FaultHoldRequest {
		return &c.inbound
	}
	return &c.outbound
}

// Kind returns FaultHoldRequest or FaultHoldReply.
func (h *Hold) Kind() FaultKind { return h.kind }

// Session returns the session that it was made for.
func (h *Hold) Session() int64 { return h.session }

// Hits returns how many requests, or answers and events, had to wait.
func (h *Hold) Hits() int { return int(h.hits.Load()) }

// Hit returns a channel that is closed when the first has to wait.
func (h *Hold) Hit() <-chan struct{} { return h.hit }

// countHit is called with a conn's mu held, and so takes no lock but its own.
func (h *Hold) countHit() {
	h.hits.Add(1)
	if h.kind == FaultHoldRequest {
		h.faults.heldRequests.Add(1)
	} else {
		h.faults.heldReplies.Add(1)
	}
	h.first.Do(func() { close(h.hit) })
}

// Waiting returns how many requests, or answers and events, wait now and have
// not been told to pass.
func (h *Hold) Waiting() int {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	n := 0
	for c := range h.conns {
		c.mu.Lock()
		n += h.gate(c).closedTo()
		c.mu.Unlock()
	}
	return n
}

// Let lets the next n that wait pass, or all if there are fewer, and returns
// their number. Those that come later wait.
func (h *Hold) Let(n int) int {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	total := 0
	for _, c := range inOrder(h.conns) {
		c.mu.Lock()
		g := h.gate(c)
		if k := min(n-total, g.closedTo()); k > 0 {
			g.lets += k
			total += k
			c.wake()
		}
		c.mu.Unlock()
	}
	return total
}

// Remove lets everything pass and ends the Hold. Removing it again does
// nothing.
func (h *Hold) Remove() {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	h.removeLocked()
}

func (h *Hold) removeLocked() {
	if h.removed {
		return
	}
	h.removed = true
	h.faults.holds = slices.DeleteFunc(h.faults.holds, func(other *Hold) bool { return other == h })
	for _, c := range inOrder(h.conns) {
		c.mu.Lock()
		g := h.gate(c)
		g.hold, g.lets = nil, 0
		if h.kind == FaultHoldReply {
			g.waiting = 0
			for i := range c.queue {
				c.queue[i].held = false // nor by a later Hold
			}
		}
		c.wake()
		c.mu.Unlock()
	}
	h.conns = nil
}

// A gate is the place on a connection where a Hold keeps frames waiting, in
// one direction. The conn's mu protects it.
type gate struct {
	hold    *Hold // nil: it is open
	waiting int   // frames that are kept back
	lets    int   // how many of them may pass
}

// closedTo returns how many frames wait and may not pass.
func (g *gate) closedTo() int {
	if g.hold == nil {
		return 0
	}
	return g.waiting - g.lets
}

// keep counts a frame that has to wait.
func (g *gate) keep() {
	g.waiting++
	if g.hold != nil {
		g.hold.countHit()
	}
}

// pass takes out one of the frames that wait, and reports whether it may pass.
func (g *gate) pass() bool {
	if g.hold != nil {
		if g.lets == 0 {
			return false
		}
		g.lets--
	}
	g.waiting--
	return true
}
