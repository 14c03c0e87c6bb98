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
		m, o := c.open("a"), c.open("b")
		x, y := exclusive(c.t, m, "x"), exclusive(c.t, m, "y")
		other := mustLock(c.t, exclusive(c.t, o, "y"))
		wantState(c.t, x, state.Free, 0)
		w := lockAll(c.t.Context(), m, x, y)
		wantState(c.t, x, state.Fetching, 1)
		single := c.acquire(x)
		wantState(c.t, x, state.Fetching, 2)
		mustRelease(c.t, other)
		hs := w.wantHeld(c.t, time.Second)
		wantState(c.t, x, state.Retained, 1)
		wantState(c.t, y, state.Retained, 1)
		s := x.Stats()
		expect(c.t, s.Phase == state.Retained && s.Holders == 1, "the counters say %+v", s)
		again, err := hs[0].Share()
		wantErr(c.t, "share", err, nil)
		wantState(c.t, x, state.Retained, 2)
		again.Release()
		blocked := c.srv.Faults().BlockRequests(session(m))
		hs.Release()
		synctest.Wait()
		wantState(c.t, x, state.Releasing, 0)
		blocked.Remove()
		later(2 * time.Second)
		wantState(c.t, x, state.Retained, 1)
		c.unlock(single)
		wantState(c.t, x, state.Free, 0)
		wantState(c.t, y, state.Free, 0)
	})
}

// ReleaseIdle's future is pending for as long as LockAll, or a reader beside it, holds the lock.
func TestReleaseIdleOfLockAll(t *testing.T) {
	each(t, map[string]bool{"LockAll leaves first": false, "the reader leaves first": true}, func(c *cluster, first bool) {
		rw := c.rw("a")
		l := rw.Reader()
		wantErr(c.t, "nothing is held", settled(c.t, "ReleaseIdle", l.ReleaseIdle()), nil)
		single := mustLock(c.t, l)
		hs := mustLockAll(c.t, l.m, l, exclusive(c.t, l.m, "y"))
		gone := l.ReleaseIdle()
		for i := range 2 {
			synctest.Wait()
			pending(c.t, "an earlier ReleaseIdle", gone)
			pending(c.t, "ReleaseIdle", l.ReleaseIdle())
			if first == (i == 0) {
				single.Release()
			} else {
				hs.Release()
			}
		}
		synctest.Wait()
		wantErr(c.t, "both have left", settled(c.t, "an earlier ReleaseIdle", gone), nil)
		wantErr(c.t, "both have left", settled(c.t, "ReleaseIdle", l.ReleaseIdle()), nil)
	})
}

// A process that holds a lock by LockAll answers questions about it as for any lock that it
// holds: at once, and without a request.
func TestOwnAnswersOfLockAll(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a", echo)
		rw := readWrite(c.t, m, "pair")
		x := exclusive(c.t, m, "x")
		hs := mustLockAll(c.t, m, x, rw.Writer())
		later(time.Second)
		n := c.tally(m)
		for i, l := range []*Lock{x, rw.Writer(), rw.Reader()} {
			h := hs[min(i, 1)]
			g := grantOf(c.t, h)
			for range 3 {
				for what, ask := range map[string]func() (*Contender, error){
					"holder":        func() (*Contender, error) { return l.Holder(c.t.Context()) },
					"cached holder": func() (*Contender, error) { return l.CachedHolder(c.t.Context()) },
				} {
					holder, err := ask()
					wantErr(c.t, what, err, nil)
					expect(c.t, holder != nil && holder.Own && holder.Holds && holder.Token == g.Token && holder.Path == g.Path && holder.Label == "a",
						"%s of the %s lock: %+v, want the grant %+v", what, l.kind, holder, g)
				}
				got := mustAsk(c.t, l, "?")
				expect(c.t, string(got.Reply) == "?" && got.Holders == 1 && got.Phase == state.Retained && !got.Yielding && got.From.Own,
					"the answer about the %s lock: %+v", l.kind, got)
			}
			n.want("questions to itself", "")
		}
		wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
		c.wantCached("afterwards", x, "free")
	})
}

// Another process is told of callers that wait behind LockAll in the process of the holder.
func TestAskHolderByLockAll(t *testing.T) {
	bubble(t, func(c *cluster) {
		m, asker := c.open("a", echo), c.open("b")
		x, y := exclusive(c.t, m, "x"), exclusive(c.t, m, "y")
		hs := mustLockAll(c.t, m, x, y)
		waiters := []Hold{x.Acquire(c.t.Context()), x.Acquire(c.t.Context())}
		later(time.Second)
		got := mustAsk(c.t, exclusive(c.t, asker, "x"), "?")
		expect(c.t, string(got.Reply) == "?" && got.Phase == state.Retained && got.Holders == 1 && got.Waiting == 2 && got.Held >= time.Second,
			"the answer is %+v", got)
		hs.Release()
		c.held(waiters...)
		c.unlock(waiters...)
	})
}
