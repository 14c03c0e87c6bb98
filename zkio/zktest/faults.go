// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A FaultKind names what a fault does; see [Faults.Hits].
type FaultKind string

// The kinds of fault.
const (
	FaultDropReply      FaultKind = "drop reply"
	FaultSwallowReply   FaultKind = "swallow reply"
	FaultDropRequest    FaultKind = "drop request"
	FaultSwallowRequest FaultKind = "swallow request"
	FaultDelayReply     FaultKind = "delay reply"
	FaultFailRequest    FaultKind = "fail request"
	FaultFailReply      FaultKind = "fail reply"
	FaultCut            FaultKind = "cut"
	FaultBlackhole      FaultKind = "blackhole"
	FaultRefuse         FaultKind = "refuse"
	FaultLag            FaultKind = "lag"
	FaultStop           FaultKind = "stop"
	FaultBlockRequest   FaultKind = "block request"
	FaultBlockReply     FaultKind = "block reply"
)

// Every, as [Match.Times], has a fault act on each request that a Match selects.
const Every = -1

// A Match selects requests, and says how many of them a fault acts on: the next
// one ({Times: 1}), the third (Nth: 3), or all of them ({Times: Every}). A Match
// with neither Nth nor Times is refused by a panic, because a test that means a
// slow server would delay a single answer, and pass for nothing.
type Match struct {
	// Op is the kind of request. Zero is any kind except OpPing and
	// OpConnect, whose times clients choose on their own.
	Op Op
	// Path is a prefix of a path in the request. Empty selects any request,
	// with or without a path.
	Path string
	// Session is the session that sends the request or, for OpConnect, that
	// the client wants to resume. Zero is any.
	Session int64
	// Nth is the first of these requests that the fault acts on, counting
	// from 1. Zero means 1.
	Nth int
	// Times is the number of requests, from the Nth on, that the fault acts
	// on: [Every] means all of them until the fault is removed. Zero means 1
	// if Nth is set, and is refused otherwise.
	Times int
}

// mustSayHowMany panics if m leaves open whether it means one request or all.
func (m Match) mustSayHowMany() {
	if m.Nth == 0 && m.Times == 0 {
		panic("zktest: Match says neither Nth nor Times: set Times to 1 for the next request, or to zktest.Every for all of them")
	}
}

func (m Match) selects(session int64, op Op, paths []string) bool {
	if m.Op == 0 && (op == OpPing || op == OpConnect) || m.Op != 0 && m.Op != op {
		return false
	}
	if m.Session != 0 && m.Session != session {
		return false
	}
	return m.Path == "" || slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, m.Path) })
}

// Faults makes a Server misbehave as networks and machines do. Its methods are
// safe for concurrent use. They take effect before they return: no request
// executed later escapes them.
type Faults struct {
	srv    *Server
	active atomic.Int32 // number of faults in requests

	blockedRequests, blockedReplies atomic.Int64 // hits of all Blocks

	// mu protects the rest, and the fields of every Fault. It may be locked
	// while service.mu is held; only a conn's mu is locked while it is held.
	mu       sync.Mutex
	requests []*Fault // drop, swallow, delay
	holes    []*Fault
	refusals []*Fault
	blocks   []*Block
	hits     map[FaultKind]int
}

func newFaults(s *Server) *Faults {
	return &Faults{srv: s, hits: make(map[FaultKind]int)}
}

// Faults returns the server's faults.
func (s *Server) Faults() *Faults { return s.faults }

// A Fault is a fault in effect, or one that was removed.
type Fault struct {
	faults *Faults
	kind   FaultKind
	hit    chan struct{} // closed at the first hit

	// For requests.
	match Match
	delay time.Duration
	code  Code

	// For blackholes: which further connections fall into it.
	newConns bool
	resuming int64 // connections that resume this session

	// Faults.mu protects these.
	seen    int // requests selected so far
	hits    int
	removed bool
	timer   *time.Timer // removes it; may be nil
	conns   map[*conn]struct{}
}

// Kind returns what the fault does.
func (f *Fault) Kind() FaultKind { return f.kind }

// Hits returns the number of requests or connections that the fault acted on.
func (f *Fault) Hits() int {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	return f.hits
}

// Hit returns a channel that is closed when the fault has first acted. If it acts on a request,
// the server has then executed the request, or will not.
func (f *Fault) Hit() <-chan struct{} { return f.hit }

// Remove ends the fault. A blackhole lets pass what it has held back. Further
// calls do nothing.
func (f *Fault) Remove() {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.removeLocked()
}

func (f *Fault) removeLocked() {
	if f.removed {
		return
	}
	f.removed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	fs := f.faults
	for _, list := range []*[]*Fault{&fs.requests, &fs.holes, &fs.refusals} {
		if i := slices.Index(*list, f); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
		}
	}
	fs.active.Store(int32(len(fs.requests)))
	for _, c := range inOrder(f.conns) {
		c.unmute()
	}
	f.conns = nil
}

// count counts a hit of a fault that is not a Fault.
func (fs *Faults) count(kind FaultKind) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.hits[kind]++
}

