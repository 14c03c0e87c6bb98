// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// sequenceDigits is how many digits the server appends to the name of a
// sequential node.
const sequenceDigits = 10

// A Node is one ephemeral sequential node of ours, with the obligation to
// clean it up: dir/_c_<guid>-<kind><sequence>.
//
// ZooKeeper may create such a node and the answer get lost. Repeating the request
// would leave two nodes, and forgetting it one that blocks every contender,
// ourselves included, as long as the session lives. So a part of the name is
// chosen beforehand, and the Node remembers that there may be a node of that name
// until it has found out.
//
// No two nodes ever have the same path. After a deletion the next one gets a new
// guid, since what others know of the old path is not true of the new node.
//
// A Node is used by one goroutine at a time.
//
// A process may have 100,000, so a Node that is there is small: see DropCreateData.
type Node struct {
	create  *createData // nil: the node cannot be created any more
	watcher Watcher

	session *Session // the one it was created in, or may have been; nil before
	// path is "" while the node is not known to exist. Its owner changes it with
	// session.nodes.mu held, under which the heartbeat reads it.
	path  string
	czxid int64

	slot    int32 // 1 + index in session.nodes, whose mu protects it; 0 if not there
	state   nodeState
	spent   bool // there was a node of this name, or may have been: the next one needs another
	watched bool
}

// createData is what only the creation of a node takes, and Beside.
type createData struct {
	dir    string
	prefix string // of the name: _c_<guid>-<kind>
	kind   string
	guid   func() string
	data   []byte
	acl    []ACL
	beside string // what CreateAtSequence has made the node beside, or may have; "" if it surely has not
}

// rename chooses a name that no other node has.
func (c *createData) rename() { c.prefix = "_c_" + c.guid() + "-" + c.kind }

// base is the path that the node gets, but for the sequence number.
func (c *createData) base() string { return join(c.dir, c.prefix) }

// NewNode describes a node in dir, which must exist when it is created; nothing
// is sent. guid is called now and whenever the node has to be made anew. It must not
// return what the name of another node has that may be in dir. watcher, if not nil, is
// registered for the node's path from when that is known until Delete or Forget.
func NewNode(dir, kind string, guid func() string, data []byte, acl []ACL, watcher Watcher) *Node {
	n := &Node{
		create:  &createData{dir: dir, kind: kind, guid: guid, data: data, acl: acl},
		watcher: watcher,
		state:   nodeAbsent,
	}
	n.create.rename()
	return n
}

// Adopt returns a Node for the ephemeral node at path, which transaction czxid has created
// in s by other means than the methods of Node. From now on it is kept alive, and watcher,
// if not nil, is registered for it; nothing is sent. End with Forget, or with Delete if no
// node of another session can ever have the same path. It cannot be created again.
func Adopt(s *Session, path string, czxid int64, watcher Watcher) *Node {
	n := &Node{watcher: watcher, session: s, czxid: czxid, state: nodeThere, spent: true}
	n.found(path)
	s.paths.add(n, 1)
	return n
}

// Path returns the node's path, or "" while it is not known to exist.
func (n *Node) Path() string { return n.path }

// Name returns the last segment of Path.
func (n *Node) Name() string { return n.path[strings.LastIndexByte(n.path, '/')+1:] }

// Czxid returns the transaction that created the node, once one of the creating
// methods has succeeded. Among the nodes of one directory it grows from node to node, across
// sessions and even if the directory is made anew, which makes it a fencing token. Nodes of
// different directories may have the same.
func (n *Node) Czxid() int64 { return n.czxid }

// Beside returns the node at whose sequence number CreateAtSequence made this
// one, even if a later call found that out; "" if this node has a number of its
// own, or is not known to exist, and after DropCreateData.
func (n *Node) Beside() string {
	if n.create == nil || n.create.beside == "" || n.path != n.pathBeside(n.create.beside) {
		return ""
	}
	return n.create.beside
}

// KeepAlive says whether the heartbeat is to extend the session's lease for this
// node's sake when nothing else is written. It does so from the node's creation
// on. KeepAlive does not block.
func (n *Node) KeepAlive(on bool) {
	switch {
	case n.path == "":
	case on:
		n.session.nodes.add(n)
	default:
		n.session.nodes.remove(n, n.path)
	}
}

// WatchLater has the server keep a watch for the node, which is there, from about the
// time d from now on: see [Session.WatchLater].
func (n *Node) WatchLater(d time.Duration) { n.session.WatchLater(n.path, d) }

// Session returns the session that the node was created in, or may have been;
// nil before the first attempt to create it.
func (n *Node) Session() *Session { return n.session }

