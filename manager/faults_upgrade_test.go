// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
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
		for _, reverse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", marks, reverse), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					p := c.rw("p")
					up := c.acquire(p.Upgradable())
					waiters := c.behindUpgrade(marks)
					c.mustUpgrade(up)
					var readers []Hold
					for i := range waiters {
						if reverse {
							i = len(waiters) - 1 - i
						}
						switch w := waiters[i]; w.mark {
						case "r":
							readers = append(readers, w.hold)
						default:
							w.hold.Release()
							later(time.Second)
							c.held(up)
						}
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
}

// The writer goes right before the shield is put beside it: then a reader may be inside,
// and the upgrade waits for that.
func TestF131_WriterGoesBeforeTheShield(t *testing.T) {
	bubble(t, func(c *cluster) {
		p := c.rw("p")
		up := c.acquire(p.Upgradable())
		waiters := c.behindUpgrade("w r")
		shield := c.stopAt(p.writer.m, zktest.OpMulti, 2)
		u := c.upgrade(up)
		shield.reached()
		c.unlockPending(waiters[0].hold)
		c.held(waiters[1].hold)
		shield.goOn()
		u.waits()
		c.unlock(waiters[1].hold)
		u.done()
		c.unlock(up)
		c.wantNodes(0)
	})
}

// unlockPending gives up a wait.
func (c *cluster) unlockPending(h Hold) {
	h.Release()
	synctest.Wait()
}

// A reader of the process comes in beside the upgraded hold, with its token. A writer
// that has waited for that hold waits for the reader, too.
func TestF131_ReaderBesideAnUpgrade(t *testing.T) {
	for _, queued := range []bool{false, true} {
		t.Run(fmt.Sprint(queued), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				t := c.t
				p := c.rw("p")
				up := c.acquire(p.Upgradable())
				w := c.behindUpgrade("w")[0].hold
				var r Hold
				if queued {
					r = c.acquire(p.Reader())
					c.waiting(r)
				}
				c.mustUpgrade(up)
				if !queued {
					r = c.acquire(p.Reader())
				}
				c.held(up, r)
				mine, _ := up.Grant()
				theirs, _ := r.Grant()
				if mine.Token != theirs.Token || sequenceOf(mine.Path) != sequenceOf(theirs.Path) {
					t.Errorf("the reader's grant is %+v, that of the upgraded hold %+v", theirs, mine)
				}
				c.unlock(up)
				later(time.Second)
				c.held(r)
				c.waiting(w)
				c.unlock(r)
				c.held(w)
				c.unlock(w)
				c.wantNodes(0)
			})
		})
	}
}

// Another client deletes one of the nodes of an upgraded hold, or both: the lock is
// lost, the other node is deleted, and nothing queues again. A guarded write that comes
// after the deletion changes nothing.
func TestF132_NodeOfAnUpgradeDeleted(t *testing.T) {
	for what, delete := range map[string]func(c *cluster, own, writers string){
		"the reader's": func(c *cluster, own, _ string) { c.remove(own) },
		"the writer's": func(c *cluster, _, writers string) { c.remove(writers) },
		"both": func(c *cluster, own, writers string) {
			c.remove(writers)
			_ = c.srv.Delete(own) // unless the process was faster
		},
	} {
		for _, guard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", what, guard), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					t := c.t
					wantErr(t, "create", c.srv.CreateAll("/data", nil), nil)
					p := c.rw("p")
					up := c.acquire(p.Upgradable())
					other := c.behindUpgrade("w")[0].hold
					later(time.Second) // until the server has a watch for its node
					c.mustUpgrade(up)
					own, writers := grantOf(t, up).Path, upgradeOf(ioOf(up)).exclusive.Load().path
					if guard {
						request := c.stopAt(p.writer.m, zktest.OpMulti, 1)
						var err error
						done := make(chan struct{})
						go func() {
							_, err = up.Guard(t.Context(), zkio.SetOp("/data", []byte("late"), -1))
							close(done)
						}()
						request.reached()
						delete(c, own, writers)
						request.goOn()
						<-done
						wantErr(t, "guard", err, ErrLost)
						if data, _, _ := c.srv.Get("/data"); len(data) > 0 {
							t.Errorf("the guarded write was made: %q", data)
						}
					} else {
						delete(c, own, writers)
						synctest.Wait()
					}
					if !isClosed(up.Lost()) {
						t.Error("the loss is not told")
					}
					wantErr(t, "hold", up.Err(), ErrLost)
					wantErr(t, "downgrade", up.Downgrade(), ErrLost)
					later(time.Second)
					c.held(other)
					wantErr(t, "unlock", up.Unlock(t.Context()), ErrLost)
					c.unlock(other)
					c.wantNodes(0)
					wantState(t, p.Upgradable(), state.Free, 0)
				})
			})
		}
	}
}

