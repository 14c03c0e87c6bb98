// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"time"
)

// Faults while a lock is released, and at the end of a manager, by their numbers
// in docs/faults.md. More of them are scripts: testdata/scripts/release.txt.

// After Close, acquisitions are refused, and Close, Shutdown and Release do
// nothing more, from callbacks included.
func TestF086_AfterClose(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		h := mustLock(c.t, l)
		done := make(chan struct{})
		h.Released().OnDone(func(_ struct{}, err error) {
			defer close(done)
			wantErr(c.t, "the round", err, ErrClosed)
			wantErr(c.t, "Close in a callback", l.m.Close(), nil)
			refusesNewcomers(c.t, l)
		})
		wantErr(c.t, "Close", l.m.Close(), nil)
		<-done
		refusesNewcomers(c.t, l)
		for range 3 {
			wantErr(c.t, "Close again", l.m.Close(), nil)
			wantErr(c.t, "Shutdown", l.m.Shutdown(c.t.Context()), nil)
		}
		wantErr(c.t, "the holder", h.Err(), ErrClosed)
		wantErr(c.t, "its release", h.Unlock(c.t.Context()), ErrClosed)
		wantErr(c.t, "its release, again", h.Unlock(c.t.Context()), ErrReleased)
		c.wantNodes(0)
	})
}

// A manager's connection is its own: closing another manager of the same process
// does not affect it.
func TestF088_OwnConnection(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		before := a.m.client.Session()
		wantErr(c.t, "close of another manager", b.m.Close(), nil)
		c.srv.ExpireSession(session(c.open("third")))
		later(time.Minute)
		wantErr(c.t, "the holder", h.Err(), nil)
		if now := a.m.client.Session(); now != before || now.Connection() != 1 {
			c.t.Error("the connection has changed")
		}
		mustRelease(c.t, h)
	})
}