// Create creates the node in s, and leaves a watch for it. If an earlier attempt
// had an unknown outcome, that is found out first; a node is taken for this one
// only if s owns it. nil means that the node is there, and is s's.
//
// After an error the node may be there or not. Call this or another of the
// creating methods again, with the same session, which finds out, or with a later
// one, which starts afresh; or call Delete. ErrNoNode means that dir is missing.
func (n *Node) Create(s *Session) error {
	return n.createAndLook(s, func() (string, error) {
		return s.create(n.op(n.create.base(), jute.FlagEphemeralSequential))
	})
}

// CreateAndCount is Create in one request: the transaction also writes dir, whose
// Stat then tells how many children it had at that very moment, this node
// included: with 1 the node is first in line. children is 0 if an earlier attempt
// turns out to have made the node.
//
// The reads are sent with the transaction and answered after it, in this order;
// requests of other tasks may come in between. Each has an Err unless it was answered well; they
// are not sent if an earlier attempt turns out to have made the node.
//
// It takes the right to write dir, destroys dir's data, and leaves no watch.
func (n *Node) CreateAndCount(s *Session, behind ...*Read) (children int, err error) {
	if err := n.fits(s, 0); err != nil {
		notSent(behind)
		return 0, err
	}
	return n.createAndCount(s, nil, behind)
}

// Replace is CreateAndCount for a new Node, in one transaction with the deletion
// of old, which is s's and is there: one request moves to the end of the queue.
// nil means that this request has deleted old, performed along, and created the
// node.
//
// After an error all of it may have happened, or nothing. Call old's Remove, with
// the same ops, and then treat the node as after an error of CreateAndCount.
func (n *Node) Replace(s *Session, old *Node, along []Op, behind ...*Read) (children int, err error) {
	if n.session != nil || n.create == nil || old.session != s || old.state != nodeThere {
		return 0, badArguments("create", n.where(), "it is not new, or the one that it replaces is not surely there")
	}
	old.release()
	first := append(make([]Op, 0, 3+len(along)), DeleteOp(old.path, -1)) // createAndCount adds two
	children, err = n.createAndCount(s, append(first, along...), behind)
	switch {
	case err == nil:
		old.Forget()
	case mayHaveHappened(err):
		old.to(deleteLost)
	}
	return children, err
}

// createAndCount is CreateAndCount with ops that are performed first, in the same
// transaction.
func (n *Node) createAndCount(s *Session, first []Op, behind []*Read) (children int, err error) {
	notSent(behind)
	var written Stat
	made, err := n.attempt(s, func() (string, error) {
		ops := first
		ops = append(ops, n.op(n.create.base(), jute.FlagEphemeralSequential), SetOp(n.create.dir, nil, -1))
		c := multiCall("create", n.where(), ops)
		if len(first) == 0 {
			c.together(n.create.dir, len(ops))
		}
		results, err := s.transact(c, ops, behind)
		if err != nil {
			return "", err
		}
		written = results[len(ops)-1].Stat
		return results[len(ops)-2].Path, nil
	})
	if err != nil || !made {
		return 0, err
	}
	n.czxid = written.Mzxid // one transaction made the node and changed dir
	return int(written.NumChildren), nil
}

// notSent notes that reads which are to follow a request have not been sent.
func notSent(reads []*Read) {
	for _, r := range reads {
		r.Err = &opError{op: questions[r.What], path: r.Path, kind: ErrNotSent, why: errors.New("the request that it was to follow was not sent")}
	}
}

// CreateAtSequence creates the node with the sequence number of the node at
// beside, if that exists at that moment (else ErrNoNode), and leaves a watch for
// it: no node that queued later can come in between. If an earlier attempt turns
// out to have made the node with a number of its own, CreateAtSequence succeeds
// and leaves it there: ask Beside.
func (n *Node) CreateAtSequence(s *Session, beside string) error {
	if len(beside) < sequenceDigits {
		return badArguments("create", n.where(), "%q has no sequence number", beside)
	}
	return n.createAndLook(s, func() (string, error) {
		n.create.beside = beside
		path := n.pathBeside(beside)
		_, err := s.multi("create", path, CheckOp(beside, -1), n.op(path, jute.FlagEphemeral))
		return path, err
	})
}

// CreateIf is Create in one request, a transaction that also checks that the node at
// path exists (else ErrNoNode). It leaves no watch, and Czxid stays 0.
func (n *Node) CreateIf(s *Session, path string) error {
	if err := n.fits(s, 0); err != nil {
		return err
	}
	_, err := n.attempt(s, func() (string, error) {
		results, err := s.multi("create", n.where(), CheckOp(path, -1), n.op(n.create.base(), jute.FlagEphemeralSequential))
		if err != nil {
			return "", err
		}
		return results[1].Path, nil
	})
	return err
}

