// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// sequenceDigits is how many digits the server appends to the name of a
// sequential node.
const sequenceDigits = 10

// A Node is one ephemeral sequential node of ours, with the obligation to
// clean it up: dir/_c_<guid>-<kind><sequence>.
//
// A request to create such a node may be carried out although its answer gets
// lost. Repeating it would leave two nodes, and forgetting it one that blocks
// everybody, ourselves included, as long as the session lives. So the name has
// a part that is chosen beforehand, and the Node remembers that there may be a
// node of that name until it has found out.
//
// A Node is used by one goroutine at a time.
type Node struct {
	dir     string
	prefix  string // of the name: _c_<guid>-<kind>
	content *content
	watcher Watcher

	session *Session // the one it was created in, or may have been; nil before
	beside  string   // what CreateBeside has made the node beside, or may have; "" if it surely has not
	path    string   // "" while the node is not known to exist
	czxid   int64
	maybe   bool // a create was sent, and its outcome is not known
	tried   bool // a delete was sent, and its outcome is not known
	watched bool

	// Protected by session.nodes.mu.
	slot       int32  // 1 + index in session.nodes; 0 if not there
	registered string // the path, for the heartbeat's goroutine
}

// content is what only the creating methods need.
type content struct {
	data []byte
	acl  []ACL
}

// NewNode describes a node in dir, which must exist when it is created; nothing
// is sent. guid must never be used for another Node. watcher is registered for
// the node's path once that is known, and until Delete or Forget; nil is none.
func NewNode(dir, kind, guid string, data []byte, acl []ACL, watcher Watcher) *Node {
	return &Node{
		dir:     dir,
		prefix:  "_c_" + guid + "-" + kind,
		content: &content{data, acl},
		watcher: watcher,
	}
}

// Path returns the node's path, or "" while it is not known to exist.
func (n *Node) Path() string { return n.path }

// Name returns the last segment of Path.
func (n *Node) Name() string { return n.path[strings.LastIndexByte(n.path, '/')+1:] }

// Czxid returns the transaction that created the node, once Create has
// succeeded. It grows from node to node, across sessions and directories that
// are made anew, which makes it a fencing token.
func (n *Node) Czxid() int64 { return n.czxid }

// Beside returns the node at whose sequence number CreateBeside made this one,
// even if it took a later call of another of the creating methods to find that
// out; "" if this node has a number of its own, or is not known to exist.
func (n *Node) Beside() string {
	if n.beside == "" || n.path != n.pathBeside(n.beside) {
		return ""
	}
	return n.beside
}

// KeepAlive says whether the session is to prove itself for this node's sake, by
// the heartbeat's writes, when nothing else is written: without them its lease
// ends. A node is kept alive from its creation on. It does not block.
func (n *Node) KeepAlive(on bool) {
	switch {
	case n.path == "":
	case on:
		n.session.nodes.add(n)
	default:
		n.session.nodes.remove(n)
	}
}

// Session returns the session that the node was created in, or may have been;
// nil before the first Create.
func (n *Node) Session() *Session { return n.session }

// Create creates the node in s, and leaves a watch for it. If an earlier try had
// an unknown outcome, that is found out first; a node is taken for this one only
// if s owns it. nil means that the node is there, and is s's.
//
// After an error the node may be there or not. Try again, by this or another of
// the creating methods, with the same session, which finds out, or with a later
// one, which starts afresh; or call Delete. ErrNoNode means that dir does not
// exist.
func (n *Node) Create(s *Session) error {
	return n.createAndLook(s, func() (string, error) {
		return s.create(join(n.dir, n.prefix), n.content.data, zk.FlagEphemeralSequential, n.content.acl)
	})
}

// Enter is Create in one request: the transaction that creates the node also
// writes dir, with no data, whose Stat then tells how many children dir had at
// that very moment, this node included. Where that is 1, the node is first in
// line. It is 0 if the node was found to have been made by an earlier try.
//
// It takes the right to write dir, and destroys what data dir has; it leaves no
// watch: whoever wants to know of the node's deletion reads it.
func (n *Node) Enter(s *Session) (children int, err error) {
	if err := n.begin(s); err != nil {
		return 0, err
	}
	if n.path != "" {
		if err := n.look(); !errors.Is(err, ErrNoNode) {
			return 0, err
		}
		n.drop() // somebody deleted it
	}
	n.maybe = true // the obligation begins before the request is sent
	results, err := s.multi("create", n.where(), n.creation(), SetOp(n.dir, nil, -1))
	if err != nil {
		n.answered(err)
		return 0, err
	}
	return n.entered(results[0], results[1]), nil
}

