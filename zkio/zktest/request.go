// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// handshake reads and answers the first frame of a connection.
func (c *conn) handshake() error {
	s := c.srv
	for {
		frame, err := c.next()
		if errors.Is(err, errFrame) {
			if answer, ok := s.fourLetters(c.in.pending(12)); ok {
				c.send([]byte(answer))
				c.finish()
				return io.EOF
			}
		}
		if err != nil {
			return err
		}
		r := jute.NewReader(frame)
		_ = r.Int32() // protocol version
		req := connectRequest{
			lastZxid: r.Int64(),
			timeout:  time.Duration(r.Int32()) * time.Millisecond,
			session:  r.Int64(),
			password: r.Buffer(),
		}
		if err := r.Err(); err != nil {
			return fmt.Errorf("connect request: %w", err)
		}
		// Clients before 3.4 neither send this byte nor expect it in the answer.
		req.withReadOnly = r.Len() > 0
		if s.faults.admitSession(c, req.session) {
			return s.connect(c, req)
		}
		// The session is in a blackhole, and now so is this connection. The
		// frame waits, as will those that follow it.
		c.putBack(frame)
	}
}

type connectRequest struct {
	lastZxid     int64
	timeout      time.Duration
	session      int64 // the session to resume; 0: open a new one
	password     []byte
	withReadOnly bool
}

// connect opens or resumes a session.
func (s *Server) connect(c *conn, req connectRequest) error {
	plan := s.prepare(c, OpConnect, req.session, nil)
	defer plan.done()
	if plan.dropRequest {
		return s.cutOff(c)
	}
	if plan.swallowRequest {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return nil
	}
	s.requests[OpConnect]++
	s.received++
	if s.role == looking {
		return errNotServing
	}
	c.lag = s.lagOf(req.session)
	if last := c.view().tree.zxid; req.lastZxid > last {
		// The client has seen later transactions, of another server or of a
		// follower's leader. It gets no answer.
		return fmt.Errorf("client has seen zxid %s, the last one here is %s", hex(req.lastZxid), hex(last))
	}
	timeout := s.cfg.negotiate(req.timeout)
	if sess := s.sessions[req.session]; sess != nil {
		// The session moves to this connection. As in the real server, this
		// happens before the password is checked. Another server notices when
		// the client makes a request there that takes the leader.
		for _, old := range slices.Clone(sess.conns) {
			if old.srv == s {
				s.detach(old)
				old.finish()
			}
		}
	}
	switch {
	case req.session == 0, s.cfg.Quirks.NoResume:
		s.toLeader(func(l *Server) {
			l.propose(nil, func() *txn {
				sess, tx := s.openSession(timeout)
				tx.by, tx.answer = s, func() {
					s.catchUp(c) // to the beginning of the session
					s.welcome(c, req, sess, timeout, plan)
				}
				return tx
			})
		})
	case bytes.Equal(req.password, s.password(req.session)): // only the leader knows whether it is over
		s.toLeader(func(l *Server) {
			sess := s.sessions[req.session]
			if sess != nil && sess.closing {
				sess = nil
			}
			if sess != nil {
				sess.timeout, sess.owner = timeout, s
				l.hear(sess)
			}
			s.fromLeader(func() { s.welcome(c, req, sess, timeout, plan) })
		})
	default:
		s.welcome(c, req, nil, timeout, plan)
	}
	if c.session == nil && !c.gone { // the answer comes from the leader, and what follows waits
		c.busy = true
		c.mute()
	}
	return nil
}

// errNotServing ends the connection of a client whose server has no leader.
var errNotServing = errors.New("this server is not serving requests: it has no leader")

