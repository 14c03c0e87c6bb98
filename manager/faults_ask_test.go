// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// An askedCall is a call of Ask in a goroutine of its own.
type askedCall struct {
	done   chan struct{}
	answer Answer
	err    error
}

// asking asks the holder of l, for as long as within.
func (c *cluster) asking(l *Lock, question string, within time.Duration) *askedCall {
	c.t.Helper()
	a := &askedCall{done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	go func() {
		defer close(a.done)
		defer cancel()
		a.answer, a.err = l.Ask(ctx, []byte(question))
	}()
	synctest.Wait()
	return a
}

// wantNoAnswer waits for the asking's end: ErrNoAnswer, in a text that says why, which
// is what the ctx's end has brought if late is true.
func (a *askedCall) wantNoAnswer(t *testing.T, late bool, why string) {
	t.Helper()
	<-a.done
	wantErr(t, "ask", a.err, ErrNoAnswer)
	if a.err == nil {
		t.Fatalf("the answer is %+v", a.answer)
	}
	expect(t, errors.Is(a.err, context.DeadlineExceeded) == late && strings.Contains(a.err.Error(), why),
		"the error is %v, want one that says %q, and deadline exceeded: %t", a.err, why, late)
}

// wantReply waits for the asking's end and checks the reply.
func (a *askedCall) wantReply(t *testing.T, want string) {
	t.Helper()
	<-a.done
	expect(t, a.err == nil && string(a.answer.Reply) == want && a.answer.Phase == state.Retained,
		"the answer is %+v, %v, want %q", a.answer, a.err, want)
}

// boxOf returns the path of m's mailbox.
func boxOf(m *Manager) string { return "/holdfast/_asks_/" + m.id }

// wantNoLetters checks that no question is left in the mailbox of m.
func (c *cluster) wantNoLetters(m *Manager) {
	c.t.Helper()
	synctest.Wait()
	left := c.srv.Children(boxOf(m))
	expect(c.t, len(left) == 0, "left in the mailbox of %s: %v", m.cfg.Label, left)
}

// The holder is stopped: the asker learns at the end of its ctx which process it has asked, and
// no question is left.
func TestF110_HolderIsStopped(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", echo), c.lock("b")
		h := mustLock(c.t, a)
		mustAsk(c.t, b, "before")
		later(time.Second)
		hole := c.srv.Faults().Blackhole(session(a.m))
		start := time.Now()
		c.asking(b, "?", time.Second).wantNoAnswer(c.t, true, "a@")
		wantTook(c.t, start, time.Second, time.Second)
		later(0)
		c.wantNoLetters(a.m)
		err := <-c.revoking(b, "", time.Second)
		wantErr(c.t, "revoke", err, ErrNoAnswer)
		wantErr(c.t, "revoke", err, context.DeadlineExceeded)
		c.wantNoLetters(a.m)
		hole.Remove()
		later(time.Second)
		c.held(h)
		c.wantNotRevoked(h)
		c.unlock(h)
	})
}

// The holder's function takes its time, as a stopped one would; it is told when the
// asker has given up.
func TestF110_SlowHolder(t *testing.T) {
	bubble(t, func(c *cluster) {
		var told error
		a := c.lock("a", onAsk(func(ctx context.Context, _ Question) ([]byte, error) {
			<-ctx.Done()
			told = ctx.Err()
			return nil, told
		}))
		h := mustLock(c.t, a)
		c.asking(c.lock("b"), "?", 2*time.Second).wantNoAnswer(c.t, true, "a@")
		later(0)
		expect(c.t, told != nil, "the function was not told")
		c.wantNoLetters(a.m)
		c.unlock(h)
	})
}

// The holder goes before it has answered: the asker learns it at once.
func TestF111_HolderIsGone(t *testing.T) {
	each(t, map[string]func(c *cluster, a *Lock, h Hold){
		"it releases the lock": func(_ *cluster, _ *Lock, h Hold) { h.Release() },
		"its session ends":     func(c *cluster, a *Lock, _ Hold) { c.srv.ExpireSession(session(a.m)) },
		"its node is deleted":  func(c *cluster, _ *Lock, h Hold) { c.remove(h.share.promises().tenure.path) },
		"it is closed":         func(_ *cluster, a *Lock, _ Hold) { _ = a.m.Close() },
	}, func(c *cluster, goes func(*cluster, *Lock, Hold)) {
		a, b := c.lock("a", silent), c.lock("b")
		h := mustLock(c.t, a)
		q := c.asking(b, "?", time.Minute)
		later(time.Second)
		start := time.Now()
		goes(c, a, h)
		q.wantNoAnswer(c.t, false, "gave the lock up before it answered")
		wantTook(c.t, start, 0, 100*time.Millisecond)
		c.wantNoLetters(a.m)
		h.Release()
		later(time.Second)
	})
}

