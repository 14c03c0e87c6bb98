// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
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
	if g := grantOf(t, h); g.Abandoned != want {
		t.Errorf("%s at %s is told %t, want %t", describe(h), g.Path, g.Abandoned, want)
	}
}

// next locks l, checks whether it is told that the lock was abandoned, recovers, and
// unlocks it.
func (c *cluster) next(l *Lock, told bool) {
	c.t.Helper()
	h := mustLock(c.t, l)
	wantTold(c.t, h, told)
	wantErr(c.t, "recovered", h.Recovered(), nil)
	mustRelease(c.t, h)
}

// wantMarks checks how many marks there are.
func (c *cluster) wantMarks(want int) {
	c.t.Helper()
	if got := c.srv.Children(marksOf); len(got) != want {
		c.t.Errorf("the marks are %v, want %d", got, want)
	}
}

// marking are the locks whose holders make a mark.
var marking = map[string]func(c *cluster, label string) *Lock{
	"exclusive": func(c *cluster, label string) *Lock { return c.reporting(label, 0) },
	"write":     func(c *cluster, label string) *Lock { return reports(c.t, c.rw(label).Writer(), 0) },
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
	for how, interrupt := range map[string]func(c *cluster, l *Lock){
		"its session ends": func(c *cluster, l *Lock) { mustLock(c.t, l); c.expire(l.m) },
		"its lease ends": func(c *cluster, l *Lock) {
			h := mustLock(c.t, l)
			c.away("a", 8*time.Second) // the session survives
			<-h.Lost()
			h.Release()
			later(20 * time.Second)
		},
		"its node is deleted": func(c *cluster, l *Lock) { c.remove(grantOf(c.t, mustLock(c.t, l)).Path); synctest.Wait() },
		"it is closed":        func(c *cluster, l *Lock) { mustLock(c.t, l); wantErr(c.t, "close", l.m.Close(), nil) },
		"it does not leave in time": func(c *cluster, l *Lock) {
			mustLock(c.t, l)
			ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
			defer cancel()
			wantErr(c.t, "shutdown", l.m.Shutdown(ctx), context.DeadlineExceeded)
		},
		"a function panics": func(c *cluster, l *Lock) {
			interrupts(l, func(context.Context, Hold) error { panic("at work") })
		},
		"a function panics after another has recovered": func(c *cluster, l *Lock) {
			interrupts(l, func(_ context.Context, h Hold) error {
				wantErr(c.t, "recovered", h.Recovered(), nil)
				panic("at work")
			})
		},
		"a goroutine ends": func(c *cluster, l *Lock) {
			interrupts(l, func(context.Context, Hold) error { runtime.Goexit(); return nil })
		},
	} {
		for kind, open := range marking {
			t.Run(how+"/"+kind, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					a, b := open(c, "a"), open(c, "b")
					interrupt(c, a)
					synctest.Wait()
					c.wantMarks(1)
					c.next(b, true)
					c.wantMarks(0)
					c.next(b, false)
				})
			})
		}
	}
}

// A holder that leaves in good order is not reported, nor one that was never told of its
// grant.
func TestF135_CleanRelease(t *testing.T) {
	for how, leave := range map[string]func(c *cluster, l *Lock){
		"it unlocks": func(c *cluster, l *Lock) { c.cycle(l) },
		"it fails": func(c *cluster, l *Lock) {
			err := l.Do(c.t.Context(), func(context.Context, Hold) error { return context.Canceled })
			wantErr(c.t, "do", err, context.Canceled)
		},
		"a function releases the hold, and panics": func(c *cluster, l *Lock) {
			defer func() { _ = recover() }()
			_ = l.Do(c.t.Context(), func(_ context.Context, h Hold) error { h.Release(); panic("afterwards") })
		},
		"several holders leave": func(c *cluster, l *Lock) {
			h := mustLock(c.t, l)
			other := mustLock(c.t, l)
			mustRelease(c.t, h)
			mustRelease(c.t, other)
		},
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
			h := mustLock(c.t, l)
			next := c.handOver(h)
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
	} {
		for kind, open := range marking {
			t.Run(how+"/"+kind, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					a, b := open(c, "a"), open(c, "b")
					leave(c, a)
					synctest.Wait()
					c.wantMarks(0)
					c.wantNodes(0)
					c.next(b, false)
				})
			})
		}
	}
}

