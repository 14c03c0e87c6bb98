// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"testing/synctest"
	"time"
)

// waiting are locks that wait, each behind the only contender ahead.
var waiting = map[string]func(c *cluster) (ahead, lock *Lock){
	"a mutex":  func(c *cluster) (ahead, lock *Lock) { return c.lock("first"), c.lock("p") },
	"a reader": func(c *cluster) (ahead, lock *Lock) { return c.rw("first").Writer(), c.rw("p").Reader() },
	"a writer": func(c *cluster) (ahead, lock *Lock) { return c.rw("first").Reader(), c.rw("p").Writer() },
}

// During an outage a waiter's node is deleted, and the only contender ahead leaves.
// The news of the two arrive in no particular order, that of its own node perhaps
// too late to prevent the grant: so the waiter has to look.
func TestNoGrantAfterAnOutageWithoutALook(t *testing.T) {
	each(t, waiting, func(c *cluster, take func(c *cluster) (ahead, lock *Lock)) {
		ahead, l := take(c)
		first := mustLock(c.t, ahead)
		h, next := c.acquire(l), c.acquire(c.lock("next"))

		refuse := c.srv.Faults().Refuse()
		c.srv.Faults().Cut(session(l.m))
		synctest.Wait()
		own := c.nodeOf(l.m)
		c.remove(own)
		mustRelease(c.t, first)
		c.held(next)
		l.m.client.Unwatch(own, ioOf(h)) // the latest possible news: none
		refuse.Remove()
		later(time.Second)
		c.waiting(h)
		c.unlock(next)
		later(time.Second)
		c.held(h)
		c.unlock(h)
	})
}