// A holder that has answered and gone has answered, though both came to the asker
// while it was cut off.
func TestF111_GoneAfterItsAnswer(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", echo), c.lock("b")
		h := mustLock(c.t, a)
		mustAsk(c.t, b, "before")
		later(time.Second)
		answer := c.srv.Faults().BlockRequests(session(a.m)) // until the asker watches both
		q := c.asking(b, "?", time.Minute)
		c.away("b", time.Second)
		synctest.Wait()
		answer.Remove()
		synctest.Wait()
		h.Release()
		q.wantReply(c.t, "?")
	})
}

// The asker goes, or gives up: the holder's function is told, and no question is left.
func TestF112_AskerIsGone(t *testing.T) {
	each(t, map[string]func(c *cluster, b *Lock){
		"its session ends": func(c *cluster, b *Lock) { c.srv.ExpireSession(session(b.m)) },
		"it is closed":     func(_ *cluster, b *Lock) { _ = b.m.Close() },
	}, func(c *cluster, goes func(*cluster, *Lock)) {
		ended := make(chan struct{}, 2)
		a := c.lock("a", onAsk(func(ctx context.Context, _ Question) ([]byte, error) {
			<-ctx.Done()
			ended <- struct{}{}
			return nil, ctx.Err()
		}))
		b := c.lock("b")
		h := mustLock(c.t, a)
		q := c.asking(b, "?", time.Minute)
		goes(c, b)
		later(100 * time.Millisecond)
		expect(c.t, len(ended) == 1, "the function was not told")
		<-q.done
		expect(c.t, q.err != nil, "there is an answer")
		c.held(h)
		later(time.Minute)
		c.wantNoLetters(a.m)
		c.unlock(h)
	})
}

// secondAnswer has the lock of process a answer the second question only, and a process b
// ask it one. It checks that what happens then makes b ask once more.
func (c *cluster) secondAnswer(happens func(a, b *Lock)) (a, b *Lock, h Hold) {
	c.t.Helper()
	times := 0
	a = c.lock("a", onAsk(func(ctx context.Context, q Question) ([]byte, error) {
		if times++; times == 1 {
			<-ctx.Done()
		}
		return q.Text, nil
	}))
	b = c.lock("b")
	h = mustLock(c.t, a)
	q := c.asking(b, "?", time.Minute)
	happens(a, b)
	q.wantReply(c.t, "?")
	wantEq(c.t, "calls of the function", times, 2)
	return a, b, h
}

// The asker's session ends: it asks once more in the next one, and not only when the rotation
// comes to it.
func TestF112_AskerInANewSession(t *testing.T) {
	type end struct {
		ends func(c *cluster, b *Lock)
		away time.Duration // how long the asker has no connection
	}
	each(t, map[string]end{
		"it is told of its nodes": {func(c *cluster, b *Lock) { c.expire(b.m) }, 0},
		"it is cut off":           {func(c *cluster, _ *Lock) { c.away("b", 20*time.Second) }, 20 * time.Second},
		"it is told when it is back": {func(c *cluster, b *Lock) {
			c.away("b", time.Second)
			c.srv.ExpireSession(c.ids["b"]())
		}, time.Second},
	}, func(c *cluster, e end) {
		var began time.Time
		_, _, h := c.secondAnswer(func(_, b *Lock) { began = time.Now(); e.ends(c, b) })
		took := time.Since(began) - e.away
		expect(c.t, took < rotationTimeout/2, "it took %v", took)
		c.unlock(h)
	})
}

