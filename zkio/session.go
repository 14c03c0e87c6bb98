// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"
)

var (
	errSessionExpired = fmt.Errorf("%w: the server ended it", ErrSessionOver)
	errNotResumed     = fmt.Errorf("%w: no server resumes it", ErrSessionOver)
)

// sendBuffer is go-zookeeper's buffer for one request: what a server takes by
// default, 1 MiB, and some more.
const sendBuffer = 1<<20 + 4096

// A Session is one session of ZooKeeper's, from its creation to its end. The
// client has one after the other; each is an epoch of its own, with a
// connection object of go-zookeeper's of its own, so that nothing that was
// asked for in one can take effect in another.
//
// Its calls block until the server has answered or the session is over. While
// there is no connection they wait for one; when every server has been tried in
// vain they fail with ErrNotSent. They may be made by any goroutine, and any
// number of them at a time. A result that arrives when the session is
// over is discarded: the call fails with ErrSessionOver, or with ErrClosed if
// the client was closed; if it was to change something and may have done so, the
// error wraps ErrUnknown, too.
type Session struct {
	client *Client
	epoch  uint64
	conn   *zk.Conn        // set by start, before the session is used
	events <-chan zk.Event // closed when conn's goroutines have ended
	trust  *trust
	nodes  nodeSet

	id           atomic.Int64
	timeout      atomic.Int64 // a time.Duration; as negotiated
	zxid         atomic.Int64 // the newest transaction that an answer told of
	connections  atomic.Uint64
	noContainers atomic.Bool // the server has none

	established chan struct{} // closed when the session has its id
	over        chan struct{} // closed by end
	parked      chan struct{} // closed when go-zookeeper's loop waits in the dialer for closeConn
	quitting    chan struct{} // closed by closeConn

	ctx    context.Context // ends with the session; what dials run under
	cancel context.CancelFunc

	// group has the session's goroutines: the heartbeat, the lease's timer, and
	// those that write ahead of go-zookeeper. closeConn joins them.
	group sync.WaitGroup

	endOnce  sync.Once
	err      error // why it is over; written before over is closed, read only after
	gone     atomic.Bool
	parkOnce sync.Once

	mu           sync.Mutex    // protects what follows; never held while waiting
	wire         *wire         // the present connection, from the dial on; nil if there is none
	live         bool          // wire's handshake is done
	change       chan struct{} // closed and replaced when live or attempts change
	attempts     int           // to connect, since the last connection
	downSince    time.Duration // when the last connection was lost
	flushed      bool          // flushes has reported since
	published    bool          // the client's users know the session
	refusing     bool          // servers have been closing connections unanswered …
	refusedSince time.Duration // … since then
}

