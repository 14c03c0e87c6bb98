// SPDX-License-Identifier: Apache-2.0

package own

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/zkio"
)

// The reasons for which a node is lost.
var (
	errLeaseEnded   = errors.New("the lease ended")
	errSessionEnded = errors.New("the session is over")
	errDeleted      = errors.New("another client deleted its node")
)

// A Node is an ephemeral node of this process, from [Keeper.Keep] until it is lost, or its
// owner deletes or forgets it. All methods may be called concurrently.
type Node struct {
	keeper  *Keeper
	session *zkio.Session
	lease   *zkio.Lease
	path    string
	token   uint64
	alive   *zkio.Node // ended by the goroutine that removes the node from its keeper

	ctx    context.Context // ends when the node is lost, with why as its cause
	cancel context.CancelCauseFunc

	tried atomic.Bool // a request to delete the node was sent
}

// Path returns the node's path.
func (n *Node) Path() string { return n.path }

// Token returns the transaction that created the node. It rises from node to node.
func (n *Node) Token() uint64 { return n.token }

// Session returns the session that owns the node.
func (n *Node) Session() *zkio.Session { return n.session }

// Lost returns a channel that is closed when the node is lost. It stays open when the
// owner deletes or forgets the node.
func (n *Node) Lost() <-chan struct{} { return n.ctx.Done() }

// Err returns nil while the node is this process's, and then why it is lost. It reads the
// clock, and does not block. Once the owner has deleted or forgotten the node, Err does
// not change any more.
func (n *Node) Err() error {
	if !n.lease.InForce() {
		n.lose(n.whyOver())
	}
	return context.Cause(n.ctx)
}

// Context returns a context that ends when parent does, when the node is lost, with the
// error of Err as its cause, or when done is called.
func (n *Node) Context(parent context.Context) (ctx context.Context, done context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(n.ctx, func() { cancel(context.Cause(n.ctx)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// whyOver returns why a node is lost whose lease or session is over.
func (n *Node) whyOver() error {
	if n.session.Err() != nil {
		return errSessionEnded
	}
	return errLeaseEnded
}

// lose ends the node, unless it has ended before.
func (n *Node) lose(why error) {
	if !n.end() {
		return
	}
	// The end of the session by Close can show as any of the reasons first.
	if closed := n.keeper.access.Context(); closed.Err() != nil {
		n.cancel(context.Cause(closed))
		return
	}
	n.cancel(fmt.Errorf("%w: %w", n.keeper.lost, why))
}

// end reports whether the node was kept until now.
func (n *Node) end() bool {
	if !n.keeper.remove(n) {
		return false
	}
	n.alive.Forget()
	return true
}

// PathChanged is called by the dispatcher when something happened to the node.
func (n *Node) PathChanged(_ string, ev zkio.Event) {
	switch ev {
	case zkio.NodeDeleted:
		n.lose(errDeleted)
	case zkio.NodeDataChanged: // the event has used up the watch
		n.session.WatchLater(n.path, n.session.Timeout()/16)
	}
}

// Forget ends the keeping of a node that its owner has deleted, or is about to. It does
// not block. Calls after the first do nothing.
func (n *Node) Forget() { n.end() }

// Delete forgets the node, and deletes it if it is there. nil means that it is gone, or
// goes with its session. Delete is called by an I/O goroutine, with any session. After an
// error call it again.
func (n *Node) Delete(s *zkio.Session) error {
	n.Forget()
	if n.session.Gone() {
		return nil
	}
	if s != n.session || n.ctx.Err() != nil || n.tried.Swap(true) {
		// It may be gone: deleted by another client, or by an earlier request of ours. And
		// another process may have made a node at this path since.
		if there, err := n.There(s); !there || err != nil {
			return err
		}
	}
	if err := s.Delete(n.path, -1); err != nil && !errors.Is(err, zkio.ErrNoNode) {
		return err
	}
	return nil
}

// There reports whether the node is there: this one, and not another at the same path. It
// asks a server, which may lag behind if s is not the node's session.
func (n *Node) There(s *zkio.Session) (bool, error) {
	stat, ok, err := s.Exists(n.path)
	return ok && uint64(stat.Czxid) == n.token, err
}
