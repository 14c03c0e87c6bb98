// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A waiter is a contender in the queue behind an upgradable.
type behindWaiter struct {
	mark string // r, w or u
	hold Hold
}

// behindUpgrade has contenders queue, each of a process of its own, and returns them.
func (c *cluster) behindUpgrade(marks string) (waiters []behindWaiter) {
	c.t.Helper()
	for i, mark := range strings.Fields(marks) {
		rw := c.rw(fmt.Sprintf("%s%d", mark, i))
		l := map[string]*Lock{"r": rw.Reader(), "w": rw.Writer(), "u": rw.Upgradable()}[mark]
		waiters = append(waiters, behindWaiter{mark, c.acquire(l)})
	}
	return waiters
}

// Writers behind which readers wait give up during an upgrade, in either order. No reader
// comes in before the upgrade is over; then all do.
func TestF131_WriterGivesUp(t *testing.T) {
	for _, marks := range []string{"w r", "w r r", "w w r", "w r w r", "w u r", "u w r"} {
		t.Run(marks, func(t *testing.T) {
			either(t, func(c *cluster, reverse bool) {
				up := c.acquire(c.rw("p").Upgradable())
				waiters := c.behindUpgrade(marks)
				c.mustUpgrade(up)
				if reverse {
					slices.Reverse(waiters)
				}
				var readers []Hold
				for _, w := range waiters {
					if w.mark == "r" {
						readers = append(readers, w.hold)
						continue
					}
					w.hold.Release()
					later(time.Second)
					c.held(up)
				}
				c.waiting(readers...)
				c.mustDowngrade(up)
				c.held(append(readers, up)...)
				c.unlock(append(readers, up)...)
				c.wantNodes(0)
			})
		})
	}
}

// Another client deletes one of the nodes of an upgraded hold, or both: the lock is
// lost, the other node is deleted, and nothing queues again. A guarded write that comes
// after the deletion changes nothing.
func TestF132_NodeOfAnUpgradeDeleted(t *testing.T) {
	deletions := map[string]func(c *cluster, own, writers string){
		"the reader's": func(c *cluster, own, _ string) { c.remove(own) },
		"the writer's": func(c *cluster, _, writers string) { c.remove(writers) },
		"both": func(c *cluster, own, writers string) {
			c.remove(writers)
			_ = c.srv.Delete(own) // unless the process was faster
		},
	}
	for _, guard := range []bool{false, true} {
		each(t, deletions, func(c *cluster, remove func(c *cluster, own, writers string)) {
			book, p := c.account(), c.rw("p")
			up := c.acquire(p.Upgradable())
			other := c.behindUpgrade("w")[0].hold
			later(time.Second) // until the server has a watch for its node
			c.mustUpgrade(up)
			own, writers := grantOf(c.t, up).Path, upgradeOf(ioOf(up)).exclusive.Load().path
			if guard {
				request := c.stopAt(p.writer.m, zktest.OpMulti, 1)
				result := make(chan error, 1)
				go func() { result <- write(c.t.Context(), up, "late") }()
				request.reached()
				remove(c, own, writers)
				request.goOn()
				wantErr(c.t, "guard", <-result, ErrLost)
				book.want("the guarded write", "0", 0)
			} else {
				remove(c, own, writers)
				synctest.Wait()
			}
			expect(c.t, isClosed(up.Lost()), "the loss is not told")
			wantErr(c.t, "hold", up.Err(), ErrLost)
			wantErr(c.t, "downgrade", up.Downgrade(), ErrLost)
			later(time.Second)
			c.held(other)
			wantErr(c.t, "unlock", up.Unlock(c.t.Context()), ErrLost)
			c.unlock(other)
			c.wantNodes(0)
			wantState(c.t, p.Upgradable(), state.Free, 0)
		})
	}
}

// Requests and answers of an upgrade get lost, and those of the way back. It succeeds all
// the same, no process is inside beside it, and no node is left.
func TestF133_LostDuringAnUpgrade(t *testing.T) {
	cases := 0
	for _, lose := range []func(*zktest.Faults, zktest.Match) *zktest.Fault{dropRequest, dropReply} {
		for _, m := range []zktest.Match{
			{Op: zktest.OpMulti, Nth: 1}, {Op: zktest.OpMulti, Nth: 2}, {Op: zktest.OpMulti, Nth: 3}, {Op: zktest.OpMulti, Nth: 1, Times: 3},
			{Op: zktest.OpGetChildren2, Nth: 1}, {Op: zktest.OpGetChildren2, Nth: 2},
			{Op: zktest.OpGetData, Nth: 1}, {Op: zktest.OpGetData, Nth: 2}, {Op: zktest.OpDelete, Nth: 1},
		} {
			for _, downgrade := range []bool{false, true} {
				if cases++; racing.Some(cases) {
					subtest(t, fmt.Sprintf("%v %d %d/%t", m.Op, m.Nth, m.Times, downgrade), func(c *cluster) {
						lostDuringAnUpgrade(c, lose, m, downgrade)
					})
				}
			}
		}
	}
}

func lostDuringAnUpgrade(c *cluster, lose func(*zktest.Faults, zktest.Match) *zktest.Fault, m zktest.Match, downgrade bool) {
	p := c.rw("p")
	reader := c.acquire(c.rw("first").Reader())
	up := c.acquire(p.Upgradable())
	waiters := c.behindUpgrade("w r")
	m.Session, m.Path = session(p.writer.m), dir
	fault := lose(c.srv.Faults(), m)
	u := c.upgrade(up)
	later(5 * time.Second)
	u.waits()
	c.unlock(reader)
	later(5 * time.Second)
	u.done()
	waiters[0].hold.Release()
	later(5 * time.Second)
	c.held(up)
	c.waiting(waiters[1].hold)
	if downgrade {
		c.mustDowngrade(up)
		later(5 * time.Second)
		c.held(up, waiters[1].hold)
	}
	up.Release()
	later(5 * time.Second)
	c.held(waiters[1].hold)
	c.unlock(waiters[1].hold)
	fault.Remove()
	c.wantNodes(0)
	wantState(c.t, p.Upgradable(), state.Free, 0)
}

