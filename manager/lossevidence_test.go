// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// evidence is what tells an operator and the program of the loss of a lock: the error of
// the hold, the log, the event, and what the manager remembers.
type evidence struct {
	err  *Error
	line string
	lost Event
	loss Loss
}

// evidence collects what is told of the loss of h, which was the only one, of a manager
// called "a".
func (c *cluster) evidence(h Hold) (e evidence) {
	c.t.Helper()
	if !errors.As(h.Err(), &e.err) || !errors.Is(e.err, ErrLost) || !isClosed(h.Lost()) {
		c.t.Fatalf("the lock is not lost: %v", h.Err())
	}
	lines := c.log.with("holdfast: lost a lock; its holders have been told")
	if len(lines) != 1 {
		c.t.Fatalf("%d lines about the loss: %q", len(lines), lines)
	}
	e.line = lines[0]
	for _, event := range c.told["a"].all() {
		if event.Kind == EventLost {
			e.lost = event
		}
	}
	if l := h.Lock().m.journal.losses.lastOf(h.Lock()); l != nil {
		e.loss = *l
	}
	return e
}

// A lock is lost. Its holders, the log, the observer and the manager's memory name the
// same cause, and the log has what ZooKeeper's logs call the session and the node.
func TestF316_CauseOfALoss(t *testing.T) {
	type test struct {
		lose func(c *cluster, m *Manager, computer *machine)
		says string // the error, after "lock was lost: "
		word string // Event.Cause
	}
	each(t, map[string]test{
		"a pause that ends the lease": {func(c *cluster, _ *Manager, computer *machine) {
			computer.suspend(6 * time.Second)
		}, "this process did not run for 6s, and its lease ended meanwhile", "paused"},
		"a pause that ends the session": {func(c *cluster, m *Manager, computer *machine) {
			computer.slept.Add(int64(16 * time.Second))
			c.srv.ExpireSession(session(m))
		}, "this process did not run for 15.9s, and its ", "paused"},
		"the end of the session": {func(c *cluster, m *Manager, _ *machine) {
			c.srv.ExpireSession(session(m))
		}, "the ZooKeeper session is over: the server ended it, ", "session"},
		"a deletion": {func(c *cluster, m *Manager, _ *machine) {
			c.remove(c.nodeOf(m))
		}, "another client deleted its node", "deleted"},
		"a deletion that no watch told of": {func(c *cluster, m *Manager, _ *machine) {
			path := c.nodeOf(m)
			m.client.Unwatch(path, m.active.list()[0])
			c.remove(path)
			m.active.list()[0].raise(state.OwnTouched)
		}, "another client deleted its node", "deleted"},
		"an outage": {func(c *cluster, _ *Manager, _ *machine) {
			c.srv.Faults().RefuseFor(8 * time.Second)
			c.srv.Faults().CutAll()
		}, "its lease ended before ZooKeeper's leader confirmed the session again", "lease"},
		"a short pause and an outage": {func(c *cluster, _ *Manager, computer *machine) {
			computer.suspend(1200 * time.Millisecond)
			c.srv.Faults().RefuseFor(8 * time.Second)
			c.srv.Faults().CutAll()
		}, "its lease ended before ZooKeeper's leader confirmed the session again", "lease"},
	}, func(c *cluster, test test) {
		var computer machine
		l := c.lock("a", computer.run)
		h := mustLock(c.t, l)
		grant := grantOf(c.t, h)
		later(time.Minute + moment)
		c.log.clear()
		test.lose(c, l.m, &computer)
		later(20 * time.Second)
		synctest.Wait()
		e := c.evidence(h)
		expect(c.t, strings.HasPrefix(errors.Unwrap(e.err).Error(), "lock was lost: "+test.says),
			"the error says %q, want %q", errors.Unwrap(e.err).Error(), test.says)
		evidence := fmt.Sprintf("lock=jobs kind=exclusive session=%#x node=%s token=%d held=1m", grant.Session, grant.Path, grant.Token)
		expect(c.t, strings.Contains(e.line, evidence) && strings.Contains(e.line, " cause=lock was lost: "+test.says),
			"logged %q, want %q and %q", e.line, evidence, test.says)
		expect(c.t, e.lost.Err.Error() == e.err.Error() && e.lost.Cause() == test.word && e.lost.Paused == e.err.Paused,
			"the observer was told %v, %s, %v", e.lost.Err, e.lost.Cause(), e.lost.Paused)
		if l := e.loss; l.Session != grant.Session || l.Node != grant.Path || l.Token != grant.Token || l.Err.Error() != e.err.Error() {
			c.t.Errorf("the manager remembers %+v", l)
		}
		paused := test.word == "paused"
		if (e.err.Paused > 0) != paused || paused && e.err.Outage != nil {
			c.t.Errorf("the error has a pause of %v, and the outage %v", e.err.Paused, e.err.Outage)
		}
		mustRelease(c.t, mustLock(c.t, l))
	})
}

