// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// marksOf is the directory of the marks.
const marksOf = defaultRoot + "/" + marksSegment

// reporting opens a manager and returns its lock "jobs", which reports abandonment with
// that lock-delay.
func (c *cluster) reporting(label string, delay time.Duration) *Lock {
	c.t.Helper()
	return reports(c.t, c.lock(label), delay)
}

// reports has l report abandonment.
func reports(t testing.TB, l *Lock, delay time.Duration) *Lock {
	t.Helper()
	if err := l.ReportAbandoned(delay); err != nil {
		t.Fatal(err)
	}
	return l
}

// wantTold checks whether the grant of h says that the lock was abandoned.
func wantTold(t *testing.T, h Hold, want bool) {
	t.Helper()
	expect(t, grantOf(t, h).Abandoned == want,
		"%s at %s is told %t, want %t", describe(h), grantOf(t, h).Path, grantOf(t, h).Abandoned, want)
}

// lockTold locks l, and checks whether it is told that the lock was abandoned.
func lockTold(t *testing.T, l *Lock, told bool) Hold {
	t.Helper()
	h := mustLock(t, l)
	wantTold(t, h, told)
	return h
}

// inherit locks l, checks whether it is told that the lock was abandoned, recovers, and
// unlocks it.
func inherit(t *testing.T, l *Lock, told bool) {
	t.Helper()
	h := lockTold(t, l, told)
	wantErr(t, "recovered", h.Recovered(), nil)
	mustRelease(t, h)
}

// abandons has a holder of l be interrupted.
func (c *cluster) abandons(l *Lock) {
	c.t.Helper()
	mustLock(c.t, l)
	c.expire(l.m)
}

// abandoned opens three processes whose locks report abandonment. The first has abandoned
// the lock.
func (c *cluster) abandoned() (a, b, d *Lock) {
	c.t.Helper()
	a, b, d = c.reporting("a", 0), c.reporting("b", 0), c.reporting("d", 0)
	c.abandons(a)
	return a, b, d
}

// eachMarking runs test in a bubble of its own for each of the cases, and each lock whose
// holders make a mark, of two processes.
func eachMarking[T any](t *testing.T, cases map[string]T, test func(c *cluster, a, b *Lock, v T)) {
	t.Helper()
	for kind, open := range map[string]func(c *cluster, label string) *Lock{
		"exclusive": func(c *cluster, label string) *Lock { return c.reporting(label, 0) },
		"write":     func(c *cluster, label string) *Lock { return reports(c.t, c.rw(label).Writer(), 0) },
	} {
		t.Run(kind, func(t *testing.T) {
			each(t, cases, func(c *cluster, v T) { test(c, open(c, "a"), open(c, "b"), v) })
		})
	}
}

// A markLoss has the nth request of a process about the mark get lost, or the answer to it,
// and those after it if times is more than one.
type markLoss func(m *Manager, times int) *zktest.Fault

// eachMarkLoss runs test with each way to lose the nth request, for each nth up to most; only
// with some of them if cases, which counts them, is not nil.
func eachMarkLoss(t *testing.T, most int, cases *int, test func(c *cluster, lose markLoss)) {
	t.Helper()
	for nth := 1; nth <= most; nth++ {
		for how, lose := range losses {
			if cases != nil {
				if *cases++; !racing.Some(*cases) {
					continue
				}
			}
			subtest(t, fmt.Sprintf("%d/%s", nth, how), func(c *cluster) {
				test(c, func(m *Manager, times int) *zktest.Fault {
					return lose(c, zktest.Match{Session: session(m), Path: marksOf, Nth: nth, Times: times})
				})
			})
		}
	}
}

// wantMarks checks how many marks there are.
func (c *cluster) wantMarks(want int) {
	c.t.Helper()
	synctest.Wait()
	wantEq(c.t, "marks", len(c.srv.Children(marksOf)), want)
}

