// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"sync"
	"time"
)

// A nodeSet holds the session's ephemeral nodes that are known to exist: what
// there is to prove, and what to prove it with.
type nodeSet struct {
	wake chan struct{} // of capacity 1: there is a first node

	mu    sync.Mutex // protects what follows, slot of the nodes, and changes of their path
	nodes []*Node
	next  int // index of the node to be checked next
}

func (ns *nodeSet) add(n *Node) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n.slot > 0 {
		return
	}
	ns.nodes = append(ns.nodes, n)
	n.slot = int32(len(ns.nodes))
	if n.slot == 1 {
		select {
		case ns.wake <- struct{}{}:
		default: // a wake-up is on its way
		}
	}
}

// remove removes n unless its owner has made it anew since path was picked.
func (ns *nodeSet) remove(n *Node, path string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n.path != path || n.slot == 0 {
		return
	}
	last := len(ns.nodes) - 1
	moved := ns.nodes[last]
	ns.nodes[n.slot-1], moved.slot = moved, n.slot
	ns.nodes[last] = nil
	ns.nodes = ns.nodes[:last]
	n.slot = 0
	if last == 0 {
		ns.nodes = nil // the memory of many is not kept for none
	}
}

// pick returns the nodes in turn, with the path of each; nil if there is none.
func (ns *nodeSet) pick() (*Node, string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if len(ns.nodes) == 0 {
		return nil, ""
	}
	if ns.next >= len(ns.nodes) {
		ns.next = 0
	}
	n := ns.nodes[ns.next]
	ns.next++
	return n, n.path
}

func (ns *nodeSet) len() int {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return len(ns.nodes)
}

// heartbeat keeps the session's lease alive. While the session has nodes to keep
// alive, and none of its writes of the last seventh of the timeout was answered (or
// of a shorter time, if the lease ends soon: see leaseTracker.due), it makes the
// cheapest write there is, a transaction that checks one of the nodes and changes
// nothing.
//
// It runs on a goroutine of the session's and not on a worker, so that busy
// workers do not cost the lease. Its call may block while the servers are away;
// Client.watch notices the ends of leases.
func (s *Session) heartbeat() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !isClosed(s.over) {
		left := s.beat()
		if left <= 0 {
			continue
		}
		timer.Reset(left)
		select {
		case <-s.over:
		case <-timer.C:
		case <-s.nodes.wake:
		}
	}
}

// beat obtains a proof if one is due, and returns when to look again.
func (s *Session) beat() time.Duration {
	if left := s.leases.due() - s.client.clock.now(); left > 0 {
		return left
	}
	n, path := s.nodes.pick()
	if n == nil {
		return time.Hour // a first node wakes us
	}
	switch err := s.Prove(path); {
	case err == nil:
		return s.leases.due() - s.client.clock.now()
	case errors.Is(err, ErrNoNode):
		s.nodes.remove(n, path) // its watchers are told
		return 0
	default: // the call has mostly waited for a connection already
		return s.Timeout() / 48
	}
}
