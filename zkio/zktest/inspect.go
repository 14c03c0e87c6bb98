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

// Nodes returns the paths of all nodes, sorted, except the root, /zookeeper, and
// the nodes below /zookeeper.
func (s *Server) Nodes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	paths := make([]string, 0, len(s.tree.nodes))
	for path := range s.tree.nodes {
		if path != "/" && path != "/zookeeper" && !strings.HasPrefix(path, "/zookeeper/") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Children returns the names of the children of the node at path, sorted. A
// missing node has none.
func (s *Server) Children(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.node(path)
	if n == nil {
		return nil
	}
	names := n.names()
	slices.Sort(names)
	return names
}

// Exists reports whether the node at path exists.
func (s *Server) Exists(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree.node(path) != nil
}

// Get returns a copy of the data and the Stat of the node at path, and whether
// the node exists.
func (s *Server) Get(path string) (data []byte, stat Stat, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.node(path)
	if n == nil {
		return nil, Stat{}, false
	}
	return bytes.Clone(n.data), n.stat(), true
}

// Zxid returns the number of the last transaction. Its upper half is the epoch,
// the number of restarts; the lower half counts transactions within the epoch.
func (s *Server) Zxid() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree.zxid
}

// A SessionInfo describes a live session.
type SessionInfo struct {
	ID         int64
	Timeout    time.Duration // negotiated
	Connected  bool
	LastTouch  time.Time // the client's last sign of life
	Expires    time.Time // when it ends without a further sign of life; zero while the server is stopped
	Ephemerals []string  // paths of its nodes, in the order of their creation
	Server     int       // the number of the server at which it was last opened or resumed
	Zxid       int64     // of the last transaction that this server has carried out for it; 0 while it is not connected there
}

// Sessions returns the live sessions in the order of their creation.
func (s *Server) Sessions() []SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	infos := make([]SessionInfo, 0, len(s.sessions))
	for _, sess := range s.sessions {
		info := SessionInfo{
			ID:        sess.id,
			Timeout:   sess.timeout,
			Connected: len(sess.conns) > 0,
			LastTouch: sess.touched,
			Server:    sess.owner.number,
		}
		for _, c := range sess.conns {
			if c.srv == sess.owner {
				info.Zxid = c.view().tree.zxid
			}
		}
		if sess.bucket != noBucket {
			info.Expires = s.tickTime(sess.bucket)
		}
		for _, n := range s.tree.owned(sess.id) {
			info.Ephemerals = append(info.Ephemerals, n.path)
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })
	return infos
}

// Expired returns the sessions that the server has ended, in that order, without
// those that their clients closed.
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

// Connections returns the number of open connections, with or without a session.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Requests returns the number of requests of kind op that were executed,
// successful or not.
func (s *Server) Requests(op Op) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[op]
}

// RequestCounts returns the number of requests of each kind that were executed.
func (s *Server) RequestCounts() map[Op]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}
