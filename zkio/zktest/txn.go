// SPDX-License-Identifier: Apache-2.0

package zktest

import "fmt"

// A txn is a transaction in progress: one zxid, one time, one author. Each of its
// methods makes one change to the tree, or refuses to with a code; the checks are
// in the real server's order. The caller holds service.mu from begin to commit.
type txn struct {
	tree    *tree
	zxid    int64
	now     int64 // milliseconds since 1970
	session int64 // the author's, which owns ephemeral nodes created here
	who     []id  // the author's ids

	extended bool // nodes with a time to live are allowed
	followed bool // there are views that will repeat the changes
	other    bool // see Quirks.OtherStats

	redo []func(t *tree) // repeat the changes in the tree of a view
	ends *session        // the session that it ends, whose connections must be closed

	by     *Server // that answers the client, and does so when it has applied this; nil: none
	answer func()

	events []event // for watches, in order

	// The rest is for multis.
	multi bool
	undo  []func() // undo the changes so far; to be run backwards
	// wrapped holds the number of the next sequential child, within this
	// transaction, of a node whose count of creates cannot grow. See create.
	wrapped map[*znode]int32
}

// undoable records how to undo the change just made.
func (tx *txn) undoable(f func()) {
	if tx.multi {
		tx.undo = append(tx.undo, f)
	}
}

// repeatable records how a view repeats the change just made. f gets a tree in the
// state that this transaction's tree had before the change.
func (tx *txn) repeatable(f func(t *tree)) {
	if tx.followed {
		tx.redo = append(tx.redo, f)
	}
}

// repeat makes the changes in t, the tree of a view.
func (tx *txn) repeat(t *tree) {
	for _, redo := range tx.redo {
		redo(t)
	}
	t.zxid = tx.zxid
}

// rollback undoes all changes and drops all events.
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

// create creates the node that ch describes and returns it. ch.op distinguishes
// plain nodes, containers, and nodes with a time to live. As in a real server, the
// container flag in a plain create makes a plain node.
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
		// The request needs one of the flags. (A real server does not survive
		// some of the combinations.)
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
	// The sequence number is the number of creates below the parent so far,
	// of children of all kinds. The count is not stored if it would overflow,
	// so from 2^31-1 on each create gets the same number. Only creates that
	// are in progress together, such as those of one transaction, count on
	// into the negative.
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

// delete deletes the node at path if it has the version, or version is -1.
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

// remove deletes n, which has no children, without any check.
func (tx *txn) remove(n *znode) {
	parent := n.parent
	pzxid := parent.pzxid
	if !tx.other {
		parent.pzxid = max(parent.pzxid, tx.zxid)
	}
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
	if tx.other && n.parent != nil {
		n.parent.written++
		tx.undoable(func() { n.parent.written-- })
		tx.repeatable(func(t *tree) { t.nodes[path].parent.written++ })
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
