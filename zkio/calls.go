// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// Prove obtains a proof that the session is alive at the leader, and that the
// nodes at these paths exist: an empty transaction that checks them. It extends the
// session's lease, or begins one, unless the session has just come back: see
// [Session.NextProof]. In a process that has done little for a while
// it sends a sync first, without which the lease would be short.
//
// If a node is gone, Prove fails with ErrNoNode, and the node's watchers are told
// as by NotifyDeleted.
func (s *Session) Prove(path string, more ...string) error {
	checks := []Op{CheckOp(path, -1)}
	for _, p := range more {
		checks = append(checks, CheckOp(p, -1))
	}
	if err := s.freshen(path); err != nil {
		return err
	}
	results, err := s.multi("prove", path, checks...)
	if errors.Is(err, ErrNoNode) {
		for i, r := range results {
			if r.Err != nil {
				s.NotifyDeleted(checks[i].path)
			}
		}
	}
	return err
}

// freshen makes sure that a write that is sent next makes a lease that is not short: see
// leaseTracker.stale. A process that does not make writes all the time needs one request of the
// leader first, and a sync is the cheapest.
func (s *Session) freshen(path string) error {
	if !s.leases.stale() {
		return nil
	}
	//holdfast:reached lease: a sync before the first write of a process that was idle
	return s.Sync(path)
}

// NotifyDeleted tells path's watchers that its node was deleted, on behalf of a
// caller whose request has failed with ErrNoNode. The dispatcher tells them after
// every event that came before that answer, so a caller that waits to be told
// learns of deletions in the order in which they happened. It does not block.
func (s *Session) NotifyDeleted(path string) {
	s.tell(path, NodeDeleted)
}

// tell has path's watchers told of a change that an answer has shown. The event names the present
// connection, and the answer may have come on an earlier one. Then a watcher that compares the
// event with what it learned on that one takes it for out of order, and looks again.
func (s *Session) tell(path string, what Change) {
	s.client.dispatcher.push(notice{path: path, event: Event{what, s.Connection()}})
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

// A Question is what a [Read] asks for. They take the right to read the node, the last one
// only from ZooKeeper 3.8.4 and 3.9.2 on.
type Question int32

// The questions.
const (
	ReadData     = Question(jute.OpGetData)      // the node's data and Stat
	ReadChildren = Question(jute.OpGetChildren2) // its children's names and its Stat
	ReadStat     = Question(jute.OpExists)       // its Stat
)

// take makes r the result of c.
func (r *Read) take(s *Session, c *call) {
	a, err := s.result(c)
	if r.Err = err; err == nil {
		r.Data, r.Names, r.Stat = a.data, a.names, a.stat
	}
}

// questions has what errors call them.
var questions = map[Question]string{ReadData: "get", ReadChildren: "list", ReadStat: "look at"}

// Read asks the questions in one packet. The server answers them in this order.
// If a path is malformed, nothing is sent.
func (s *Session) Read(reads ...*Read) {
	if len(reads) == 0 {
		return
	}
	calls := s.readCalls(nil, reads)
	s.exchange(calls...)
	for i, r := range reads {
		r.take(s, calls[i])
	}
}

// readCalls appends the calls of reads to calls.
func (s *Session) readCalls(calls []*call, reads []*Read) []*call {
	for _, r := range reads {
		calls = append(calls, s.readCall(r.What, r.Path))
	}
	return calls
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
		if s.readsOneByOne() || !s.getTogether(rest[:n]) {
			n = min(n, getsInPacket)
			s.getEach(rest[:n])
		}
		rest = rest[n:]
	}
}

// readsOneByOne reports whether the server cannot read several nodes at once.
func (s *Session) readsOneByOne() bool { return s.noMultiRead.Load() || s.client.basics.on.Load() }

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
	c := multiReadCall(reads)
	for _, r := range reads {
		if err := checkPath(r.Path); err != nil {
			c.path = r.Path // exchange refuses it
			break
		}
	}
	a, err := s.ask(c)
	switch {
	case err != nil && c.failed == nil && notKnown(c.code):
		s.noMultiRead.Store(true)
		return false
	case len(reads) > 1 && errors.Is(err, ErrTooLarge):
		half := len(reads) / 2
		s.getAll(reads[:half]) // perhaps by another server, which does not know the request
		s.getAll(reads[half:])
		return true
	}
	for i := range reads {
		if reads[i].Err = err; err == nil {
			reads[i].takeFrom(a, i)
		}
	}
	return true
}

