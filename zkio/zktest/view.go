// SPDX-License-Identifier: Apache-2.0

package zktest

import "slices"

// A view is the data as some clients see it, with their watches. Transactions are
// executed in the tree of the service, which a view that is up to date shares. Other
// views repeat them in trees of their own, later but in the same order. service.mu
// protects all of it.
type view struct {
	tree    *tree
	watches watchTable
	pending []*txn // committed but not yet repeated here, oldest first; only a Lag's has any
}

// views returns the server's views, its own first. The caller holds s.mu.
func (s *Server) views() []*view {
	views := []*view{&s.view}
	for _, l := range s.lags {
		views = append(views, &l.view)
	}
	return views
}

// announce notifies v's watches of tx's changes. If tx ends a session that v
// serves, announce closes its connection; a client of another view works on until
// that view has come as far.
func (v *view) announce(tx *txn) {
	for _, e := range tx.events {
		v.watches.fire(e)
	}
	if tx.ends == nil {
		return
	}
	for _, c := range slices.Clone(tx.ends.conns) {
		if c.view() == v {
			c.srv.detach(c)
			c.finish()
		}
	}
}

// advance makes v repeat its n oldest pending transactions, or all if there are
// fewer.
func (v *view) advance(n int) {
	for range min(n, len(v.pending)) {
		tx := v.pending[0]
		v.pending = v.pending[1:]
		tx.repeat(v.tree)
		v.announce(tx)
	}
	if len(v.pending) == 0 {
		v.pending = nil
	}
}

// catchUp brings the view that serves c up to date.
func (s *Server) catchUp(c *conn) {
	v := c.view()
	v.advance(len(v.pending))
}

// clone returns a copy of t. It shares the nodes' data and ACLs, which are never
// modified in place, and keeps the order of children.
func (t *tree) clone() *tree {
	twin := emptyTree()
	twin.zxid = t.zxid
	var copyBelow func(n *znode)
	copyBelow = func(n *znode) {
		for _, child := range n.children {
			c := *child
			c.parent, c.children = twin.nodes[n.path], nil
			twin.link(&c)
			copyBelow(child)
		}
	}
	root := *t.root
	root.children = nil
	twin.root, twin.nodes["/"] = &root, &root
	copyBelow(t.root)
	return twin
}
