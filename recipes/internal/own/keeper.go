// SPDX-License-Identifier: Apache-2.0

// Package own keeps ephemeral nodes of this process for the recipes: a permit, a claim, a
// membership. A node is this process's for as long as the session's lease lasts and the
// node is there, and its owner learns of the end before ZooKeeper can let another process
// have what the node stands for.
package own

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Keeper keeps the nodes of one recipe. It listens to the session while it has any. All
// methods may be called concurrently.
type Keeper struct {
	access manager.Access
	lost   error // what the Err of a lost node wraps

	mu    sync.Mutex // protects what follows; held for a few instructions
	nodes map[*Node]struct{}
	stop  func() // ends listening; nil if nodes is empty
}

// NewKeeper returns a Keeper without nodes. The error of a node that is lost wraps lost.
func NewKeeper(a manager.Access, lost error) *Keeper {
	return &Keeper{access: a, lost: lost, nodes: make(map[*Node]struct{})}
}

// Keep keeps the node at path, which transaction czxid has created in s, from now on. It
// makes sure that the lease lasts for a while, with a request if it must, and looks at the
// node a little later, which has the server watch it. It is called by an I/O goroutine, and
// fails as session calls do: ErrNoNode if the node is gone. After an error the node is not
// kept, and may be there.
func (k *Keeper) Keep(s *zkio.Session, path string, czxid int64) (*Node, error) {
	lease := s.Lease()
	if enough := k.access.LeaseToBegin(s); lease.Remaining() < enough {
		if err := s.Prove(path); err != nil {
			return nil, err
		}
		if lease = s.Lease(); lease.Remaining() < enough {
			return nil, fmt.Errorf("%w: the lease is too short", zkio.ErrNotSent)
		}
	}
	n := &Node{keeper: k, session: s, lease: lease, path: path, token: uint64(czxid)}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	n.alive = zkio.Adopt(s, path, czxid, n)
	k.add(n)
	// The listener marks the lease before it looks at the nodes; we have added the node
	// before we look at the lease. At least one sees the other.
	if err := s.Err(); err != nil || !lease.InForce() {
		n.Forget()
		if err == nil {
			err = fmt.Errorf("%w: %w", zkio.ErrNotSent, errLeaseEnded)
		}
		return nil, err
	}
	n.lookLater()
	return n, nil
}

func (k *Keeper) add(n *Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.nodes) == 0 {
		k.stop = k.access.Listen(k)
	}
	k.nodes[n] = struct{}{}
}

// remove reports whether n was kept until now. If it was, and why is not nil, it is lost.
func (k *Keeper) remove(n *Node, why error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, kept := k.nodes[n]; !kept {
		return false
	}
	delete(k.nodes, n)
	if len(k.nodes) == 0 {
		k.stop()
	}
	if why != nil {
		n.cancel(why) // under mu: who finds n removed by another finds it lost
	}
	return true
}

// keeps reports whether n is kept.
func (k *Keeper) keeps(n *Node) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, kept := k.nodes[n]
	return kept
}

// loseAll ends the nodes that which reports true for, since their lease or session is over.
func (k *Keeper) loseAll(which func(*Node) bool) {
	k.mu.Lock()
	var ended []*Node
	for n := range k.nodes {
		if which(n) {
			ended = append(ended, n)
		}
	}
	k.mu.Unlock()
	for _, n := range ended {
		n.lose(n.whyOver())
	}
}

// SessionStarted is called by the dispatcher.
func (k *Keeper) SessionStarted(*zkio.Session) {}

// ConnectionLost is called by the dispatcher. The lease decides.
func (k *Keeper) ConnectionLost(*zkio.Session, error) {}

// ConnectionResumed is called by the dispatcher.
func (k *Keeper) ConnectionResumed(*zkio.Session, time.Duration) {}

// ProcessPaused is called by the dispatcher. The lease decides.
func (k *Keeper) ProcessPaused(time.Duration) {}

// LeaseLapsed is called by the dispatcher.
func (k *Keeper) LeaseLapsed(l *zkio.Lease) {
	k.loseAll(func(n *Node) bool { return n.lease == l })
}

// SessionOver is called by the dispatcher.
func (k *Keeper) SessionOver(s *zkio.Session, _ error) {
	k.loseAll(func(n *Node) bool { return n.session == s })
}