// ReplaceAtSequence creates the node with the sequence number of the node at beside, and
// deletes old, which is s's and is there. One transaction does both, and also checks that
// the nodes at beside and at path exist. It leaves no watch, and Czxid stays 0.
//
// If ClassOf says of the error that it is NotSent or Definite, neither has happened.
// Otherwise both may have, or not: call Remove of both.
func (n *Node) ReplaceAtSequence(s *Session, old *Node, beside, path string) error {
	if n.session != nil || n.create == nil || old.session != s || old.state != nodeThere || len(beside) < sequenceDigits {
		return badArguments("create", n.where(), "it is not new, or the one that it replaces is not surely there, or %q has no sequence number", beside)
	}
	_, err := n.attempt(s, func() (string, error) {
		n.create.beside = beside
		made := n.pathBeside(beside)
		_, err := s.multi("create", made, CheckOp(path, -1), CheckOp(beside, -1), n.op(made, jute.FlagEphemeral), DeleteOp(old.path, -1))
		return made, err
	})
	switch {
	case err == nil:
		old.Forget()
	case mayHaveHappened(err):
		old.to(deleteLost)
	}
	return err
}

// op returns the operation that creates the node at path.
func (n *Node) op(path string, flags int32) Op {
	return Op{code: jute.OpCreate, path: path, data: n.create.data, acl: orOpen(n.create.acl), flags: flags}
}

// pathBeside returns the path that the node has with the sequence number of the
// node at beside.
func (n *Node) pathBeside(beside string) string {
	return n.create.base() + beside[len(beside)-sequenceDigits:]
}

// createAndLook makes an attempt, and reads the node that was made.
func (n *Node) createAndLook(s *Session, create func() (path string, err error)) error {
	if err := n.fits(s, 0); err != nil {
		return err
	}
	// A node that another client deleted between its creation and the first look
	// at it is made again, under another name, but not for ever.
	for range 3 {
		made, err := n.attempt(s, create)
		if err == nil && made {
			err = n.look()
		}
		if err == nil || !errors.Is(err, ErrNoNode) || n.state != nodeAbsent || !n.spent {
			return err
		}
	}
	return &opError{op: "create", path: n.where(), kind: ErrUnknown,
		why: errors.New("another client deleted the node as soon as it was made, three times")}
}

// attempt makes s the node's session, finds out what became of earlier requests,
// and calls create, which makes the node and returns its path, unless it turns
// out to be there. It reports whether create made it.
func (n *Node) attempt(s *Session, create func() (path string, err error)) (made bool, err error) {
	if there, err := n.prepare(s); there || err != nil {
		return false, err
	}
	n.send()
	path, err := create()
	n.to(createEvent(err))
	if err != nil {
		return false, err
	}
	n.found(path)
	return true, nil
}

// prepare makes s the node's session, and finds out what became of earlier requests. It
// reports whether the node is there. If it is not, the session can be relied on for a lease
// that is not short: see freshen.
func (n *Node) prepare(s *Session) (there bool, err error) {
	if n.create == nil {
		return false, badArguments("create", n.where(), "DropCreateData was called")
	}
	if n.session != s {
		if n.session != nil && n.session.Err() == nil {
			return false, badArguments("create", n.where(), "it belongs to session %#x, which is alive", n.session.ID())
		}
		n.Forget()
		n.session = s
	}
	switch n.state {
	case nodeDeleting:
		if _, err := n.Remove(s); err != nil {
			return false, err
		}
		n.session = s
	case nodeMaybe, nodeThereAndMaybe:
		if err := n.resolve(); err != nil {
			return false, err
		}
	}
	if n.state == nodeThere {
		if err := n.look(); !errors.Is(err, ErrNoNode) {
			return err == nil, err
		}
	}
	return false, s.freshen(n.create.dir)
}

// send notes that a request to create the node is about to be sent. No node has had its
// name.
func (n *Node) send() {
	if n.spent {
		n.create.rename()
		n.spent = false
	}
	n.to(createSent)
}

// to changes the state.
func (n *Node) to(ev nodeEvent) {
	before := n.state
	n.state = before.after(ev)
	switch ev {
	case createSent:
		n.spent = true
	case notCreated:
		n.spent = false
	}
	switch absent := n.state == nodeAbsent; {
	case before == nodeAbsent && !absent:
		n.session.paths.add(n, 1)
	case before != nodeAbsent && absent:
		n.session.paths.add(n, -1)
	}
	if n.state == nodeAbsent {
		n.drop()
	}
}

