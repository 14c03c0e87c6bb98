// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/zkio"
)

// ErrOutage says that ZooKeeper has not answered for a whole session timeout. The text
// says why.
var ErrOutage = errors.New("zookeeper does not answer")

// A Reader reads what ZooKeeper says about the locks under a root. Any goroutine may call
// its methods, also concurrently.
//
// Its methods that take a ctx block until ZooKeeper has answered or ctx ends; then they
// return an error that wraps ctx.Err() and context.Cause(ctx). If the connection breaks,
// they ask again. They fail with [ErrOutage] if a single answer takes longer than the
// session timeout, and with [zkio.ErrClosed] if the client is closed.
type Reader struct {
	client *zkio.Client
	root   string
}

// NewReader returns a Reader of the locks under root, which is as manager.Config.Root. It
// does no I/O. It fails with [manager.ErrBadConfig] if root cannot be a root. The client
// remains the caller's, and must be closed by the caller.
func NewReader(client *zkio.Client, root string) (*Reader, error) {
	if _, err := manager.LockPath(root, "any"); err != nil {
		return nil, err
	}
	return &Reader{client: client, root: root}, nil
}

// path returns the directory of the lock called name, or the root if name is empty.
func (r *Reader) path(name string) (string, error) {
	if name == "" {
		return r.root, nil
	}
	return manager.LockPath(r.root, name)
}

// nameOf returns the name of the lock in the directory at path.
func (r *Reader) nameOf(path string) string {
	if r.root == "/" {
		return path[1:]
	}
	return path[min(len(path), len(r.root)+1):]
}

// join returns the path of the child called name of the node at dir.
func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

// A call is a task of the client's pool that its caller waits for.
type call[T any] struct {
	client *zkio.Client
	do     func(*zkio.Session) (T, error)

	gaveUp atomic.Bool     // the caller has stopped waiting
	done   chan outcome[T] // of capacity 1

	tries errand.Tries // used by the present worker only
}

type outcome[T any] struct {
	v   T
	err error
}

// ask has a worker run do, and run it again until ZooKeeper has answered or refused, and
// returns what do returned last. If ask fails, a worker may still be in do. So do must
// write nothing that the caller looks at: it returns what it finds.
func ask[T any](ctx context.Context, r *Reader, do func(*zkio.Session) (T, error)) (v T, err error) {
	if ctx.Err() != nil {
		return v, ctxerr.Of(ctx)
	}
	c := &call[T]{client: r.client, do: do, done: make(chan outcome[T], 1)}
	if !r.client.Submit(zkio.Fetches, c) {
		return v, zkio.ErrClosed
	}
	patience := r.client.Session().Timeout()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case o := <-c.done:
		return o.v, o.err
	case <-ctx.Done():
		c.gaveUp.Store(true)
		return v, ctxerr.Of(ctx)
	case <-late.C:
		c.gaveUp.Store(true)
		return v, fmt.Errorf("%w: %w", ErrOutage, cmp.Or(r.client.Outage(), fmt.Errorf("no answer within %v", patience)))
	}
}

// Run is called by the pool.
func (c *call[T]) Run(s *zkio.Session) {
	if c.gaveUp.Load() {
		return
	}
	v, err := c.do(s)
	if class := zkio.ClassOf(err); err == nil || class == zkio.Definite || class == zkio.Closed {
		c.done <- outcome[T]{v, err}
		return
	}
	if !c.tries.Again(c.client, zkio.Fetches, c) {
		c.done <- outcome[T]{err: zkio.ErrClosed}
	}
}
