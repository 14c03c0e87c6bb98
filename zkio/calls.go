// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// maxRequest is the largest request sent: a server's default limit, less some.
const maxRequest = 1<<20 - 8192

// reach waits for a connection. It fails if the session is over, if every server
// was tried in vain, and if the request is too large: a server would close the
// connection over it.
//
// Calls wait here because go-zookeeper does not give a request back while there
// is no connection. It sends the few that it has then on the next connection, or
// fails them with the session.
func (s *Session) reach(op, path string, size int) (*wire, error) {
	if size > maxRequest {
		return nil, badArguments(op, path, "a request of %d bytes is more than the %d that a server takes", size, maxRequest)
	}
	if w := s.connection(); w != nil {
		return w, nil
	}
	if err := s.Err(); err != nil {
		return nil, overError(op, path, err)
	}
	return nil, &opError{op: op, path: path, kind: ErrNotSent, why: errors.New(s.client.hosts.why())}
}

// wrapErr makes a call's error from go-zookeeper's, or from the session's end:
// once that has come, no result can be relied on.
func (s *Session) wrapErr(op, path string, err error) error {
	if own, ok := errors.AsType[*opError](err); ok {
		return own // it was not sent
	}
	if over := s.Err(); over != nil {
		return overError(op, path, over)
	}
	return wrap(op, path, err)
}

// wrapWriteErr is wrapErr for a change. If the session is over, the error wraps
// ErrUnknown as well, unless go-zookeeper's says that nothing was changed.
func (s *Session) wrapWriteErr(op, path string, err error) error {
	if own, ok := errors.AsType[*opError](err); ok {
		return own // it was not sent
	}
	over := s.Err()
	if over == nil {
		return wrap(op, path, err)
	}
	if err != nil && !mayHaveHappened(sentinelOf(err)) {
		return overError(op, path, over)
	}
	return overError(op, path, &joined{unprefixed(over) + "; the request may have been carried out before", []error{over, ErrUnknown}})
}

// explained adds to go-zookeeper's error why we closed the connection, if we did.
func (s *Session) explained(err error) error {
	if f := s.fault.Load(); f != nil && errors.Is(err, zk.ErrConnectionClosed) {
		return fmt.Errorf("%w: %w", err, f)
	}
	return err
}

// overError makes the error of a call on a session that is over because of err.
func overError(op, path string, err error) error {
	kind := ErrSessionOver
	if errors.Is(err, ErrClosed) {
		kind = ErrClosed
	}
	return &opError{op: op, path: path, kind: kind, why: err}
}

// read makes a call by go-zookeeper that changes nothing. If it fails, the caller
// must not use what do has set.
func (s *Session) read(op, path string, do func() error) error {
	if _, err := s.reach(op, path, len(path)); err != nil {
		return err
	}
	return s.wrapErr(op, path, s.explained(do()))
}

// write makes a call by go-zookeeper that changes something, by a request of
// about size bytes.
func (s *Session) write(op, path string, size int, do func() error) error {
	if _, err := s.reach(op, path, size); err != nil {
		return err
	}
	return s.wrapWriteErr(op, path, s.explained(do()))
}

// Prove obtains a proof that the session is alive at the leader, and that the
// node at path exists: an empty transaction that checks it. It extends the
// session's lease, or begins one. If the node is gone, Prove fails with
// ErrNoNode, and its watchers are told as by NotifyDeleted.
func (s *Session) Prove(path string) error {
	_, err := s.multi("prove", path, CheckOp(path, -1))
	if errors.Is(err, ErrNoNode) {
		s.NotifyDeleted(path)
	}
	return err
}

// NotifyDeleted tells path's watchers that its node was deleted, on behalf of a
// caller whose request has failed with ErrNoNode. The dispatcher tells them after
// every event that came before that answer, so a caller that waits to be told
// learns of deletions in the order in which they happened. It does not block.
func (s *Session) NotifyDeleted(path string) {
	s.client.dispatcher.push(notice{path: path, event: NodeDeleted})
}