// EnterFor is Enter for a node that has never been tried to make, in one
// transaction with the deletion of old, which is s's and is there: who leaves a
// queue and wants to queue again, at its end, needs one request for both. nil
// means that old is gone, by this request, and the node is there.
//
// After an error both may have happened, or neither. Call old's Remove, and
// then treat the node as after an error of Enter.
func (n *Node) EnterFor(s *Session, old *Node) (children int, err error) {
	if n.session != nil || n.content == nil || old.session != s || old.path == "" || old.tried {
		return 0, badArguments("create", n.where(), "it is not new, or the one that it takes the turn of is not surely there")
	}
	old.release()
	n.session, n.maybe = s, true
	results, err := s.multi("create", n.where(), DeleteOp(old.path, -1), n.creation(), SetOp(n.dir, nil, -1))
	if err != nil {
		n.answered(err)
		if class := ClassOf(err); class != NotSent && class != Definite {
			old.tried = true
		}
		return 0, err
	}
	old.Forget()
	return n.entered(results[1], results[2]), nil
}

// creation returns the operation that creates the node at the end of the queue.
func (n *Node) creation() Op {
	path := join(n.dir, n.prefix)
	return Op{
		req:  &zk.CreateRequest{Path: path, Data: n.content.data, Acl: zkACL(n.content.acl), Flags: zk.FlagEphemeralSequential},
		path: path,
		size: len(path) + len(n.content.data) + sizeOfACL(n.content.acl),
	}
}

// entered notes that a transaction has created the node and written dir, with
// these results. It returns how many children dir had then.
func (n *Node) entered(created, written OpResult) (children int) {
	n.found(created.Path)
	// One transaction made the node and changed dir.
	n.czxid = written.Stat.Mzxid
	return int(written.Stat.NumChildren)
}

// CreateBeside creates the node with the sequence number of the node at beside,
// if that exists at that moment, and leaves a watch for it: nobody who queued
// after the other node can come in between. ErrNoNode means that there is no
// such node. If it turns out that an earlier try has made the node with a number
// of its own, it is left there, and CreateBeside succeeds: ask Beside.
func (n *Node) CreateBeside(s *Session, beside string) error {
	if len(beside) < sequenceDigits {
		return badArguments("create", n.where(), "%q has no sequence number", beside)
	}
	path := n.pathBeside(beside)
	return n.createAndLook(s, func() (string, error) {
		n.beside = beside
		_, err := s.multi("create", path, CheckOp(beside, -1), Op{
			req:  &zk.CreateRequest{Path: path, Data: n.content.data, Acl: zkACL(n.content.acl), Flags: zk.FlagEphemeral},
			path: path,
			size: len(path) + len(n.content.data) + sizeOfACL(n.content.acl),
		})
		return path, err
	})
}

// pathBeside returns the path that the node has with the sequence number of the
// node at beside.
func (n *Node) pathBeside(beside string) string {
	return join(n.dir, n.prefix) + beside[len(beside)-sequenceDigits:]
}

// createAndLook has the node made, unless it is there, and looks at it.
func (n *Node) createAndLook(s *Session, create func() (path string, err error)) error {
	// A node that was deleted by somebody between its creation and the first
	// look at it is made again, but not for ever.
	for range 3 {
		if err := n.begin(s); err != nil {
			return err
		}
		if n.path == "" {
			n.maybe = true // the obligation begins before the request is sent
			path, err := create()
			if err != nil {
				n.answered(err)
				return err
			}
			n.found(path)
		}
		if err := n.look(); !errors.Is(err, ErrNoNode) {
			return err
		}
		n.drop()
	}
	return &opError{op: "create", path: n.where(), kind: ErrUnknown,
		why: errors.New("the node was deleted by somebody as soon as it was made, three times")}
}

// Slim gives back the memory of what only the creating methods need, which must
// not be called any more. It is for a node that is there.
func (n *Node) Slim() {
	n.content = nil
	name := n.Name()
	if rest, ok := strings.CutPrefix(name, n.prefix); ok {
		n.prefix = name[:len(name)-len(rest)] // the same, as a part of path
	}
}

// begin makes s the node's session and finds out whether the node is there.
func (n *Node) begin(s *Session) error {
	if n.content == nil {
		return badArguments("create", n.where(), "Slim was called")
	}
	if n.session != s {
		if n.session != nil && n.session.Err() == nil {
			return badArguments("create", n.where(), "it belongs to session %#x, which is alive", n.session.ID())
		}
		n.Forget()
		n.session = s
	}
	if n.maybe {
		return n.resolve()
	}
	return nil
}

// answered ends the obligation if err says that the node was not made.
func (n *Node) answered(err error) {
	if class := ClassOf(err); class == NotSent || class == Definite {
		n.maybe, n.beside = false, ""
	}
}

// found notes that the node exists.
func (n *Node) found(path string) {
	n.maybe, n.path = false, path
	n.session.nodes.mu.Lock()
	n.registered = path
	n.session.nodes.mu.Unlock()
	n.session.nodes.add(n)
	if n.watcher != nil && !n.watched {
		n.watched = true
		n.session.client.Watch(path, n.watcher)
	}
}

// look reads the node, which sets the watch for it and tells its czxid.
func (n *Node) look() error {
	_, st, err := n.session.Get(n.path)
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

// resolve finds out what became of a create whose answer was lost, or which may
// have been carried out after the connection was given up. Until it has looked
// at everything that has the node's name, it has to be called again.
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
			n.maybe = true
			return err
		}
	}
	n.maybe = false
	if n.path == "" {
		//holdfast:reached lost create: it was not carried out
		n.beside = ""
	}
	return nil
}