// A holder that is interrupted is reported to the next, once: that one has repaired what
// the lock protects.
func TestF135_InterruptedHolder(t *testing.T) {
	interrupts := func(l *Lock, work func(context.Context, Hold) error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			_ = l.Do(l.m.box.ctx, work)
		}()
		<-done
	}
	eachMarking(t, map[string]func(c *cluster, l *Lock){
		"its session ends": func(c *cluster, l *Lock) { c.abandons(l) },
		"its lease ends": func(c *cluster, l *Lock) {
			h := mustLock(c.t, l)
			c.away("a", 8*time.Second) // the session survives
			<-h.Lost()
			h.Release()
			later(20 * time.Second)
		},
		"its node is deleted": func(c *cluster, l *Lock) { c.remove(grantOf(c.t, mustLock(c.t, l)).Path) },
		"it is closed":        func(c *cluster, l *Lock) { mustLock(c.t, l); wantErr(c.t, "close", l.m.Close(), nil) },
		"it does not leave in time": func(c *cluster, l *Lock) {
			mustLock(c.t, l)
			wantErr(c.t, "shutdown", l.m.Shutdown(withTimeout(c.t, time.Second)), context.DeadlineExceeded)
		},
		"a function panics": func(_ *cluster, l *Lock) {
			interrupts(l, func(context.Context, Hold) error { panic("at work") })
		},
		"a function panics after another has recovered": func(c *cluster, l *Lock) {
			interrupts(l, func(_ context.Context, h Hold) error {
				wantErr(c.t, "recovered", h.Recovered(), nil)
				panic("at work")
			})
		},
		"a goroutine ends": func(_ *cluster, l *Lock) {
			interrupts(l, func(context.Context, Hold) error { runtime.Goexit(); return nil })
		},
	}, func(c *cluster, a, b *Lock, interrupt func(*cluster, *Lock)) {
		interrupt(c, a)
		c.wantMarks(1)
		inherit(c.t, b, true)
		c.wantMarks(0)
		inherit(c.t, b, false)
		lines := c.log.with("the last holder of a lock was interrupted; the next one is told")
		expect(c.t, len(lines) == 1 && strings.HasPrefix(lines[0], "INFO ") && strings.Contains(lines[0], " lock=jobs last=a@"), "logged %q", lines)
	})
}

// A holder that leaves in good order is not reported, nor one that was never told of its
// grant.
func TestF135_CleanRelease(t *testing.T) {
	eachMarking(t, map[string]func(c *cluster, l *Lock){
		"it unlocks": func(c *cluster, l *Lock) { c.cycle(l) },
		"it fails": func(c *cluster, l *Lock) {
			err := l.Do(c.t.Context(), func(context.Context, Hold) error { return context.Canceled })
			wantErr(c.t, "do", err, context.Canceled)
		},
		"a function releases the hold, and panics": func(c *cluster, l *Lock) {
			defer func() { _ = recover() }()
			_ = l.Do(c.t.Context(), func(_ context.Context, h Hold) error { h.Release(); panic("afterwards") })
		},
		"several holders leave": func(c *cluster, l *Lock) { c.unlock(mustLock(c.t, l), mustLock(c.t, l)) },
		"it leaves while its manager shuts down": func(c *cluster, l *Lock) {
			h := mustLock(c.t, l)
			time.AfterFunc(time.Second, func() { h.Release() })
			wantErr(c.t, "shutdown", l.m.Shutdown(c.t.Context()), nil)
		},
		"it leaves while it is cut off": func(c *cluster, l *Lock) {
			h := mustLock(c.t, l)
			c.away("a", 2*time.Second)
			h.Release()
			later(5 * time.Second)
		},
		"it hands over to itself": func(c *cluster, l *Lock) {
			next := c.handOver(mustLock(c.t, l))
			wantTold(c.t, next, false)
			mustRelease(c.t, next)
		},
		"it gives up before the grant": func(c *cluster, l *Lock) {
			s := c.stopBefore(l.m, prove) // the transaction that makes the mark
			h := l.Acquire(c.t.Context())
			s.reached()
			h.Release()
			s.goOn()
		},
	}, func(c *cluster, a, b *Lock, leave func(*cluster, *Lock)) {
		leave(c, a)
		c.wantMarks(0)
		c.wantNodes(0)
		inherit(c.t, b, false)
	})
}

