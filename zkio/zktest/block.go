// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Block keeps a session's requests from the server, or the server's answers
// from the session's client, until it is told to let them pass;
// [Faults.BlockRequests] and [Faults.BlockReplies] make one. With a Block for each
// of several sessions a test decides whose request is executed next, or who
// hears first of what has happened. Within one session the order never changes.
//
//	a, b := srv.Faults().BlockRequests(first), srv.Faults().BlockRequests(second)
//	// … both clients send a request …
//	synctest.Wait() // a.Waiting() == 1 && b.Waiting() == 1
//	b.Let(1)
//	synctest.Wait() // second's has been executed, and answered
//	a.Remove()
//
// What waits is lost if the connection ends, as it is in a network. Pings wait
// like everything else, so that a session whose requests are held for too long
// expires, unless its client connects anew. The Block goes on when the session is resumed; the handshake itself,
// and its answer, pass.
//
// The methods of a Block never block and may be called by any goroutine. What
// may pass is on its way when they return, no more: to wait for the effect is
// the caller's affair.
type Block struct {
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

// BlockRequests keeps what the session's client sends from being executed until
// the Block lets it pass. A session has one such Block: asked for again, it is
// the same. See also [Server.OnRequest], which looks at each request and can
// hold up the connection by not returning.
func (fs *Faults) BlockRequests(session int64) *Block { return fs.block(FaultBlockRequest, session) }

// BlockReplies keeps what the server sends to the session's client, answers and
// watch events alike, until the Block lets it pass: the requests are executed,
// and others see what they have done. A session has one such Block: asked for
// again, it is the same.
func (fs *Faults) BlockReplies(session int64) *Block { return fs.block(FaultBlockReply, session) }

func (fs *Faults) block(kind FaultKind, session int64) *Block {
	s := fs.srv
	s.mu.Lock() // under which connections get their sessions
	defer s.mu.Unlock()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, b := range fs.blocks {
		if b.kind == kind && b.session == session {
			return b
		}
	}
	b := &Block{faults: fs, kind: kind, session: session, hit: make(chan struct{}), conns: make(map[*conn]struct{})}
	fs.blocks = append(fs.blocks, b)
	for c := range s.conns {
		if c.session != nil && c.session.id == session {
			b.attach(c)
		}
	}
	return b
}

// blockSession has the Blocks of the session act on c, its new connection. The
// caller holds Server.mu.
func (fs *Faults) blockSession(c *conn, session int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, b := range fs.blocks {
		if b.session == session {
			b.attach(c)
		}
	}
}

func (b *Block) attach(c *conn) {
	b.conns[c] = struct{}{}
	c.mu.Lock()
	defer c.mu.Unlock()
	b.gate(c).block = b
}

// gate returns the gate of c that b keeps closed.
func (b *Block) gate(c *conn) *gate {
	if b.kind == FaultBlockRequest {
		return &c.inbound
	}
	return &c.outbound
}

// Kind returns FaultBlockRequest or FaultBlockReply.
func (b *Block) Kind() FaultKind { return b.kind }

// Session returns the session that it was made for.
func (b *Block) Session() int64 { return b.session }

// Hits returns how many requests, or answers and events, had to wait.
func (b *Block) Hits() int { return int(b.hits.Load()) }

// Hit returns a channel that is closed when the first has to wait.
func (b *Block) Hit() <-chan struct{} { return b.hit }

// countHit is called with a conn's mu held, and so takes no lock but its own.
func (b *Block) countHit() {
	b.hits.Add(1)
	if b.kind == FaultBlockRequest {
		b.faults.blockedRequests.Add(1)
	} else {
		b.faults.blockedReplies.Add(1)
	}
	b.first.Do(func() { close(b.hit) })
}

// Waiting returns how many requests, or answers and events, wait now and have
// not been told to pass.
func (b *Block) Waiting() int {
	b.faults.mu.Lock()
	defer b.faults.mu.Unlock()
	n := 0
	for c := range b.conns {
		c.mu.Lock()
		n += b.gate(c).closedTo()
		c.mu.Unlock()
	}
	return n
}

// Let lets the next n that wait pass, or all if there are fewer, and returns
// their number. Those that come later wait.
func (b *Block) Let(n int) int {
	b.faults.mu.Lock()
	defer b.faults.mu.Unlock()
	total := 0
	for _, c := range inOrder(b.conns) {
		c.mu.Lock()
		g := b.gate(c)
		if k := min(n-total, g.closedTo()); k > 0 {
			g.lets += k
			total += k
			c.wake()
		}
		c.mu.Unlock()
	}
	return total
}

// Remove lets everything pass and ends the Block. Removing it again does
// nothing.
func (b *Block) Remove() {
	b.faults.mu.Lock()
	defer b.faults.mu.Unlock()
	b.removeLocked()
}

func (b *Block) removeLocked() {
	if b.removed {
		return
	}
	b.removed = true
	b.faults.blocks = slices.DeleteFunc(b.faults.blocks, func(other *Block) bool { return other == b })
	for _, c := range inOrder(b.conns) {
		c.mu.Lock()
		g := b.gate(c)
		g.block, g.lets = nil, 0
		if b.kind == FaultBlockReply {
			g.waiting = 0
			for i := range c.queue {
				c.queue[i].held = false // nor by a later Block
			}
		}
		c.wake()
		c.mu.Unlock()
	}
	b.conns = nil
}

// A gate is the place on a connection where a Block keeps frames waiting, in
// one direction. The conn's mu protects it.
type gate struct {
	block   *Block // nil: it is open
	waiting int    // frames that are kept back
	lets    int    // how many of them may pass
}

// closedTo returns how many frames wait and may not pass.
func (g *gate) closedTo() int {
	if g.block == nil {
		return 0
	}
	return g.waiting - g.lets
}

// keep counts a frame that has to wait.
func (g *gate) keep() {
	g.waiting++
	if g.block != nil {
		g.block.countHit()
	}
}

// pass takes out one of the frames that wait, and reports whether it may pass.
func (g *gate) pass() bool {
	if g.block != nil {
		if g.lets == 0 {
			return false
		}
		g.lets--
	}
	g.waiting--
	return true
}