// Until a holder has recovered, each is told. All holders of a process share what one of
// them has said.
func TestF135_NotRecovered(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, d := c.reporting("a", 0), c.reporting("b", 0), c.reporting("d", 0)
		mustLock(c.t, a)
		c.expire(a.m)
		h := mustLock(c.t, b)
		wantTold(c.t, h, true)
		mustRelease(c.t, h)
		h = mustLock(c.t, b)
		wantTold(c.t, h, true)
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
		if g, _, _ := other.Granted().Poll(); !g.Abandoned {
			c.t.Error("the future of the grant has changed")
		}
		mustRelease(c.t, next)
		wantErr(c.t, "recovered, after the release", next.Recovered(), ErrReleased)
		mustRelease(c.t, other)
		c.next(d, false)

		// It has recovered, and is interrupted before the release.
		mustLock(c.t, a)
		c.expire(a.m)
		h = mustLock(c.t, b)
		wantErr(c.t, "recovered", h.Recovered(), nil)
		c.expire(b.m)
		wantErr(c.t, "recovered, too late", h.Recovered(), ErrLost)
		c.next(d, true)
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
		synctest.Wait() // for what the grant has put off
		before := rw.writer.m.client.Stats().Sent
		mustRelease(c.t, h)
		c.wantMarks(0)
		wantSent(c.t, w.m, before, "multi=1")
		c.expire(w.m)
		c.next(b, false)
	})
}

// A process that does not report abandonment neither makes a mark nor clears one.
func TestF135_OthersDoNotTakePart(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, other := c.reporting("a", 0), c.reporting("b", 0), c.lock("other")
		mustLock(c.t, other)
		c.expire(other.m)
		c.wantMarks(0)
		c.next(a, false)
		mustLock(c.t, a)
		c.expire(a.m)
		h := mustLock(c.t, other)
		wantTold(c.t, h, false)
		wantErr(c.t, "it reports from now on", other.ReportAbandoned(0), nil)
		mustRelease(c.t, h)
		c.next(b, true)
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
		c.cycle(l)
		c.wantMarks(0)
		if c.srv.Exists(marksOf) {
			c.t.Error("there is a directory for marks")
		}
		wantErr(c.t, "close", l.m.Close(), nil)
		err := l.ReportAbandoned(0)
		wantErr(c.t, "closed", err, ErrClosed)
		wantSays(c.t, err, `report abandoned "jobs"`)
	})
}

// wantSent checks what m has sent since before, pings aside.
func wantSent(t *testing.T, m *Manager, before map[string]uint64, want string) {
	t.Helper()
	counts := make(map[string]int)
	for op, n := range m.client.Stats().Sent {
		if op != "ping" && n > before[op] {
			counts[op] = int(n - before[op])
		}
	}
	if got := written(counts); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

// A grant costs one write more, and the release and a hand-over nothing. A lock that does
// not report costs what it did.
func TestAbandonedRequests(t *testing.T) {
	for _, test := range []struct {
		what    string
		reports bool
		cycle   string
		handOff string // a release and the next grant of the same process
	}{
		{"off", false, "delete=1 multi=1", "multi=1"},
		{"on", true, "multi=3", "multi=2"},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := c.lock("a")
				if test.reports {
					reports(c.t, l, 0)
				}
				c.cycle(l) // makes the directories
				synctest.Wait()
				before := l.m.client.Stats().Sent
				c.cycle(l)
				wantSent(c.t, l.m, before, test.cycle)
				h := mustLock(c.t, l)
				before = l.m.client.Stats().Sent
				next := c.handOver(h)
				c.held(next)
				wantSent(c.t, l.m, before, test.handOff)
				mustRelease(c.t, next)

				if test.reports {
					b := c.reporting("b", 0)
					c.cycle(b)
					synctest.Wait()
					mustLock(c.t, l)
					c.expire(l.m)
					before = b.m.client.Stats().Sent
					h = mustLock(c.t, b)
					wantTold(c.t, h, true)
					wantSent(c.t, b.m, before, "getData=1 multi=3")
				}
			})
		})
	}
}