// welcome answers a connect request with a session, or without one. The caller holds s.mu.
func (s *Server) welcome(c *conn, req connectRequest, sess *session, timeout time.Duration, plan plan) {
	if c.gone {
		return
	}
	if c.busy {
		c.busy = false
		c.unmute()
	}
	b := make([]byte, 4, 4+4+4+8+4+passwordLen+1)
	version, over, id := s.cfg.Quirks.refusal(req)
	if sess != nil {
		version = 0
	}
	b = jute.AppendInt32(b, version)
	if sess == nil {
		b = jute.AppendInt32(b, over)
		b = jute.AppendInt64(b, id)
		b = jute.AppendBuffer(b, make([]byte, passwordLen))
	} else {
		sess.conns, c.session, c.sid = append(sess.conns, c), sess, sess.id
		// If a blackhole was set up since the handshake began, the answer
		// falls into it.
		_ = s.faults.admitSession(c, sess.id)
		b = jute.AppendInt32(b, int32(timeout.Milliseconds()))
		b = jute.AppendInt64(b, sess.id)
		b = jute.AppendBuffer(b, s.password(sess.id))
	}
	if req.withReadOnly {
		b = jute.AppendBool(b, false)
	}
	s.reply(c, jute.Frame(b), plan)
	if sess == nil {
		s.detach(c)
		c.finish()
		return
	}
	s.faults.blockSession(c, sess.id) // from here on; the answer passes
}

// A request is one frame from a client, with its header decoded.
type request struct {
	xid  int32
	op   Op
	body []byte
}

// handle executes one request. An error ends the connection.
func (s *Server) handle(c *conn, frame []byte) error {
	r := jute.NewReader(frame)
	req := request{xid: r.Int32(), op: Op(r.Int32()), body: r.Rest()}
	if err := r.Err(); err != nil {
		return fmt.Errorf("request header: %w", err)
	}
	plan := s.prepare(c, req.op, c.sid, req.body)
	defer plan.done() // without mu
	if plan.dropRequest {
		return s.cutOff(c)
	}
	if plan.swallowRequest {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return nil
	}
	if c.session != nil && !slices.Contains(s.cfg.Quirks.Deaf, req.op) && req.op != OpAuth && req.op != OpSASL {
		s.hear(c.session)
	}
	if q := s.line(c.session); q != nil {
		req.body = bytes.Clone(req.body)
		q.waiting = append(q.waiting, planned{c, req, plan})
		return nil
	}
	return s.serveRequest(c, req, plan)
}

// A line is the requests of a session that wait, at one server, for the answer of the leader to
// an earlier one. That one may have come by an earlier connection: it is executed all the same, and
// what the client then asks on its next one does not overtake it.
type line struct{ waiting []planned }

// line returns the line that a request of a session joins at s; nil if it need not wait. A leader
// knows what the session has asked for at other servers, and keeps the order.
func (s *Server) line(sess *session) *line {
	if q := s.lines[sess]; q != nil || sess == nil || s.role != leading {
		return q
	}
	p := s.lastOf(sess)
	if p == nil {
		return nil
	}
	q := &line{}
	s.lines[sess] = q
	p.then = append(p.then, func() { s.goOn(sess, q) })
	return q
}

type planned struct {
	c    *conn
	req  request
	plan plan
}

// goOn ends a session's wait for the leader, and serves the requests in the line q that has formed
// behind that.
func (s *Server) goOn(sess *session, q *line) {
	if q == nil || s.lines[sess] != q {
		return // none had to wait, or the server has left that leader
	}
	delete(s.lines, sess)
	for i, next := range q.waiting {
		if next.c.gone {
			continue // as if it had not arrived
		}
		if err := s.serveRequest(next.c, next.req, next.plan); err != nil {
			s.detach(next.c)
			next.c.abort()
		}
		if again := s.lines[sess]; again != nil {
			again.waiting = append(again.waiting, q.waiting[i+1:]...)
			return
		}
	}
}