// Each request of either side is lost, or its answer, once: the question is answered
// nevertheless, and nothing is left.
func TestF113_LostAnswers(t *testing.T) {
	faults := map[string]func(*zktest.Faults, zktest.Match) *zktest.Fault{
		"reply dropped": (*zktest.Faults).DropReply, "request dropped": (*zktest.Faults).DropRequest,
		"reply marshalled badly": func(f *zktest.Faults, m zktest.Match) *zktest.Fault { return f.FailReply(m, -5) },
		"reply swallowed":        (*zktest.Faults).SwallowReply,
	}
	ops := []zktest.Op{zktest.OpExists, zktest.OpCreate, zktest.OpCreateContainer, zktest.OpGetData, zktest.OpGetChildren2, zktest.OpSetData, zktest.OpDelete}
	cases := 0
	for name, fault := range faults {
		for _, who := range []string{"a", "b"} {
			for _, op := range ops {
				for nth := range 3 {
					if cases++; !racing.Some(cases) {
						continue
					}
					what := fmt.Sprintf("%s, op %v, number %d, of %s", name, op, nth, who)
					subtest(t, what, func(c *cluster) {
						a, b := c.lock("a", echo), c.lock("b")
						h := mustLock(c.t, a)
						later(time.Second)
						f := fault(c.srv.Faults(), zktest.Match{Op: op, Session: c.ids[who](), Nth: nth + 1})
						q := c.asking(b, what, 30*time.Second)
						later(20 * time.Second)
						f.Remove()
						q.wantReply(c.t, what)
						c.wantNoLetters(a.m)
						c.held(h)
						result := c.revoking(b, what, 30*time.Second)
						later(20 * time.Second)
						wantEq(c.t, "the reason", c.wantRevoked(h).Reason, what)
						c.unlock(h)
						wantErr(c.t, what, <-result, nil)
						c.wantNoLetters(a.m)
					})
				}
			}
		}
	}
}

// The connection is cut at any moment of a question, on either side.
func TestF113_ConnectionCut(t *testing.T) {
	for _, who := range []string{"a", "b"} {
		for cut := range 20 {
			bubble(t, func(c *cluster) {
				a, b := c.lock("a", echo), c.lock("b")
				h := mustLock(c.t, a)
				later(time.Second)
				block := c.srv.Faults().BlockRequests(c.ids[who]())
				q := c.asking(b, "?", time.Minute)
				for range cut {
					block.Let(1)
					synctest.Wait()
				}
				c.away(who, time.Second)
				block.Remove()
				q.wantReply(c.t, "?")
				later(2 * time.Second) // an asker that is cut off takes its question back later
				c.wantNoLetters(a.m)
				c.unlock(h)
			})
		}
	}
}

// An administrator deletes the mailbox, with the question in it: it is put again, into
// a new one.
func TestF114_MailboxIsDeleted(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, h := c.secondAnswer(func(a, _ *Lock) {
			wantErr(c.t, "delete the mailbox", c.srv.DeleteAll(boxOf(a.m)), nil)
		})
		// Without a question in it.
		c.wantNoLetters(a.m)
		wantErr(c.t, "delete all mailboxes", c.srv.DeleteAll("/holdfast/_asks_"), nil)
		c.asking(b, "once more", time.Minute).wantReply(c.t, "once more")
		c.unlock(h)
	})
}

// A question that is too large is refused before anything is sent; so is a reply, and
// the asker learns it (see TestOnAsk).
func TestF115_TooLarge(t *testing.T) {
	bubble(t, func(c *cluster) {
		b := c.lock("b")
		h := mustLock(c.t, c.lock("a", echo))
		c.takeCounts()
		wantErr(c.t, "ask", errOf(b.Ask(c.t.Context(), make([]byte, maxLetter+1))), ErrTooLarge)
		wantErr(c.t, "revoke", b.Revoke(c.t.Context(), strings.Repeat("x", maxLetter+1)), ErrTooLarge)
		c.wantNothingSent()
		c.unlock(h)
	})
}

// Hundreds of questions at a time are answered, at most 16 at once, and the holder
// keeps the others in ZooKeeper.
func TestF116_HundredsAtOnce(t *testing.T) {
	bubble(t, func(c *cluster) {
		const askers, questions = 5, 100
		var inside, most atomic.Int32
		a := c.lock("a", onAsk(func(_ context.Context, q Question) ([]byte, error) {
			n := inside.Add(1)
			defer inside.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(10 * time.Millisecond)
			return q.Text, nil
		}))
		h := mustLock(c.t, a)
		var all []*askedCall
		for i := range askers {
			b := c.lock(fmt.Sprint("asker", i))
			for range questions {
				all = append(all, c.asking(b, fmt.Sprint("question ", len(all)), time.Minute))
			}
		}
		for i, q := range all {
			q.wantReply(c.t, fmt.Sprint("question ", i))
		}
		expect(c.t, most.Load() <= maxAsked, "%d at once, want at most %d", most.Load(), maxAsked)
		c.wantNoLetters(a.m)
		c.unlock(h)
	})
}