// A Read is a question about a node, and the answer. If a watcher is registered
// for its path when it is sent, it leaves a watch.
type Read struct {
	Path string
	What Question

	Data  []byte   // of ReadData
	Names []string // of ReadChildren, in no order
	Stat  Stat     // the node's
	Err   error    // ErrNoNode if there is no such node
}

// A Question is what a [Read] asks for. The last takes no right; the others take
// the right to read the node.
type Question int32

// The questions.
const (
	ReadData     = Question(jute.OpGetData)      // the node's data and Stat
	ReadChildren = Question(jute.OpGetChildren2) // its children's names and its Stat
	ReadStat     = Question(jute.OpExists)       // its Stat
)

// take makes r the result of c.
func (r *Read) take(s *Session, c *call) {
	reply, err := c.result()
	if r.Err = s.wrapErr(questions[r.What], r.Path, err); r.Err != nil {
		return
	}
	body := jute.NewReader(reply)
	switch r.What {
	case ReadData:
		r.Data = body.Buffer()
	case ReadChildren:
		r.Names = readNames(body)
	}
	r.Stat = readStat(body)
}

// questions has what errors call them.
var questions = map[Question]string{ReadData: "get", ReadChildren: "list", ReadStat: "look at"}

// Read asks the questions in one packet. The server answers them in this order.
// If a path is malformed, nothing is sent.
func (s *Session) Read(reads ...*Read) {
	if len(reads) == 0 {
		return
	}
	calls, err := s.readCalls(nil, reads)
	if err != nil {
		for _, r := range reads {
			r.Err = err
		}
		return
	}
	s.exchange(questions[reads[0].What], reads[0].Path, calls...)
	for i, r := range reads {
		r.take(s, calls[i])
	}
}

// readCalls appends the requests of reads to calls.
func (s *Session) readCalls(calls []*call, reads []*Read) ([]*call, error) {
	for _, r := range reads {
		if err := checkPath(r.Path); err != nil {
			return nil, &opError{op: questions[r.What], path: r.Path, kind: ErrBadArguments, why: err}
		}
		calls = append(calls, s.readCall(int32(r.What), r.Path))
	}
	return calls, nil
}

const (
	// getsTogether is how many bytes of paths one request of GetAll has.
	getsTogether = 256 << 10
	// getsInPacket is how many nodes a packet asks for if the server has no such
	// request.
	getsInPacket = 100
)

// GetAll returns the data and the Stat of every node at paths, each with an error
// of its own. It sends one request for every few thousand nodes, or one for each if the
// server is older than ZooKeeper 3.6. What is too large for one answer is asked for again, in
// several. The answers need not describe the same moment.
// Unlike Get it sets no watches.
func (s *Session) GetAll(paths ...string) []Read {
	reads := make([]Read, len(paths))
	for i, path := range paths {
		reads[i] = Read{Path: path, What: ReadData}
	}
	s.getAll(reads)
	return reads
}

// getAll performs reads by as few requests as the server allows.
func (s *Session) getAll(reads []Read) {
	for rest := reads; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && (n == 0 || size+len(rest[n].Path) <= getsTogether) {
			size += len(rest[n].Path)
			n++
		}
		if s.noMultiRead.Load() || !s.getTogether(rest[:n]) {
			n = min(n, getsInPacket)
			s.getEach(rest[:n])
		}
		rest = rest[n:]
	}
}

// getEach performs reads by one request each, in one packet.
func (s *Session) getEach(reads []Read) {
	all := make([]*Read, len(reads))
	for i := range reads {
		all[i] = &reads[i]
	}
	s.Read(all...)
}