// Until a holder has recovered, each is told. All holders of a process share what one of
// them has said.
func TestF135_NotRecovered(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, d := c.abandoned()
		mustRelease(c.t, lockTold(c.t, b, true))
		h := lockTold(c.t, b, true)
		waits := c.acquire(d)
		next := c.handOver(h)
		c.held(waits)
		wantTold(c.t, waits, true)
		mustRelease(c.t, waits)
		c.held(next)
		wantTold(c.t, next, true)

		other := mustLock(c.t, b)
		wantErr(c.t, "recovered", next.Recovered(), nil)
		wantErr(c.t, "recovered, again", other.Recovered(), nil)
		wantTold(c.t, other, false)
		g, _, _ := other.Granted().Poll()
		expect(c.t, g.Abandoned, "the future of the grant has changed")
		mustRelease(c.t, next)
		wantErr(c.t, "recovered, after the release", next.Recovered(), ErrReleased)
		mustRelease(c.t, other)
		inherit(c.t, d, false)

		// It has recovered, and is interrupted before the release.
		c.abandons(a)
		h = mustLock(c.t, b)
		wantErr(c.t, "recovered", h.Recovered(), nil)
		c.expire(b.m)
		wantErr(c.t, "recovered, too late", h.Recovered(), ErrLost)
		inherit(c.t, d, true)
	})
}

// A downgrade clears the mark with the write node, in the same request: what was written
// is complete. A process that dies as a reader is not reported.
func TestF135_Downgrade(t *testing.T) {
	bubble(t, func(c *cluster) {
		rw := c.rw("a")
		w, b := reports(c.t, rw.Writer(), 0), reports(c.t, c.rw("b").Writer(), 0)
		h := mustLock(c.t, w)
		mustLock(c.t, rw.Reader())
		c.wantMarks(1)
		sent := c.tally(w.m)
		mustRelease(c.t, h)
		c.wantMarks(0)
		sent.want("the downgrade", "multi=1")
		c.expire(w.m)
		inherit(c.t, b, false)
	})
}

// A process that does not report abandonment neither makes a mark nor clears one.
func TestF135_OthersDoNotTakePart(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, other := c.reporting("a", 0), c.reporting("b", 0), c.lock("other")
		c.abandons(other)
		c.wantMarks(0)
		inherit(c.t, a, false)
		c.abandons(a)
		h := lockTold(c.t, other, false)
		wantErr(c.t, "it reports from now on", other.ReportAbandoned(0), nil)
		mustRelease(c.t, h)
		inherit(c.t, b, true)
	})
}

// A read lock cannot report, and a delay has bounds.
func TestReportAbandonedRefused(t *testing.T) {
	bubble(t, func(c *cluster) {
		rw, l := c.rw("a"), c.lock("b")
		wantErr(c.t, "a read lock", rw.Reader().ReportAbandoned(0), ErrBadConfig)
		for _, delay := range []time.Duration{-1, 25 * time.Hour} {
			wantErr(c.t, fmt.Sprint(delay), l.ReportAbandoned(delay), ErrBadConfig)
		}
		wantErr(c.t, "set", l.SetLinger(always), nil)
		wantErr(c.t, "a lock that was set to linger", l.ReportAbandoned(0), ErrBadConfig)
		c.idle(l)
		c.wantMarks(0)
		expect(c.t, !c.srv.Exists(marksOf), "there is a directory for marks")
		wantErr(c.t, "close", l.m.Close(), nil)
		err := l.ReportAbandoned(0)
		wantErr(c.t, "closed", err, ErrClosed)
		wantSays(c.t, err, `report abandoned "jobs"`)
	})
}

