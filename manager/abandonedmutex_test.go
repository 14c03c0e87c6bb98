// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"weak"
)

// reportingMutex opens a manager and returns its mutex "jobs", which reports abandonment.
func (c *cluster) reportingMutex(label string) *Mutex {
	c.t.Helper()
	x := c.mutex(label)
	wantErr(c.t, "report abandoned", x.ReportAbandoned(0), nil)
	return x
}

// wantTurn checks that h is granted, and whether it is told that the lock was abandoned.
func (c *cluster) wantTurn(h Hold, told bool) {
	c.t.Helper()
	synctest.Wait()
	g, err := h.Grant()
	if err != nil || g.Abandoned != told {
		c.t.Errorf("the grant is %+v, %v; want it told %t", g, err, told)
	}
}

// A Locker cannot tell its caller that a holder was interrupted, nor that the caller has
// recovered from that: it refuses to lock a Mutex that reports abandonment, whichever of the
// two there was first, and stays out of the line.
func TestF278_LockerOfAMutexThatReports(t *testing.T) {
	bubble(t, func(c *cluster) {
		x := c.mutex("a")
		before := x.Locker(c.t.Context())
		before.Lock()
		wantErr(c.t, "report abandoned", x.ReportAbandoned(0), nil)
		before.Unlock() // it is locked, and so can be unlocked
		for name, l := range map[string]sync.Locker{"a Locker of before": before, "a Locker": x.Locker(c.t.Context())} {
			func() {
				defer func() {
					err, _ := recover().(error)
					wantErr(c.t, "Lock of "+name, err, ErrBadConfig)
				}()
				l.Lock()
				defer l.Unlock()
			}()
		}
		wantErr(c.t, "do", x.Do(c.t.Context(), func(context.Context, Hold) error { return nil }), nil)
		synctest.Wait()
		c.wantNodes(0)
	})
}

// A Mutex tells each goroutine that gets it of an interrupted holder, until one has
// recovered: of another process, and of its own.
func TestF135_Mutex(t *testing.T) {
	bubble(t, func(c *cluster) {
		x, other := c.reportingMutex("a"), c.reporting("b", 0)
		mustLock(c.t, other)
		c.expire(other.m)
		turns := c.line(x, 4)
		for i, told := range []bool{true, true, false, false} { // the second one recovers
			c.wantTurn(turns[i], told)
			if i == 1 {
				wantErr(c.t, "recovered", turns[i].Recovered(), nil)
				c.wantTurn(turns[i], false)
			}
			turns[i].Release()
		}
		synctest.Wait()
		c.wantMarks(0)

		panics := func(n int) {
			for range n {
				func() {
					defer func() { _ = recover() }()
					_ = x.Do(c.t.Context(), func(context.Context, Hold) error { panic("at work") })
				}()
			}
		}
		first := x.Acquire(c.t.Context())
		c.wantTurn(first, false)
		rest := make(chan struct{})
		go func() { defer close(rest); panics(1) }()
		synctest.Wait()
		second := x.Acquire(c.t.Context())
		first.Release()
		<-rest
		c.wantTurn(second, true)
		wantErr(c.t, "recovered", second.Recovered(), nil)
		third := x.Acquire(c.t.Context())
		second.Release()
		c.wantTurn(third, false)
		third.Release()
		synctest.Wait()
		c.wantMarks(0)

		panics(1)
		synctest.Wait()
		c.wantMarks(1)
		c.next(other, true)

		h := x.Acquire(c.t.Context())
		c.wantTurn(h, false)
		c.expire(x.lock.m)
		h.Release()
		h = x.Acquire(c.t.Context())
		c.wantTurn(h, true)
		h.Release()
	})
}

// A Mutex that does not report abandonment tells of nothing.
func TestF135_MutexThatDoesNotReport(t *testing.T) {
	bubble(t, func(c *cluster) {
		x := c.mutex("a")
		first := x.Acquire(c.t.Context())
		c.wantTurn(first, false)
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			_ = x.Do(c.t.Context(), func(context.Context, Hold) error { panic("at work") })
		}()
		synctest.Wait()
		second := x.Acquire(c.t.Context())
		first.Release()
		<-done
		c.wantTurn(second, false)
		second.Release()
		synctest.Wait()
		c.wantMarks(0)
	})
}

// The setting is not lost with the program's last reference to the Mutex, or to the Lock.
func TestReportingLocksAreKept(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		var x weak.Pointer[Mutex]
		var l weak.Pointer[Lock]
		func() {
			strong := openMutex(c.t, m, "x")
			wantErr(c.t, "report abandoned", strong.ReportAbandoned(0), nil)
			x = weak.Make(strong)
			l = weak.Make(reports(c.t, exclusive(c.t, m, "l"), 0))
		}()
		for range 3 {
			runtime.GC()
		}
		if x.Value() == nil || l.Value() == nil {
			c.t.Error("they are collected")
		}
		if openMutex(c.t, m, "x") != x.Value() || exclusive(c.t, m, "l") != l.Value() {
			c.t.Error("there are others of their names")
		}
		runtime.KeepAlive(m)
	})
}
