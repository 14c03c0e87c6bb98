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

// A FaultKind names what a fault does, in FaultHits.
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

// A Match selects requests. Its zero value selects one: the next, of any kind
// but a ping.
type Match struct {
	// Op is the kind of request. Zero is any kind but OpPing and OpConnect,
	// which come at times of their own and must be asked for by name.
	Op Op
	// Path is a prefix of the path that the request names, or of one of the
	// paths, if it is a multi. Empty is any path, or none.
	Path string
	// Session is the session that sends the request; for OpConnect the one
	// that it asks for. Zero is any.
	Session int64
	// Nth is the first of the requests selected by the above that is acted
	// on, counted from 1. Zero is 1.
	Nth int
	// Times is how many of them are acted on from then on. Zero is 1;
	// negative is all, until the fault is removed.
	Times int
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
// safe for concurrent use, and take effect before they return: no request
// that is executed later escapes.
type Faults struct {
	srv    *Server
	active atomic.Int32 // number of request faults that can still act

	blockedRequests, blockedReplies atomic.Int64 // hits of all Blocks

	// mu protects the rest, the fields of every Fault included. It may be
	// taken while Server.mu is held; only a conn's mu is taken under it.
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

// A Fault is one fault that was set up.
type Fault struct {
	faults *Faults
	kind   FaultKind
	hit    chan struct{} // closed at the first hit

	// For requests.
	match Match
	delay time.Duration
	code  Code

	// For blackholes: which connections fall into it, besides those that are
	// in it already.
	newConns bool
	resuming int64 // those that ask for this session

	// Faults.mu protects these.
	seen    int // requests selected so far
	hits    int
	removed bool
	timer   *time.Timer // removes it; may be nil
	conns   map[*conn]struct{}
}

// Kind returns what the fault does.
func (f *Fault) Kind() FaultKind { return f.kind }

// Hits returns how many requests or connections the fault has acted on.
func (f *Fault) Hits() int {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	return f.hits
}

// Hit returns a channel that is closed when the fault acts for the first time.
func (f *Fault) Hit() <-chan struct{} { return f.hit }

// Remove ends the fault. A blackhole lets pass what it has held back. Removing
// a fault again does nothing.
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

func (f *Fault) countHit() {
	f.hits++
	f.faults.hits[f.kind]++
	if f.hits == 1 {
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
// started. A test whose faults never act has shown nothing.
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

// DropReply lets the requests that m selects be executed, and closes their
// connections instead of answering. It is what a lost reply looks like to a
// client: it cannot tell whether the request was executed.
func (fs *Faults) DropReply(m Match) *Fault {
	return fs.onRequests(&Fault{kind: FaultDropReply, match: m})
}

// SwallowReply lets the requests that m selects be executed and never answers
// them. The connection stays, and later requests are answered.
func (fs *Faults) SwallowReply(m Match) *Fault {
	return fs.onRequests(&Fault{kind: FaultSwallowReply, match: m})
}

// DropRequest closes the connection on which a request that m selects arrives,
// and does not execute it. To the client this looks the same as DropReply.
func (fs *Faults) DropRequest(m Match) *Fault {
	return fs.onRequests(&Fault{kind: FaultDropRequest, match: m})
}

// SwallowRequest neither executes nor answers the requests that m selects.
// They do not count as a sign of life of their session. The connection stays.
func (fs *Faults) SwallowRequest(m Match) *Fault {
	return fs.onRequests(&Fault{kind: FaultSwallowRequest, match: m})
}

// DelayReply executes the requests that m selects at once, and sends the
// answers d later. What follows on the same connection, watch events too,
// waits behind them.
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
	f.faults, f.hit = fs, make(chan struct{})
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.requests = append(fs.requests, f)
	fs.active.Store(int32(len(fs.requests)))
	return f
}

// A plan is what is to happen to one request.
type plan struct {
	dropRequest, swallowRequest bool
	dropReply, swallowReply     bool
	failRequest, failReply      Code // CodeOK: do not
	delay                       time.Duration
}

// armed reports whether plan has to be asked at all.
func (fs *Faults) armed() bool { return fs.active.Load() > 0 }

// plan collects what the faults do to a request. Every fault that selects it
// counts it, whatever the others do.
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
		f.countHit()
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

// Cut closes the connection that the session is attached to, and reports
// whether there was one. What was queued for the client is lost.
func (fs *Faults) Cut(session int64) bool {
	s := fs.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.connections() {
		// Not by way of s.sessions: a client that lags may not know that its
		// session is over.
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

// cutLocked cuts c. The caller holds Server.mu.
func (fs *Faults) cutLocked(c *conn) {
	fs.srv.detach(c)
	c.abort()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.hits[FaultCut]++
}

// Blackhole cuts a session's client off in silence: its connection stays open,
// but nothing passes in either direction, and a connection on which it tries
// to resume the session falls silent too. The server does not notice; the
// session expires if that lasts. When the fault is removed what was held back
// passes, unless the client has closed the connection meanwhile.
func (fs *Faults) Blackhole(session int64) *Fault {
	return fs.blackhole(&Fault{resuming: session}, func(c *conn) bool { return c.session != nil && c.session.id == session })
}

// BlackholeConnection is Blackhole for the session's present connection only:
// on a new one the client can go on.
func (fs *Faults) BlackholeConnection(session int64) *Fault {
	return fs.blackhole(&Fault{}, func(c *conn) bool { return c.session != nil && c.session.id == session })
}

// BlackholeNew accepts new connections and leaves them in silence, as a
// machine does that hangs. The present ones go on.
func (fs *Faults) BlackholeNew() *Fault {
	return fs.blackhole(&Fault{newConns: true}, func(*conn) bool { return false })
}

// BlackholeAll is a Blackhole for all present and new connections.
func (fs *Faults) BlackholeAll() *Fault {
	return fs.blackhole(&Fault{newConns: true}, func(*conn) bool { return true })
}

// blackhole sets up f for the present connections that into selects, and for
// the new ones that f's fields select. It holds Server.mu, under which
// connections get their sessions, so that none slips through between the two.
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
		f.countHit()
	}
}

// Refuse refuses new connections until it is removed: Dial fails, and over TCP
// a connection is reset as soon as it is made. The present ones go on.
func (fs *Faults) Refuse() *Fault {
	f := &Fault{faults: fs, hit: make(chan struct{}), kind: FaultRefuse}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.refusals = append(fs.refusals, f)
	return f
}

// RefuseFor is Refuse for the time d.
func (fs *Faults) RefuseFor(d time.Duration) *Fault {
	f := fs.Refuse()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !f.removed { // by Clear, in between
		f.timer = time.AfterFunc(d, f.Remove)
	}
	return f
}

// admit reports whether the new connection c is not refused, and mutes it if
// it falls into a blackhole. The caller holds Server.mu.
func (fs *Faults) admit(c *conn) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.refusals) > 0 {
		fs.refusals[0].countHit()
		return false
	}
	for _, f := range fs.holes {
		if f.newConns {
			f.swallow(c)
		}
	}
	return true
}

// admitSession mutes c if it asks for a session that is in a blackhole, and
// reports whether it is free to go on.
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

// forget drops c, which has ended, from the blackholes.
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

// OnRequest has fn called before each request is executed, on the server's
// goroutine of the request's connection, without any lock of the server held:
// a test can change the server's state exactly between two requests of a
// client. While fn runs nothing else of that connection is executed. path is
// the first path that the request names, if any; session is 0 for the
// handshake of a new session. The faults look at a request after fn has
// returned. A nil fn removes the hook. fn must not call Close.
func (s *Server) OnRequest(fn func(session int64, op Op, path string)) {
	if fn == nil {
		s.onRequest.Store(nil)
		return
	}
	s.onRequest.Store(&fn)
}