// Each request about the mark is lost in turn, before or after it was carried out. The
// heir is told of the interruption, and the one after it is not, unless the heir does not
// recover.
func TestF136_LostAnswers(t *testing.T) {
	cases := 0
	for how, lose := range losses {
		for _, recovers := range []bool{true, false} {
			for nth := 1; nth <= 6; nth++ {
				for _, times := range []int{1, 2} {
					if cases++; !racing.Some(cases) {
						continue
					}
					t.Run(fmt.Sprintf("%s/recovers=%t/%d,%d", how, recovers, nth, times), func(t *testing.T) {
						bubble(t, func(c *cluster) {
							a, b, d := c.reporting("a", 0), c.reporting("b", 0), c.reporting("d", 0)
							mustLock(c.t, a)
							c.expire(a.m)
							lose(c, zktest.Match{Session: session(b.m), Path: marksOf, Nth: nth, Times: times})
							h := mustLock(c.t, b)
							wantTold(c.t, h, true)
							if recovers {
								wantErr(c.t, "recovered", h.Recovered(), nil)
							}
							mustRelease(c.t, h)
							c.next(d, !recovers)
							c.next(b, false)
							c.wantMarks(0)
						})
					})
				}
			}
		}
	}
}

// The same, without an interruption: none is made up.
func TestF136_LostAnswersOfAFirstMark(t *testing.T) {
	for how, lose := range losses {
		for nth := 1; nth <= 4; nth++ {
			for _, hands := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/hands over=%t", how, nth, hands), func(t *testing.T) {
					bubble(t, func(c *cluster) {
						b, d := c.reporting("b", 0), c.reporting("d", 0)
						lose(c, zktest.Match{Session: session(b.m), Path: marksOf, Nth: nth})
						h := mustLock(c.t, b)
						wantTold(c.t, h, false)
						if hands {
							waits := c.acquire(d)
							next := waitBehind(c.t, h)
							mustRelease(c.t, h)
							_, err := waits.Granted().Wait(c.t.Context())
							wantErr(c.t, "the next", err, nil)
							wantTold(c.t, waits, false)
							mustRelease(c.t, waits)
							_, err = next.Granted().Wait(c.t.Context())
							wantErr(c.t, "itself again", err, nil)
							h = next
							wantTold(c.t, h, false)
						}
						mustRelease(c.t, h)
						c.next(d, false)
						c.wantMarks(0)
					})
				})
			}
		}
	}
}

// The heir dies with each of its requests about the mark, carried out or not. The next one
// is told.
func TestF136_HeirDies(t *testing.T) {
	for _, carriedOut := range []bool{true, false} {
		for nth := 1; nth <= 3; nth++ { // make, read, take over
			t.Run(fmt.Sprintf("%d/carried out=%t", nth, carriedOut), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					a, b, d := c.reporting("a", 0), c.reporting("b", 0), c.reporting("d", 0)
					mustLock(c.t, a)
					c.expire(a.m)
					m := zktest.Match{Session: session(b.m), Path: marksOf, Nth: nth}
					f := c.srv.Faults().DropRequest(m)
					if carriedOut {
						f.Remove()
						f = c.srv.Faults().DropReply(m)
					}
					c.refused["b"].Store(true)
					b.Acquire(c.t.Context())
					<-f.Hit()
					c.next(d, true) // when b's session has ended
					c.refused["b"].Store(false)
				})
			})
		}
	}
}

// A release was carried out and its answer is lost. It is tried again when the next holder
// has made its mark, which must stay.
func TestF136_LateRelease(t *testing.T) {
	for _, hands := range []bool{false, true} {
		t.Run(fmt.Sprint("hands over=", hands), func(t *testing.T) {
			bubble(t, func(c *cluster) {
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
				c.next(d, true)
			})
		})
	}
}

