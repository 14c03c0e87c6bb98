// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// These tests are about faults while a lock is given up, and at the end of a
// manager; docs/faults.md has the catalogue.

// The servers are away when the lock is released, and for longer than the
// session lives. The release stays pending, and the round RELEASING, until it is
// certain that the node is gone; a wait for it can be given up, and the next
// round does not queue behind its own process's node.
func TestF082_DeletionImpossible(t *testing.T) {
	for _, sent := range []bool{false, true} { // was the deletion sent, with the last connection?
		bubble(t, func(c *cluster) {
			a, b := c.lock("a"), c.lock("b")
			h := mustLock(c.t, a)
			node := grantOf(c.t, h).Path
			later(time.Minute)
			id := session(a.m)
			refused := c.srv.Faults().Refuse()
			if sent {
				c.srv.Faults().DropRequest(zktest.Match{Op: zktest.OpDelete, Session: id})
			} else {
				c.srv.Faults().Cut(id)
			}
			synctest.Wait()

			ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Second, errGaveUp)
			defer cancel()
			wantErr(c.t, "unlock, given up", h.Unlock(ctx), errGaveUp)
			next := a.Acquire(c.t.Context())
			for c.srv.Exists(node) {
				wantState(c.t, a, state.Releasing, 0)
				pending(c.t, "the release", h.Released())
				later(time.Second)
			}
			later(time.Minute) // the node went with the session; but nobody has told us
			pending(c.t, "the release", h.Released())
			pending(c.t, "the next grant", next.Granted())
			wantState(c.t, a, state.Releasing, 0)

			refused.Remove()
			_, err := h.Released().Wait(c.t.Context())
			wantErr(c.t, "the release", err, nil) // it was held when the last holder left
			<-next.Granted().Done()
			wantErr(c.t, "the next grant", next.Err(), nil)
			if session(a.m) == id {
				c.t.Error("the session is the same: this test is about one that has ended")
			}
			c.wantNodes(1)
			mustRelease(c.t, next)
			mustRelease(c.t, mustLock(c.t, b))
		})
	}
}

// The directory was deleted and made again, and its numbers begin at 0: another
// process's node has the number that ours had. A deletion of ours that comes
// late, or again, does not touch it.
func TestF084_NumbersBeginAgain(t *testing.T) {
	for _, lostBefore := range []bool{false, true} { // the first deletion was sent, and its answer lost
		bubble(t, func(c *cluster) {
			a, b := c.lock("a"), c.lock("b")
			h := mustLock(c.t, a)
			ours := grantOf(c.t, h)
			stop := c.stopBefore(a.m, deleteNode)
			end := h.Release()
			stop.reached()
			c.removeAll()
			theirs := mustLock(c.t, b)
			g := grantOf(c.t, theirs)
			if sequenceOf(g.Path) != sequenceOf(ours.Path) || g.Path == ours.Path {
				c.t.Fatalf("their node is %s, ours was %s: they were to have one number, and not one name", g.Path, ours.Path)
			}
			if lostBefore {
				c.srv.Faults().Cut(session(a.m))
			}
			stop.goOn()
			_, err := end.Wait(c.t.Context())
			if !lostBefore {
				wantErr(c.t, "our release", err, ErrLost) // somebody else deleted the node
			}
			later(time.Minute)
			wantErr(c.t, "the other process", theirs.Err(), nil)
			c.wantNodes(1)
			if g.Token <= ours.Token {
				c.t.Errorf("token %d after %d", g.Token, ours.Token)
			}
			mustRelease(c.t, theirs)
		})
	}
}

// What comes after the end: whoever acquires is refused, a second Close and a
// Shutdown do nothing, and neither does a release; from callbacks, too.
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

// A manager's connection is its own: neither another manager of the same process
// that is closed, nor anything else that a program can do with this module,
// closes it.
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
			c.t.Error("the connection is another one")
		}
		mustRelease(c.t, h)
	})
}