// The same while the upgrade still waits. Without its reader's node the lock is lost.
// Without the writer's it is held to read, and the upgrade begins anew.
func TestF132_NodeDeletedDuringAnUpgrade(t *testing.T) {
	begin := func(c *cluster) (reader, up Hold, u upgrading, own, writers string) {
		reader = c.acquire(c.rw("r").Reader())
		up = c.acquire(c.rw("p").Upgradable())
		later(time.Second) // until the server has a watch for its node
		u = c.upgrade(up)
		u.waits()
		own = grantOf(c.t, up).Path
		for _, name := range c.nodes() {
			if strings.Contains(name, "__WRIT__") {
				writers = dir + "/" + name
			}
		}
		return reader, up, u, own, writers
	}
	t.Run("the reader's", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			t := c.t
			reader, up, u, own, _ := begin(c)
			c.remove(own)
			synctest.Wait()
			wantErr(t, "upgrade", settled(t, "the upgrade", u.result), ErrLost)
			c.wantNodes(1)
			wantErr(t, "unlock", up.Unlock(t.Context()), ErrLost)
			c.unlock(reader)
			c.wantNodes(0)
		})
	})
	t.Run("the writer's", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			reader, up, u, _, writers := begin(c)
			c.remove(writers)
			u.waits()
			c.wantNodes(3)
			c.held(up)
			c.unlock(reader)
			u.done()
			c.unlock(up)
			c.wantNodes(0)
		})
	})
}

// Requests and answers of an upgrade get lost, and those of the way back. It succeeds all
// the same, no process is inside beside it, and no node is left.
func TestF133_LostDuringAnUpgrade(t *testing.T) {
	cases := 0
	for what, lose := range map[string]func(*zktest.Faults, zktest.Match) *zktest.Fault{"request": dropRequest, "answer": dropReply} {
		for _, m := range []zktest.Match{
			{Op: zktest.OpMulti, Nth: 1}, {Op: zktest.OpMulti, Nth: 2}, {Op: zktest.OpMulti, Nth: 3}, {Op: zktest.OpMulti, Nth: 1, Times: 3},
			{Op: zktest.OpGetChildren2, Nth: 1}, {Op: zktest.OpGetChildren2, Nth: 2},
			{Op: zktest.OpGetData, Nth: 1}, {Op: zktest.OpGetData, Nth: 2}, {Op: zktest.OpDelete, Nth: 1},
		} {
			for _, downgrade := range []bool{false, true} {
				if cases++; !racing.Some(cases) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%v %d %d/%t", what, m.Op, m.Nth, m.Times, downgrade), func(t *testing.T) {
					bubble(t, func(c *cluster) {
						t := c.t
						p := c.rw("p")
						reader := c.acquire(c.rw("first").Reader())
						up := c.acquire(p.Upgradable())
						waiters := c.behindUpgrade("w r")
						m.Session, m.Path = session(p.writer.m), dir
						fault := lose(c.srv.Faults(), m)
						u := c.upgrade(up)
						later(5 * time.Second)
						pending(t, "the upgrade", u.result)
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
						wantState(t, p.Upgradable(), state.Free, 0)
					})
				})
			}
		}
	}
}

// The session ends during an upgrade, or when it is done: the lock is lost, and does not
// come back.
func TestF133_SessionEndsDuringAnUpgrade(t *testing.T) {
	for what, nth := range map[string]int32{"at its node": 1, "at the shield": 2, "afterwards": 0} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				t := c.t
				p := c.rw("p")
				up := c.acquire(p.Upgradable())
				waiters := c.behindUpgrade("w r")
				var u upgrading
				if nth > 0 {
					s := c.stopAt(p.writer.m, zktest.OpMulti, nth)
					u = c.upgrade(up)
					s.reached()
					c.expire(p.writer.m)
					s.goOn()
					later(time.Second)
					wantErr(t, "upgrade", settled(t, "the upgrade", u.result), ErrLost)
				} else {
					c.mustUpgrade(up)
					c.expire(p.writer.m)
				}
				later(time.Second)
				wantErr(t, "hold", up.Err(), ErrLost)
				c.wantNodes(2)
				c.held(waiters[0].hold)
				wantErr(t, "unlock", up.Unlock(t.Context()), ErrLost)
				c.unlock(waiters[0].hold)
				c.held(waiters[1].hold)
				c.unlock(waiters[1].hold)
				c.wantNodes(0)
			})
		})
	}
}