// Askers that leave their questions where they are do not keep the holder from the
// next ones.
func TestF116_QuestionsThatStay(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", echo), c.lock("b")
		h := mustLock(c.t, a)
		mustAsk(c.t, b, "first")
		text := []byte(`{"kind":"ask","node":"` + grantOf(c.t, h).Path + `","text":"AAAA"}`)
		var paths []string
		for i := range 3 * maxAsked {
			paths = append(paths, fmt.Sprintf("%s/%d", boxOf(a.m), i))
			wantErr(c.t, "create", c.srv.CreateEphemeral(session(b.m), paths[i], text), nil)
		}
		later(time.Second)
		for _, path := range paths {
			_, stat, _ := c.srv.Get(path)
			expect(c.t, stat.Version == 1, "%s has version %d", path, stat.Version)
		}
		c.unlock(h)
	})
}

// The holder's version of this package looks after no mailbox: the asker learns it at
// once, and nothing is created.
func TestF117_OldVersion(t *testing.T) {
	bubble(t, func(c *cluster) {
		b := c.lock("b")
		c.crowd().node("_c_00112233445566770000000000000001-lock-0000000000",
			[]byte(`{"host":"h","pid":7,"label":"old","kind":"exclusive","since":"2026-01-02T15:04:05Z"}`)...)
		start := time.Now()
		c.asking(b, "?", time.Minute).wantNoAnswer(c.t, false, "old@h, pid 7")
		wantErr(c.t, "revoke", <-c.revoking(b, "", time.Minute), ErrNoAnswer)
		wantTook(c.t, start, 0, 0)
		expect(c.t, !c.srv.Exists("/holdfast/_asks_"), "a mailbox was made")
	})
}

// The holder uses another client: the asker learns it at once, and what the node says
// is quoted and cut.
func TestF118_ForeignHolder(t *testing.T) {
	bubble(t, func(c *cluster) {
		b := c.lock("b")
		c.crowd().node("_c_0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-lock-0000000000", []byte("10.0.0.1\n"+strings.Repeat("x", 1000))...)
		q := c.asking(b, "?", time.Minute)
		q.wantNoAnswer(c.t, false, `"10.0.0.1\nxxx`)
		expect(c.t, len(q.err.Error()) <= 600, "the error has %d bytes", len(q.err.Error()))
	})
}

// The asker may not create nodes: it learns that at once, and what to do.
func TestF119_NoRightToCreate(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", echo), c.lock("b")
		h := mustLock(c.t, a)
		acl := []zkio.ACL{{Perms: zkio.PermAll &^ zkio.PermCreate, Scheme: "world", ID: "anyone"}}
		wantErr(c.t, "create", a.m.client.Session().Create("/holdfast/_asks_", nil, acl), nil)
		q := c.asking(b, "?", time.Minute)
		q.wantNoAnswer(c.t, false, "give it credentials")
		if q.err != nil {
			wantErr(c.t, "ask", q.err, zkio.ErrNoAuth)
		}
		wantErr(c.t, "revoke", b.Revoke(c.t.Context(), ""), ErrNoAnswer)
		c.unlock(h)
	})
}

// The holder may not write the answer: it says so in its log, once, and the asker waits
// in vain.
func TestF119_NoRightToAnswer(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", echo), c.lock("b")
		h := mustLock(c.t, a)
		c.srv.Faults().FailRequest(zktest.Match{Op: zktest.OpSetData, Session: session(a.m), Times: zktest.Every}, zktest.CodeNoAuth)
		for range 2 {
			c.asking(b, "?", time.Second).wantNoAnswer(c.t, true, "a@")
		}
		expect(c.t, len(c.log.with("cannot answer")) == 1, "log: %v", c.log.with("cannot answer"))
		c.unlock(h)
	})
}

