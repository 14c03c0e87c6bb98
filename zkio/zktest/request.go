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
			if answer, ok := s.fourLetters(string(c.in.pending(4))); ok {
				c.send([]byte(answer))
				c.finish()
				return io.EOF
			}
		}
		if err != nil {
			return err
		}
		r := jute.NewReader(frame)
		_ = r.Int32() // the protocol's version
		req := connectRequest{
			lastZxid: r.Int64(),
			timeout:  time.Duration(r.Int32()) * time.Millisecond,
			session:  r.Int64(),
			password: r.Buffer(),
		}
		if err := r.Err(); err != nil {
			return fmt.Errorf("connect request: %w", err)
		}
		// Clients older than 3.4 do not send this byte, nor expect it back.
		req.withReadOnly = r.Len() > 0
		if s.faults.admitSession(c, req.session) {
			return s.connect(c, req)
		}
		// The session is in a blackhole: so is this connection, now that its
		// session is known. The frame waits with whatever follows it.
		c.putBack(frame)
	}
}

type connectRequest struct {
	lastZxid     int64
	timeout      time.Duration
	session      int64 // 0: a new one
	password     []byte
	withReadOnly bool
}

// connect opens or resumes a session.
func (s *Server) connect(c *conn, req connectRequest) error {
	plan := s.prepare(c, OpConnect, req.session, nil)
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
	c.lag = s.lagOf(req.session, c.address())
	if last := c.view().tree.zxid; req.lastZxid > last {
		// Its client has seen the future: of another server, or of this one
		// before it lost its memory. It gets no answer.
		return fmt.Errorf("client has seen zxid %s, the last one here is %s", hex(req.lastZxid), hex(last))
	}
	timeout := s.cfg.negotiate(req.timeout)
	sess := s.sessions[req.session]
	if sess != nil && sess.conn != nil {
		// The session has moved. As in the real server this comes before the
		// password is looked at.
		old := sess.conn
		s.detach(old)
		old.finish()
	}
	switch {
	case req.session == 0:
		sess = s.openSession(timeout)
		s.catchUp(c) // to the session's beginning
	case sess != nil && bytes.Equal(req.password, s.password(sess.id)):
		sess.timeout = timeout
		s.touch(sess)
	default:
		sess = nil
	}

	b := make([]byte, 4, 4+4+4+8+4+passwordLen+1)
	b = jute.AppendInt32(b, 0) // the protocol's version
	if sess == nil {
		b = jute.AppendInt32(b, 0)
		b = jute.AppendInt64(b, 0)
		b = jute.AppendBuffer(b, make([]byte, passwordLen))
	} else {
		sess.conn, c.session, c.sid = c, sess, sess.id
		// A blackhole that was dug since the handshake began: the answer
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
	s.faults.blockSession(c, sess.id) // what follows, not the answer
	return nil
}

// A request is one frame from a client, its header read.
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
	if plan.dropRequest {
		return s.cutOff(c)
	}
	if plan.swallowRequest {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.session == nil {
		return nil // the server has parted with the connection: too late
	}
	s.requests[req.op]++
	if req.op == OpAuth {
		return s.auth(c, req, plan)
	}
	if c.session.over {
		// The client does not know, because its view lags. What has to go by
		// the lead brings that up to date, and so ends the connection.
		if req.op.writes() || req.op == OpSync {
			s.catchUp(c)
			return nil
		}
	} else {
		s.touch(c.session)
	}
	answer, last := s.execute(c, req)
	if answer != nil {
		s.reply(c, answer, plan)
	}
	if last {
		s.detach(c)
		c.finish()
	}
	return nil
}

// prepare calls the test's hook and asks the faults what is to happen to a
// request. It runs on the connection's reader, without Server.mu.
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

// reply queues an answer, or does with it what plan says.
func (s *Server) reply(c *conn, frame []byte, plan plan) {
	switch {
	case plan.dropReply:
		// The client gets what was on its way before, then the end.
		s.detach(c)
		c.finish()
	case plan.swallowReply:
	default:
		c.sendAfter(frame, plan.delay)
	}
}

// cutOff ends a connection before a request of it is executed.
func (s *Server) cutOff(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach(c)
	c.finish()
	return nil
}

// auth adds an identity to the connection, or closes it.
func (s *Server) auth(c *conn, req request, plan plan) error {
	r := jute.NewReader(req.body)
	_ = r.Int32() // unused by every server
	scheme, data := r.String(), r.Buffer()
	var err Code
	switch {
	case r.Err() != nil:
		err = CodeAuthFailed
	case scheme == "digest":
		who := digestID(string(data))
		known := false
		for _, w := range c.who {
			known = known || w == who
		}
		if !known {
			c.who = append(c.who[:len(c.who):len(c.who)], who)
		}
	case scheme == "ip": // proved by the connection itself
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

// A reply is an answer in the making: room for the header, then the body.
type reply struct{ b []byte }

const replyHeader = 4 + 4 + 8 + 4 // length, xid, zxid, error

func newReply() *reply { return &reply{make([]byte, replyHeader, 128)} }

// frame fills in the header. An answer that tells of an error has no body.
func (a *reply) frame(xid int32, zxid int64, err Code) []byte {
	if err != CodeOK {
		a.b = a.b[:replyHeader]
	}
	binary.BigEndian.PutUint32(a.b[4:], uint32(xid))
	binary.BigEndian.PutUint64(a.b[8:], uint64(zxid))
	binary.BigEndian.PutUint32(a.b[16:], uint32(err))
	return jute.Frame(a.b)
}

// execute executes a request of a live session and returns the answer, if any,
// and whether it is the connection's last. The caller holds s.mu.
func (s *Server) execute(c *conn, req request) (answer []byte, last bool) {
	out := newReply()
	if req.op == OpClose {
		s.endSession(c.session, true)
		s.catchUp(c)
		return out.frame(req.xid, c.view().tree.zxid, CodeOK), true
	}
	var err Code
	r := jute.NewReader(req.body)
	if req.op.writes() {
		// It takes a zxid whatever becomes of it.
		tx := s.begin(c.who, c.sid)
		err = s.write(tx, req.op, r, out)
		s.commit(tx)
		s.catchUp(c) // to this transaction: a client sees what it has done
		if req.op == OpCheck && err == CodeOK {
			return nil, false // meant for a multi; alone the real server has no answer to it
		}
	} else {
		err = s.read(c, req.op, r, out)
		last = err == CodeUnimplemented
		c.lag.count(req.op)
	}
	if last {
		return out.frame(req.xid, -1, err), true
	}
	return out.frame(req.xid, c.view().tree.zxid, err), false
}

// write executes a transaction and appends its answer's body to out.
func (s *Server) write(tx *txn, op Op, r *jute.Reader, out *reply) Code {
	if op == OpMulti {
		return s.multi(tx, r, out)
	}
	if op == OpDeleteContainer {
		return CodeBadArguments // the server's own request; no client knows its form
	}
	ch, err := readChange(op, r)
	if err != CodeOK {
		return err
	}
	res := tx.apply(ch)
	if res.err != CodeOK {
		return res.err
	}
	switch op {
	case OpCreate:
		out.b = jute.AppendString(out.b, res.path)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		out.b = jute.AppendString(out.b, res.path)
		out.b = res.stat.append(out.b)
	case OpSetData, OpSetACL:
		out.b = res.stat.append(out.b)
	}
	return CodeOK
}

// A change is one change that a client asks for, alone or within a multi.
type change struct {
	op      Op
	path    string
	data    []byte
	acl     []aclEntry
	flags   int32
	ttl     int64 // milliseconds; of OpCreateTTL only
	version int32
}

// readPath reads the path of a request. The null string is none.
func readPath(r *jute.Reader) (string, Code) {
	null, path := r.Null(), r.String()
	if null || r.Err() != nil {
		return "", CodeMarshalling
	}
	return path, CodeOK
}

// readChange decodes the body of a request that changes something.
func readChange(op Op, r *jute.Reader) (change, Code) {
	path, err := readPath(r)
	if err != CodeOK && r.Err() == nil && (op == OpSetData || op == OpSetACL || op == OpCheck) {
		err = CodeOK // these take the null path for one that is no good
	}
	ch := change{op: op, path: path}
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		ch.data = bytes.Clone(r.Buffer())
		ch.acl = readACL(r)
		ch.flags = r.Int32()
		if op == OpCreateTTL {
			ch.ttl = r.Int64()
		}
	case OpSetData:
		ch.data = bytes.Clone(r.Buffer())
		ch.version = r.Int32()
	case OpSetACL:
		ch.acl = readACL(r)
		ch.version = r.Int32()
	case OpDelete, OpCheck:
		ch.version = r.Int32()
	}
	if r.Err() != nil {
		err = CodeMarshalling
	}
	return ch, err
}

func readACL(r *jute.Reader) []aclEntry {
	acl := make([]aclEntry, r.Count(12))
	for i := range acl {
		acl[i] = aclEntry{r.Int32(), id{r.String(), r.String()}}
	}
	return acl
}

func appendACL(b []byte, acl []aclEntry) []byte {
	b = jute.AppendInt32(b, int32(len(acl)))
	for _, e := range acl {
		b = jute.AppendInt32(b, e.perms)
		b = jute.AppendString(b, e.id.scheme)
		b = jute.AppendString(b, e.id.name)
	}
	return b
}

// An outcome is what became of a change.
type outcome struct {
	err  Code
	path string // of a created node
	stat Stat   // of a node that was created or set
}

// apply makes the change ch in tx, or refuses it.
func (tx *txn) apply(ch change) outcome {
	var res outcome
	switch ch.op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		var n *znode
		if n, res.err = tx.create(ch); n != nil {
			res.path, res.stat = n.path, n.stat()
		}
	case OpDelete:
		res.err = tx.delete(ch.path, ch.version)
	case OpSetData:
		res.stat, res.err = tx.setData(ch.path, ch.data, ch.version)
	case OpSetACL:
		res.stat, res.err = tx.setACL(ch.path, ch.acl, ch.version)
	case OpCheck:
		res.err = tx.check(ch.path, ch.version)
	default:
		res.err = CodeUnimplemented
	}
	return res
}

// read executes a request that changes no data and appends its answer's body
// to out.
func (s *Server) read(c *conn, op Op, r *jute.Reader, out *reply) Code {
	v := c.view()
	switch op {
	case OpPing:
		return CodeOK
	case OpSync:
		path, err := readPath(r)
		if err != CodeOK {
			return err
		}
		s.catchUp(c)
		out.b = jute.AppendString(out.b, path)
		return CodeOK
	case OpSetWatches:
		return v.setWatches(c, r)
	case OpGetACL:
		return v.getACL(c, r, out)
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
	default:
		return CodeUnimplemented
	}
	path, err := readPath(r)
	watch := r.Bool()
	if err != CodeOK || r.Err() != nil {
		return CodeMarshalling
	}
	n := v.tree.node(path)
	if op == OpExists {
		if bytes.IndexByte([]byte(path), 0) >= 0 {
			return CodeBadArguments
		}
		if watch {
			// It stays if the node is missing; to wait for its creation is
			// what one asks for existence for.
			v.watches.add(c, path, watchData)
		}
		if n == nil {
			return CodeNoNode
		}
		out.b = n.stat().append(out.b)
		return CodeOK
	}
	if n == nil {
		return CodeNoNode // and no watch is left
	}
	if !allows(n.acl, c.who, permRead) {
		return CodeNoAuth
	}
	switch op {
	case OpGetData:
		if watch {
			v.watches.add(c, path, watchData)
		}
		out.b = jute.AppendBuffer(out.b, n.data)
		out.b = n.stat().append(out.b)
	case OpGetChildren, OpGetChildren2:
		if watch {
			v.watches.add(c, path, watchChild)
		}
		out.b = jute.AppendStrings(out.b, n.names())
		if op == OpGetChildren2 {
			out.b = n.stat().append(out.b)
		}
	}
	return CodeOK
}

// getACL shows a node's ACL to those who may read or administer it.
func (v *view) getACL(c *conn, r *jute.Reader, out *reply) Code {
	path, err := readPath(r)
	if err != CodeOK {
		return err
	}
	n := v.tree.node(path)
	if n == nil {
		return CodeNoNode
	}
	if !allows(n.acl, c.who, permRead|permAdmin) {
		return CodeNoAuth
	}
	acl := n.acl
	if !allows(n.acl, c.who, permAdmin) {
		acl = masked(acl)
	}
	out.b = appendACL(out.b, acl)
	out.b = n.stat().append(out.b)
	return CodeOK
}

// setWatches sets the watches that a client had on another connection. What
// would have fired since relativeZxid, the last transaction that the client
// knows of, is told at once instead.
func (v *view) setWatches(c *conn, r *jute.Reader) Code {
	relative := r.Int64()
	var lists [3][]string
	for i := range lists {
		if r.Null() {
			return CodeMarshalling
		}
		lists[i] = r.Strings()
	}
	if r.Err() != nil {
		return CodeMarshalling
	}
	data, exist, child := lists[0], lists[1], lists[2]
	for _, path := range data {
		switch n := v.tree.node(path); {
		case n == nil:
			c.send(eventDeleted.frame(path))
		case n.mzxid > relative:
			c.send(eventDataChanged.frame(path))
		default:
			v.watches.add(c, path, watchData)
		}
	}
	for _, path := range exist {
		if v.tree.node(path) != nil {
			c.send(eventCreated.frame(path))
		} else {
			v.watches.add(c, path, watchData)
		}
	}
	for _, path := range child {
		switch n := v.tree.node(path); {
		case n == nil:
			c.send(eventDeleted.frame(path))
		case n.pzxid > relative:
			c.send(eventChildrenChanged.frame(path))
		default:
			v.watches.add(c, path, watchChild)
		}
	}
	return CodeOK
}

// pathsOf returns the paths that a request names; those of a multi are the
// paths of its operations. It is for hooks and faults, and gives none for a
// body that cannot be read.
func pathsOf(op Op, body []byte) []string {
	r := jute.NewReader(body)
	switch op {
	case OpConnect, OpClose, OpPing, OpAuth, OpSetWatches:
		return nil
	case OpMulti:
		changes, err := readMulti(r)
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
