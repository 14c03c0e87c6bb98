// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"cmp"
	"slices"
)

// A tree is the data of the server, or of a view. service.mu protects all of it.
// Only transactions change it.
type tree struct {
	zxid       int64 // of the last transaction
	nodes      map[string]*znode
	root       *znode
	ephemerals map[int64]map[*znode]struct{} // by session
	containers map[*znode]struct{}
	mortals    map[*znode]struct{} // nodes with a time to live
}

// emptyTree returns a tree without nodes, not even the root.
func emptyTree() *tree {
	return &tree{
		nodes:      make(map[string]*znode),
		ephemerals: make(map[int64]map[*znode]struct{}),
		containers: make(map[*znode]struct{}),
		mortals:    make(map[*znode]struct{}),
	}
}

// newTree returns the tree of a new server, with the nodes that a real one begins
// with.
func newTree() *tree {
	t := emptyTree()
	t.root = &znode{path: "/", acl: openACL, data: []byte{}}
	t.nodes["/"] = t.root
	zk := &znode{path: "/zookeeper", name: "zookeeper", parent: t.root, acl: openACL, data: []byte{}}
	t.link(zk)
	for _, name := range []string{"config", "quota"} {
		n := &znode{path: "/zookeeper/" + name, name: name, parent: zk, acl: openACL, data: []byte{}}
		if name == "config" {
			n.acl, n.aversion = []aclEntry{{permRead, anyone}}, -1
		}
		t.link(n)
	}
	return t
}

// node returns the node at path, or nil. The empty path also names the root.
func (t *tree) node(path string) *znode {
	if path == "" {
		return t.root
	}
	return t.nodes[path]
}

// link adds n to the tree and its indexes.
func (t *tree) link(n *znode) {
	t.nodes[n.path] = n
	n.parent.add(n)
	switch {
	case n.owner == containerOwner:
		t.containers[n] = struct{}{}
	case n.ttl != 0:
		t.mortals[n] = struct{}{}
	case n.owner != 0:
		own := t.ephemerals[n.owner]
		if own == nil {
			own = make(map[*znode]struct{})
			t.ephemerals[n.owner] = own
		}
		own[n] = struct{}{}
	}
}

// unlink undoes link.
func (t *tree) unlink(n *znode) {
	delete(t.nodes, n.path)
	n.parent.remove(n)
	delete(t.containers, n)
	delete(t.mortals, n)
	if n.ephemeral() {
		own := t.ephemerals[n.owner]
		delete(own, n)
		if len(own) == 0 {
			delete(t.ephemerals, n.owner)
		}
	}
}

// owned returns the session's ephemeral nodes in the order of their creation.
func (t *tree) owned(session int64) []*znode {
	own := make([]*znode, 0, len(t.ephemerals[session]))
	for n := range t.ephemerals[session] {
		own = append(own, n)
	}
	sortByAge(own)
	return own
}

// idleContainers returns the containers that have lost their last child. One that
// never had a child is about to be used.
func (t *tree) idleContainers() []*znode {
	var idle []*znode
	for n := range t.containers {
		if len(n.children) == 0 && n.creates > 0 {
			idle = append(idle, n)
		}
	}
	sortByAge(idle)
	return idle
}

// expired returns the childless nodes whose data was last set longer ago than
// their time to live. now is in milliseconds since 1970.
func (t *tree) expired(now int64) []*znode {
	var over []*znode
	for n := range t.mortals {
		if len(n.children) == 0 && now-n.mtime > n.ttl {
			over = append(over, n)
		}
	}
	sortByAge(over)
	return over
}

// sortByAge orders nodes by their creation, independently of a map's order.
func sortByAge(nodes []*znode) {
	slices.SortFunc(nodes, func(a, b *znode) int {
		return cmp.Or(cmp.Compare(a.czxid, b.czxid), cmp.Compare(a.path, b.path))
	})
}