// claim takes the node at path for this one if the session owns it, or deletes
// it if there is one already.
func (n *Node) claim(path string) error {
	switch _, st, err := n.session.Get(path); {
	case err != nil:
		return err
	case st.EphemeralOwner != n.session.ID():
		return nil // an earlier session's, about to go with it
	case n.path == "":
		//holdfast:reached lost create: the node is there, adopted
		n.found(path)
		return nil
	}
	return n.session.Delete(path, -1)
}

// candidates returns the paths of the children of dir that have the node's
// name, in the order of their making. The list is at least as new as any answer
// that got lost: the server first catches up with the leader, and go-zookeeper
// tells every server that it connects to how much it has seen.
func (n *Node) candidates(s *Session) ([]string, error) {
	if err := s.Sync(n.dir); err != nil {
		return nil, err
	}
	names, _, err := s.Children(n.dir)
	if errors.Is(err, ErrNoNode) {
		return nil, nil // it went with all its children
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range names {
		if n.named(name) {
			found = append(found, join(n.dir, name))
		}
	}
	slices.Sort(found)
	return found, nil
}

// named reports whether name is the node's prefix and a sequence number.
func (n *Node) named(name string) bool {
	seq, ok := strings.CutPrefix(name, n.prefix)
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

// Delete deletes the node. If the outcome of Create is unknown, that is found
// out first. nil means that the node is surely gone: it was deleted, or was
// gone already, or was never made, or its session is Gone. The watcher is
// unregistered, and the node no longer kept alive, whatever Delete returns.
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
	// RemovedSomehow: it is not known. The node was never made, or went with
	// its session, or an earlier delete of ours that had no answer may have
	// been carried out.
	RemovedSomehow Removal = iota
	// RemovedByUs: the server says that our request deleted it. It was there
	// until then.
	RemovedByUs
	// RemovedBefore: it was not there any more, although its session is alive
	// and no delete of ours can have been carried out before. Somebody else
	// deleted it.
	RemovedBefore
)

// Remove is Delete, and also says how the node went.
func (n *Node) Remove(s *Session) (Removal, error) {
	if n.session == nil || n.path == "" && !n.maybe || n.session.Gone() {
		//holdfast:reached-if n.path != "" && n.session.Gone(): release: the node has gone with its session
		n.Forget()
		return RemovedSomehow, nil
	}
	n.release()
	if s.Err() == nil && n.session.Err() == nil && s != n.session {
		return RemovedSomehow, badArguments("delete", n.where(), "it belongs to session %#x, not to %#x", n.session.ID(), s.ID())
	}
	how, err := n.delete(s)
	if err == nil || n.session.Gone() { // perhaps only now
		//holdfast:reached-if err == nil && n.tried && how == RemovedSomehow: lost delete: it had been carried out
		if err != nil || n.session.Err() != nil && how == RemovedBefore {
			how = RemovedSomehow // with its session
		}
		n.Forget()
		return how, nil
	}
	if class := ClassOf(err); class != NotSent && class != Definite {
		n.tried = true
	}
	if over := s.Err(); over != nil {
		err = overError("delete", n.where(), fmt.Errorf("%w, and the server did not confirm the end of session %#x: the node may remain for up to %v", over, n.session.ID(), n.session.Timeout()))
	}
	return RemovedSomehow, err
}

// delete deletes what there is, or may be, of the node.
func (n *Node) delete(s *Session) (how Removal, err error) {
	paths := []string{n.path}
	if n.path == "" {
		if paths, err = n.candidates(s); err != nil {
			return RemovedSomehow, err
		}
	} else if !n.tried {
		how = RemovedBefore // unless it turns out to be there
	}
	for _, path := range paths {
		switch err := s.Delete(path, -1); {
		case err == nil:
			//holdfast:reached-if n.path == "": lost create: the node is there, deleted
			how = RemovedByUs
		case errors.Is(err, ErrNoAuth):
			// The server looks at the right to delete, which is the parent's,
			// before it looks for the node. Anybody may ask whether it is there.
			if _, there, e := s.Exists(path); e != nil || there {
				return RemovedSomehow, err
			}
		case !errors.Is(err, ErrNoNode):
			return RemovedSomehow, err
		}
	}
	return how, nil
}

// Forget drops the obligation to delete the node and unregisters the watcher.
// It is for a node whose session is over. The Node can be created again.
func (n *Node) Forget() {
	n.drop()
	n.session, n.maybe, n.beside = nil, false, ""
}

// drop forgets the node that was there.
func (n *Node) drop() {
	n.release()
	n.path, n.beside, n.czxid = "", "", 0
}

// release ends what the node's existence gave cause for: the heartbeat and the
// watch.
func (n *Node) release() {
	if n.path == "" {
		return
	}
	n.session.nodes.remove(n)
	if n.watched {
		n.watched = false
		n.session.client.Unwatch(n.path, n.watcher)
	}
}

// where names the node in errors before its path is known.
func (n *Node) where() string {
	if n.path != "" {
		return n.path
	}
	return join(n.dir, n.prefix)
}

// join returns the path of dir's child name.
func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