// comeAndGo has three goroutines lock l, do what is inside, and unlock it, again and again,
// until the function that it returns is called.
func (c *cluster) comeAndGo(l *Lock, inside func(context.Context, Hold)) (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var goers sync.WaitGroup
	for i := range 3 {
		goers.Go(func() {
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			for ctx.Err() == nil {
				if h, err := l.Lock(ctx); err == nil {
					inside(ctx, h)
					time.Sleep(30 * time.Millisecond)
					h.Release()
				}
			}
		})
	}
	later(time.Second)
	return func() {
		cancel()
		goers.Wait()
		later(time.Second)
		c.wantNodes(0)
	}
}

// Readers keep arriving, in the process that upgrades and in another: those that are
// inside leave in the end, and new ones wait.
func TestF134_ReadersKeepComing(t *testing.T) {
	either(t, func(c *cluster, own bool) {
		p := c.rw("p")
		readers := p.Reader()
		if !own {
			readers = c.rw("other").Reader()
		}
		stop := c.comeAndGo(readers, func(context.Context, Hold) {})
		up := mustLock(c.t, p.Upgradable())
		began := time.Now()
		wantErr(c.t, "upgrade", up.Upgrade(withTimeout(c.t, time.Minute)), nil)
		wantTook(c.t, began, 0, time.Second)
		mustRelease(c.t, up)
		stop()
	})
}

// Goroutines keep upgrading the lock that their process has: readers of another process
// have their turn.
func TestF134_UpgradesKeepComing(t *testing.T) {
	bubble(t, func(c *cluster) {
		stop := c.comeAndGo(c.rw("p").Upgradable(), func(ctx context.Context, h Hold) {
			_ = h.Upgrade(ctx) // or ctx has ended
		})
		reader := c.rw("other").Reader().Acquire(c.t.Context())
		later(time.Second)
		c.held(reader)
		mustRelease(c.t, reader)
		stop()
	})
}

// A slowContext has ended by the time the caller of Done hears of it: Done returns when
// goOn is closed.
type slowContext struct {
	context.Context
	goOn chan struct{}
}

func (s slowContext) Done() <-chan struct{} {
	<-s.goOn
	return s.Context.Done()
}

// slowUpgrade begins an upgrade of h, and stops it before it can learn of anything. goOn
// has it go on; if end is set, its context has ended by then.
func (c *cluster) slowUpgrade(h Hold) (u upgrading, goOn func(end bool)) {
	ctx, cancel := context.WithCancel(c.t.Context())
	c.t.Cleanup(cancel)
	slow := slowContext{ctx, make(chan struct{})}
	var p futures.Promise[struct{}]
	go func() { p.Settle(struct{}{}, h.Upgrade(slow)) }()
	synctest.Wait()
	return upgrading{c, h, p.Future()}, func(end bool) {
		if end {
			cancel()
		}
		close(slow.goOn)
		synctest.Wait()
	}
}

// wantUpgraded checks what h says of itself.
func (c *cluster) wantUpgraded(h Hold, want bool) {
	c.t.Helper()
	wantEq(c.t, "Upgraded", h.Upgraded(), want)
}

// The context of a call ends in the moment in which the process becomes exclusive, whether
// for that call alone or for another goroutine's, too. The Hold is upgraded, and so both
// calls say; no other process is inside. Which of the two the call hears of first is a
// matter of chance, so this is done often.
func TestF275_GivesUpAsItSucceeds(t *testing.T) {
	either(t, func(c *cluster, alone bool) {
		p, other := c.rw("p"), c.rw("other")
		for range 30 {
			up := c.acquire(p.Upgradable())
			reader := c.acquire(other.Reader())
			second, goOn := c.slowUpgrade(up)
			if !alone {
				defer c.upgrade(up).done()
			}
			c.unlock(reader)
			goOn(true)
			second.done()
			c.wantUpgraded(up, true)
			late := c.acquire(other.Reader())
			later(time.Second)
			c.waiting(late)
			c.unlock(up)
			c.wantUpgraded(up, false)
			c.unlock(late)
		}
		c.wantNodes(0)
	})
}

// A goroutine downgrades the Hold for which another one still waits. Before the process is
// exclusive, that is refused, and the call goes on waiting. Afterwards the call has the
// answer that is true when it returns.
func TestF275_DowngradedByAnotherGoroutine(t *testing.T) {
	bubble(t, func(c *cluster) {
		p := c.rw("p")
		up, keeps := c.acquire(p.Upgradable()), c.acquire(p.Upgradable())
		reader := c.acquire(c.rw("other").Reader())
		first, beside := c.upgrade(up), c.upgrade(keeps)
		second, goOn := c.slowUpgrade(up)
		wantErr(c.t, "downgrade of a Hold that waits", up.Downgrade(), ErrNotGranted)
		first.waits()
		c.unlock(reader)
		first.done()
		beside.done()
		c.wantUpgraded(up, true)

		c.mustDowngrade(up) // keeps is upgraded still, and the process exclusive
		c.wantUpgraded(up, false)
		c.wantUpgraded(keeps, true)
		goOn(false)
		wantErr(c.t, "the call that returns last", settled(c.t, "it", second.result), ErrNotGranted)
		c.mustUpgrade(up)
		c.unlock(up, keeps)
		c.wantNodes(0)
	})
}
