// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Nodes returns the paths of all nodes, sorted, without the root and the
// server's own nodes below /zookeeper.
func (s *Server) Nodes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	paths := make([]string, 0, len(s.lead.tree.nodes))
	for path := range s.lead.tree.nodes {
		if path != "/" && path != "/zookeeper" && !strings.HasPrefix(path, "/zookeeper/") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Children returns the names of the children of the node at path, sorted. It
// returns none if there is no such node.
func (s *Server) Children(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lead.tree.node(path)
	if n == nil {
		return nil
	}
	names := n.names()
	slices.Sort(names)
	return names
}

// Exists reports whether there is a node at path.
func (s *Server) Exists(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lead.tree.node(path) != nil
}

// Get returns the data and the Stat of the node at path, and whether there is
// one. The data is a copy.
func (s *Server) Get(path string) (data []byte, stat Stat, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lead.tree.node(path)
	if n == nil {
		return nil, Stat{}, false
	}
	return bytes.Clone(n.data), n.stat(), true
}

// Zxid returns the number of the last transaction: the epoch, which counts the
// server's restarts, in the upper half, and in the lower the number within it.
func (s *Server) Zxid() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lead.tree.zxid
}

// A SessionInfo tells about a live session.
type SessionInfo struct {
	ID         int64
	Timeout    time.Duration // negotiated
	Connected  bool
	LastTouch  time.Time // when the client was last heard of
	Expires    time.Time // when it ends unless the client is heard of; zero while the server is stopped
	Ephemerals []string  // paths of its nodes, in the order of their making
}

// Sessions returns the live sessions, by their ids, which is the order of
// their making.
func (s *Server) Sessions() []SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	infos := make([]SessionInfo, 0, len(s.sessions))
	for _, sess := range s.sessions {
		info := SessionInfo{
			ID:        sess.id,
			Timeout:   sess.timeout,
			Connected: sess.conn != nil,
			LastTouch: sess.touched,
		}
		if sess.bucket != noBucket {
			info.Expires = s.tickTime(sess.bucket)
		}
		for _, n := range s.lead.tree.owned(sess.id) {
			info.Ephemerals = append(info.Ephemerals, n.path)
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })
	return infos
}

// Expired returns the sessions that the server has ended, in that order, with
// times. Those that their clients have closed are not among them.
func (s *Server) Expired() []Expiry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.expired)
}

// WatchCount is a number of watches, by kind. A persistent watch counts as one
// of each kind.
type WatchCount struct {
	Data  int // set by getData and exists
	Child int // set by getChildren
}

// Watches returns the number of connections that watch path itself.
func (s *Server) Watches(path string) WatchCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n WatchCount
	for _, v := range s.views() {
		n.Data += len(v.watches[dataSide].conns[path])
		n.Child += len(v.watches[childSide].conns[path])
	}
	return n
}

// AllWatches returns the number of all watches.
func (s *Server) AllWatches() WatchCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n WatchCount
	for _, v := range s.views() {
		data, _ := v.watches.count(dataSide)
		child, _ := v.watches.count(childSide)
		n.Data += data
		n.Child += child
	}
	return n
}

// Connections returns the number of open connections, those without a session
// included.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Requests returns how many requests of the kind op were executed, whether
// they succeeded or not.
func (s *Server) Requests(op Op) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[op]
}

// RequestCounts returns Requests for every kind that occurred.
func (s *Server) RequestCounts() map[Op]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}
