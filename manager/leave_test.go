// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
)

// A holder leaves, and learns at once whether it held the lock until then. Neither other
// holders nor a lock that lingers keep it from that. Only the first call is answered.
func TestF285_LeaveSaysWhetherTheLockWasHeld(t *testing.T) {
	var m machine
	type test struct {
		before func(c *cluster, l *Lock, h Hold)
		want   error
		stays  bool // the process keeps the lock
	}
	each(t, map[string]test{
		"alone":             {before: func(*cluster, *Lock, Hold) {}},
		"others are inside": {stays: true, before: func(c *cluster, l *Lock, _ Hold) { mustLock(c.t, l) }},
		"it has nested handles": {stays: true, before: func(c *cluster, _ *Lock, h Hold) {
			wantErr(c.t, "reenter", errOf(h.Reenter()), nil)
		}},
		"it lingers": {stays: true, before: func(c *cluster, l *Lock, _ Hold) { wantErr(c.t, "setlinger", l.SetLinger(always), nil) }},
		"contended":  {before: func(c *cluster, _ *Lock, _ Hold) { c.waiting(c.acquire(c.lock("b"))) }},
		"in an outage": {before: func(c *cluster, _ *Lock, _ Hold) {
			c.away("a", 4*time.Second)
			later(3 * time.Second)
		}},
		"node deleted": {want: ErrLost, before: func(c *cluster, _ *Lock, h Hold) {
			c.remove(grantOf(c.t, h).Path)
			synctest.Wait()
		}},
		"session over": {want: ErrLost, before: func(c *cluster, l *Lock, _ Hold) { c.expire(l.m) }},
		// The clock says so, and no timer has.
		"lease over": {want: ErrLost, before: func(*cluster, *Lock, Hold) { m.suspend(6 * time.Second) }},
		"lease over, others are inside": {want: ErrLost, before: func(c *cluster, l *Lock, _ Hold) {
			mustLock(c.t, l)
			m.suspend(6 * time.Second)
		}},
		"lease over, it would linger": {want: ErrLost, before: func(c *cluster, l *Lock, _ Hold) {
			wantErr(c.t, "setlinger", l.SetLinger(always), nil)
			m.suspend(6 * time.Second)
		}},
		"manager closed": {want: ErrClosed, before: func(_ *cluster, l *Lock, _ Hold) { _ = l.m.Close() }},
		"released":       {want: ErrReleased, before: func(_ *cluster, _ *Lock, h Hold) { h.Release() }},
	}, func(c *cluster, v test) {
		l := c.lock("a", m.run)
		h := mustLock(c.t, l)
		later(time.Second) // the node is watched by then
		v.before(c, l, h)
		start := time.Now()
		wantErr(c.t, "leave", h.Leave(), v.want)
		wantEq(c.t, "it took", time.Since(start), 0)
		wantErr(c.t, "the second time", h.Leave(), ErrReleased)
		if p, _ := l.State(); (p == state.Retained) != v.stays {
			c.t.Errorf("then the lock is %v", p)
		}
	})
}

// What comes after a holder has left is of no concern to it; those who stay are told.
func TestF285_LossAfterLeaving(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		h, stays := mustLock(c.t, l), mustLock(c.t, l)
		wantErr(c.t, "leave", h.Leave(), nil)
		pending(c.t, "the release", h.Released())
		later(time.Second) // the node is watched by then
		c.remove(grantOf(c.t, stays).Path)
		synctest.Wait()
		wantErr(c.t, "the one that stays", stays.Leave(), ErrLost)
		wantErr(c.t, "the release", settled(c.t, "it", h.Released()), ErrLost)
	})
}

// What this process cannot know yet it does not say: a client has deleted the node while
// the connection was down. The release finds that out.
func TestF285_NodeDeletedUnheard(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		h := mustLock(c.t, l)
		hole := c.srv.Faults().Blackhole(session(l.m))
		c.remove(grantOf(c.t, h).Path)
		later(time.Second)
		wantErr(c.t, "leave", h.Leave(), nil)
		hole.Remove()
		later(time.Minute)
		wantErr(c.t, "the release", settled(c.t, "it", h.Released()), ErrLost)
	})
}

// Leave of a Hold that waits takes it out of the line.
func TestF285_LeaveBeforeTheGrant(t *testing.T) {
	bubble(t, func(c *cluster) {
		holder, l := mustLock(c.t, c.lock("b")), c.lock("a")
		h := c.acquire(l)
		wantErr(c.t, "leave", h.Leave(), ErrNotGranted)
		wantErr(c.t, "leave of the zero Hold", Hold{}.Leave(), ErrReleased)
		synctest.Wait()
		wantState(c.t, l, state.Free, 0)
		c.unlock(holder)
		c.wantNodes(0)
	})
}

// A goroutine that has a Mutex learns the same, and the next one has its turn, unless the
// lease was over.
func TestF285_LeaveMutex(t *testing.T) {
	var m machine
	each(t, map[string]error{"held": nil, "lost": ErrLost}, func(c *cluster, want error) {
		x := c.mutex("a", m.run)
		first, err := x.Lock(c.t.Context())
		wantErr(c.t, "lock", err, nil)
		next := x.Acquire(c.t.Context())
		if want != nil {
			m.suspend(6 * time.Second)
		}
		wantErr(c.t, "leave", first.Leave(), want)
		later(time.Minute)
		wantEq(c.t, "the next one's turn is the first", grantOf(c.t, next).Turn == 1, want != nil)
		mustRelease(c.t, next)
	})
}

func TestLeaveAllocatesNothing(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		defer mustLock(c.t, l).Release()
		n := testing.AllocsPerRun(1000, func() { _ = l.Acquire(c.t.Context()).Leave() })
		expect(c.t, n <= 0 || racing.Detector, "%v allocations", n)
	})
}