// DropCreateData frees what only the creating methods and Beside need, which must not
// be called any more. It does nothing unless the node is there and surely the only one
// of its name: the others could not be found without it.
func (n *Node) DropCreateData() {
	if n.state == nodeThere {
		n.create = nil
	}
}

// found notes the path of the node, which exists.
func (n *Node) found(path string) {
	n.setPath(path)
	n.session.nodes.add(n)
	if n.watcher != nil && !n.watched {
		n.watched = true
		n.session.client.Watch(path, n.watcher)
	}
}

func (n *Node) setPath(path string) {
	n.session.nodes.mu.Lock()
	defer n.session.nodes.mu.Unlock()
	n.path = path
}

// look reads the node, for its watch and its czxid.
func (n *Node) look() error {
	st, err := n.session.stat(n.path)
	if errors.Is(err, ErrNoNode) {
		n.to(vanished)
	}
	if err != nil {
		return err
	}
	if st.EphemeralOwner != n.session.ID() {
		// It cannot be: a session's requests are not sent in another.
		return &opError{op: "create", path: n.path, kind: ErrUnknown,
			why: fmt.Errorf("the node belongs to session %#x, not to %#x", st.EphemeralOwner, n.session.ID())}
	}
	n.czxid = st.Czxid
	return nil
}

// resolve finds out what became of a create whose answer was lost. Until it has
// looked at everything of the node's name, it has to be called again.
func (n *Node) resolve() error {
	paths, err := n.candidates(n.session)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if path == n.path {
			continue // found by an earlier call
		}
		if err := n.claim(path); err != nil && !errors.Is(err, ErrNoNode) {
			return err
		}
	}
	//holdfast:reached-if n.path == "": lost create: it was not carried out
	n.to(settled)
	return nil
}

// claim takes the node at path for this one if the session owns it, or deletes
// it if there is one already.
func (n *Node) claim(path string) error {
	switch st, err := n.session.stat(path); {
	case err != nil:
		return err
	case st.EphemeralOwner != n.session.ID():
		return nil // an earlier session's, about to go with it
	case n.state == nodeMaybe:
		//holdfast:reached lost create: the node is there, adopted
		n.to(adopted)
		n.found(path)
		return nil
	}
	return n.session.Delete(path, -1)
}

