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

// To other processes LockAll holds a lock in whose queue it is first, and it does not know
// until it is first in all. A question is answered so, and a revocation waits for the grant.
func TestF283_RevokedBeforeLockAllEnters(t *testing.T) {
	each(t, map[string]bool{"by another process": false, "by its own": true}, func(c *cluster, own bool) {
		t := c.t
		m, o, p := c.open("a", echo), c.open("b"), c.open("c")
		x := exclusive(t, m, "x")
		other := mustLock(t, exclusive(t, o, "y"))
		w := lockAll(t.Context(), m, x, exclusive(t, m, "y"))
		revoker := exclusive(t, p, "x")
		if own {
			revoker = x
		}
		if got := mustAsk(t, revoker, "?"); got.Phase != state.Fetching || got.Waiting != 1 || got.Err != "the process does not know yet that it holds the lock" {
			t.Errorf("the answer is %+v", got)
		}
		result := c.revoking(revoker, "please", time.Hour)
		later(time.Minute)
		w.wantPending(t)
		mustRelease(t, other)
		hs := w.wantHeld(t, time.Second)
		if r := c.wantRevoked(hs[0]); r.Reason != "please" || r.From.Session != session(revoker.m) {
			t.Errorf("the revocation is %+v", r)
		}
		c.wantNotRevoked(hs[1])
		if len(result) != 0 {
			t.Error("Revoke has returned while the lock is held")
		}
		hs.Release()
		wantErr(t, "revoke", <-result, nil)
		c.wantNoLetters(m)
	})
}

// A process leaves a queue, and joins it again for its other callers by the same request. The
// answer is lost. Its new node holds the lock by the time that it knows of it, and a
// revocation of that node comes before.
func TestF283_RevokedAfterALostAnswer(t *testing.T) {
	each(t, map[string]func(x *Lock, h Hold){
		"the holder is alone": func(*Lock, Hold) {},
		"it is revoked":       func(_ *Lock, h Hold) { roundOf(h).closeGate() },
	}, func(c *cluster, before func(*Lock, Hold)) {
		t := c.t
		a, b := c.lock("a", echo), c.lock("b")
		c.cycle(a)
		h := mustLock(t, a)
		mustAsk(t, b, "there is a mailbox")
		before(a, h)
		lost := c.srv.Faults().DropReply(zktest.Match{Op: zktest.OpMulti, Session: session(a.m), Path: dir, Times: 1})
		h.Release()
		next := a.Acquire(t.Context())
		// What a asks about its nodes stays without an answer until the revocation is there.
		slow := c.srv.Faults().DelayReply(zktest.Match{Session: session(a.m), Path: dir, Times: zktest.Every}, 3*time.Second)
		<-lost.Hit()
		result := c.revoking(b, "please", time.Hour)
		later(time.Second)
		pending(t, "the grant", next.Granted())
		slow.Remove()
		later(10 * time.Second)
		c.held(next)
		c.wantRevoked(next)
		if len(result) != 0 {
			t.Error("Revoke has returned while the lock is held")
		}
		c.unlock(next)
		wantErr(t, "revoke", <-result, nil)
		synctest.Wait()
	})
}

// Calls of Config.OnAsk that do not return, although their askers have given up, keep up the
// questions that are put to it, and no others: not those about the state of a lock.
func TestF284_OnAskHangs(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		hang := make(chan struct{})
		a := c.open("a", func(cfg *Config) {
			cfg.OnAsk = func(_ context.Context, q Question) ([]byte, error) {
				<-hang
				return q.Text, nil
			}
		})
		b := c.open("b")
		x, y := mustLock(t, exclusive(t, a, "x")), mustLock(t, exclusive(t, a, "y"))
		for range maxAsked {
			c.asking(exclusive(t, b, "x"), "?", time.Second).wantNoAnswer(t, true, "a@")
		}
		patient := c.asking(exclusive(t, b, "y"), "later", time.Hour)
		for _, name := range []string{"x", "y"} {
			state := c.asking(exclusive(t, b, name), "", time.Second)
			state.wantReply(t, "")
			if state.err == nil && state.answer.Holders != 1 {
				t.Errorf("the answer is %+v", state.answer)
			}
		}
		later(time.Minute)
		if isClosed(patient.done) {
			t.Errorf("more than %d calls at once: %+v, %v", maxAsked, patient.answer, patient.err)
		}
		close(hang)
		patient.wantReply(t, "later")
		c.wantNoLetters(a)
		c.unlock(x, y)
	})
}