// takeFrom makes r the i-th result in the answer to a request of getTogether.
func (r *Read) takeFrom(a *answer, i int) {
	switch what := questions[r.What]; {
	case i >= len(a.nodes):
		r.Err = &opError{op: what, path: r.Path, kind: ErrUnknown, why: errors.New("the server's answer ends before this node")}
	case a.nodes[i].code != jute.ErrOK:
		r.Err = refusal(what, r.Path, a.nodes[i].code)
	default:
		r.Data, r.Stat = a.nodes[i].data, a.nodes[i].stat
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
// forbids reading them, Look asks whether the node exists, and readable is false. Then st
// is the zero Stat if the server does not tell that, either: from 3.8.4 and 3.9.2 on,
// ZooKeeper does only to a client that may read the node (ZOOKEEPER-2590). A server tells a client of no
// change of a node that it may not read; to hear of its deletion, watch its parent's
// children.
//
// Should the node be deleted between the two requests, the server is left with a
// watch for its creation, which ends with the connection if path is unwatched.
func (s *Session) Look(path string) (data []byte, st Stat, readable bool, err error) {
	data, st, err = s.Get(path)
	if !errors.Is(err, ErrNoAuth) {
		return data, st, err == nil, err
	}
	st, there, err := s.Exists(path)
	switch {
	case err == nil && !there:
		err = &opError{op: "look at", path: path, kind: ErrNoNode}
	case errors.Is(err, ErrNoAuth): // it is there: of one that is missing the server says so
		err = nil
	}
	return nil, st, false, err
}

// stat returns the Stat of a node that is this client's own, perhaps. It may have to read it.
func (s *Session) stat(path string) (Stat, error) {
	_, st, readable, err := s.Look(path)
	if err == nil && !readable && st == (Stat{}) {
		err = &opError{op: "look at", path: path, kind: ErrNoAuth}
	}
	return st, err
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

// There reports whether there is a node at path, also of one that this client may not read:
// then newer servers refuse to tell its Stat, and so Exists fails (see Look).
func (s *Session) There(path string) (bool, error) {
	_, there, err := s.Exists(path)
	if errors.Is(err, ErrNoAuth) {
		return true, nil
	}
	return there, err
}

// ACL returns a node's access control list. It takes the right to read or to
// administer the node; without the latter, servers hide the hashes of digests.
func (s *Session) ACL(path string) ([]ACL, error) {
	a, err := s.ask(pathCall("get the ACL of", jute.OpGetACL, path))
	if err != nil {
		return nil, err
	}
	return a.acl, nil
}

// Create creates a persistent node. An empty acl lets every client do everything.
func (s *Session) Create(path string, data []byte, acl []ACL) error {
	_, err := s.create(CreateOp(path, data, acl))
	return err
}

// CreateEphemeral creates an ephemeral node with exactly this path. If the error wraps
// [ErrUnknown], the node may exist. Then try again: if that fails with [ErrNodeExists],
// and no other client uses the path, the first try succeeded. For the node of a lock, use
// [Node].
func (s *Session) CreateEphemeral(path string, data []byte, acl []ACL) error {
	_, err := s.create(CreateOp(path, data, acl).Ephemeral())
	return err
}

// create performs o, which creates a node, and returns the node's path, which ends in a
// number if the node is sequential.
func (s *Session) create(o Op) (string, error) {
	a, err := s.ask(opCall("create", o))
	if err != nil {
		return "", err
	}
	return a.path, nil
}

// Set replaces a node's data if they have the given version, or any version if
// that is -1, and returns the node's Stat.
func (s *Session) Set(path string, data []byte, version int32) (Stat, error) {
	a, err := s.ask(opCall("set", SetOp(path, data, version)))
	if err != nil {
		return Stat{}, err
	}
	return a.stat, nil
}

// Delete deletes a node if its data have the given version, or any version if
// that is -1.
func (s *Session) Delete(path string, version int32) error {
	_, err := s.ask(opCall("delete", DeleteOp(path, version)))
	return err
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
func (s *Session) forget(path string, op, kind int32, what Change) {
	ws := s.client.watches
	// A server that does not know this request keeps its watch, which fires unheard or
	// ends with the connection.
	if !ws.disarm(path, op, what) || s.client.basics.on.Load() {
		return
	}
	c := pathCall("unwatch", jute.OpRemoveWatches, path)
	c.body = jute.AppendInt32(c.body, kind)
	// If there is no answer, the connection has ended, and the watch with it. If the
	// server refuses, it had no watch.
	s.exchange(c)
	// A watcher that was registered meanwhile may have lost the watch that it had the
	// server set. It must look again.
	if ws.armed(path, op) {
		ws.fired([]byte(path), what)
		s.tell(path, what)
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
	_, err := s.ask(pathCall("sync", jute.OpSync, path))
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
	return s.transact(multiCall(op, path, ops), ops, reads)
}

// transact is multiAndRead by the call c, whose operations are ops.
func (s *Session) transact(c *call, ops []Op, reads []*Read) ([]OpResult, error) {
	calls := s.readCalls(append(make([]*call, 0, 1+len(reads)), c), reads)
	s.exchange(calls...)
	for i, r := range reads {
		r.take(s, calls[1+i])
	}
	results, err := c.results(ops)
	if err = s.final(c, err); ClassOf(err) == SessionOver || ClassOf(err) == Closed {
		results = nil
	}
	return results, err
}

// results returns what the operations of the transaction c have done, once exchange has
// returned.
func (c *call) results(ops []Op) ([]OpResult, error) {
	a := &c.answer
	if err := c.err(); err != nil {
		return nil, err
	}
	switch {
	case len(a.results) != len(ops):
		return nil, &opError{op: c.what, path: c.path, kind: ErrUnknown, why: fmt.Errorf("%d results for %d operations", len(a.results), len(ops))}
	case a.code != jute.ErrOK:
		c.path = ops[a.refused].path
		err := refusal(c.what, c.path, a.code)
		a.results[a.refused].Err = err
		return a.results, err
	}
	return a.results, nil
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
		if there, e := s.There(dir); e != nil || there {
			return e
		}
	}
	return err
}

// makeDir makes the one directory dir.
func (s *Session) makeDir(dir string, acl []ACL) error {
	if s.client.basics.on.Load() {
		return s.Create(dir, nil, acl)
	}
	o := CreateOp(dir, nil, acl)
	o.code, o.flags = jute.OpCreateContainer, jute.FlagContainer
	_, err := s.create(o)
	if !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrBadArguments) {
		return err
	}
	// Servers that are not ZooKeeper call what they do not know a bad argument. So does
	// ZooKeeper with a path that is none, but then it does so again.
	plain := s.Create(dir, nil, acl)
	if errors.Is(err, ErrUnsupported) || plain == nil || ClassOf(plain) == Definite && !errors.Is(plain, ErrBadArguments) {
		s.client.basicsOnly(unprefixed(err))
	}
	return plain
}

// parent returns the path of the node above path.
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}
