// SPDX-License-Identifier: Apache-2.0

package zktest

import "fmt"

// A txn is one transaction in the making: one zxid, one time, one author. Each
// of its methods makes one change to the tree or refuses it with a code, the
// checks in the order of the real server's. The caller holds Server.mu from
// begin until it has called rollback or has fired the txn's events.
type txn struct {
	tree    *tree
	zxid    int64
	now     int64 // milliseconds since 1970
	session int64 // the author's; owner of the ephemeral nodes made here
	who     []id  // the author's identities

	extended bool // the server knows nodes with a time to live
	followed bool // there are views that will have to make the same changes

	redo []func(t *tree) // makes the same changes in the tree of a view
	ends *session        // the session that the transaction ends by force; its connection is to be closed

	events []event // what watches are to be told, in order

	// Only a transaction of several changes needs the following two.
	multi bool
	undo  []func() // undoes the changes made so far, to be run backwards
	// wrapped holds, for a node whose count of creates cannot grow any more,
	// the number that the next sequential child within this transaction gets.
	// See create.
	wrapped map[*znode]int32
}

// undoable notes how to take back a change that was just made.
func (tx *txn) undoable(f func()) {
	if tx.multi {
		tx.undo = append(tx.undo, f)
	}
}

// repeatable notes how a view that lags makes a change that was just made. The
// tree that f is given is in the state in which the transaction's tree was.
func (tx *txn) repeatable(f func(t *tree)) {
	if tx.followed {
		tx.redo = append(tx.redo, f)
	}
}

// rollback takes back every change and every event.
func (tx *txn) rollback() {
	for i := len(tx.undo) - 1; i >= 0; i-- {
		tx.undo[i]()
	}
	tx.undo, tx.redo, tx.events, tx.wrapped = nil, nil, nil, nil
}

// The flags of a create request.
const (
	flagEphemeral     = 1
	flagSequential    = 2
	flagContainer     = 4
	flagTTL           = 5
	flagSequentialTTL = 6
)

// create makes the node that ch asks for and returns it. ch.op tells a plain
// create from that of a container or a node with a time to live; the flag for
// a container in a plain create makes a plain node, as it does in the real
// server.
func (tx *txn) create(ch change) (*znode, Code) {
	path, flags := ch.path, ch.flags
	if flags < 0 || flags > flagSequentialTTL {
		return nil, CodeBadArguments
	}
	switch mortal := flags == flagTTL || flags == flagSequentialTTL; {
	case mortal && !tx.extended:
		return nil, CodeUnimplemented
	case mortal && (ch.op != OpCreateTTL || ch.ttl <= 0 || ch.ttl > maxTTL):
		return nil, CodeBadArguments
	case !mortal && ch.op == OpCreateTTL:
		// Without a flag for it a time to live makes no sense; and without
		// a time to live the real server even falls over.
		return nil, CodeBadArguments
	}
	ephemeral := flags&flagEphemeral != 0 && flags != flagTTL
	sequential := flags&flagSequential != 0

	parentPath, ok := parentOf(path)
	if !ok {
		return nil, CodeBadArguments
	}
	stored, code := fixACL(ch.acl, tx.who)
	if code != CodeOK {
		return nil, code
	}
	parent := tx.tree.node(parentPath)
	if parent == nil {
		return nil, CodeNoNode
	}
	if !allows(parent.acl, tx.who, permCreate) {
		return nil, CodeNoAuth
	}
	// The sequence number is the count of creates below the parent, of every
	// kind of child. The count is not stored when it would overflow, so that
	// from 2^31-1 on each create gets the same number; only creates that are
	// under way together count on, into the negative. One transaction is such
	// a case.
	number := parent.creates
	if w, ok := tx.wrapped[parent]; ok {
		number = w
	}
	if sequential {
		path = fmt.Sprintf("%s%010d", path, number)
	}
	if !validPath(path) {
		return nil, CodeBadArguments
	}
	if tx.tree.node(path) != nil {
		return nil, CodeNodeExists
	}
	if parent.ephemeral() {
		return nil, CodeNoChildrenForEphemerals
	}

	creates, pzxid := parent.creates, parent.pzxid
	if number+1 > creates {
		parent.creates, parent.pzxid = number+1, tx.zxid
	} else if tx.multi {
		if tx.wrapped == nil {
			tx.wrapped = make(map[*znode]int32)
		}
		tx.wrapped[parent] = number + 1
	}
	n := &znode{
		path:   path,
		name:   path[len(path)-nameLen(path):],
		parent: parent,
		data:   ch.data,
		acl:    stored,
		czxid:  tx.zxid,
		mzxid:  tx.zxid,
		pzxid:  tx.zxid,
		ctime:  tx.now,
		mtime:  tx.now,
	}
	switch {
	case ch.op == OpCreateContainer:
		n.owner = containerOwner
	case ch.op == OpCreateTTL:
		n.owner, n.ttl = ttlOwner|ch.ttl, ch.ttl
	case ephemeral:
		n.owner = tx.session
	}
	tx.tree.link(n)
	tx.events = append(tx.events, event{eventCreated, path, stored, parent.path, parent.acl})
	if tx.followed {
		made, counted, changed := *n, parent.creates, parent.pzxid
		tx.repeatable(func(t *tree) {
			n := made
			n.parent = t.nodes[made.parent.path]
			n.parent.creates, n.parent.pzxid = counted, changed
			t.link(&n)
		})
	}
	tx.undoable(func() {
		tx.tree.unlink(n)
		parent.creates, parent.pzxid = creates, pzxid
	})
	return n, CodeOK
}