func newSession(c *Client, epoch uint64) *Session {
	s := &Session{
		client:      c,
		epoch:       epoch,
		established: make(chan struct{}),
		over:        make(chan struct{}),
		parked:      make(chan struct{}),
		quitting:    make(chan struct{}),
		change:      make(chan struct{}),
	}
	s.trust = newTrust(c.clock, c.cfg.LostMargin, &c.stats.proofs, func(l *Lease) {
		c.dispatcher.push(notice{lapsed: l})
	})
	s.nodes.wake = make(chan struct{}, 1)
	s.timeout.Store(int64(c.cfg.SessionTimeout))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Epoch returns the session's number, which counts up from 1 over the sessions
// of a client.
func (s *Session) Epoch() uint64 { return s.epoch }

// ID returns the session's id, which is what its nodes have as EphemeralOwner.
func (s *Session) ID() int64 { return s.id.Load() }

// Timeout returns the timeout that the servers granted.
func (s *Session) Timeout() time.Duration { return time.Duration(s.timeout.Load()) }

// Connection returns the number of the session's present or last connection,
// counted from 1. As long as it stays the same, watch events arrive in the order
// of what they tell of, and before the answer to any read that saw more. What
// happened during an outage is told afterwards in no order.
func (s *Session) Connection() uint64 { return s.connections.Load() }

// Client returns the client whose session it is.
func (s *Session) Client() *Client { return s.client }

// Err returns nil while the session may be alive, and then why it is over: an
// error that wraps ErrSessionOver, or ErrClosed if the client was closed.
func (s *Session) Err() error {
	select {
	case <-s.over:
		return s.err
	default:
		return nil
	}
}

// Gone reports whether the server is known to have ended the session, so that
// its ephemeral nodes are surely gone. A session that is over and not gone may
// leave them behind for up to its timeout.
func (s *Session) Gone() bool { return s.gone.Load() }

// Lease returns the session's present lease. It is never nil: before the first
// proof, and between a lapse and the next proof, it is one that is not in force.
func (s *Session) Lease() *Lease { return s.trust.current.Load() }

// opts makes a slice of go-zookeeper's options, whose type it does not export.
func opts[T any](o ...T) []T { return o }

// start connects. It returns at once; the session is established, or over, later.
func (s *Session) start() error {
	conn, events, err := zk.Connect(s.client.cfg.Servers, s.client.cfg.SessionTimeout, opts(
		zk.WithHostProvider(hostProvider{s}),
		zk.WithDialer(s.dial),
		zk.WithEventCallback(s.happened),
		zk.WithLogger(zkLogger{s.client.cfg.Logger}),
		zk.WithLogInfo(false),
		zk.WithMaxConnBufferSize(sendBuffer),
	)...)
	s.conn, s.events = conn, events
	return err
}

// happened is go-zookeeper's callback, on its goroutine. The session's events
// are of no interest, because the wire knows them first.
func (s *Session) happened(ev zk.Event) {
	if ev.Type > 0 {
		s.client.dispatcher.push(notice{path: ev.Path, event: Event(ev.Type)})
	}
}

// hostProvider is what go-zookeeper asks for the next server.
type hostProvider struct{ s *Session }

// Init is called first, with the servers of the configuration, which are known.
func (hostProvider) Init([]string) error { return nil }

// Len returns the number of servers.
func (p hostProvider) Len() int { return len(p.s.client.hosts.servers) }

// Next returns the server to try next. Its second result makes go-zookeeper
// fail the requests that wait to be sent, sleep for a second, and look whether
// it was closed, which it does nowhere else between two attempts. So it is true
// when go-zookeeper is being closed, and otherwise once in an outage, when that
// has lasted for so long that a second does not matter any more: calls wait in
// [Session.before], so there are few to be freed by it.
func (p hostProvider) Next() (server string, retryStart bool) {
	select {
	case <-p.s.quitting:
		return p.s.client.hosts.servers[0], true
	default:
		return p.s.client.hosts.pick(), p.s.flushes()
	}
}

// Connected is called when there is a session.
func (p hostProvider) Connected() {}

// dial is go-zookeeper's dialer. It does not connect once the session is over,
// so that go-zookeeper cannot carry what waits to be sent into another session.
func (s *Session) dial(_, server string, _ time.Duration) (net.Conn, error) {
	hosts := s.client.hosts
	s.attempting()
	if !s.sleep(hosts.pause(s.Timeout())) {
		return nil, s.park()
	}
	hosts.trying(server)
	began := s.client.clock.now()
	limit := hosts.attempt(s.Timeout())
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	deadline := time.Now().Add(limit)
	conn, raw, err := hosts.dial(ctx, &s.client.cfg, server)
	if err == nil {
		err = conn.SetDeadline(deadline) // until the handshake's end
		if err != nil {
			_ = raw.Close() // the connection is useless
		}
	}
	if err != nil {
		if s.Err() != nil {
			return nil, s.park()
		}
		hosts.because(server, reasonOf(err, s.client.clock.now()-began))
		return nil, err
	}
	w := newWire(s, server, began, conn, raw)
	if !s.attach(w) {
		_ = raw.Close() // nobody is interested any more
		return nil, s.park()
	}
	return w, nil
}

// sleep waits for d, and reports false as soon as the session is over.
func (s *Session) sleep(d time.Duration) bool {
	if d <= 0 {
		return s.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.over:
		return false
	}
}

// park holds go-zookeeper's main loop in the dialer, once the session is over,
// until closeConn lets it go. While it is here its other goroutines have ended
// and every request that was sent has been failed, so that nothing is decoded
// into what a caller may be looking at.
//
// The moment's wait after that is for go-zookeeper's Close to queue its
// request: the loop answers it when it empties the queue on its way out. If
// the loop is faster, Close waits a second for an answer; nothing else is lost.
func (s *Session) park() error {
	s.parkOnce.Do(func() { close(s.parked) })
	<-s.quitting
	<-time.After(2 * time.Millisecond)
	return errFenced
}

// attempting notes that another attempt to connect begins. When every server
// was tried in vain it logs that, once in an outage: nobody else is told while
// the lease lasts. (While there has been no session yet, [Open] will tell.)
func (s *Session) attempting() {
	s.mu.Lock()
	s.attempts++
	vain := s.attempts == len(s.client.hosts.servers)+1
	s.changedLocked()
	s.mu.Unlock()
	if vain && s.ID() != 0 && s.Err() == nil {
		s.client.cfg.Logger.Warn("no zookeeper server can be reached; trying again",
			"session", sessionID(s), "servers", s.client.hosts.why())
	}
}

// flushes reports, once in an outage, that it has lasted for the session's
// timeout.
func (s *Session) flushes() bool {
	now := s.client.clock.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	// A session that is over has its own way to end the calls.
	if s.Err() != nil || s.ID() == 0 || s.flushed || now-s.downSince < s.Timeout() {
		return false
	}
	s.flushed = true
	return true
}

// attach makes w the session's present connection, unless it is over.
func (s *Session) attach(w *wire) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Err() != nil {
		return false
	}
	s.wire = w
	return true
}

// connected notes that w's handshake was done. It returns the requests that
// must go before any other.
func (s *Session) connected(w *wire, id int64, timeout time.Duration) (first [][]byte) {
	c := s.client
	resumed := s.ID() != 0
	s.connections.Add(1) // before anything is answered on it
	s.trust.greeted(c.clock.now(), timeout, !resumed)
	s.id.Store(id)
	s.timeout.Store(int64(timeout))
	c.hosts.connected(w.addr)
	if resumed {
		return setWatches(c.watches, s.zxid.Load())
	}
	return nil
}