// serveRequest answers a request, or has the leader do it. An error ends the connection. The
// caller holds s.mu.
func (s *Server) serveRequest(c *conn, req request, plan plan) error {
	s.requests[req.op]++
	s.received++
	switch req.op {
	case OpAuth:
		return s.auth(c, req, plan)
	case OpSASL:
		return s.sasl(c, req, plan)
	}
	if is, err := s.unknown(c, req, plan); is {
		return err
	}
	switch {
	case plan.failRequest != CodeOK:
		s.reply(c, newReply().frame(req.xid, c.view().tree.zxid, plan.failRequest), plan)
	case req.op == OpReconfig && !wellFormedReconfig(req.body):
		s.answer(c, req, plan, newReply(), CodeMarshalling) // before it takes a zxid, unlike other transactions
	case req.op.writes(), req.op == OpClose, req.op == OpSync:
		s.askLeader(c, req, plan)
	default:
		out := newReply()
		code := s.read(c, req.op, jute.NewReader(req.body), out)
		c.lag.count(req.op)
		s.answer(c, req, plan, out, code)
	}
	return nil
}

// askLeader has the leader execute a request of c. Those of the session that follow wait.
func (s *Server) askLeader(c *conn, req request, plan plan) {
	sess, done := c.session, false
	var q *line // behind this request; nil: the leader answers at once
	if len(s.servers) > 1 {
		req.body = bytes.Clone(req.body) // it is kept
	}
	answered := func(out *reply, code Code) {
		done = true
		if !c.gone {
			s.catchUp(c) // a client sees its own writes
		}
		if !c.gone {
			s.answer(c, req, plan, out, code)
		}
		s.goOn(sess, q)
	}
	synced := func() {
		out := newReply()
		path, code := readPath(jute.NewReader(req.body))
		if code == CodeOK {
			out.b = jute.AppendString(out.b, path)
		}
		answered(out, code)
	}
	s.toLeader(func(l *Server) {
		switch {
		case sess.over:
			// The client does not know, because its view lags. Now it catches up,
			// which ends the connection.
			s.fromLeader(func() { s.catchUp(c) })
		case sess.owner != s: // it has moved
			s.fromLeader(func() {
				done = true
				if !c.gone {
					s.detach(c)
					c.finish()
				}
				s.goOn(sess, q)
			})
		case req.op == OpSync && l == s: // a leader asks no follower for a client of its own
			synced()
		case req.op == OpSync:
			l.whenSettled(func() { s.fromLeader(synced) })
		default:
			l.propose(sess, func() *txn {
				if sess.over {
					return nil
				}
				out, code := newReply(), CodeOK
				var tx *txn
				if req.op == OpClose {
					sess.leave(c) // this connection ends with the answer
					tx = s.endSession(sess)
				} else { // it uses up a zxid whether it succeeds or not
					tx = s.begin(c.who, sess.id)
					code = s.write(tx, req.op, jute.NewReader(req.body), out)
				}
				tx.by, tx.answer = s, func() { answered(out, code) }
				return tx
			})
		}
	})
	if !done {
		q = &line{}
		s.lines[sess] = q
	}
}

// prepare calls the test's hook and determines what faults do to the request. It
// runs on the connection's reader, without service.mu.
func (s *Server) prepare(c *conn, op Op, session int64, body []byte) plan {
	hook := s.onRequest.Load()
	if hook == nil && !s.faults.armed() {
		return plan{}
	}
	s.mu.Lock()
	gone := c.gone
	s.mu.Unlock()
	if gone {
		return plan{}
	}
	paths := pathsOf(op, body)
	if hook != nil {
		first := ""
		if len(paths) > 0 {
			first = paths[0]
		}
		(*hook)(session, op, first)
	}
	return s.faults.plan(session, op, paths)
}

// reply queues an answer, unless plan says otherwise.
func (s *Server) reply(c *conn, frame []byte, plan plan) {
	switch {
	case plan.dropReply:
		// The client gets what was queued before, and then EOF.
		s.detach(c)
		c.finish()
	case plan.swallowReply:
	default:
		c.sendAfter(frame, plan.delay)
	}
}