// Readers keep arriving, in the process that upgrades and in another: those that are
// inside leave in the end, and new ones wait.
func TestF134_ReadersKeepComing(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprint(own), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				t := c.t
				p := c.rw("p")
				readers := p.Reader()
				if !own {
					readers = c.rw("other").Reader()
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{}, 3)
				for i := range 3 {
					go func() {
						defer func() { ended <- struct{}{} }()
						time.Sleep(time.Duration(i) * 10 * time.Millisecond)
						for ctx.Err() == nil {
							if h, err := readers.Lock(ctx); err == nil {
								time.Sleep(30 * time.Millisecond)
								h.Release()
							}
						}
					}()
				}
				later(time.Second)
				up := mustLock(t, p.Upgradable())
				began := time.Now()
				bounded, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				wantErr(t, "upgrade", up.Upgrade(bounded), nil)
				if d := time.Since(began); d > time.Second {
					t.Errorf("the upgrade took %v", d)
				}
				cancel()
				c.unlock(up)
				for range cap(ended) {
					<-ended
				}
				later(time.Second)
				c.wantNodes(0)
			})
		})
	}
}

// Goroutines keep upgrading the lock that their process has: readers of another process
// have their turn.
func TestF134_UpgradesKeepComing(t *testing.T) {
	bubble(t, func(c *cluster) {
		p := c.rw("p")
		ctx, cancel := context.WithCancel(c.t.Context())
		ended := make(chan struct{}, 3)
		for i := range 3 {
			go func() {
				defer func() { ended <- struct{}{} }()
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				for ctx.Err() == nil {
					if h, err := p.Upgradable().Lock(ctx); err == nil {
						_ = h.Upgrade(ctx) // or ctx has ended
						time.Sleep(30 * time.Millisecond)
						h.Release()
					}
				}
			}()
		}
		later(time.Second)
		reader := c.rw("other").Reader().Acquire(c.t.Context())
		later(time.Second)
		c.held(reader)
		cancel()
		c.unlock(reader)
		for range cap(ended) {
			<-ended
		}
		later(time.Second)
		c.wantNodes(0)
	})
}

// A caller that gives its upgrade up holds the lock to read, as before, and readers come
// in. So does one whose Hold is released meanwhile, if another keeps the lock.
func TestF134_UpgradeGivenUp(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		p, other := c.rw("p"), c.rw("other")
		reader := c.acquire(other.Reader())
		up, keeps := c.acquire(p.Upgradable()), c.acquire(p.Upgradable())
		u := c.upgrade(up)
		late := c.acquire(c.rw("late").Reader())
		c.waiting(late)
		u.cancel()
		synctest.Wait()
		wantErr(t, "upgrade", settled(t, "the upgrade", u.result), context.Canceled)
		c.held(up, reader, late)
		c.wantQueue(p.Reader(), "r0 u1 r3")
		wantErr(t, "downgrade", up.Downgrade(), ErrNotGranted)

		u = c.upgrade(up)
		u.waits()
		up.Release()
		later(time.Second)
		wantErr(t, "upgrade", settled(t, "the upgrade", u.result), ErrReleased)
		c.wantQueue(p.Reader(), "r0 u1 r3")
		c.held(keeps)
		c.unlock(keeps, reader, late)
		c.wantNodes(0)
	})
}

// Several holds of a process are upgraded: it goes back to reading with the last.
func TestF134_UpgradedTogether(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		p := c.rw("p")
		a, b := c.acquire(p.Upgradable()), c.acquire(p.Upgradable())
		c.mustUpgrade(a)
		c.mustUpgrade(b)
		c.mustUpgrade(b) // it is already
		reader := c.acquire(c.rw("other").Reader())
		c.mustDowngrade(a)
		wantErr(t, "a second downgrade", a.Downgrade(), ErrNotGranted)
		c.waiting(reader)
		b.Release()
		later(10 * time.Millisecond)
		c.held(a, reader)
		c.unlock(a, reader)
		c.wantNodes(0)
	})
}

// A caller would wait for itself.
func TestF077_ErrUpgradeToUpgradable(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		p := c.rw("p")
		for name, held := range map[string]*Lock{"read": p.Reader(), "write": p.Writer()} {
			h := mustLock(t, held)
			ctx, cancel := h.Context(t.Context())
			_, err := p.Upgradable().Lock(ctx)
			wantErr(t, "upgradable under "+name, err, ErrUpgrade)
			wantErr(t, "upgrade of "+name, h.Upgrade(t.Context()), ErrUpgrade)
			cancel()
			mustRelease(t, h)
		}
		up := mustLock(t, p.Upgradable())
		ctx, cancel := up.Context(t.Context())
		defer cancel()
		_, err := p.Writer().Lock(ctx)
		wantErr(t, "write under upgradable", err, ErrUpgrade)
		// It may read: that is the same hold, and not in the way of an upgrade.
		r, err := p.Reader().Lock(ctx)
		wantErr(t, "read under upgradable", err, nil)
		if r.Lock() != p.Upgradable() || up.Depth() != 2 {
			t.Errorf("a read under an upgradable is of the %v lock, depth %d", r.Lock().kind, up.Depth())
		}
		c.mustUpgrade(up)
		c.unlock(r, up)

		up = mustLock(t, p.Upgradable())
		r = mustLock(t, p.Reader())
		reads, cancelReads := r.Context(t.Context())
		defer cancelReads()
		wantErr(t, "upgrade while reading", up.Upgrade(reads), ErrUpgrade)
		c.unlock(up, r)
		c.wantNodes(0)
	})
}