// A grant costs one write more, and the release and a hand-over nothing. A lock that does
// not report costs what it did.
func TestAbandonedRequests(t *testing.T) {
	either(t, func(c *cluster, reporting bool) {
		l := c.lock("a")
		cycle, handOver := "delete=1 multi=1", "multi=1"
		if reporting {
			reports(c.t, l, 0)
			cycle, handOver = "multi=3", "multi=2"
		}
		c.cycle(l) // makes the directories
		sent := c.tally(l.m)
		c.cycle(l)
		sent.want("a cycle", cycle)
		h := mustLock(c.t, l)
		sent.take("the next grant")
		next := c.handOver(h)
		c.held(next)
		sent.want("a release and the next grant of the same process", handOver)
		mustRelease(c.t, next)

		if reporting {
			b := c.reporting("b", 0)
			c.cycle(b)
			c.abandons(l)
			sent = c.tally(b.m)
			lockTold(c.t, b, true)
			sent.want("the heir's grant", "getData=1 multi=3")
		}
	})
}

// Each request about the mark is lost in turn, before or after it was carried out. The
// heir is told of the interruption, and the one after it is not, unless the heir does not
// recover.
func TestF136_LostAnswers(t *testing.T) {
	cases := 0
	for _, recovers := range []bool{true, false} {
		for _, times := range []int{1, 2} {
			eachMarkLoss(t, 6, &cases, func(c *cluster, lose markLoss) {
				_, b, d := c.abandoned()
				lose(b.m, times)
				h := lockTold(c.t, b, true)
				if recovers {
					wantErr(c.t, "recovered", h.Recovered(), nil)
				}
				mustRelease(c.t, h)
				inherit(c.t, d, !recovers)
				inherit(c.t, b, false)
				c.wantMarks(0)
			})
		}
	}
}

// The same, without an interruption: none is made up.
func TestF136_LostAnswersOfAFirstMark(t *testing.T) {
	for _, hands := range []bool{false, true} {
		eachMarkLoss(t, 4, nil, func(c *cluster, lose markLoss) {
			b, d := c.reporting("b", 0), c.reporting("d", 0)
			lose(b.m, 0)
			h := lockTold(c.t, b, false)
			if hands {
				waits := c.acquire(d)
				next := waitBehind(c.t, h)
				mustRelease(c.t, h)
				wantErr(c.t, "the next", wait(c.t, waits.Granted()), nil)
				wantTold(c.t, waits, false)
				mustRelease(c.t, waits)
				wantErr(c.t, "itself again", wait(c.t, next.Granted()), nil)
				h = next
				wantTold(c.t, h, false)
			}
			mustRelease(c.t, h)
			inherit(c.t, d, false)
			c.wantMarks(0)
		})
	}
}

// The heir dies with each of its requests about the mark, carried out or not. The next one
// is told.
func TestF136_HeirDies(t *testing.T) {
	eachMarkLoss(t, 3, nil, func(c *cluster, lose markLoss) { // make, read, take over
		_, b, d := c.abandoned()
		f := lose(b.m, 0)
		c.refused["b"].Store(true)
		b.Acquire(c.t.Context())
		<-f.Hit()
		inherit(c.t, d, true) // when b's session has ended
		c.refused["b"].Store(false)
	})
}

// A release was carried out and its answer is lost. It is tried again when the next holder
// has made its mark, which must stay.
func TestF136_LateRelease(t *testing.T) {
	either(t, func(c *cluster, hands bool) {
		a, b, d := c.reporting("a", 0), c.reporting("b", 0), c.reporting("d", 0)
		h := mustLock(c.t, a)
		var again Hold
		if hands {
			again = waitBehind(c.t, h)
		}
		waits := c.acquire(b)
		f := c.srv.Faults().DropReply(zktest.Match{Session: session(a.m), Path: marksOf, Times: 1})
		c.refused["a"].Store(true)
		h.Release()
		<-f.Hit()
		c.held(waits)
		wantTold(c.t, waits, false)
		c.refused["a"].Store(false)
		later(2 * time.Second)
		c.wantMarks(1)
		if hands {
			again.Release()
		}
		c.expire(b.m)
		inherit(c.t, d, true)
	})
}

// The answer to a request that writes the mark is lost, and the callers give up before the
// process knows what became of it. It finds out: a mark of its own goes with the node, and
// that of an interrupted holder stays.
func TestF136_GivesUpAfterALostAnswer(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		most := 1 // make
		if interrupted {
			most = 3 // and read, take over
		}
		eachMarkLoss(t, most, nil, func(c *cluster, lose markLoss) {
			a, b, d := c.reporting("a", 0), c.reporting("b", 0), c.reporting("d", 0)
			c.cycle(a)
			if interrupted {
				c.abandons(a)
			}
			f := lose(b.m, 0)
			h := b.Acquire(c.t.Context())
			<-f.Hit()
			c.waiting(h)
			h.Release()
			inherit(c.t, d, interrupted)
			c.wantMarks(0)
		})
	}
}

