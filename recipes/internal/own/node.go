// SPDX-License-Identifier: Apache-2.0

package own

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

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
	return Within(parent, n.ctx)
}

// Within returns a context that ends when parent does, when life does, with its cause, or when
// done is called.
func Within(parent, life context.Context) (ctx context.Context, done context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// whyOver returns why a node is lost whose lease or session is over.
func (n *Node) whyOver() error {
	why := errLeaseEnded
	if n.session.Err() != nil || n.lease.SessionErr() != nil {
		why = errSessionEnded
	}
	if d := cmp.Or(n.lease.Paused(), n.session.Paused()); d > 0 {
		why = fmt.Errorf("this process did not run for %v: %w", d.Round(100*time.Millisecond), why)
	}
	return why
}

// lose ends the node, unless it has ended before.
func (n *Node) lose(why error) {
	err := fmt.Errorf("%w: %w", n.keeper.lost, why)
	// The end of the session by Close can show as any of the reasons first.
	if closed := n.keeper.access.Context(); closed.Err() != nil {
		err = context.Cause(closed)
	}
	n.end(err)
}

// end ends the keeping of the node, and reports whether it was kept until now. The node is
// lost if why is not nil.
func (n *Node) end(why error) bool {
	if !n.keeper.remove(n, why) {
		return false
	}
	n.alive.Forget()
	return true
}

// PathChanged is called by the dispatcher when something happened to the node.
func (n *Node) PathChanged(_ string, ev zkio.Event) {
	switch ev.What {
	case zkio.NodeDeleted:
		// The news may be of an earlier node of this process at the same path.
		n.keeper.access.Submit(zkio.Releases, &look{node: n})
	case zkio.NodeDataChanged:
		// The event has used up the watch. After an outage it can also mean that the node
		// was deleted meanwhile, and another client has made one at this path.
		n.lookLater()
	}
}

// lookLater has an I/O goroutine look at the node a little later.
func (n *Node) lookLater() { n.lookAfter(n.session.Timeout()/16, &look{node: n}) }

func (n *Node) lookAfter(d time.Duration, l *look) {
	n.keeper.access.SubmitAfter(d, zkio.Releases, l) // once the Manager is closed the node is lost
}

// A look is the task that looks whether the node is there, and leaves a watch for it. A
// watch alone, such as [zkio.Session.WatchLater] sets, does not tell the node from another
// at the same path.
type look struct {
	node     *Node
	attempts int
}

// Void is called before the task is queued.
func (l *look) Void() bool { return !l.node.keeper.keeps(l.node) }

// Run is called by the pool.
func (l *look) Run(s *zkio.Session) {
	n := l.node
	if s != n.session || l.Void() {
		return // of the session's end the listener is told
	}
	if _, err := n.ask(s, func() { n.lose(errDeleted) }); err != nil {
		n.lookAfter(zkio.Backoff(l.attempts, 10*time.Millisecond, 2*time.Second), l)
		l.attempts++
	}
}

// Forget ends the keeping of a node that its owner has deleted, or is about to. It does
// not block, and reports whether the node was kept until now: it was not lost. Calls after
// the first do nothing.
func (n *Node) Forget() bool { return n.end(nil) }

// Delete forgets the node, and deletes it if it is there. nil means that it is gone, or
// goes with its session. Delete is called by an I/O goroutine, with any session. After an
// error call it again.
func (n *Node) Delete(s *zkio.Session) error {
	n.Forget()
	if n.session.Gone() {
		return nil
	}
	if again := n.tried.Swap(true); again || s != n.session || n.ctx.Err() != nil {
		// An earlier request may have been carried out, or another client has deleted the
		// node, and another process may have made a node at this path since. A server that
		// lags behind would still show ours.
		if err := s.Sync(n.path); err != nil {
			return err
		}
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
func (n *Node) There(s *zkio.Session) (bool, error) { return n.ask(s, func() {}) }

// ask is There, and calls gone if the node is not there.
func (n *Node) ask(s *zkio.Session, gone func()) (there bool, err error) {
	// The question leaves a watch if there is a watcher. It is a watcher itself meanwhile, so
	// that the watch is taken back, even if all others end before the answer is there.
	q := new(question)
	n.keeper.access.Watch(n.path, q)
	stat, ok, err := s.Exists(n.path)
	if there = ok && uint64(stat.Czxid) == n.token; there || err != nil {
		n.keeper.access.Unwatch(n.path, q)
		return there, err
	}
	gone()
	s.Unwatch(n.path, q) // at the server as well, which takes a request
	return false, nil
}

// A question is the watcher of a node for the time of one request.
type question struct{ _ byte } // not of size 0: two of them are not equal

// PathChanged does nothing.
func (*question) PathChanged(string, zkio.Event) {}
