// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// administer runs one transaction with the rights of an administrator, to
// whom no ACL applies.
func (s *Server) administer(what, path string, session int64, fn func(tx *txn) Code) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := s.begin(administrator, session)
	code := fn(tx)
	s.commit(tx)
	if code != CodeOK {
		return fmt.Errorf("zktest: %s %s: %w", what, path, code)
	}
	return nil
}

// Create makes a persistent node that everybody may use, as some client would:
// watches fire. Its parent must exist.
func (s *Server) Create(path string, data []byte) error {
	return s.administer("create", path, 0, func(tx *txn) Code {
		_, code := tx.create(change{op: OpCreate, path: path, data: bytes.Clone(data), acl: openACL})
		return code
	})
}

// CreateAll is Create for path and whatever is missing above it. The nodes
// that it makes above have no data. It is an error if path exists.
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

// CreateEphemeral is Create for an ephemeral node of the given session, which
// must be alive.
func (s *Server) CreateEphemeral(session int64, path string, data []byte) error {
	return s.administer("create", path, session, func(tx *txn) Code {
		if s.sessions[session] == nil {
			return CodeSessionExpired
		}
		_, code := tx.create(change{op: OpCreate, path: path, data: bytes.Clone(data), acl: openACL, flags: flagEphemeral})
		return code
	})
}

// Set replaces the data of a node, as some client would: watches fire.
func (s *Server) Set(path string, data []byte) error {
	return s.administer("set", path, 0, func(tx *txn) Code {
		_, code := tx.setData(path, bytes.Clone(data), -1)
		return code
	})
}

// Delete deletes a node, as some client would: watches fire. The node must not
// have children.
func (s *Server) Delete(path string) error {
	return s.administer("delete", path, 0, func(tx *txn) Code { return tx.delete(path, -1) })
}

// DeleteAll deletes a node and everything below it, children first, each node
// in a transaction of its own. It is no error if there is no such node.
func (s *Server) DeleteAll(path string) error {
	nodes := slices.DeleteFunc(s.Nodes(), func(p string) bool {
		return p != path && !strings.HasPrefix(p, path+"/")
	})
	// The order of paths puts a parent before its children, so that backwards
	// every child comes before its parent.
	for _, p := range slices.Backward(nodes) {
		if err := s.Delete(p); err != nil {
			return err
		}
	}
	return nil
}

// SetSequence makes next the number of the next sequential child of the node at
// path, so that a test need not create 2^31 nodes to see what happens there.
// The number cannot be set back. The node's Cversion changes with it.
func (s *Server) SetSequence(path string, next int32) error {
	return s.administer("set the sequence of", path, 0, func(tx *txn) Code {
		n := s.lead.tree.node(path)
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

// ExpireSession ends a session as if its client had not been heard of for too
// long, and reports whether there was one: its ephemeral nodes are deleted,
// watches fire, its connection is closed.
func (s *Server) ExpireSession(session int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.sessions[session]
	if sess == nil {
		return false
	}
	s.expire(sess, true)
	return true
}