// getTogether performs reads by one request. It reports false if the server does not
// know that request.
func (s *Session) getTogether(reads []Read) bool {
	paths := make([]string, len(reads))
	var err error
	for i, r := range reads {
		paths[i] = r.Path
		if bad := checkPath(r.Path); bad != nil && err == nil {
			err = &opError{op: questions[r.What], path: r.Path, kind: ErrBadArguments, why: bad}
		}
	}
	var reply []byte
	if err == nil {
		c := multiReadCall(paths)
		s.exchange(questions[ReadData], paths[0], c)
		reply, err = c.result()
		if errors.Is(sentinelOf(err), ErrUnsupported) {
			s.noMultiRead.Store(true)
			return false
		}
		if len(reads) > 1 && errors.Is(sentinelOf(err), ErrTooLarge) {
			half := len(reads) / 2
			s.getAll(reads[:half]) // perhaps by another server, which does not know the request
			s.getAll(reads[half:])
			return true
		}
		err = s.wrapErr(questions[ReadData], paths[0], err)
	}
	body := jute.NewReader(reply)
	for i := range reads {
		if reads[i].Err = err; err == nil {
			reads[i].takeTogether(s, body)
		}
	}
	return true
}

// takeTogether makes r the next result in the answer to a request of GetAll.
func (r *Read) takeTogether(s *Session, body *jute.Reader) {
	kind, done := body.Int32(), body.Bool()
	body.Int32()
	switch {
	case done || body.Err() != nil:
		r.Err = s.wrapErr(questions[r.What], r.Path, errors.New("the server's answer ends before this node"))
	case kind == jute.OpError:
		r.Err = s.wrapErr(questions[r.What], r.Path, errorOfCode(body.Int32()))
	default:
		r.Data = body.Buffer()
		r.Stat = readStat(body)
	}
}

// Children returns the names of dir's children, in no order, and dir's Stat. It
// leaves a watch for dir's children if a watcher is registered for dir.
func (s *Session) Children(dir string) ([]string, Stat, error) {
	r := Read{Path: dir, What: ReadChildren}
	s.Read(&r)
	return r.Names, r.Stat, r.Err
}

// Get returns a node's data and Stat. It leaves a watch for the node if a
// watcher is registered for path.
func (s *Session) Get(path string) ([]byte, Stat, error) {
	r := Read{Path: path, What: ReadData}
	s.Read(&r)
	return r.Data, r.Stat, r.Err
}

// Look is Get for a caller that can do without the data. If the node's ACL
// forbids reading them, Look asks whether the node exists, which takes no right,
// and readable is false. A server tells a client nothing of a node that it may
// not read; to hear of its deletion, watch its parent's children.
//
// Should the node be deleted between the two requests, the server is left with a
// watch for its creation, which ends with the connection if path is unwatched.
func (s *Session) Look(path string) (data []byte, st Stat, readable bool, err error) {
	data, st, err = s.Get(path)
	if !errors.Is(err, ErrNoAuth) {
		return data, st, err == nil, err
	}
	st, there, err := s.Exists(path)
	if err == nil && !there {
		err = &opError{op: "look at", path: path, kind: ErrNoNode}
	}
	return nil, st, false, err
}

// Exists returns a node's Stat and whether there is such a node. It leaves a
// watch, for the node or for its creation, if a watcher is registered for path.
func (s *Session) Exists(path string) (Stat, bool, error) {
	r := Read{Path: path, What: ReadStat}
	s.Read(&r)
	if errors.Is(r.Err, ErrNoNode) {
		return Stat{}, false, nil
	}
	return r.Stat, r.Err == nil, r.Err
}

// ACL returns a node's access control list. It takes the right to read or to
// administer the node; without the latter, servers hide the hashes of digests.
func (s *Session) ACL(path string) ([]ACL, error) {
	var entries []zk.ACL
	err := s.read("get the ACL of", path, func() (err error) { entries, _, err = s.conn.GetACL(path); return err })
	if err != nil {
		return nil, err
	}
	acl := make([]ACL, len(entries))
	for i, e := range entries {
		acl[i] = ACL(e)
	}
	return acl, nil
}

// Create creates a persistent node. An empty acl lets every client do everything.
func (s *Session) Create(path string, data []byte, acl []ACL) error {
	_, err := s.create(path, data, zk.FlagPersistent, acl)
	return err
}