// A request to make the mark arrives when its session is over: it changes nothing.
func TestF136_LateMark(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.reporting("a", 0), c.reporting("b", 0)
		s := c.stopBefore(a.m, prove)
		h := a.Acquire(c.t.Context())
		s.reached()
		c.srv.ExpireSession(session(a.m))
		inherit(c.t, b, false)
		s.goOn()
		wantErr(c.t, "in the next session", wait(c.t, h.Granted()), nil)
		wantTold(c.t, h, false)
		mustRelease(c.t, h)
		c.wantMarks(0)
	})
}

// An administrator deletes the node of a process that is about to make the mark, and the
// next process enters. The late request does not touch that one's mark.
func TestF136_NodeDeletedMeanwhile(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, d := c.reporting("a", 0), c.reporting("b", 0), c.reporting("d", 0)
		s := c.stopBefore(a.m, prove)
		waits := a.Acquire(c.t.Context())
		s.reached()
		c.remove(c.nodeOf(a.m))
		h := mustLock(c.t, b)
		mark := func() string { data, _, _ := c.srv.Get(marksOf + "/jobs"); return string(data) }
		before := mark()
		s.goOn()
		wantEq(c.t, "the mark", mark(), before)
		c.waiting(waits)
		waits.Release()
		mustRelease(c.t, h)
		inherit(c.t, d, false)
	})
}

// The heir is granted the lock when the lock-delay is over, counted from when it has taken
// the mark over. Meanwhile it is first in line. A holder that follows a clean release does
// not wait.
func TestF137_LockDelay(t *testing.T) {
	const delay = time.Minute // longer than a lease
	bubble(t, func(c *cluster) {
		a, b, d := c.reporting("a", delay), c.reporting("b", delay), c.reporting("d", delay)
		mustLock(c.t, a)
		later(3 * delay)
		heir, behind := c.acquire(b), c.acquire(d)
		c.expire(a.m)
		start := time.Now()
		later(delay - time.Second)
		c.waiting(heir, behind)
		wantState(c.t, b, state.Fetching, 1)
		c.wantNodes(2)
		err := errOf(b.Lock(withTimeout(c.t, 100*time.Millisecond)))
		wantErr(c.t, "a caller that does not wait so long", err, context.DeadlineExceeded)
		wantSays(c.t, err, "the lock was abandoned, and the lock-delay is not over")
		wantErr(c.t, "the heir", wait(c.t, heir.Granted()), nil)
		wantTook(c.t, start, delay-time.Second, delay+time.Second)
		wantTold(c.t, heir, true)
		for range 30 {
			later(time.Second)
			c.held(heir)
		}
		wantErr(c.t, "recovered", heir.Recovered(), nil)
		c.unlock(heir)
		c.held(behind)
		wantTold(c.t, behind, false)
		c.unlock(behind)
	})
}

// What can happen during the lock-delay. The one behind then waits for its own.
func TestF137_DuringTheDelay(t *testing.T) {
	const delay = 20 * time.Second
	each(t, map[string]func(c *cluster, l *Lock, h Hold){
		"the heir's session ends": func(c *cluster, l *Lock, _ Hold) { c.expire(l.m) },
		"the heir gives up":       func(_ *cluster, _ *Lock, h Hold) { h.Release() },
		"the heir is closed":      func(_ *cluster, l *Lock, _ Hold) { _ = l.m.Close() },
		"the heir shuts down": func(c *cluster, l *Lock, h Hold) {
			wantErr(c.t, "shutdown", l.m.Shutdown(c.t.Context()), nil)
			wantErr(c.t, "the heir", settled(c.t, "its grant", h.Granted()), ErrClosed)
		},
		"the heir's node is deleted": func(c *cluster, l *Lock, _ Hold) { c.remove(c.nodeOf(l.m)) },
	}, func(c *cluster, end func(*cluster, *Lock, Hold)) {
		a, b, d := c.reporting("a", delay), c.reporting("b", delay), c.reporting("d", delay)
		mustLock(c.t, a)
		heir, behind := c.acquire(b), c.acquire(d)
		c.expire(a.m)
		later(delay / 2)
		c.waiting(heir, behind)
		end(c, b, heir)
		later(delay - time.Second)
		c.waiting(behind)
		later(2 * time.Second)
		c.held(behind)
		wantTold(c.t, behind, true)
		wantErr(c.t, "recovered", behind.Recovered(), nil)
		mustRelease(c.t, behind)
		heir.Release()
		inherit(c.t, d, false)
	})
}

