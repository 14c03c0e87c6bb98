// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	c.lag = s.lagOf(req.session, c.address())
	if last := c.view().tree.zxid; req.lastZxid > last {
		// The client has seen later transactions, of another server or of a
		// follower's leader. It gets no answer.
		return fmt.Errorf("client has seen zxid %s, the last one here is %s", hex(req.lastZxid), hex(last))
	}
	timeout := s.cfg.negotiate(req.timeout)
	sess := s.sessions[req.session]
	if sess != nil && sess.conn != nil {
		// The session moves to this connection. As in the real server, this
		// happens before the password is checked.
		old := sess.conn
		s.detach(old)
		old.finish()
	}
	switch {
	case req.session == 0:
		sess = s.openSession(timeout)
		s.catchUp(c) // to the beginning of the session
	case sess != nil && bytes.Equal(req.password, s.password(sess.id)):
		sess.timeout = timeout
		s.touch(sess)
	default:
		sess = nil
	}

	b := make([]byte, 4, 4+4+4+8+4+passwordLen+1)
	b = jute.AppendInt32(b, 0) // protocol version
	if sess == nil {
		b = jute.AppendInt32(b, 0)
		b = jute.AppendInt64(b, 0)
		b = jute.AppendBuffer(b, make([]byte, passwordLen))
	} else {
		sess.conn, c.session, c.sid = c, sess, sess.id
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
		return nil
	}
	s.faults.blockSession(c, sess.id) // from here on; the answer passes
	return nil
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
	if c.session == nil {
		return nil // the server is done with the connection
	}
	s.requests[req.op]++
	s.received++
	switch req.op {
	case OpAuth:
		return s.auth(c, req, plan)
	case OpSASL:
		return s.sasl(c, req, plan)
	}
	if c.session.over {
		// The client does not know, because its view lags. A request that
		// needs the lead brings the view up to date, which ends the connection.
		if req.op.writes() || req.op == OpSync {
			s.catchUp(c)
			return nil
		}
	} else {
		s.touch(c.session)
	}
	if plan.failRequest != CodeOK {
		s.reply(c, newReply().frame(req.xid, c.view().tree.zxid, plan.failRequest), plan)
		return nil
	}
	answer, last := s.execute(c, req)
	if answer != nil {
		if plan.failReply != CodeOK {
			answer = newReply().frame(req.xid, c.view().tree.zxid, plan.failReply)
		}
		s.reply(c, answer, plan)
	}
	if last {
		s.detach(c)
		c.finish()
	}
	return nil
}

// prepare calls the test's hook and determines what faults do to the request. It
// runs on the connection's reader, without Server.mu.
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

// execute executes a request and returns the answer, if any, and whether it is
// the last on the connection. The caller holds s.mu.
func (s *Server) execute(c *conn, req request) (answer []byte, last bool) {
	out := newReply()
	if req.op == OpClose {
		s.endSession(c.session, true)
		s.catchUp(c)
		return out.frame(req.xid, c.view().tree.zxid, CodeOK), true
	}
	var err Code
	r := jute.NewReader(req.body)
	switch {
	case req.op == OpReconfig && !wellFormedReconfig(req.body):
		err = CodeMarshalling // before it takes a zxid, unlike other transactions
	case req.op.writes():
		// It uses up a zxid whether it succeeds or not.
		tx := s.begin(c.who, c.sid)
		err = s.write(tx, req.op, r, out)
		s.commit(tx)
		s.catchUp(c) // a client sees its own writes
		if req.op == OpCheck && err == CodeOK {
			return nil, false // outside of a multi the real server does not answer it
		}
	default:
		err = s.read(c, req.op, r, out)
		last = err == CodeUnimplemented
		c.lag.count(req.op)
	}
	if last {
		return out.frame(req.xid, -1, err), true
	}
	return out.frame(req.xid, c.view().tree.zxid, err), false
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