// CreateEphemeral creates an ephemeral node with exactly this path. If the error wraps
// [ErrUnknown], the node may exist. Then try again: if that fails with [ErrNodeExists],
// and no other client uses the path, the first try succeeded. For the node of a lock, use
// [Node].
func (s *Session) CreateEphemeral(path string, data []byte, acl []ACL) error {
	_, err := s.create(path, data, zk.FlagEphemeral, acl)
	return err
}

// create creates a node and returns its path, which ends in a number if the node
// is sequential.
func (s *Session) create(path string, data []byte, flags int32, acl []ACL) (string, error) {
	var made string
	err := s.write("create", path, len(path)+len(data)+sizeOfACL(acl), func() (err error) {
		made, err = s.conn.Create(path, data, flags, zkACL(acl))
		return err
	})
	if err != nil {
		return "", err
	}
	return made, nil
}

// Set replaces a node's data if they have the given version, or any version if
// that is -1, and returns the node's Stat.
func (s *Session) Set(path string, data []byte, version int32) (Stat, error) {
	var st *zk.Stat
	err := s.write("set", path, len(path)+len(data), func() (err error) { st, err = s.conn.Set(path, data, version); return err })
	if err != nil {
		return Stat{}, err
	}
	return statOf(st), nil
}

// Delete deletes a node if its data have the given version, or any version if
// that is -1.
func (s *Session) Delete(path string, version int32) error {
	if err := checkPath(path); err != nil {
		return &opError{op: "delete", path: path, kind: ErrBadArguments, why: err}
	}
	c := deleteCall(path, version)
	s.exchange("delete", path, c)
	_, err := c.result()
	return s.wrapWriteErr("delete", path, err)
}

// UnwatchChildren undoes [Client.WatchChildren]. If no other watcher is registered for
// the children, it has the server remove its watch, by one request.
func (s *Session) UnwatchChildren(path string, w Watcher) { s.unwatch(path, childrenOnly{w}) }

// Unwatch undoes [Client.Watch]. It has the server remove each watch of path for which no
// other watcher is registered, by one request each.
func (s *Session) Unwatch(path string, w Watcher) { s.unwatch(path, w) }

func (s *Session) unwatch(path string, w Watcher) {
	ws := s.client.watches
	set := ws.remove(path, w)
	if set&childWatch != 0 {
		s.forget(path, jute.OpGetChildren2, watcherOfChildren, NodeChildrenChanged)
	}
	if set&(dataWatch|existWatch) != 0 {
		s.forget(path, jute.OpGetData, watcherOfData, NodeDataChanged)
	}
}

// forget has the server forget its watches of one kind for path, which requests of
// kind op have set, unless a watcher wants them.
func (s *Session) forget(path string, op, kind int32, ev Event) {
	ws := s.client.watches
	// A server without containers is too old for this request, too. Its watch fires
	// unheard, or ends with the connection.
	if ws.armed(path, op) || s.noContainers.Load() {
		return
	}
	body := jute.AppendString(make([]byte, 0, len(path)+8), path)
	c := &call{op: jute.OpRemoveWatches, body: jute.AppendInt32(body, kind)}
	// If there is no answer, the connection has ended, and the watch with it. If the
	// server refuses, it had no watch.
	s.exchange("unwatch", path, c)
	// A watcher that was registered meanwhile may have lost the watch that it had the
	// server set. It must look again.
	if ws.armed(path, op) {
		ws.fired([]byte(path), ev)
		s.client.dispatcher.push(notice{path: path, event: ev})
	}
}

// The types of watches that a request to forget them names.
const (
	watcherOfChildren int32 = 1
	watcherOfData     int32 = 2
)

// Sync waits until the session's server has caught up with the leader: reads
// after it see what was committed before it. It proves nothing about the
// session: a leader that has lost its followers still answers.
func (s *Session) Sync(path string) error {
	err := s.read("sync", path, func() error { _, err := s.conn.Sync(path); return err })
	if err == nil {
		s.synced.Store(true)
	}
	return err
}