// The answer to the request that takes the mark over is lost: the delay is kept all the
// same. So it is if the heir comes by TryLock, and if its callers change.
func TestF137_DelayAndLostAnswer(t *testing.T) {
	const delay = 20 * time.Second
	each(t, losses, func(c *cluster, lose func(*cluster, zktest.Match) *zktest.Fault) {
		a, b := c.reporting("a", 0), c.reporting("b", delay)
		c.abandons(a)
		lose(c, zktest.Match{Session: session(b.m), Path: marksOf, Nth: 3})
		start := time.Now()
		first := b.Acquire(c.t.Context())
		time.AfterFunc(delay/2, func() { first.Release() })
		h, err := b.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, nil)
		wantTook(c.t, start, delay, delay+5*time.Second)
		wantTold(c.t, h, true)
		mustRelease(c.t, h)
	})
}

// A process that lacks a right for the marks is refused, and told which.
func TestF138_NoRight(t *testing.T) {
	for what, test := range map[string]struct {
		dir, mark int32 // the rights of the process there; dir < 0: there is none
		says      string
	}{
		"to make the directory": {-1, 0, "the right to create a node in "},
		"to create":             {zkio.PermRead | zkio.PermDelete, -1, "the right to create a node in "},
		"to read":               {zkio.PermAll, zkio.PermWrite, "the right to read "},
		"to write":              {zkio.PermAll, zkio.PermRead, "the right to write "},
	} {
		t.Run(what, func(t *testing.T) {
			everywhere(t, func(s *backend) {
				m := s.open("a") // makes the root
				z, marks := s.session(owner), s.root+"/"+marksSegment
				wantErr(s.t, "a directory for the lock", z.Create(s.root+"/jobs", nil, nil), nil)
				if test.dir >= 0 {
					wantErr(s.t, "a directory", z.Create(marks, nil, ownersACL(test.dir)), nil)
				}
				if test.dir >= 0 && test.mark >= 0 {
					wantErr(s.t, "a mark", z.Create(marks+"/jobs", []byte("{}"), ownersACL(test.mark)), nil)
				}
				if test.dir < 0 {
					s.setACL(s.root, ownersACL(zkio.PermRead)...)
				}
				l := reports(s.t, exclusive(s.t, m, "jobs"), 0)
				err := errOf(l.Lock(s.t.Context()))
				wantErr(s.t, "lock", err, zkio.ErrNoAuth)
				wantSays(s.t, err, `lock "jobs"`, test.says, marks[:len(marks)-len(marksSegment)-1], "Config.Auth is empty")
				s.until("it leaves the queue", func() bool { return len(s.queue(l)) == 0 })
				s.until("it is free", func() bool { phase, _ := l.State(); return phase == state.Free })
			})
		})
	}
}

