// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A slowWatcher blocks the client's dispatcher when its path changes.
type slowWatcher struct{ blocked, resume chan struct{} }

func (w slowWatcher) PathChanged(string, zkio.Event) {
	close(w.blocked)
	<-w.resume
}

const slowPath = "/slow"

// watchSlowly has m watch a node with a slow watcher.
func (c *cluster) watchSlowly(m *Manager) slowWatcher {
	c.t.Helper()
	w := slowWatcher{make(chan struct{}), make(chan struct{})}
	wantErr(c.t, "create", c.srv.CreateAll(slowPath, nil), nil)
	m.client.Watch(slowPath, w)
	_, _, err := m.client.Session().Get(slowPath)
	wantErr(c.t, "get", err, nil)
	return w
}

// block blocks the dispatcher that w belongs to, until w.resume is closed.
func (c *cluster) block(w slowWatcher) {
	c.t.Helper()
	wantErr(c.t, "set", c.srv.Set(slowPath, []byte("changed")), nil)
	<-w.blocked
}

// A waiter's node is deleted, and then the holder leaves. The waiter learns of the
// second by its own read, while the notification of the first is still queued
// behind a slow watcher. The read must not overtake it: the waiter would enter
// without a node, beside the next process in the queue.
func TestF093_GrantDoesNotOvertakeNotifications(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, d := c.lock("a"), c.lock("b"), c.lock("d")
		holder := mustLock(c.t, a)
		waiter := b.Acquire(c.t.Context())
		synctest.Wait()
		next := d.Acquire(c.t.Context())
		later(time.Second) // b watches its own node by now

		w := c.watchSlowly(b.m)

		// The holder's node changes, so b lists the queue, and is stopped before it
		// reads the holder's node.
		stop := c.stopBefore(b.m, lookAtNode)
		if err := c.srv.Set(grantOf(c.t, holder).Path, []byte("touched")); err != nil {
			c.t.Fatal(err)
		}
		stop.reached()

		c.block(w)
		c.remove(c.nodeOf(b.m))
		holder.Release()
		synctest.Wait()
		stop.goOn()
		if waiter.Err() == nil && next.Err() == nil {
			c.t.Error("two processes hold the lock")
		}
		wantHeld(c.t, "the process behind the waiter", next)
		close(w.resume)
		synctest.Wait()
		wantWaiting(c.t, "the waiter, in the queue again", waiter)
		mustRelease(c.t, next)
		synctest.Wait()
		wantHeld(c.t, "the waiter", waiter)
		mustRelease(c.t, waiter)
		c.wantNodes(0)
	})
}