// The answer to a request that writes the mark is lost, and the callers give up before the
// process knows what became of it. It finds out: a mark of its own goes with the node, and
// that of an interrupted holder stays.
func TestF136_GivesUpAfterALostAnswer(t *testing.T) {
	for how, lose := range losses {
		for nth := 1; nth <= 3; nth++ { // make; of an interrupted holder also read, take over
			for _, interrupted := range []bool{false, true} {
				if nth > 1 && !interrupted {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/interrupted=%t", how, nth, interrupted), func(t *testing.T) {
					bubble(t, func(c *cluster) {
						a, b, d := c.reporting("a", 0), c.reporting("b", 0), c.reporting("d", 0)
						c.cycle(a)
						if interrupted {
							mustLock(c.t, a)
							c.expire(a.m)
						}
						f := lose(c, zktest.Match{Session: session(b.m), Path: marksOf, Nth: nth})
						h := b.Acquire(c.t.Context())
						<-f.Hit()
						c.waiting(h)
						h.Release()
						c.next(d, interrupted)
						c.wantMarks(0)
					})
				})
			}
		}
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
		c.next(b, false)
		s.goOn()
		_, err := h.Granted().Wait(c.t.Context())
		wantErr(c.t, "in the next session", err, nil)
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
		before, _, _ := c.srv.Get(marksOf + "/jobs")
		s.goOn()
		if after, _, _ := c.srv.Get(marksOf + "/jobs"); !bytes.Equal(after, before) {
			c.t.Errorf("the mark was %s, and is %s", before, after)
		}
		c.waiting(waits)
		waits.Release()
		mustRelease(c.t, h)
		c.next(d, false)
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
		ctx, cancel := context.WithTimeout(c.t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := b.Lock(ctx)
		wantErr(c.t, "a caller that does not wait so long", err, context.DeadlineExceeded)
		wantSays(c.t, err, "the lock was abandoned, and the lock-delay is not over")
		_, err = heir.Granted().Wait(c.t.Context())
		wantErr(c.t, "the heir", err, nil)
		if took := time.Since(start); took < delay-time.Second || took > delay+time.Second {
			c.t.Errorf("granted after %v", took)
		}
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
	for what, end := range map[string]func(c *cluster, l *Lock, h Hold){
		"the heir's session ends": func(c *cluster, l *Lock, _ Hold) { c.expire(l.m) },
		"the heir gives up":       func(_ *cluster, _ *Lock, h Hold) { h.Release() },
		"the heir is closed":      func(_ *cluster, l *Lock, _ Hold) { _ = l.m.Close() },
		"the heir shuts down": func(c *cluster, l *Lock, h Hold) {
			wantErr(c.t, "shutdown", l.m.Shutdown(c.t.Context()), nil)
			wantErr(c.t, "the heir", settled(c.t, "its grant", h.Granted()), ErrClosed)
		},
		"the heir's node is deleted": func(c *cluster, l *Lock, _ Hold) { c.remove(c.nodeOf(l.m)) },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
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
				c.next(d, false)
			})
		})
	}
}

// The answer to the request that takes the mark over is lost: the delay is kept all the
// same. So it is if the heir comes by TryLock, and if its callers change.
func TestF137_DelayAndLostAnswer(t *testing.T) {
	const delay = 20 * time.Second
	for how, lose := range losses {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a, b := c.reporting("a", 0), c.reporting("b", delay)
				mustLock(c.t, a)
				c.expire(a.m)
				lose(c, zktest.Match{Session: session(b.m), Path: marksOf, Nth: 3})
				start := time.Now()
				first := b.Acquire(c.t.Context())
				time.AfterFunc(delay/2, func() { first.Release() })
				h, err := b.TryLock(c.t.Context())
				wantErr(c.t, "trylock", err, nil)
				if took := time.Since(start); took < delay || took > delay+5*time.Second {
					c.t.Errorf("granted after %v", took)
				}
				wantTold(c.t, h, true)
				mustRelease(c.t, h)
			})
		})
	}
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
				_, err := l.Lock(s.t.Context())
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
			if lines := s.log.with("but not its mark"); len(lines) != n {
				s.t.Errorf("the log warns %d times, want %d: %v", len(lines), n, lines)
			}
		}
		h := mustLock(s.t, a)
		wantErr(s.t, "an administrator deletes the mark", z.Delete(marks+"/jobs", -1), nil)
		mustRelease(s.t, h)
		warned(1)
		h = mustLock(s.t, b)
		wantTold(s.t, h, false)
		mustRelease(s.t, h)

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
		h = mustLock(s.t, b)
		wantTold(s.t, h, true)
		wantErr(s.t, "recovered", h.Recovered(), nil)
		mustRelease(s.t, h)
		warned(3)
		h = mustLock(s.t, b)
		wantTold(s.t, h, false)
		mustRelease(s.t, h)
	})
}

// Administrators and other clients delete the marks, or write something else there: no
// holder is stopped by that. Data that no process of this package wrote count as an
// interruption.
func TestMarkIsTampered(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.reporting("a", 0), c.reporting("b", 0)
		for _, data := range []string{"", "\xff", `{"node":""}`, `{"node":"_c_other-lock-0000000000","taken":false}`} {
			c.next(a, false)
			wantErr(c.t, "create", c.srv.Create(marksOf+"/jobs", []byte(data)), nil)
			c.next(b, true)
			h := mustLock(c.t, a)
			wantErr(c.t, "set", c.srv.Set(marksOf+"/jobs", []byte(data)), nil)
			mustRelease(c.t, h)
			c.next(b, false)
		}
		mustLock(c.t, a)
		c.expire(a.m)
		wantErr(c.t, "delete all", c.srv.DeleteAll(marksOf), nil)
		c.next(b, false)
		c.wantMarks(0)
	})
}
