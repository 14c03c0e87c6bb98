// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/jute"
)

var (
	errNoLeader       = errors.New("the server serves no sessions: its ensemble has no leader")
	errSessionExpired = fmt.Errorf("%w: the server ended it", ErrSessionOver)
	errNotResumable   = fmt.Errorf("%w: the server cannot resume sessions, so locks do not survive a lost connection", ErrSessionOver)
	errNotResumed     = fmt.Errorf("%w: no server resumes it", ErrSessionOver)
)

// A Session is one ZooKeeper session, from its creation to its end. A client has
// one after the other, each with a go-zookeeper connection object of its own, so
// that no request of one can take effect in another.
//
// Any number of goroutines may make calls at the same time. A call blocks until
// the server has answered or the session is over. It waits for a connection, and
// fails with ErrNotSent when every server was tried in vain. A result that
// arrives when the session is over is discarded: the call fails with
// ErrSessionOver, or ErrClosed if the client was closed, and with ErrUnknown as
// well if it may have changed something.
type Session struct {
	client *Client
	epoch  uint64
	conn   *zk.Conn        // set by start, before the session is used
	events <-chan zk.Event // closed when conn's goroutines have ended
	leases *leaseTracker
	nodes  nodeSet
	later  laterWatches

	bundler bundler

	id          atomic.Int64
	timeout     atomic.Int64 // a time.Duration; as negotiated
	zxid        atomic.Int64 // the newest transaction that an answer told of
	connections atomic.Uint64
	floor       int64       // the newest that answers told of in earlier sessions
	synced      atomic.Bool // a sync was answered
	noMultiRead atomic.Bool // the server cannot read several nodes at once
	tellReturn  atomic.Bool // the loss of the connection was logged, and its return is to be
	password    []byte      // written by dial, which go-zookeeper calls on its main loop, under mu; read there, or under mu

	established chan struct{} // closed when the session has its id
	over        chan struct{} // closed by end
	quitting    chan struct{} // closed by closeConn

	ctx    context.Context // ends with the session; what dials run under
	cancel context.CancelFunc

	paths pathCount // of its nodes

	// group has the session's goroutines: the heartbeat, and those that set watches again or
	// ask for the session's end. closeConn joins them.
	group sync.WaitGroup

	endOnce sync.Once
	err     error         // why it is over; written before over is closed, read only after
	paused  time.Duration // see Paused; likewise
	gone    atomic.Bool

	mu        sync.Mutex    // protects what follows; never held while waiting
	link      connState     // the present connection, or what became of the last
	change    chan struct{} // closed and replaced when link changes
	published bool          // the client's users know the session
	cutTold   bool          // they were told that the connection is lost, and not yet that there is another
}

func newSession(c *Client, epoch uint64) *Session {
	s := &Session{
		client:      c,
		epoch:       epoch,
		established: make(chan struct{}),
		over:        make(chan struct{}),
		quitting:    make(chan struct{}),
		change:      make(chan struct{}),
		password:    make([]byte, 16), // what to send for a new session
	}
	s.leases = newLeaseTracker(c.clock.now, c.cfg.LostMargin, &c.stats.proofs, func(l *Lease) {
		c.dispatcher.push(notice{lapsed: l})
	})
	s.leases.begins, s.leases.paused = c.leaseBegan, c.pulse.since
	if last := c.Session(); last != nil {
		s.floor = max(last.floor, last.zxid.Load())
	}
	s.nodes.wake = make(chan struct{}, 1)
	s.later.session = s
	s.bundler.session, s.bundler.most = s, max(1, c.cfg.Workers/bundleWorkers)
	s.timeout.Store(int64(c.cfg.SessionTimeout))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Epoch returns the session's number among those of its client, from 1 up.
func (s *Session) Epoch() uint64 { return s.epoch }

// Zxid returns the newest transaction that the session's server has told of, in any answer.
// It does not block.
func (s *Session) Zxid() int64 { return s.zxid.Load() }

// ID returns the session's id, which is what its nodes have as EphemeralOwner.
func (s *Session) ID() int64 { return s.id.Load() }

// Timeout returns the timeout that the servers granted.
func (s *Session) Timeout() time.Duration { return time.Duration(s.timeout.Load()) }

// Connection returns the number of the session's present or last connection, from
// 1 up. Each [Event] has that of the connection that it came on.
func (s *Session) Connection() uint64 { return s.connections.Load() }

// Client returns the session's client.
func (s *Session) Client() *Client { return s.client }

// Err returns nil while the session may be alive, and then why it is over: an
// error that wraps ErrSessionOver, or ErrClosed if the client was closed.
func (s *Session) Err() error {
	if isClosed(s.over) {
		return s.err
	}
	return nil
}

// Paused returns for how long this process did not run, if that is why the session is
// over: if it was a third or more of the time since the servers had last answered. Else it
// returns 0.
func (s *Session) Paused() time.Duration {
	if isClosed(s.over) {
		return s.paused
	}
	return 0
}

// Gone reports whether a server has said that the session has ended. Its
// ephemeral nodes are then deleted, or are deleted before anything that is
// written later. A session that is over and not gone may leave them behind for
// up to its timeout.
//
// A server says so when the leader has marked the session as closing. If the
// leader fails before it has committed the end, the next one may keep the
// session, and its nodes, until it times out once more.
func (s *Session) Gone() bool { return s.gone.Load() }

// Connected reports whether the session has a connection at this moment. It does not
// block.
func (s *Session) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link.wire != nil
}