// CaughtUp reports whether the session's server is known to be no older than the answers
// that this client got in earlier sessions. Within a session ZooKeeper guarantees that,
// but a new session may begin at a server that lags behind the last one's. If CaughtUp is
// false after a read, call [Session.Sync] and read again.
func (s *Session) CaughtUp() bool { return s.synced.Load() || s.zxid.Load() >= s.floor }

// Multi performs ops in one transaction: all of them or none. If it fails, the
// error is that of the operation that made it fail, and the results, if there
// are any, tell which that is.
func (s *Session) Multi(ops ...Op) ([]OpResult, error) {
	path := ""
	if len(ops) > 0 {
		path = ops[0].path
	}
	return s.multi("transaction", path, ops...)
}

// MultiAndRead is [Session.Multi] with reads that are sent in the same packet, right
// behind the transaction. The server answers them after it has carried the transaction
// out or refused it. So they see what the transaction wrote, and everything that was
// committed before it. They are not a part of it: another client may write in between.
// If MultiAndRead fails, ignore the answers of the reads.
func (s *Session) MultiAndRead(reads []*Read, ops ...Op) ([]OpResult, error) {
	path := ""
	if len(ops) > 0 {
		path = ops[0].path
	}
	return s.multiAndRead("transaction", path, reads, ops...)
}

func (s *Session) multi(op, path string, ops ...Op) ([]OpResult, error) {
	return s.multiAndRead(op, path, nil, ops...)
}

// multiAndRead performs ops in one transaction, and sends the reads right behind
// it: the server answers them after the transaction.
func (s *Session) multiAndRead(op, path string, reads []*Read, ops ...Op) ([]OpResult, error) {
	if len(ops) == 0 {
		return nil, badArguments(op, path, "no operations")
	}
	for i, o := range ops {
		if err := o.Validate(); err != nil {
			return nil, fmt.Errorf("%w (operation %d)", err, i)
		}
	}
	calls, err := s.readCalls(append(make([]*call, 0, 1+len(reads)), multiCall(ops)), reads)
	if err != nil {
		return nil, err
	}
	s.exchange(op, path, calls...)
	for i, r := range reads {
		r.take(s, calls[1+i])
	}
	reply, err := calls[0].result()
	var results []OpResult
	if err == nil {
		var failed int
		results, failed, err = multiResults(reply)
		switch {
		case len(results) != len(ops):
			results, err = nil, fmt.Errorf("%d results for %d operations", len(results), len(ops))
		case err != nil:
			path = ops[failed].path
			results[failed].Err = wrap(op, path, err)
		}
	}
	if err := s.wrapWriteErr(op, path, err); err != nil {
		if ClassOf(err) == SessionOver || ClassOf(err) == Closed {
			return nil, err
		}
		return results, err
	}
	return results, nil
}

// EnsureDir makes dir, and what is missing above it, as container nodes, which
// the server removes some time after their last child has gone, or as
// persistent nodes where the server has no containers. It succeeds if dir is
// there afterwards, even if another client made it.
func (s *Session) EnsureDir(dir string, acl []ACL) error {
	if dir == "/" {
		return nil
	}
	// The server may remove an empty parent before its child is made.
	var err error
	for range 3 {
		if err = s.makeDir(dir, acl); !errors.Is(err, ErrNoNode) {
			break
		}
		if err := s.EnsureDir(parent(dir), acl); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(err, ErrNodeExists):
		return nil
	case errors.Is(err, ErrNoAuth):
		// The permission to create is checked before the existence.
		if _, there, e := s.Exists(dir); e != nil || there {
			return e
		}
	}
	return err
}

// makeDir makes the one directory dir.
func (s *Session) makeDir(dir string, acl []ACL) error {
	if !s.noContainers.Load() {
		err := s.write("create", dir, len(dir)+sizeOfACL(acl), func() error {
			_, err := s.conn.CreateContainer(dir, nil, zk.FlagContainer, zkACL(acl))
			return err
		})
		if !errors.Is(err, ErrUnsupported) {
			return err
		}
		s.noContainers.Store(true)
	}
	return s.Create(dir, nil, acl)
}

// parent returns the path of the node above path.
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}