// ready opens the session for requests.
func (s *Session) ready(w *wire) {
	s.mu.Lock()
	if s.wire != w || s.Err() != nil {
		s.mu.Unlock()
		return
	}
	wasVain := s.attempts > len(s.client.hosts.servers)
	s.live, s.flushed, s.refusing, s.attempts = true, false, false, 0
	s.changedLocked()
	s.gateLocked()
	first := true
	select {
	case <-s.established:
		first = false
		s.client.stats.reconnects.Add(1)
	default:
		close(s.established)
	}
	outage := s.client.clock.now() - s.downSince
	s.mu.Unlock()
	if wasVain && !first {
		s.client.cfg.Logger.Info("zookeeper is back, and the session with it",
			"session", sessionID(s), "server", w.addr, "after", outage.Round(time.Millisecond))
	}
}

// disconnected notes that w was closed.
func (s *Session) disconnected(w *wire) {
	now := s.client.clock.now()
	s.mu.Lock()
	if s.wire != w {
		s.mu.Unlock()
		return
	}
	wasLive := s.live
	s.wire, s.live = nil, false
	if wasLive {
		s.downSince = now
	}
	refused := !wasLive && s.ID() != 0 && wasRefused(w.err)
	if refused && !s.refusing {
		s.refusing, s.refusedSince = true, now
	}
	// A server that has seen less than the client, because its data was
	// restored from a backup, say, closes the connection without a word, for
	// ever. So does one that is not ready, so it is given time.
	giveUp := refused && now-s.refusedSince > 2*s.Timeout()
	s.changedLocked()
	s.gateLocked()
	s.mu.Unlock()

	if !wasLive && s.Err() == nil {
		s.client.hosts.because(w.addr, reasonOf(w.err, now-w.born))
	}
	if giveUp {
		s.end(errNotResumed, false)
	}
}

// wasRefused reports whether a handshake failed because the server closed the
// connection, and not because it was silent.
func wasRefused(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// changedLocked wakes those who wait in await.
func (s *Session) changedLocked() {
	close(s.change)
	s.change = make(chan struct{})
}

// gateLocked tells the pool whether tasks can run.
func (s *Session) gateLocked() {
	if s.published {
		s.client.pool.gate(s, s.live)
	}
}

// publish makes the session the one that tasks are run with.
func (s *Session) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published = true
	s.gateLocked()
}

// told reports whether the client's users know the session.
func (s *Session) told() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.published
}

// await returns the present connection, or waits for one as long as neither ctx
// nor grace has ended.
func (s *Session) await(ctx context.Context, grace <-chan struct{}) *wire {
	for {
		s.mu.Lock()
		w, live, change := s.wire, s.live, s.change
		s.mu.Unlock()
		if live && !w.isClosed() {
			return w
		}
		// A connection that was closed just now is live until that is noticed,
		// which is a change, too.
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

// reachable waits until there is a connection. It reports false if the session
// is over or every server was tried in vain since there was one.
func (s *Session) reachable() bool {
	for {
		s.mu.Lock()
		live, vain, change := s.live, s.attempts > len(s.client.hosts.servers), s.change
		s.mu.Unlock()
		if live || vain || s.Err() != nil {
			return live
		}
		select {
		case <-change:
		case <-s.over:
		}
	}
}

// end makes the session be over because of cause. The first call decides. The
// leases end before anybody can learn that the session is over.
func (s *Session) end(cause error, gone bool) {
	s.endOnce.Do(func() {
		if s.client.isClosing() && !errors.Is(cause, ErrClosed) {
			cause = fmt.Errorf("%w: %w", ErrClosed, cause)
		}
		s.trust.end()
		s.err = cause
		s.gone.Store(gone)
		s.mu.Lock()
		s.live = false
		close(s.over) // under mu: attach refuses from here on
		s.changedLocked()
		s.gateLocked()
		s.mu.Unlock()
		s.cancel()
	})
	s.mu.Lock()
	w := s.wire
	s.mu.Unlock()
	if w != nil {
		w.cut(errFenced)
	}
}

// shut asks the server to end the session, waits for its answer until ctx
// ends, and ends the session in any case.
func (s *Session) shut(ctx context.Context, grace <-chan struct{}) {
	for ctx.Err() == nil {
		w := s.await(ctx, grace)
		if w == nil {
			break
		}
		s.group.Go(w.sendClose)
		select {
		case <-s.over: // answered
		case <-w.closed: // if the request arrived, no server will resume the session
		case <-ctx.Done():
		}
	}
	s.end(ErrClosed, false)
}

// closeConn closes go-zookeeper's connection object and joins its goroutines
// and the session's own. The session must be over.
func (s *Session) closeConn() {
	<-s.parked
	close(s.quitting)
	s.conn.Close()
	for range s.events { // closed when the last of them has ended
	}
	s.group.Wait()
}