// A server ends the session of a connected holder, and tells of the node's deletion before it
// closes the connection. The observer is told the cause that the log has, and in the case of a
// deletion without waiting long.
func TestF316_CauseWhenTheObserverIsTold(t *testing.T) {
	type test struct {
		lose func(c *cluster, m *Manager)
		word string
	}
	each(t, map[string]test{
		"the end of the session": {func(c *cluster, m *Manager) { c.srv.ExpireSession(session(m)) }, "session"},
		"a deletion":             {func(c *cluster, m *Manager) { c.remove(c.nodeOf(m)) }, "deleted"},
	}, func(c *cluster, test test) {
		told := make(chan string, 1)
		m := c.open("a", func(cfg *Config) {
			observe := cfg.Observer
			cfg.Observer = func(e Event) {
				observe(e)
				if e.Kind == EventLost {
					told <- fmt.Sprint(e.Cause(), time.Since(e.Time) <= lossMoment)
				}
			}
		})
		mustLock(c.t, exclusive(c.t, m, "jobs"))
		later(time.Second)
		test.lose(c, m)
		if got := <-told; got != test.word+"true" {
			c.t.Errorf("the observer was told %q, want %q and true", got, test.word)
		}
	})
}

// A process revokes the lock, and deletes its node then, as holdfast break does. The loss names
// it, by whichever way the holder's process learns of the deletion. A revocation in an earlier
// turn has nothing to do with a loss, and none with the end of a lease.
func TestF312_LossNamesTheRevoker(t *testing.T) {
	const reason = "holdfast break by root@db7\x1b"
	watch := func(c *cluster, h Hold) { c.remove(c.nodeOf(h.Lock().m)) }
	type test struct {
		lose func(c *cluster, h Hold)
		says string // "": no revoker
	}
	each(t, map[string]test{
		"a watch tells": {watch, "another client deleted its node"},
		"a look finds it": {func(c *cluster, h Hold) {
			m := h.Lock().m
			m.client.Unwatch(c.nodeOf(m), m.active.list()[0])
			c.remove(c.nodeOf(m))
			m.active.list()[0].raise(state.OwnTouched)
		}, "another client deleted its node"},
		"a guard finds it": {func(c *cluster, h Hold) {
			m := h.Lock().m
			m.client.Unwatch(c.nodeOf(m), m.active.list()[0])
			c.remove(c.nodeOf(m))
			wantErr(c.t, "guard", errOf(h.Guard(c.t.Context(), zkio.CreateOp("/x", nil, nil))), ErrLost)
		}, "another client deleted its node"},
		"nothing was heard since": {func(c *cluster, h Hold) {
			hole := c.srv.Faults().Blackhole(session(h.Lock().m))
			ioOf(h).PathChanged(h.share.promises().tenure.path, zkio.Event{What: zkio.NodeDeleted})
			time.AfterFunc(time.Second, hole.Remove)
		}, "its node is gone: another client deleted it, unless the session has ended just now"},
		"the session ends": {func(c *cluster, h Hold) { c.srv.ExpireSession(session(h.Lock().m)) }, ""},
	}, func(c *cluster, test test) {
		a, b := c.lock("a"), c.lock("b")
		for _, revoked := range []bool{true, false} { // the later loss names none
			h := mustLock(c.t, a)
			if revoked {
				wantErr(c.t, "revoke", <-c.revoking(b, reason, time.Second), context.DeadlineExceeded)
			}
			test.lose(c, h)
			<-h.Lost()
			synctest.Wait()
			who := fmt.Sprintf("; before that, the lock was revoked: b@%s, pid %d, since 20", readable(a.m.says().Host), a.m.says().PID)
			why := `Z, "holdfast break by root@db7\x1b"`
			says := h.Err().Error()
			named := strings.Contains(says, test.says+who) && strings.Contains(says, why)
			if want := revoked && test.says != ""; named != want || !want && strings.Contains(says, "revoked") {
				c.t.Errorf("revoked %t: the error says %q", revoked, says)
			}
			h.Release()
			later(time.Minute)
		}
	})
}