// The numbers run out: no upgrade is possible where no shield would be.
func TestF014_UpgradeRefused(t *testing.T) {
	for _, from := range []int32{lastSafe - 1, lastSafe, lastSafe + 1, math.MaxInt32} {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				t := c.t
				c.countFrom(from)
				up := c.acquire(c.rw("p").Upgradable())
				reader := c.acquire(c.rw("other").Reader())
				u := c.upgrade(up)
				wantErr(t, "upgrade", settled(t, "the upgrade", u.result), ErrSequenceExhausted)
				c.held(up, reader)
				c.unlock(reader, up)
				c.wantNodes(0)
			})
		})
	}
}

// The request of a downgrade is lost, or the answer to it, and the Hold upgrades again
// before the process knows what became of it. The writer's node of the first upgrade may
// go at any moment, and its watch is gone: the second upgrade has one of its own.
func TestF133_UpgradedAgainAfterALostDowngrade(t *testing.T) {
	for how, lose := range losses {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				p, other := c.rw("p"), c.rw("other")
				up := c.acquire(p.Upgradable())
				c.mustUpgrade(up)
				f := lose(c, zktest.Match{Session: session(p.reader.m), Op: zktest.OpDelete, Path: dir, Times: 1})
				c.refused["p"].Store(true)
				wantErr(c.t, "downgrade", up.Downgrade(), nil)
				<-f.Hit()
				again := c.upgrade(up)
				c.refused["p"].Store(false)
				later(5 * time.Second)
				again.done()
				c.wantQueue(other.Reader(), "u0 w2")
				reader := c.acquire(other.Reader())
				c.waiting(reader)
				c.remove(up.share.promises().raised().exclusive.Load().path)
				c.held(reader)
				wantErr(c.t, "the upgraded hold", up.Err(), ErrLost)
			})
		})
	}
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
	return upgrading{c, cancel, p.Future()}, func(end bool) {
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
	if h.Upgraded() != want {
		c.t.Errorf("Upgraded reports %t, want %t", !want, want)
	}
}

// Two goroutines upgrade one Hold, and one gives up: the other goes on waiting. When both
// have given up, the Hold waits no longer.
func TestF275_OneOfTwoCallsGivesUp(t *testing.T) {
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprint(both), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				up := c.acquire(c.rw("p").Upgradable())
				reader := c.acquire(c.rw("other").Reader())
				first, second := c.upgrade(up), c.upgrade(up)
				second.cancel()
				synctest.Wait()
				wantErr(t, "the call that gave up", settled(t, "it", second.result), context.Canceled)
				first.waits()
				c.wantUpgraded(up, false)
				late := c.acquire(c.rw("late").Reader())
				c.waiting(late)
				if both {
					first.cancel()
					synctest.Wait()
					wantErr(t, "the other call", settled(t, "it", first.result), context.Canceled)
				} else {
					c.unlock(reader)
					first.done()
					c.wantUpgraded(up, true)
					c.waiting(late)
					c.mustDowngrade(up)
					reader = c.acquire(c.rw("other").Reader())
				}
				c.wantUpgraded(up, false)
				c.held(up, reader, late)
				c.unlock(up, reader, late)
				c.wantNodes(0)
			})
		})
	}
}

// The context of a call ends in the moment in which the process becomes exclusive, whether
// for that call alone or for another goroutine's, too. The Hold is upgraded, and so both
// calls say; no other process is inside. Which of the two the call hears of first is a
// matter of chance, so this is done often.
func TestF275_GivesUpAsItSucceeds(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprint(alone), func(t *testing.T) {
			bubble(t, func(c *cluster) {
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
		})
	}
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
		wantErr(t, "downgrade of a Hold that waits", up.Downgrade(), ErrNotGranted)
		first.waits()
		c.unlock(reader)
		first.done()
		beside.done()
		c.wantUpgraded(up, true)

		c.mustDowngrade(up) // keeps is upgraded still, and the process exclusive
		c.wantUpgraded(up, false)
		c.wantUpgraded(keeps, true)
		goOn(false)
		wantErr(t, "the call that returns last", settled(t, "it", second.result), ErrNotGranted)
		c.mustUpgrade(up)
		c.unlock(up, keeps)
		c.wantNodes(0)
	})
}