// The processes share an ACL that gives no right to write: questions are made so that
// they can be answered.
func TestF119_ACLWithoutWrite(t *testing.T) {
	bubble(t, func(c *cluster) {
		with := func(cfg *Config) {
			as(owner)(cfg)
			cfg.ACL = []zkio.ACL{
				{Perms: zkio.PermRead | zkio.PermCreate | zkio.PermDelete, Scheme: "digest", ID: digest(owner)},
				{Perms: zkio.PermRead, Scheme: "world", ID: "anyone"},
			}
		}
		a, b := c.lock("a", echo, with), c.lock("b", with)
		h := mustLock(c.t, a)
		c.asking(b, "?", time.Minute).wantReply(c.t, "?")
		acl := b.m.lettersACL()
		expect(c.t, acl[0].Perms&zkio.PermWrite != 0 && acl[1].Perms == zkio.PermRead,
			"the ACL of questions is %v", acl)
		c.unlock(h)
	})
}

// The holder's session ends, and it queues again in the next one: it hears questions
// there, too.
func TestF112_HolderInANewSession(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", echo), c.lock("b")
		for i := range 2 {
			h := mustLock(c.t, a)
			if i == 0 {
				c.expire(a.m) // before any process has asked
				h.Release()
				h = mustLock(c.t, a)
			}
			c.asking(b, "?", time.Second).wantReply(c.t, "?") // before the rotation has the mailbox looked at
			c.expire(a.m)                                     // with a mailbox
			h.Release()
		}
	})
}

// A slowStep is the task of an errand whose step takes so long that something happens
// during it.
type slowStep struct {
	errand.Task
	meanwhile func()
	steps     int
}

func (w *slowStep) Submit(zkio.Queue) {} // the test runs it

func (w *slowStep) Step(s *zkio.Session) {
	if w.steps++; w.steps == 1 {
		w.meanwhile()
		return
	}
	w.Task.Step(s)
}

// inStep has meanwhile happen during a step of task, which is idle, in session s. That
// must wake the task: another step follows, with the same session.
func inStep(t *testing.T, e *errand.Errand, task errand.Task, s *zkio.Session, meanwhile func()) {
	t.Helper()
	slow := &slowStep{Task: task, meanwhile: meanwhile}
	e.Runner.Wake(slow, zkio.Fetches)
	e.Runner.Run(slow, s)
	if slow.steps < 2 {
		t.Fatalf("%d steps: what happened during the first has not woken the task, or it was not idle", slow.steps)
	}
}

// The session ends while a worker is in the last step of a question that waits for its
// answer. The wake for that comes to this step, with the old session, and is not lost.
func TestAskerInItsStepAtSessionEnd(t *testing.T) {
	bubble(t, func(c *cluster) {
		reply := make(chan struct{})
		a, b := c.lock("a", onAsk(func(ctx context.Context, q Question) ([]byte, error) {
			select {
			case <-reply:
			case <-ctx.Done():
			}
			return q.Text, nil
		})), c.lock("b")
		h := mustLock(c.t, a)
		asked := c.asking(b, "?", time.Hour)
		q := b.m.inquiries.list()[0]
		inStep(c.t, &q.errand, q, b.m.client.Session(), func() {
			c.away("b", time.Second)
			c.srv.ExpireSession(c.ids["b"]())
			later(3 * time.Second)
		})
		close(reply)
		later(rotationTimeout / 5)
		expect(c.t, isClosed(asked.done), "the question is not asked again")
		asked.wantReply(c.t, "?")
		mustRelease(c.t, h)
	})
}

// The same of the process that is asked: it makes a node in a new session while a worker
// is in a step of its mailbox with the old one.
func TestMailboxInItsStepAtSessionEnd(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", echo), c.lock("b")
		c.cycle(a)
		synctest.Wait()
		old, box := a.m.client.Session(), a.m.box
		var h Hold
		inStep(c.t, &box.errand, box, old, func() {
			c.expire(a.m)
			h = mustLock(c.t, a)
			synctest.Wait()
		})
		later(time.Second)
		c.asking(b, "?", time.Second).wantReply(c.t, "?") // before the rotation has the mailbox looked at
		mustRelease(c.t, h)
	})
}

// Questions that are asked and given up in an outage leave next to nothing behind.
func TestAskersGiveUpInAnOutage(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", echo), c.lock("b")
		h := mustLock(c.t, a)
		c.away("b", time.Minute)
		later(time.Second)
		for range 100 {
			c.asking(b, "?", time.Millisecond).wantNoAnswer(c.t, true, "")
			wantErr(c.t, "revoke", <-c.revoking(b, "", time.Millisecond), context.DeadlineExceeded)
		}
		synctest.Wait()
		n, queued := len(b.m.inquiries.list()), b.m.client.Stats().QueuedReleases
		expect(c.t, n == 0 && queued == 0, "%d inquiries, and %d releases are queued", n, queued)
		later(time.Minute)
		c.asking(b, "?", time.Minute).wantReply(c.t, "?")
		c.wantNoLetters(a.m)
		mustRelease(c.t, h)
	})
}

