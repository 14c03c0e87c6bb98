// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"fmt"
	"sync/atomic"
)

// defaultMaxPathBytes is half of what servers read of a transaction by default: twice their
// jute.maxbuffer of 1 MiB.
const defaultMaxPathBytes = 1 << 20

// A pathCount is how many bytes the paths of a session's nodes have.
//
// Servers since 3.6 end a session by one transaction with the paths of all its ephemeral
// nodes. One that is larger than they can read (jute.maxbuffer, and as much again) makes the
// whole ensemble unavailable, for ever: they fail to read it from each other, and from their
// own logs when they start (ZOOKEEPER-4306). So a session must not have so many nodes.
type pathCount struct {
	bytes  atomic.Int64
	warned atomic.Bool // that the limit is near
}

// add counts a node's path; sign is 1 if there may be a node now, -1 if there surely is none.
func (p *pathCount) add(n *Node, sign int64) { p.bytes.Add(sign * n.pathBytes()) }

// pathBytes returns how many bytes the node's path takes in a transaction.
func (n *Node) pathBytes() int64 {
	const length = 4 // before each path
	if n.create == nil {
		return int64(len(n.path)) + length
	}
	size := len(n.create.dir) + len("/") + len(n.create.prefix) + sequenceDigits
	if n.create.dir == "/" {
		size--
	}
	return int64(size) + length
}

// fits returns nil if s may have this node, besides others that are to be created with it and
// have that many bytes; or if s counts it already. It looks before the node is counted, so
// several goroutines may pass the limit together by a request each.
func (n *Node) fits(s *Session, others int64) error {
	most := s.client.cfg.MaxPathBytes
	if n.create == nil || n.session == s && n.state != nodeAbsent || most < 0 {
		return nil
	}
	have := s.paths.bytes.Load()
	then := have + others + n.pathBytes()
	if then > int64(most) {
		return &opError{op: "create", path: n.where(), kind: ErrTooManyNodes,
			why: fmt.Errorf("the paths of its nodes have %d bytes, and Config.MaxPathBytes is %d, since ZooKeeper fails for good if a session ends that has more than the servers can read (ZOOKEEPER-4306): give up some locks or other nodes, or use another session (another Manager); or raise jute.maxbuffer on all servers, and then MaxPathBytes", have, most)}
	}
	if then > int64(most)/4*3 && s.paths.warned.CompareAndSwap(false, true) {
		s.client.cfg.Logger.Warn("the paths of the session's nodes are near Config.MaxPathBytes, beyond which further nodes are refused",
			"session", fmt.Sprintf("%#x", s.ID()), "path_bytes", then, "limit", most)
	}
	return nil
}
