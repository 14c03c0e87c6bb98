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
	data    []byte
	acl     []ACL
	watcher Watcher

	session *Session // the one it was created in, or may have been; nil before
	maybe   bool     // a create was sent, and its outcome is not known
	path    string   // "" while the node is not known to exist
	czxid   int64
	watched bool

	// Protected by session.nodes.mu.
	slot       int    // 1 + index in session.nodes; 0 if not there
	registered string // the path, for the heartbeat's goroutine
}

// NewNode describes a node in dir, which must exist when it is created; nothing
// is sent. guid must never be used for another Node. watcher is registered for
// the node's path once that is known, and until Delete or Forget; nil is none.
func NewNode(dir, kind, guid string, data []byte, acl []ACL, watcher Watcher) *Node {
	return &Node{
		dir:     dir,
		prefix:  "_c_" + guid + "-" + kind,
		data:    data,
		acl:     acl,
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

// Session returns the session that the node was created in, or may have been;
// nil before the first Create.
func (n *Node) Session() *Session { return n.session }

// Create creates the node in s, and leaves a watch for it. If an earlier Create
// had an unknown outcome, that is found out first; a node is taken for this one
// only if s owns it. nil means that the node is there, and is s's.
//
// After an error the node may be there or not. Call Create again, with the same
// session, which finds out, or with a later one, which starts afresh; or call
// Delete. ErrNoNode means that dir does not exist.
func (n *Node) Create(s *Session) error {
	if n.session != s {
		if n.session != nil && n.session.Err() == nil {
			return badArguments("create", n.where(), "it belongs to session %#x, which is alive", n.session.ID())
		}
		n.Forget()
		n.session = s
	}
	// A node that was deleted by somebody between its creation and the first
	// look at it is made again, but not for ever.
	var err error
	for range 3 {
		if err := n.make(); err != nil {
			return err
		}
		if err = n.look(); !errors.Is(err, ErrNoNode) {
			return err
		}
		n.drop()
	}
	return &opError{op: "create", path: n.where(), kind: ErrUnknown,
		why: errors.New("the node was deleted by somebody as soon as it was made, three times")}
}

// make creates the node unless it is known to exist.
func (n *Node) make() error {
	if n.maybe {
		if err := n.resolve(); err != nil {
			return err
		}
	}
	if n.path != "" {
		return nil
	}
	// The obligation begins before the request is sent.
	n.maybe = true
	path, err := n.session.create(join(n.dir, n.prefix), n.data, zk.FlagEphemeralSequential, n.acl)
	switch {
	case err == nil:
		n.found(path)
	case ClassOf(err) == NotSent, ClassOf(err) == Definite:
		n.maybe = false
	}
	return err
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
// have been carried out after the connection was given up.
func (n *Node) resolve() error {
	paths, err := n.candidates(n.session)
	if err != nil {
		return err
	}
	for _, path := range paths {
		_, st, err := n.session.Get(path)
		switch {
		case errors.Is(err, ErrNoNode):
			continue
		case err != nil:
			return err
		case st.EphemeralOwner != n.session.ID():
			// An earlier session's, about to go with it.
			continue
		case n.path == "":
			n.found(path)
		default:
			if err := n.session.Delete(path, -1); err != nil && !errors.Is(err, ErrNoNode) {
				return err
			}
		}
	}
	n.maybe = false
	return nil
}

// candidates returns the paths of the children of dir that have the node's
// name, in the order of their making. The list is at least as new as any answer that got lost: the server first catches up with
// the leader, and go-zookeeper tells every server that it connects to how much
// it has seen.
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

// Remove is Delete, and also reports whether the server said that it was this
// call's request that deleted the node. If so, the node was there until then.
func (n *Node) Remove(s *Session) (deleted bool, err error) {
	if n.session == nil || n.path == "" && !n.maybe || n.session.Gone() {
		n.Forget()
		return false, nil
	}
	n.release()
	if s.Err() == nil && n.session.Err() == nil && s != n.session {
		return false, badArguments("delete", n.where(), "it belongs to session %#x, not to %#x", n.session.ID(), s.ID())
	}
	deleted, err = n.delete(s)
	if err == nil || n.session.Gone() { // perhaps only now
		n.Forget()
		return deleted, nil
	}
	if over := s.Err(); over != nil {
		err = overError("delete", n.where(), fmt.Errorf("%w, and the server did not confirm the end of session %#x: the node may remain for up to %v", over, n.session.ID(), n.session.Timeout()))
	}
	return false, err
}

// delete deletes what there is, or may be, of the node.
func (n *Node) delete(s *Session) (deleted bool, err error) {
	paths := []string{n.path}
	if n.path == "" {
		if paths, err = n.candidates(s); err != nil {
			return false, err
		}
	}
	for _, path := range paths {
		switch err := s.Delete(path, -1); {
		case err == nil:
			deleted = true
		case !errors.Is(err, ErrNoNode):
			return false, err
		}
	}
	return deleted, nil
}

// Forget drops the obligation to delete the node and unregisters the watcher.
// It is for a node whose session is over. The Node can be created again.
func (n *Node) Forget() {
	n.drop()
	n.session, n.maybe = nil, false
}

// drop forgets the node that was there.
func (n *Node) drop() {
	n.release()
	n.path, n.czxid = "", 0
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
