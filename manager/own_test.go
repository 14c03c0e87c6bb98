// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// A lock that LockAll waits for, holds and gives up shows that, beside what the other callers
// of its process do.
func TestStateOfLockAll(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m, o := c.open("a"), c.open("b")
		x, y := exclusive(t, m, "x"), exclusive(t, m, "y")
		other := mustLock(t, exclusive(t, o, "y"))
		wantState(t, x, state.Free, 0)
		w := lockAll(t.Context(), m, x, y)
		wantState(t, x, state.Fetching, 1)
		single := c.acquire(x)
		wantState(t, x, state.Fetching, 2)
		mustRelease(t, other)
		hs := w.wantHeld(t, time.Second)
		wantState(t, x, state.Retained, 1)
		wantState(t, y, state.Retained, 1)
		if s := x.Stats(); s.Phase != state.Retained || s.Holders != 1 {
			t.Errorf("the counters say %+v", s)
		}
		again, err := hs[0].Share()
		wantErr(t, "share", err, nil)
		wantState(t, x, state.Retained, 2)
		again.Release()
		blocked := c.srv.Faults().BlockRequests(session(m))
		hs.Release()
		synctest.Wait()
		wantState(t, x, state.Releasing, 0)
		blocked.Remove()
		later(2 * time.Second)
		wantState(t, x, state.Retained, 1)
		c.unlock(single)
		wantState(t, x, state.Free, 0)
		wantState(t, y, state.Free, 0)
	})
}

// ReleaseIdle's future is pending for as long as LockAll, or a reader beside it, holds the lock.
func TestReleaseIdleOfLockAll(t *testing.T) {
	each(t, map[string]bool{"LockAll leaves first": false, "the reader leaves first": true}, func(c *cluster, first bool) {
		t := c.t
		rw := c.rw("a")
		l := rw.Reader()
		wantErr(t, "nothing is held", settled(t, "ReleaseIdle", l.ReleaseIdle()), nil)
		single := mustLock(t, l)
		hs := mustLockAll(t, l.m, l, exclusive(t, l.m, "y"))
		gone := l.ReleaseIdle()
		for i := range 2 {
			synctest.Wait()
			pending(t, "an earlier ReleaseIdle", gone)
			pending(t, "ReleaseIdle", l.ReleaseIdle())
			if first == (i == 0) {
				single.Release()
			} else {
				hs.Release()
			}
		}
		synctest.Wait()
		wantErr(t, "both have left", settled(t, "an earlier ReleaseIdle", gone), nil)
		wantErr(t, "both have left", settled(t, "ReleaseIdle", l.ReleaseIdle()), nil)
	})
}

// A process that holds a lock by LockAll answers questions about it as for any lock that it
// holds: at once, and without a request.
func TestOwnAnswersOfLockAll(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m := c.open("a", echo)
		rw := readWrite(t, m, "pair")
		x := exclusive(t, m, "x")
		hs := mustLockAll(t, m, x, rw.Writer())
		later(time.Second)
		n := c.tally(m)
		for i, l := range []*Lock{x, rw.Writer(), rw.Reader()} {
			h := hs[min(i, 1)]
			g := grantOf(t, h)
			for range 3 {
				for what, ask := range map[string]func() (*Contender, error){
					"holder":        func() (*Contender, error) { return l.Holder(t.Context()) },
					"cached holder": func() (*Contender, error) { return l.CachedHolder(t.Context()) },
				} {
					holder, err := ask()
					wantErr(t, what, err, nil)
					if holder == nil || !holder.Own || !holder.Holds || holder.Token != g.Token || holder.Path != g.Path || holder.Label != "a" {
						t.Errorf("%s of the %s lock: %+v, want the grant %+v", what, l.kind, holder, g)
					}
				}
				got := mustAsk(t, l, "?")
				if string(got.Reply) != "?" || got.Holders != 1 || got.Phase != state.Retained || got.Yielding || !got.From.Own {
					t.Errorf("the answer about the %s lock: %+v", l.kind, got)
				}
			}
			n.want("questions to itself", "")
		}
		wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
		if holder, err := x.CachedHolder(t.Context()); holder != nil || err != nil {
			t.Errorf("the holder afterwards: %v, %v", holder, err)
		}
	})
}

// Another process is told of callers that wait behind LockAll in the process of the holder.
func TestAskHolderByLockAll(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m, asker := c.open("a", echo), c.open("b")
		x, y := exclusive(t, m, "x"), exclusive(t, m, "y")
		hs := mustLockAll(t, m, x, y)
		waiters := []Hold{x.Acquire(t.Context()), x.Acquire(t.Context())}
		later(time.Second)
		got := mustAsk(t, exclusive(t, asker, "x"), "?")
		if string(got.Reply) != "?" || got.Phase != state.Retained || got.Holders != 1 || got.Waiting != 2 || got.Held < time.Second {
			t.Errorf("the answer is %+v", got)
		}
		hs.Release()
		c.held(waiters...)
		c.unlock(waiters...)
	})
}