// Lease returns the session's present lease. It is never nil: before the first
// proof, and between a lapse and the next proof, it is one that is not in force.
func (s *Session) Lease() *Lease { return s.leases.current.Load() }

// NextProof returns how long it takes until a write is due that keeps the lease, or begins one; 0 if
// it is overdue. An earlier one is of no use after a reconnect, or when answers were late. While the
// session has nodes to keep alive, it sends that write by itself. NextProof does no I/O and does not
// block.
func (s *Session) NextProof() time.Duration {
	return max(0, s.leases.due()-s.client.clock.now())
}

// attempting notes that another attempt to connect begins. Once in an outage, it
// logs that every server was tried in vain; before the first session [Open] tells.
func (s *Session) attempting() {
	servers := len(s.client.hosts.servers)
	s.mu.Lock()
	before := s.link.inVain(servers)
	s.link = s.link.attempting()
	now := s.link.inVain(servers)
	s.changedLocked()
	s.mu.Unlock()
	if now && !before && s.ID() != 0 && s.Err() == nil {
		s.client.cfg.Logger.Warn("no zookeeper server can be reached; trying again",
			"session", sessionID(s), "servers", s.client.hosts.why())
	}
}

// connected makes w, whose handshake brought g, the session's connection. It
// reports false if the session is over.
func (s *Session) connected(w *wire, g greeting) bool {
	c := s.client
	resumed := s.ID() != 0
	w.connection = s.connections.Add(1) // before anything is answered on it
	s.leases.greeted(c.clock.now(), g.timeout, !resumed)
	s.id.Store(g.id)
	s.timeout.Store(int64(g.timeout))
	c.hosts.connected()
	w.out = g.frame
	var watches []*call
	again := resumed && c.basics.on.Load()
	if resumed && !again {
		watches = setWatches(c.watches, s.zxid.Load())
	}
	if len(watches) > 0 {
		w.turn <- struct{}{} // it is free, and rearm gives it back
	}

	s.mu.Lock()
	if s.Err() != nil {
		s.mu.Unlock()
		return false
	}
	inVain := s.link.inVain(len(c.hosts.servers))
	outage := c.clock.now() - s.link.downSince
	s.link = s.link.up(w)
	s.password = g.password
	if s.cutTold {
		s.cutTold = false
		c.dispatcher.push(notice{resumed: s, after: outage})
	}
	s.changedLocked()
	s.gateLocked()
	s.mu.Unlock()

	if again {
		w.lookAgain()
	}
	if len(watches) > 0 {
		s.group.Go(func() { w.rearm(watches) }) // the next connection's, if it fails
	}
	if !resumed {
		if c.cfg.Established != nil {
			c.cfg.Established(c.cfg, s.Ticket())
		}
		close(s.established)
		return true
	}
	c.stats.reconnects.Add(1)
	if s.tellReturn.Swap(false) || inVain {
		c.cfg.Logger.Info("zookeeper is back, and the session with it",
			"session", sessionID(s), "server", w.addr, "after", outage.Round(time.Millisecond))
	}
	return true
}

// disconnected notes that w was closed. If that was for a fault, it is logged.
func (s *Session) disconnected(w *wire) {
	c := s.client
	now := c.clock.now()
	var f *fault
	errors.As(w.err, &f)
	loss := c.lossOf(w.err, now-s.Timeout())
	s.mu.Lock()
	if s.link.wire != w {
		s.mu.Unlock()
		return
	}
	s.link = s.link.down(now)
	// Before changedLocked: a call that finds no connection finds the reason.
	c.hosts.disconnected(w.addr, loss)
	if s.published && !c.isClosing() {
		// Under mu: the notice of the next connection comes after this one.
		s.cutTold = true
		c.dispatcher.push(notice{cut: s, cause: fmt.Errorf("%s: %s", w.addr, loss)})
	}
	s.changedLocked()
	s.gateLocked()
	s.mu.Unlock()

	if s.Err() != nil || c.isClosing() {
		return
	}
	limit := &c.losses
	if f != nil {
		limit = &c.faults
	}
	if omitted, ok := limit.allow(now); ok {
		s.tellReturn.Store(true)
		args := []any{"session", sessionID(s), "server", w.addr, "cause", loss}
		if omitted > 0 {
			args = append(args, "not logged since the last", omitted)
		}
		if f != nil {
			c.cfg.Logger.Warn("closed a zookeeper connection because of the server; connecting again", args...)
		} else {
			c.cfg.Logger.Info("lost the connection to zookeeper; connecting again", args...)
		}
	}
}