// candidates returns the paths of dir's children that have the node's name, in
// the order of their creation. The list is at least as new as any lost answer,
// since the server first catches up with the leader.
func (n *Node) candidates(s *Session) ([]string, error) {
	if err := s.Sync(n.create.dir); err != nil {
		return nil, err
	}
	names, _, err := s.Children(n.create.dir)
	if errors.Is(err, ErrNoNode) {
		return nil, nil // it went with all its children
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range names {
		if n.named(name) {
			found = append(found, join(n.create.dir, name))
		}
	}
	slices.Sort(found)
	return found, nil
}

// named reports whether name is the node's prefix and a sequence number.
func (n *Node) named(name string) bool {
	seq, ok := strings.CutPrefix(name, n.create.prefix)
	// A negative number has a sign in place of a digit, or in front of ten.
	seq = strings.TrimPrefix(seq, "-")
	if !ok || len(seq) < sequenceDigits-1 || len(seq) > sequenceDigits {
		return false
	}
	for _, c := range []byte(seq) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// Delete deletes the node, after it has found out whether there is one. nil means
// that there is none: it was deleted, now or before, or was never made, or its
// session is Gone. Whatever Delete returns, the watcher is unregistered and the
// node not kept alive any more.
//
// s is the session to do it in: the node's own, or, if that is over, a later one
// of the same client. After an error call Delete again.
func (n *Node) Delete(s *Session) error {
	_, err := n.Remove(s)
	return err
}

// A Removal says what Remove has found out about how a node went.
type Removal int

const (
	// RemovedUnknown: the node was never made, or went with its session, or by an
	// earlier delete of ours that had no answer.
	RemovedUnknown Removal = iota
	// RemovedByUs: our request deleted it. It was there until then.
	RemovedByUs
	// RemovedBefore: another client deleted it, since its session is alive and no
	// earlier delete of ours can have been carried out.
	RemovedBefore
	// RemovedAlone: our request deleted it, but none of the ops that were to go
	// along was performed, since ZooKeeper had refused one of them.
	RemovedAlone
)

// Remove is Delete, and also says how the node went. The ops along are performed in
// the transaction that deletes the node, so at most once, and only if the node was
// there. Pass the same ones when Remove is called again after an error.
func (n *Node) Remove(s *Session, along ...Op) (Removal, error) {
	if n.session == nil || n.state == nodeAbsent || n.session.Gone() {
		//holdfast:reached-if n.path != "" && n.session.Gone(): release: the node has gone with its session
		n.Forget()
		return RemovedUnknown, nil
	}
	n.release()
	if s.Err() == nil && n.session.Err() == nil && s != n.session {
		return RemovedUnknown, badArguments("delete", n.where(), "it belongs to session %#x, not to %#x", n.session.ID(), s.ID())
	}
	how, err := n.delete(s, along)
	if err == nil || n.session.Gone() { // perhaps only now
		//holdfast:reached-if err == nil && n.state == nodeDeleting && how == RemovedUnknown: lost delete: it had been carried out
		if err != nil || n.session.Err() != nil && how == RemovedBefore {
			how = RemovedUnknown // with its session
		}
		n.Forget()
		return how, nil
	}
	if mayHaveHappened(err) {
		n.to(deleteLost)
	}
	if over := s.Err(); over != nil {
		err = overError("delete", n.where(), fmt.Errorf("%w, and the server did not confirm the end of session %#x: the node may remain for up to %v", over, n.session.ID(), n.session.Timeout()))
	}
	return RemovedUnknown, err
}

// RemoveWith is Remove for n and other, both in one transaction if they are surely there.
// It says of each how it went. After an error call it again.
func (n *Node) RemoveWith(s *Session, other *Node) (how, others Removal, err error) {
	if s.RemoveAll(n, other) {
		return RemovedByUs, RemovedByUs, nil
	}
	// One of them was gone, or may not be deleted, or the answer was lost.
	if others, err = other.Remove(s); err != nil {
		return RemovedUnknown, others, err
	}
	how, err = n.Remove(s)
	return how, others, err
}

// delete deletes every node that there is, or may be, and performs the ops along with
// the first.
func (n *Node) delete(s *Session, along []Op) (how Removal, err error) {
	paths := []string{n.path}
	switch n.state {
	case nodeThere:
		how = RemovedBefore // unless it turns out to be there
	case nodeMaybe, nodeThereAndMaybe:
		if paths, err = n.candidates(s); err != nil {
			return RemovedUnknown, err
		}
	}
	for _, path := range paths {
		removed, err := s.deleteAlong(path, along)
		switch {
		case err == nil:
			//holdfast:reached-if n.path == "": lost create: the node is there, deleted
			how, along = removed, nil
		case errors.Is(err, ErrNoAuth):
			// The server looks at the right to delete, which is the parent's,
			// before it looks for the node.
			if there, e := s.There(path); e != nil || there {
				return RemovedUnknown, err
			}
		case !errors.Is(err, ErrNoNode):
			return RemovedUnknown, err
		}
	}
	return how, nil
}

// deleteAlong deletes the node at path, in one transaction with the ops along if there
// are any, or alone if ZooKeeper refuses one of those. ErrNoNode means that there is no
// such node.
func (s *Session) deleteAlong(path string, along []Op) (Removal, error) {
	if len(along) == 0 {
		_, err := s.ask(opCall("delete", DeleteOp(path, -1)).together("", 1))
		return RemovedByUs, err
	}
	results, err := s.multi("delete", path, append([]Op{DeleteOp(path, -1)}, along...)...)
	if ClassOf(err) != Definite || len(results) == 0 || results[0].Err != nil {
		return RemovedByUs, err
	}
	return RemovedAlone, s.Delete(path, -1)
}

// Forget drops the obligation to delete the node and unregisters the watcher.
// It is for a node whose session is over. The Node can be created again.
func (n *Node) Forget() {
	if n.state != nodeAbsent {
		n.session.paths.add(n, -1)
	}
	n.drop()
	n.state, n.session = nodeAbsent, nil
}

// drop forgets the node that was at path, or may be.
func (n *Node) drop() {
	n.release()
	if n.path != "" {
		n.setPath("")
	}
	n.czxid = 0
	if n.create != nil {
		n.create.beside = ""
	}
}

// release ends the heartbeat for the node and its watch.
func (n *Node) release() {
	if n.path == "" {
		return
	}
	n.session.nodes.remove(n, n.path)
	if n.watched {
		n.watched = false
		n.session.client.Unwatch(n.path, n.watcher)
	}
}

// where names the node in errors, also before its path is known.
func (n *Node) where() string {
	if n.path != "" || n.create == nil {
		return n.path
	}
	return n.create.base()
}

// join returns the path of dir's child name.
func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
