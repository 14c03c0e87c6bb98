// SPDX-License-Identifier: Apache-2.0

package zktest

// A view is the data as one server of an ensemble sees it, with the watches of the
// clients connected to that server. Transactions are executed in the tree of the
// lead, which is up to date. Other views repeat them in their trees, later but in
// the same order. Server.mu protects all of it.
type view struct {
	tree    *tree
	watches watchTable
	pending []*txn // committed but not yet repeated here, oldest first; the lead has none
}

// views returns all views, the lead first. The caller holds s.mu.
func (s *Server) views() []*view {
	views := []*view{&s.lead}
	for _, l := range s.lags {
		views = append(views, &l.view)
	}
	return views
}

// announce notifies v's watches of tx's changes. If tx ends a session that v
// serves, announce closes its connection; a client of another view works on until
// that view has come as far.
func (s *Server) announce(v *view, tx *txn) {
	for _, e := range tx.events {
		v.watches.fire(e)
	}
	if tx.ends == nil || tx.ends.conn == nil || tx.ends.conn.view() != v {
		return
	}
	c := tx.ends.conn
	s.detach(c)
	c.finish()
}

// advance makes v repeat its n oldest pending transactions, or all if there are
// fewer.
func (s *Server) advance(v *view, n int) {
	for range min(n, len(v.pending)) {
		tx := v.pending[0]
		v.pending = v.pending[1:]
		for _, redo := range tx.redo {
			redo(v.tree)
		}
		v.tree.zxid = tx.zxid
		s.announce(v, tx)
	}
	if len(v.pending) == 0 {
		v.pending = nil
	}
}

// catchUp brings the view that serves c up to date.
func (s *Server) catchUp(c *conn) {
	v := c.view()
	s.advance(v, len(v.pending))
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