// countHit counts a hit, and reports whether it is the first: then hit is to be closed.
func (f *Fault) countHit() (first bool) {
	f.hits++
	f.faults.hits[f.kind]++
	return f.hits == 1
}

// strike counts a hit, and tells of it.
func (f *Fault) strike() {
	if f.countHit() {
		close(f.hit)
	}
}

// Clear removes all faults.
func (fs *Faults) Clear() {
	fs.srv.mu.Lock()
	for _, l := range slices.Clone(fs.srv.lags) {
		l.removeLocked()
	}
	fs.srv.mu.Unlock()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, list := range [][]*Fault{fs.requests, fs.holes, fs.refusals} {
		for _, f := range slices.Clone(list) {
			f.removeLocked()
		}
	}
	for _, b := range slices.Clone(fs.blocks) {
		b.removeLocked()
	}
}

// Hits returns how often faults of each kind have acted since the server
// started, so that a test can tell whether it has tested anything.
func (fs *Faults) Hits() map[FaultKind]int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	hits := maps.Clone(fs.hits)
	if n := fs.blockedRequests.Load(); n > 0 {
		hits[FaultBlockRequest] = int(n)
	}
	if n := fs.blockedReplies.Load(); n > 0 {
		hits[FaultBlockReply] = int(n)
	}
	return hits
}

// DropReply executes the requests that m selects and closes their connections
// instead of answering. Their clients cannot tell whether they were executed.
func (fs *Faults) DropReply(m Match) *Fault {
	return fs.onRequests(&Fault{kind: FaultDropReply, match: m})
}

// SwallowReply executes the requests that m selects and never answers them. The
// connection stays open, and pings and other requests are answered.
func (fs *Faults) SwallowReply(m Match) *Fault {
	return fs.onRequests(&Fault{kind: FaultSwallowReply, match: m})
}

// DropRequest closes the connections on which the requests that m selects
// arrive, and does not execute them. To a client this looks like DropReply.
func (fs *Faults) DropRequest(m Match) *Fault {
	return fs.onRequests(&Fault{kind: FaultDropRequest, match: m})
}

// SwallowRequest neither executes nor answers the requests that m selects. They
// do not keep their sessions alive. The connection stays open.
func (fs *Faults) SwallowRequest(m Match) *Fault {
	return fs.onRequests(&Fault{kind: FaultSwallowRequest, match: m})
}

// DelayReply executes the requests that m selects at once and sends the answers
// after d. Later answers and watch events on the same connection wait for them.
func (fs *Faults) DelayReply(m Match, d time.Duration) *Fault {
	return fs.onRequests(&Fault{kind: FaultDelayReply, match: m, delay: d})
}

// FailRequest answers the requests that m selects with an error code, and does
// not execute them. A handshake's answer has no code: OpConnect is not failed.
func (fs *Faults) FailRequest(m Match, code Code) *Fault {
	return fs.onRequests(&Fault{kind: FaultFailRequest, match: m, code: code})
}

// FailReply executes the requests that m selects, and answers them with an
// error code nevertheless. A real server does that with CodeMarshalling when it
// fails after the transaction.
func (fs *Faults) FailReply(m Match, code Code) *Fault {
	return fs.onRequests(&Fault{kind: FaultFailReply, match: m, code: code})
}

func (fs *Faults) onRequests(f *Fault) *Fault {
	f.match.mustSayHowMany()
	f.faults, f.hit = fs, make(chan struct{})
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.requests = append(fs.requests, f)
	fs.active.Store(int32(len(fs.requests)))
	return f
}

// A plan is what happens to one request.
type plan struct {
	dropRequest, swallowRequest bool
	dropReply, swallowReply     bool
	failRequest, failReply      Code // CodeOK: none
	delay                       time.Duration

	struck []*Fault // those that act for the first time
}

// done tells that the faults have acted.
func (p *plan) done() {
	for _, f := range p.struck {
		close(f.hit)
	}
}

// armed reports whether there are faults for plan to consult.
func (fs *Faults) armed() bool { return fs.active.Load() > 0 }