// refused notes that a server has closed a connection in the handshake.
func (s *Session) refused() {
	s.mu.Lock()
	var forTooLong bool
	s.link, forTooLong = s.link.refused(s.client.clock.now(), 2*s.Timeout())
	s.mu.Unlock()
	if forTooLong {
		s.end(errNotResumed, false)
	}
}

// changedLocked wakes those who wait for a change of link.
func (s *Session) changedLocked() {
	close(s.change)
	s.change = make(chan struct{})
}

// gateLocked tells the pool whether tasks can run.
func (s *Session) gateLocked() {
	if s.published {
		s.client.pool.gate(s, s.link.wire != nil)
	}
}

// publish makes the session the one that tasks are run with.
func (s *Session) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published = true
	s.gateLocked()
}

// await returns the present connection, or waits for one as long as neither ctx
// nor grace has ended.
func (s *Session) await(ctx context.Context, grace <-chan struct{}) *wire {
	for {
		s.mu.Lock()
		w, change := s.link.wire, s.change
		s.mu.Unlock()
		if w != nil && !isClosed(w.closed) {
			return w
		}
		// That a connection was closed is noticed a moment later, by a change.
		select {
		case <-change:
		case <-s.over:
			return nil
		case <-grace:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// connection waits until there is a connection and returns it; nil if the session
// is over, or if every server was tried in vain since there was one.
func (s *Session) connection() *wire {
	for {
		s.mu.Lock()
		w, inVain, change := s.link.wire, s.link.inVain(len(s.client.hosts.servers)), s.change
		s.mu.Unlock()
		switch {
		case w != nil && !isClosed(w.closed):
			return w
		case w == nil && inVain, s.Err() != nil:
			return nil
		}
		// That a connection was closed is noticed a moment later, by a change.
		select {
		case <-change:
		case <-s.over:
		}
	}
}

// end makes the session be over because of cause. Only the first call counts.
// The leases end before anyone can learn that the session is over.
func (s *Session) end(cause error, gone bool) {
	s.endOnce.Do(func() {
		if s.client.isClosing() && !errors.Is(cause, ErrClosed) {
			cause = fmt.Errorf("%w: %w", ErrClosed, cause)
		} else if s.ID() != 0 && !errors.Is(cause, ErrClosed) {
			heard := s.leases.heard()
			s.paused = s.client.pulse.since(heard)
			cause = fmt.Errorf("%w, %v after the last request that was answered", cause, roundly(s.client.clock.now()-heard))
		}
		s.leases.end(cause)
		s.err = cause
		s.gone.Store(gone)
		s.mu.Lock()
		w := s.link.wire
		s.link.wire = nil
		if w != nil {
			s.client.hosts.disconnected(w.addr, "")
		}
		close(s.over) // under mu: connected refuses from here on
		s.changedLocked()
		s.gateLocked()
		s.mu.Unlock()
		s.cancel()
		if w != nil {
			w.cut(errFenced)
		}
	})
}

// shut asks the server to end the session, waits for its answer until ctx
// ends, and ends the session in any case.
func (s *Session) shut(ctx context.Context, grace <-chan struct{}) {
	for ctx.Err() == nil {
		w := s.await(ctx, grace)
		if w == nil {
			break
		}
		s.group.Go(func() { _ = w.post(&call{op: jute.OpClose, xid: closeXid}) }) // the reader sees the answer
		select {
		case <-s.over: // answered
		case <-w.closed: // if the request arrived, no server will resume the session
		case <-ctx.Done():
		}
	}
	s.end(ErrClosed, false)
}

// A faultLog says which faults of a kind are logged: one in a minute, or in pause.
type faultLog struct {
	pause time.Duration // 0 is a minute

	mu      sync.Mutex // protects what follows
	next    time.Duration
	omitted int
}

// allow reports whether a fault at now is logged, and how many were not since
// the last that was.
func (l *faultLog) allow(now time.Duration) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now < l.next {
		l.omitted++
		return 0, false
	}
	omitted, l.omitted, l.next = l.omitted, 0, now+cmp.Or(l.pause, time.Minute)
	return omitted, true
}