// The loss names the latest revocation, and only if that is in force, however long it has been,
// or has just ended.
func TestF312_LossNamesTheLatestRevocation(t *testing.T) {
	type test struct {
		latest time.Duration // how long the process waits that revokes the lock for the second time
		lost   time.Duration // how long after that revocation the lock is lost
		named  bool          // by the loss
		mutex  bool
	}
	each(t, map[string]test{
		"the latest has just ended":          {latest: time.Second, lost: 2 * time.Second, named: true},
		"the latest has just ended, a mutex": {latest: time.Second, lost: 2 * time.Second, named: true, mutex: true},
		"the latest is in force":             {latest: 2 * time.Hour, lost: time.Hour, named: true},
		"the latest ended long ago":          {latest: time.Second, lost: time.Hour},
		"the latest ended long ago, a mutex": {latest: time.Second, lost: time.Hour, mutex: true},
		"the latest ended some time before":  {latest: time.Second, lost: time.Second + 2*blameFor},
	}, func(c *cluster, test test) {
		m, b := c.open("a"), c.lock("b")
		var h Hold
		if test.mutex {
			x, err := m.Mutex("jobs")
			wantErr(c.t, "mutex", err, nil)
			h = mustLockMutex(c.t, x)
		} else {
			h = mustLock(c.t, exclusive(c.t, m, "jobs"))
		}
		wantErr(c.t, "earlier", <-c.revoking(b, "earlier", time.Second), context.DeadlineExceeded)
		later(time.Hour)
		latest := c.revoking(b, "latest", test.latest)
		later(test.lost)
		path := c.nodeOf(m)
		m.client.Unwatch(path, m.active.list()[0])
		c.remove(path)
		err := errOf(h.Guard(c.t.Context(), zkio.CreateOp("/x", nil, nil)))
		wantErr(c.t, "guard", err, ErrLost)
		if named := strings.Contains(err.Error(), `"latest"`); named != test.named || strings.Contains(err.Error(), "earlier") {
			c.t.Errorf("the error says %q; names the latest: %t, want %t", err, named, test.named)
		}
		if test.latest > test.lost {
			wantErr(c.t, "revoke", <-latest, nil)
		}
		h.Release()
	})
}

// A watch tells of a deletion before the session's end is known. The error says what is
// known at the time at which it is read.
func TestF316_CauseBecomesKnown(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		of := func(answered bool) error {
			e := &lossError{session: m.client.Session()}
			e.alive.Store(answered)
			return &Error{Op: "hold", Name: "jobs", Err: e}
		}
		says := func(what string, err error, text, cause string) {
			c.t.Helper()
			expect(c.t, err.Error() == `holdfast: hold "jobs": lock was lost: `+text && causeOf(err) == cause,
				"%s: %q, cause %q; want %q, %q", what, err.Error(), causeOf(err), text, cause)
		}
		gone, alive := of(false), of(true)
		says("nothing was heard since", gone, "its node is gone: another client deleted it, unless the session has ended just now", "deleted")
		says("the session has got an answer", alive, "another client deleted its node", "deleted")
		c.expire(m)
		says("the session is over", gone, "the ZooKeeper session is over: the server ended it, "+
			strings.SplitAfter(gone.Error(), "ended it, ")[1], "session")
		says("the session went on then", alive, "another client deleted its node", "deleted")
	})
}

// ZooKeeper stops to answer. Holders lose the lock after a third to a half of the session
// timeout, less Config.LostMargin, as the documents say.
func TestF318_HowSoonALockIsLost(t *testing.T) {
	const timeout = 12 * time.Second
	const moment = timeout / 3 / 64 // between two phases; a third of the timeout is between two pings
	for _, margin := range []time.Duration{0, timeout / 6} {
		least, most := timeout, time.Duration(0)
		for phase := range 64 {
			bubble(t, func(c *cluster) {
				h := mustLock(c.t, c.lock("a", func(cfg *Config) { cfg.SessionTimeout, cfg.LostMargin = timeout, margin }))
				later(time.Minute + time.Duration(phase)*moment)
				silent := c.srv.Faults().BlackholeAll()
				began := time.Now()
				<-h.Lost()
				least, most = min(least, time.Since(began)), max(most, time.Since(began))
				silent.Remove()
			})
		}
		if least < timeout/3-margin || least > timeout*3/8-margin || most > timeout/2-margin || most < timeout/2-margin-moment {
			t.Errorf("with a margin of %v, lost after %v to %v, want %v to %v", margin, least, most, timeout/3-margin, timeout/2-margin)
		}
	}
}
