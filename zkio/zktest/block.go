// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Block holds back a session's requests, or the answers to them, until a test
// lets them pass; see [Faults.BlockRequests] and [Faults.BlockReplies]. With a
// Block for each of several sessions, a test chooses which session's request the
// server executes next, or which client learns of a change first. Within one
// session the order never changes.
//
//	a, b := srv.Faults().BlockRequests(first), srv.Faults().BlockRequests(second)
//	// … both clients send a request …
//	synctest.Wait() // a.Waiting() == 1 && b.Waiting() == 1
//	b.Let(1)
//	synctest.Wait() // second's has been executed, and answered
//	a.Remove()
//
// Frames that wait are lost if the connection ends, as they are in a network.
// Pings wait like all requests, so a session whose requests wait for too long
// expires unless its client reconnects. The Block stays in effect when the
// session is resumed; handshakes and their answers pass.
//
// The methods of a Block do not wait for what they set in motion. They may be
// called by any goroutine.
type Block struct {
	faults  *Faults
	kind    FaultKind
	session int64

	hits  atomic.Int64
	first sync.Once     // closes hit
	hit   chan struct{} // closed at the first hit

	// Faults.mu protects these.
	conns   map[*conn]struct{} // the session's connection, and earlier ones that have not ended yet
	removed bool
}

// BlockRequests holds back the session's requests before they are executed. If
// the session has such a Block already, BlockRequests returns it. See also
// [Server.OnRequest], which sees each request and can delay it by not returning.
func (fs *Faults) BlockRequests(session int64) *Block { return fs.block(FaultBlockRequest, session) }

// BlockReplies holds back the answers and watch events for the session's client.
// Its requests are executed, and other clients see their effects. If the session
// has such a Block already, BlockReplies returns it.
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

// blockSession applies the session's Blocks to c, its new connection. The caller
// holds service.mu.
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

// gate returns the gate of c that b closes.
func (b *Block) gate(c *conn) *gate {
	if b.kind == FaultBlockRequest {
		return &c.inbound
	}
	return &c.outbound
}

// Kind returns FaultBlockRequest or FaultBlockReply.
func (b *Block) Kind() FaultKind { return b.kind }

// Session returns the id of the session.
func (b *Block) Session() int64 { return b.session }

// Hits returns the number of frames that had to wait.
func (b *Block) Hits() int { return int(b.hits.Load()) }

// Hit returns a channel that is closed when the first frame has to wait.
func (b *Block) Hit() <-chan struct{} { return b.hit }

// countHit runs with a conn's mu held, and so takes no lock itself.
func (b *Block) countHit() {
	b.hits.Add(1)
	if b.kind == FaultBlockRequest {
		b.faults.blockedRequests.Add(1)
	} else {
		b.faults.blockedReplies.Add(1)
	}
	b.first.Do(func() { close(b.hit) })
}

// Waiting returns the number of frames that are waiting and have not been let
// pass.
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

// Let lets the next n waiting frames pass, or all if there are fewer, and
// returns their number. It does not apply to frames that arrive later.
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

// Remove ends the Block and lets everything pass. Further calls do nothing.
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
				c.queue[i].held = false // a later Block must not hold it either
			}
		}
		c.wake()
		c.mu.Unlock()
	}
	b.conns = nil
}

// A gate is where a Block makes frames wait in one direction of a connection.
// The conn's mu protects it.
type gate struct {
	block   *Block // nil: open
	waiting int    // frames held back
	lets    int    // how many of them may pass
}

// closedTo returns the number of frames that wait and may not pass.
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

// pass reports whether the first waiting frame may pass, and if so counts it out.
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