// plan collects what the faults do to a request. Every fault that selects the
// request counts it, whatever the others do.
func (fs *Faults) plan(session int64, op Op, paths []string) plan {
	var p plan
	if !fs.armed() {
		return p
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range slices.Clone(fs.requests) {
		if !f.match.selects(session, op, paths) {
			continue
		}
		f.seen++
		first, times := max(f.match.Nth, 1), f.match.Times
		if times == 0 {
			times = 1
		}
		if f.seen < first {
			continue
		}
		if f.countHit() {
			p.struck = append(p.struck, f)
		}
		if times > 0 && f.hits == times {
			f.removeLocked()
		}
		switch f.kind {
		case FaultDropRequest:
			p.dropRequest = true
		case FaultSwallowRequest:
			p.swallowRequest = true
		case FaultDropReply:
			p.dropReply = true
		case FaultSwallowReply:
			p.swallowReply = true
		case FaultDelayReply:
			p.delay += f.delay
		case FaultFailRequest:
			p.failRequest = f.code
		case FaultFailReply:
			p.failReply = f.code
		}
	}
	return p
}

// Cut closes the session's connection and reports whether it had one. What was
// queued for the client is lost.
func (fs *Faults) Cut(session int64) bool {
	s := fs.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.connections() {
		// A client that lags may still use a session that is no longer in
		// s.sessions.
		if c.session != nil && c.session.id == session {
			fs.cutLocked(c)
			return true
		}
	}
	return false
}

// CutAll closes every connection and returns how many there were.
func (fs *Faults) CutAll() int {
	s := fs.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.connections() {
		if !c.gone {
			n++
			fs.cutLocked(c)
		}
	}
	return n
}

// cutLocked cuts c. The caller holds service.mu.
func (fs *Faults) cutLocked(c *conn) {
	fs.srv.detach(c)
	c.abort()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.hits[FaultCut]++
}

// Blackhole silences a session's connection: it stays open, but nothing passes in
// either direction. Connections on which the client tries to resume the session
// fall silent too. The server does not notice, and the session expires in time.
// Removing the fault lets pass what was held back, except on connections that the
// client has closed meanwhile.
func (fs *Faults) Blackhole(session int64) *Fault {
	return fs.blackhole(&Fault{resuming: session}, func(c *conn) bool { return c.session != nil && c.session.id == session })
}

// BlackholeConnection is like Blackhole, but silences only the session's current
// connection. The client can resume the session on a new one.
func (fs *Faults) BlackholeConnection(session int64) *Fault {
	return fs.blackhole(&Fault{}, func(c *conn) bool { return c.session != nil && c.session.id == session })
}

// BlackholeNew accepts new connections and silences them, like a machine that
// hangs. Existing connections work on.
func (fs *Faults) BlackholeNew() *Fault {
	return fs.blackhole(&Fault{newConns: true}, func(*conn) bool { return false })
}

// BlackholeAll silences all existing and new connections.
func (fs *Faults) BlackholeAll() *Fault {
	return fs.blackhole(&Fault{newConns: true}, func(*conn) bool { return true })
}

// blackhole sets up f for the existing connections that into selects and the new
// ones that f's fields select. It holds service.mu, under which connections get
// their sessions, so that none slips through in between.
func (fs *Faults) blackhole(f *Fault, into func(*conn) bool) *Fault {
	f.faults, f.hit = fs, make(chan struct{})
	f.kind, f.conns = FaultBlackhole, make(map[*conn]struct{})
	s := fs.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.holes = append(fs.holes, f)
	for _, c := range s.connections() {
		if into(c) {
			f.swallow(c)
		}
	}
	return f
}

// swallow puts c into the blackhole f, once.
func (f *Fault) swallow(c *conn) {
	if _, in := f.conns[c]; !in {
		f.conns[c] = struct{}{}
		c.mute()
		f.strike()
	}
}

// Refuse refuses new connections: Dial fails, and TCP connections are reset as
// soon as they are made. Existing connections work on.
func (fs *Faults) Refuse() *Fault {
	f := &Fault{faults: fs, hit: make(chan struct{}), kind: FaultRefuse}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.refusals = append(fs.refusals, f)
	return f
}

// RefuseFor is like Refuse, and removes the fault after d.
func (fs *Faults) RefuseFor(d time.Duration) *Fault {
	f := fs.Refuse()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !f.removed { // Clear may have been called in between
		f.timer = time.AfterFunc(d, f.Remove)
	}
	return f
}

// admit reports whether the new connection c is accepted, and mutes it if it
// falls into a blackhole. The caller holds service.mu.
func (fs *Faults) admit(c *conn) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.refusals) > 0 {
		fs.refusals[0].strike()
		return false
	}
	for _, f := range fs.holes {
		if f.newConns {
			f.swallow(c)
		}
	}
	return true
}

// admitSession mutes c if its client wants to resume a session that is in a
// blackhole, and reports whether the handshake can proceed.
func (fs *Faults) admitSession(c *conn, session int64) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	free := true
	for _, f := range fs.holes {
		if session != 0 && f.resuming == session {
			f.swallow(c)
			free = false
		}
	}
	return free
}

// forget removes c, which has ended, from blackholes and Blocks.
func (fs *Faults) forget(c *conn) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.holes {
		delete(f.conns, c)
	}
	for _, b := range fs.blocks {
		delete(b.conns, c)
	}
}

// OnRequest makes the server call fn before it executes each request. A test can
// thus change the server's state exactly between two requests of a client. fn
// runs on the goroutine that serves the request's connection, which executes
// nothing else meanwhile, with none of the server's locks held. path is the first
// path in the request, if any; session is 0 in the handshake of a new session.
// Faults apply after fn has returned. A nil fn removes the hook. fn must not call
// Close.
func (s *Server) OnRequest(fn func(session int64, op Op, path string)) {
	if fn == nil {
		s.onRequest.Store(nil)
		return
	}
	s.onRequest.Store(&fn)
}