// To other processes LockAll holds a lock in whose queue it is first, and it does not know
// until it is first in all. A question is answered so, and a revocation waits for the grant.
func TestF283_RevokedBeforeLockAllEnters(t *testing.T) {
	each(t, map[string]bool{"by another process": false, "by its own": true}, func(c *cluster, own bool) {
		m, o, p := c.open("a", echo), c.open("b"), c.open("c")
		x := exclusive(c.t, m, "x")
		other := mustLock(c.t, exclusive(c.t, o, "y"))
		w := lockAll(c.t.Context(), m, x, exclusive(c.t, m, "y"))
		revoker := exclusive(c.t, p, "x")
		if own {
			revoker = x
		}
		if got := mustAsk(c.t, revoker, "?"); got.Phase != state.Fetching || got.Waiting != 1 || got.Err != "the process does not know yet that it holds the lock" {
			c.t.Errorf("the answer is %+v", got)
		}
		result := c.revoking(revoker, "please", time.Hour)
		later(time.Minute)
		w.wantPending(c.t)
		mustRelease(c.t, other)
		hs := w.wantHeld(c.t, time.Second)
		r := c.wantRevoked(hs[0])
		expect(c.t, r.Reason == "please" && r.From.Session == session(revoker.m), "the revocation is %+v", r)
		c.wantNotRevoked(hs[1])
		expect(c.t, len(result) == 0, "Revoke has returned while the lock is held")
		hs.Release()
		wantErr(c.t, "revoke", <-result, nil)
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
		a, b := c.lock("a", echo), c.lock("b")
		c.cycle(a)
		h := mustLock(c.t, a)
		mustAsk(c.t, b, "there is a mailbox")
		before(a, h)
		lost := c.srv.Faults().DropReply(zktest.Match{Op: zktest.OpMulti, Session: session(a.m), Path: dir, Times: 1})
		h.Release()
		next := a.Acquire(c.t.Context())
		// What a asks about its nodes stays without an answer until the revocation is there.
		slow := c.srv.Faults().DelayReply(zktest.Match{Session: session(a.m), Path: dir, Times: zktest.Every}, 3*time.Second)
		<-lost.Hit()
		result := c.revoking(b, "please", time.Hour)
		later(time.Second)
		pending(c.t, "the grant", next.Granted())
		slow.Remove()
		later(10 * time.Second)
		c.held(next)
		c.wantRevoked(next)
		expect(c.t, len(result) == 0, "Revoke has returned while the lock is held")
		c.unlock(next)
		wantErr(c.t, "revoke", <-result, nil)
		synctest.Wait()
	})
}

// Calls of Config.OnAsk that do not return, although their askers have given up, keep up the
// questions that are put to it, and no others: not those about the state of a lock.
func TestF284_OnAskHangs(t *testing.T) {
	bubble(t, func(c *cluster) {
		hang := make(chan struct{})
		a := c.open("a", func(cfg *Config) {
			cfg.OnAsk = func(_ context.Context, q Question) ([]byte, error) {
				<-hang
				return q.Text, nil
			}
		})
		b := c.open("b")
		x, y := mustLock(c.t, exclusive(c.t, a, "x")), mustLock(c.t, exclusive(c.t, a, "y"))
		for range maxAsked {
			c.asking(exclusive(c.t, b, "x"), "?", time.Second).wantNoAnswer(c.t, true, "a@")
		}
		patient := c.asking(exclusive(c.t, b, "y"), "later", time.Hour)
		for _, name := range []string{"x", "y"} {
			state := c.asking(exclusive(c.t, b, name), "", time.Second)
			state.wantReply(c.t, "")
			expect(c.t, state.err != nil || state.answer.Holders == 1, "the answer is %+v", state.answer)
		}
		later(time.Minute)
		expect(c.t, !isClosed(patient.done),
			"more than %d calls at once: %+v, %v", maxAsked, patient.answer, patient.err)
		close(hang)
		patient.wantReply(c.t, "later")
		c.wantNoLetters(a)
		c.unlock(x, y)
	})
}
