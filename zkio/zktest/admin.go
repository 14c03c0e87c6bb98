// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// administer runs one transaction to which no ACL applies.
func (s *Server) administer(what, path string, session int64, fn func(tx *txn) Code) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.administerLocked(what, path, session, fn)
}

// administerLocked is administer for a caller that has locked s.mu.
func (s *Server) administerLocked(what, path string, session int64, fn func(tx *txn) Code) error {
	tx := s.begin(administrator, session)
	code := fn(tx)
	s.commit(tx)
	if code != CodeOK {
		return fmt.Errorf("zktest: %s %s: %w", what, path, code)
	}
	return nil
}

// Create creates a persistent node with an open ACL. As with any client's
// create, its parent must exist, and watches fire.
func (s *Server) Create(path string, data []byte) error {
	return s.administer("create", path, 0, func(tx *txn) Code {
		_, code := tx.create(change{op: OpCreate, path: path, data: bytes.Clone(data), acl: openACL})
		return code
	})
}

// CreateAll is like Create, and also creates the missing nodes above path,
// without data. It fails if path exists.
func (s *Server) CreateAll(path string, data []byte) error {
	for i, r := range path {
		if r == '/' && i > 0 && !s.Exists(path[:i]) {
			if err := s.Create(path[:i], nil); err != nil {
				return err
			}
		}
	}
	return s.Create(path, data)
}

// CreateEphemeral is like Create, for an ephemeral node of a live session.
func (s *Server) CreateEphemeral(session int64, path string, data []byte) error {
	return s.administer("create", path, session, func(tx *txn) Code {
		if s.sessions[session] == nil {
			return CodeSessionExpired
		}
		_, code := tx.create(change{op: OpCreate, path: path, data: bytes.Clone(data), acl: openACL, flags: flagEphemeral})
		return code
	})
}

// Set replaces the data of a node. Watches fire.
func (s *Server) Set(path string, data []byte) error {
	return s.administer("set", path, 0, func(tx *txn) Code {
		_, code := tx.setData(path, bytes.Clone(data), -1)
		return code
	})
}

// Delete deletes a node, which must not have children. Watches fire.
func (s *Server) Delete(path string) error {
	return s.administer("delete", path, 0, func(tx *txn) Code { return tx.delete(path, -1) })
}

// DeleteAll deletes a node and everything below it, the youngest first, each in a
// transaction of its own. No other request is executed between them. A missing node
// is not an error.
func (s *Server) DeleteAll(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var nodes []*znode
	for p, n := range s.tree.nodes {
		if p == path || strings.HasPrefix(p, path+"/") {
			nodes = append(nodes, n)
		}
	}
	sortByAge(nodes) // parents before their children
	for _, n := range slices.Backward(nodes) {
		err := s.administerLocked("delete", n.path, 0, func(tx *txn) Code { return tx.delete(n.path, -1) })
		if err != nil {
			return err
		}
	}
	return nil
}

// SetSequence sets the number of the next sequential child of the node at path,
// so that a test can reach 2^31 without creating as many nodes. The number can
// only be raised. It changes the node's Cversion.
func (s *Server) SetSequence(path string, next int32) error {
	return s.administer("set the sequence of", path, 0, func(tx *txn) Code {
		n := s.tree.node(path)
		switch {
		case n == nil:
			return CodeNoNode
		case next < n.creates:
			return CodeBadArguments
		}
		n.creates = next
		tx.repeatable(func(t *tree) { t.nodes[n.path].creates = next })
		return CodeOK
	})
}

// ExpireSession ends a session as if it had timed out: its ephemeral nodes are
// deleted, watches fire, and its connection is closed. It reports whether the
// session was alive.
func (s *Server) ExpireSession(session int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.sessions[session]
	if sess == nil {
		return false
	}
	s.commit(s.expire(sess, true))
	return true
}