// The lock is released even if its mark cannot be deleted with it. The log warns.
func TestF138_MarkStays(t *testing.T) {
	everywhere(t, func(s *backend) {
		z, marks := s.session(owner), s.root+"/"+marksSegment
		a, b := reports(s.t, s.lock("a"), 0), reports(s.t, s.lock("b", as(owner)), 0)
		warned := func(n int) {
			s.t.Helper()
			wantEq(s.t, "warnings in the log", len(s.log.with("but not its mark")), n)
		}
		h := mustLock(s.t, a)
		wantErr(s.t, "an administrator deletes the mark", z.Delete(marks+"/jobs", -1), nil)
		mustRelease(s.t, h)
		warned(1)
		inherit(s.t, b, false)

		s.setACL(marks, ownersACL(zkio.PermRead|zkio.PermCreate)...)
		h = mustLock(s.t, a)
		next := waitBehind(s.t, h)
		mustRelease(s.t, h)
		s.granted(next)
		warned(2)
		wantTold(s.t, next, true)
		wantErr(s.t, "recovered", next.Recovered(), nil)
		mustRelease(s.t, next)
		warned(3)
		inherit(s.t, b, true)
		warned(3)
		inherit(s.t, b, false)
	})
}

// Administrators and other clients delete the marks, or write something else there: no
// holder is stopped by that. Data that no process of this package wrote count as an
// interruption.
func TestMarkIsTampered(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.reporting("a", 0), c.reporting("b", 0)
		for _, data := range []string{"", "\xff", `{"node":""}`, `{"node":"_c_other-lock-0000000000","taken":false}`} {
			inherit(c.t, a, false)
			wantErr(c.t, "create", c.srv.Create(marksOf+"/jobs", []byte(data)), nil)
			inherit(c.t, b, true)
			h := mustLock(c.t, a)
			wantErr(c.t, "set", c.srv.Set(marksOf+"/jobs", []byte(data)), nil)
			mustRelease(c.t, h)
			inherit(c.t, b, false)
		}
		c.abandons(a)
		wantErr(c.t, "delete all", c.srv.DeleteAll(marksOf), nil)
		inherit(c.t, b, false)
		c.wantMarks(0)
	})
}

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
	expect(c.t, err == nil && g.Abandoned == told,
		"the grant is %+v, %v; want it told %t", g, err, told)
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
		inherit(c.t, other, true)

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
		expect(c.t, x.Value() != nil && l.Value() != nil, "they are collected")
		expect(c.t, openMutex(c.t, m, "x") == x.Value() && exclusive(c.t, m, "l") == l.Value(),
			"there are others of their names")
		runtime.KeepAlive(m)
	})
}

var kills = flag.Int("kills", 5, "how many processes TestF135_RealKilledHolders kills")

// Processes hold locks that report abandonment, and release them: the next holder is told
// of nothing. Then they are killed: the next holder is told, and the one after it is not.
func TestF135_RealKilledHolders(t *testing.T) {
	zk := realzk.Shared(t)
	m := openReal(t, zk.Addr(), "next", func(cfg *Config) { cfg.Root = defaultRoot })
	const together = 10
	reported, clean := 0, 0
	for from := 0; from < *kills; from += together {
		var holders []*holder
		var locks []*Lock
		for i := from; i < min(from+together, *kills); i++ {
			name := fmt.Sprintf("%s/%d", ownRoot(t), i)
			locks = append(locks, reports(t, exclusive(t, m, name), 0))
			holders = append(holders, startHolder(t, zk.Addr(), name, childReports+"=yes"))
		}
		for i, p := range holders {
			h := locks[i].Acquire(t.Context())
			wantEq(t, "unlock", p.ask("unlock"), "ok")
			granted(t, "after a release", h, time.Minute)
			if !grantOf(t, h).Abandoned {
				clean++
			}
			mustRelease(t, h)
			wantEq(t, "lock", p.ask("lock"), "ok")
		}
		var heirs []Hold
		for i, p := range holders {
			heirs = append(heirs, locks[i].Acquire(t.Context()))
			p.kill()
		}
		for i, h := range heirs {
			granted(t, "after a death", h, time.Minute)
			if grantOf(t, h).Abandoned {
				reported++
			}
			wantErr(t, "recovered", h.Recovered(), nil)
			mustRelease(t, h)
			h = mustLock(t, locks[i])
			wantTold(t, h, false)
			mustRelease(t, h)
		}
	}
	t.Logf("reported %d of %d deaths, and %d of %d clean releases", reported, *kills, *kills-clean, *kills)
	expect(t, reported == *kills && clean == *kills,
		"%d deaths are reported, and %d clean releases are not, want %d", reported, clean, *kills)
}
