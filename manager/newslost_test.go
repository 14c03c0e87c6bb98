// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"testing"
	"time"
)

// News that gets lost is made good: what waits for it looks again some time.

// The news of the contender behind a place that LockAll has reserved: without it the two would
// wait for each other for ever.
func TestF025_WatchOfAReservedPlaceIsLost(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.open("a"), c.open("b")
		locks := several(c.t, a, "x", "y")
		y := mustLock(c.t, exclusive(c.t, b, "y"))
		ctx, cancel := context.WithCancel(c.t.Context())
		w := lockAll(ctx, a, locks...)
		later(time.Minute)
		w.wantPending(c.t)
		for _, l := range locks {
			for _, p := range l.own().places() {
				a.client.Unwatch(l.path, (*stir)(p))
			}
		}
		x := exclusive(c.t, b, "x").Acquire(c.t.Context()) // by the process that holds y
		later(3 * rotationTimeout)
		c.held(x)
		c.unlock(x)
		c.unlock(y)
		later(time.Second)
		cancel()
		<-w.done
		w.holds.Release()
		later(time.Second)
		c.wantNodes(0)
	})
}

// The news of a contender, while newcomers keep entering: without it they would keep the lock
// from the contender for ever.
func TestF025_WatchBehindAHolderIsLost(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		relay := func(n int) { // newcomers, one after the other, so that the lock is never left
			for range n {
				next := a.Acquire(c.t.Context())
				h.Release()
				h = next
				later(time.Second)
			}
		}
		relay(5)
		a.m.client.Unwatch(a.path, (*lookout)(a.cur.Load().io()))
		waits := b.Acquire(c.t.Context())
		contended := h.Contended()
		relay(100)
		expect(c.t, isClosed(contended), "the holder has not been told of the contender")
		h.Release()
		later(time.Second)
		c.held(waits)
		c.unlock(waits)
	})
}

// A lock that is held and left alone is not looked behind again.
func TestHeldAndLeftAlone(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		h := mustLock(c.t, a)
		later(time.Minute)
		sent := c.tally(a.m)
		later(time.Hour)
		got := sent.take("an hour")
		expect(c.t, got["getChildren2"] <= 0, "sent %v", got)
		c.unlock(h)
	})
}

// The news that a revoked holder has given the lock up, and that there is a question.
func TestF025_WatchOfAnInquiryIsLost(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", echo), c.lock("b")
		h := mustLock(c.t, a)
		result := c.revoking(b, "please", time.Hour)
		later(time.Minute)
		for _, q := range b.m.inquiries.list() {
			b.m.client.Unwatch(q.to.Path, q)
		}
		mustRelease(c.t, h)
		later(2 * rotationTimeout)
		wantErr(c.t, "the revocation", settledBy(c.t, result), nil)

		h = mustLock(c.t, a)
		a.m.client.Unwatch(a.m.box.path, a.m.box)
		q := c.asking(b, "?", time.Hour)
		later(2 * heldTimeout)
		q.wantReply(c.t, "?")
		c.unlock(h)
	})
}

// settledBy returns what was sent by now.
func settledBy(t *testing.T, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	default:
		t.Error("it has not ended")
		return nil
	}
}