// nameLen returns the length of the last segment of path.
func nameLen(path string) int {
	n := 0
	for n < len(path) && path[len(path)-1-n] != '/' {
		n++
	}
	return n
}

// delete removes the node at path if it has the version, or version is -1.
func (tx *txn) delete(path string, version int32) Code {
	parentPath, ok := parentOf(path)
	if !ok || special(path) {
		return CodeBadArguments
	}
	parent := tx.tree.node(parentPath)
	if parent == nil {
		return CodeNoNode
	}
	if !allows(parent.acl, tx.who, permDelete) {
		return CodeNoAuth
	}
	n := tx.tree.node(path)
	if n == nil {
		return CodeNoNode
	}
	if version != -1 && version != n.version {
		return CodeBadVersion
	}
	if len(n.children) > 0 {
		return CodeNotEmpty
	}
	tx.remove(n)
	return CodeOK
}

// remove removes n, which has no children, unconditionally.
func (tx *txn) remove(n *znode) {
	parent := n.parent
	pzxid := parent.pzxid
	parent.pzxid = max(parent.pzxid, tx.zxid)
	tx.tree.unlink(n)
	tx.events = append(tx.events, event{eventDeleted, n.path, n.acl, parent.path, parent.acl})
	path, changed := n.path, parent.pzxid
	tx.repeatable(func(t *tree) {
		n := t.nodes[path]
		n.parent.pzxid = changed
		t.unlink(n)
	})
	tx.undoable(func() {
		tx.tree.link(n)
		parent.pzxid = pzxid
	})
}

// setData replaces the data of the node at path and returns the new Stat.
func (tx *txn) setData(path string, data []byte, version int32) (Stat, Code) {
	if !validPath(path) {
		return Stat{}, CodeBadArguments
	}
	n := tx.tree.node(path)
	if n == nil {
		return Stat{}, CodeNoNode
	}
	if !allows(n.acl, tx.who, permWrite) {
		return Stat{}, CodeNoAuth
	}
	if version != -1 && version != n.version {
		return Stat{}, CodeBadVersion
	}
	old := *n
	n.data, n.mzxid, n.mtime, n.version = data, tx.zxid, tx.now, n.version+1
	tx.events = append(tx.events, event{kind: eventDataChanged, path: path, acl: n.acl})
	version = n.version
	tx.repeatable(func(t *tree) {
		n := t.nodes[path]
		n.data, n.mzxid, n.mtime, n.version = data, tx.zxid, tx.now, version
	})
	tx.undoable(func() {
		n.data, n.mzxid, n.mtime, n.version = old.data, old.mzxid, old.mtime, old.version
	})
	return n.stat(), CodeOK
}

// setACL replaces the ACL of the node at path. It is never part of a multi.
func (tx *txn) setACL(path string, acl []aclEntry, version int32) (Stat, Code) {
	if !validPath(path) {
		return Stat{}, CodeBadArguments
	}
	stored, code := fixACL(acl, tx.who)
	if code != CodeOK {
		return Stat{}, code
	}
	n := tx.tree.node(path)
	if n == nil {
		return Stat{}, CodeNoNode
	}
	if !allows(n.acl, tx.who, permAdmin) {
		return Stat{}, CodeNoAuth
	}
	if version != -1 && version != n.aversion {
		return Stat{}, CodeBadVersion
	}
	n.acl = stored
	n.aversion++
	version = n.aversion
	tx.repeatable(func(t *tree) {
		n := t.nodes[path]
		n.acl, n.aversion = stored, version
	})
	return n.stat(), CodeOK
}

// check compares the version of the node at path.
func (tx *txn) check(path string, version int32) Code {
	if !validPath(path) {
		return CodeBadArguments
	}
	n := tx.tree.node(path)
	if n == nil {
		return CodeNoNode
	}
	if !allows(n.acl, tx.who, permRead) {
		return CodeNoAuth
	}
	if version != -1 && version != n.version {
		return CodeBadVersion
	}
	return CodeOK
}