// cutOff ends a connection instead of executing a request.
func (s *Server) cutOff(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach(c)
	c.finish()
	return nil
}

// auth adds an id to those of the connection, or closes the connection.
func (s *Server) auth(c *conn, req request, plan plan) error {
	r := jute.NewReader(req.body)
	_ = r.Int32() // unused
	scheme, data := r.String(), r.Buffer()
	var err Code
	switch {
	case r.Err() != nil:
		err = CodeAuthFailed
	case scheme == "digest":
		who := digestID(string(data))
		c.identify(who)
		if who.name == s.cfg.SuperDigest {
			c.identify(superUser)
		}
	case scheme == "ip": // the connection has proved it
	default:
		err = CodeAuthFailed
	}
	s.reply(c, newReply().frame(req.xid, 0, err), plan)
	if err != CodeOK {
		s.detach(c)
		c.finish()
		return fmt.Errorf("authentication by scheme %q: %w", scheme, err)
	}
	return nil
}

// sasl answers as a server does that is not configured for it.
func (s *Server) sasl(c *conn, req request, plan plan) error {
	r := jute.NewReader(req.body)
	_ = r.Buffer() // the client's token
	if r.Err() != nil {
		return fmt.Errorf("SASL: %w", r.Err())
	}
	out := newReply()
	out.b = jute.AppendBuffer(out.b, nil)
	s.reply(c, out.frame(req.xid, 0, CodeOK), plan)
	return nil
}

// A reply is an answer under construction: room for the header, then the body.
type reply struct{ b []byte }

const replyHeader = 4 + 4 + 8 + 4 // length, xid, zxid, error

func newReply() *reply { return &reply{make([]byte, replyHeader, 128)} }

// frame fills in the header. An answer with an error code has no body.
func (a *reply) frame(xid int32, zxid int64, err Code) []byte {
	if err != CodeOK {
		a.b = a.b[:replyHeader]
	}
	binary.BigEndian.PutUint32(a.b[4:], uint32(xid))
	binary.BigEndian.PutUint64(a.b[8:], uint64(zxid))
	binary.BigEndian.PutUint32(a.b[16:], uint32(err))
	return jute.Frame(a.b)
}

// answer answers a request, unless plan or the protocol says otherwise.
func (s *Server) answer(c *conn, req request, plan plan, out *reply, code Code) {
	zxid := c.view().tree.zxid
	last := req.op == OpClose
	if code == CodeUnimplemented && !req.op.writes() {
		zxid, last = -1, true
	}
	switch {
	case req.op == OpCheck && code == CodeOK:
		// Outside of a multi the real server does not answer it.
	case plan.failReply != CodeOK:
		s.reply(c, newReply().frame(req.xid, c.view().tree.zxid, plan.failReply), plan)
	default:
		s.reply(c, out.frame(req.xid, zxid, code), plan)
	}
	if last {
		s.detach(c)
		c.finish()
	}
}

// pathsOf returns the paths in a request, for hooks and faults. Those of a multi
// are the paths of its operations. A malformed request has none.
func pathsOf(op Op, body []byte) []string {
	r := jute.NewReader(body)
	switch op {
	case OpConnect, OpClose, OpPing, OpAuth, OpSetWatches, OpSetWatches2, OpWhoAmI, OpReconfig, OpSASL:
		return nil
	case OpMulti, OpMultiRead:
		allowed := multiOps
		if op == OpMultiRead {
			allowed = []Op{OpGetData, OpGetChildren}
		}
		changes, err := readMulti(r, allowed...)
		if err != CodeOK {
			return nil
		}
		var paths []string
		for _, ch := range changes {
			paths = append(paths, ch.path)
		}
		return paths
	}
	path := r.String()
	if r.Err() != nil {
		return nil
	}
	return []string{path}
}
