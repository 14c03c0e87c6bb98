// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A killing is a process whose session another process closes when it is killed.
type killing struct {
	c *cluster
	m *Manager
	t takeover.Order
}

// guarded opens a manager as a process with a helper does.
func (c *cluster) guarded(label string) *killing {
	m := c.open(label)
	m.patterns = patterns("host", label, "", true) // it has made no node of a lock yet
	n := takeover.Note{Root: m.cfg.Root, Process: Access{m}.Describe(takeover.Kind)}
	return &killing{c, m, takeover.New(zkio.Config{Servers: []string{"zk1"}}, m.client.Session().Ticket(), n)}
}

// die closes the session. The process lives on here, and gets another session.
func (k *killing) die() (nodes []string) {
	for _, n := range k.c.srv.Children(dir) {
		if _, stat, _ := k.c.srv.Get(dir + "/" + n); stat.EphemeralOwner == k.t.ID {
			nodes = append(nodes, dir+"/"+n)
		}
	}
	k.c.expire(k.m)
	synctest.Wait()
	return nodes
}

// note leaves the helper's note.
func (k *killing) note(nodes []string) {
	k.c.t.Helper()
	dialer := func(cfg *zkio.Config) error { cfg.Dialer = k.c.srv.Dial; return nil }
	wantErr(k.c.t, "the note", k.t.Leave(k.c.t.Context(), dialer, time.Now(), 4*time.Millisecond, nodes), nil)
	synctest.Wait()
}

// The process that gets a lock from one that was killed learns that, and tells: the note comes after
// the lock, and before or after that is released.
func TestF352_Takeover(t *testing.T) {
	wantTold := func(c *cluster, l *Lock, n uint64) {
		c.t.Helper()
		wantEq(c.t, "takeovers", l.m.Stats().Takeovers, n)
		lines := c.log.with("holdfast: took a lock over")
		wantEq(c.t, "lines", len(lines), int(n))
		for _, line := range lines {
			expect(c.t, strings.Contains(line, "lock=jobs") && strings.Contains(line, "a@host, pid ") && strings.Contains(line, "after=4ms"), "%s", line)
		}
	}
	// waitsForDelay kills a, which held the lock; b is first in line, and waits for the lock-delay.
	waitsForDelay := func(c *cluster, a *killing, b *Lock) (hb Hold, nodes []string) {
		la := exclusive(c.t, a.m, "jobs")
		wantErr(c.t, "a reports", la.ReportAbandoned(0), nil)
		wantErr(c.t, "b reports", b.ReportAbandoned(10*time.Second), nil)
		c.acquire(la)
		hb = c.acquire(b)
		return hb, a.die()
	}
	takenOver := func(l *Lock) *Takeover { return l.cur.Load().info().TakenOver }

	subtest(t, "while the lock is held", func(c *cluster) {
		a, b := c.guarded("a"), c.lock("b")
		c.acquire(exclusive(c.t, a.m, "jobs"))
		hb := c.acquire(b)
		id := a.t.ID
		nodes := a.die()
		c.held(hb)
		wantTold(c, b, 0)
		a.note(nodes)
		wantTold(c, b, 1)
		if got := takenOver(b); got == nil || got.From.Label != "a" || got.From.Session != id || got.After != 4*time.Millisecond || got.Ended.IsZero() {
			c.t.Errorf("taken over: %+v", got)
		}
		a.note(nodes) // a second note is of nothing new
		wantTold(c, b, 1)
		c.unlock(hb)
		hb = c.acquire(b)
		expect(c.t, takenOver(b) == nil, "the next round was taken over, too")
		c.unlock(hb)
	})
	subtest(t, "after it was released", func(c *cluster) {
		a, b := c.guarded("a"), c.lock("b")
		c.acquire(exclusive(c.t, a.m, "jobs"))
		hb := c.acquire(b)
		nodes := a.die()
		c.unlock(hb)
		a.note(nodes)
		wantTold(c, b, 1)
		wantEq(c.t, "remembered", len(b.m.takeovers.late)+len(b.m.takeovers.heirs), 0)
	})
	subtest(t, "the note comes first", func(c *cluster) {
		a, b := c.guarded("a"), c.lock("b")
		first := c.acquire(exclusive(c.t, a.m, "other"))
		hb := exclusive(c.t, b.m, "other").Acquire(c.t.Context())
		synctest.Wait()
		mustRelease(c.t, first) // b looks for notes from now on
		c.held(hb)
		c.acquire(exclusive(c.t, a.m, "jobs"))
		next := c.acquire(b)
		node := c.nodeOf(a.m)
		a.note([]string{node})
		wantTold(c, b, 0)
		a.die()
		c.held(next)
		wantTold(c, b, 1)
		c.unlock(hb, next)
	})
	subtest(t, "several locks", func(c *cluster) {
		a, b := c.guarded("a"), c.lock("b")
		var holds []Hold
		var nodes []string
		for _, name := range []string{"z", "y", "x"} {
			ha := c.acquire(exclusive(c.t, a.m, name))
			g, err := ha.Grant()
			wantErr(c.t, "grant", err, nil)
			nodes = append(nodes, g.Path)
			holds = append(holds, c.acquire(exclusive(c.t, b.m, name)))
		}
		a.die()
		c.held(holds...)
		a.note(nodes)
		wantEq(c.t, "takeovers", b.m.Stats().Takeovers, 3)
		lines := c.log.with("holdfast: took locks over")
		expect(c.t, len(lines) == 1 && strings.Contains(lines[0], "locks=3 first=x"), "%q", lines)
		c.unlock(holds...)
	})
	subtest(t, "a reader", func(c *cluster) {
		a, b := c.guarded("a"), c.rw("b")
		c.acquire(readWrite(c.t, a.m, "jobs").Writer())
		hb := c.acquire(b.Reader())
		a.note(a.die())
		c.held(hb)
		wantTold(c, b.Reader(), 1)
		c.unlock(hb)
	})
	subtest(t, "it was abandoned", func(c *cluster) {
		a, b := c.guarded("a"), c.lock("b")
		la := exclusive(c.t, a.m, "jobs")
		wantErr(c.t, "a reports", la.ReportAbandoned(0), nil)
		wantErr(c.t, "b reports", b.ReportAbandoned(time.Second), nil)
		c.acquire(la)
		hb := c.acquire(b)
		nodes := a.die()
		time.Sleep(2 * time.Second)
		c.held(hb)
		a.note(nodes)
		wantTold(c, b, 1)
		line := c.log.with("holdfast: took a lock over")[0]
		expect(c.t, strings.Contains(line, "abandoned=true"), "%s", line)
		c.unlock(hb)
	})

	// Not taken over:
	subtest(t, "it was released before", func(c *cluster) {
		a, b := c.guarded("a"), c.lock("b")
		ha := c.acquire(exclusive(c.t, a.m, "jobs"))
		hb := c.acquire(b)
		c.unlock(ha)
		c.held(hb)
		a.note([]string{dir + "/another"})
		wantTold(c, b, 0)
		c.unlock(hb)
		wantEq(c.t, "remembered", len(b.m.takeovers.late), 1)
	})
	subtest(t, "another contender was between", func(c *cluster) {
		a, b, z := c.guarded("a"), c.lock("b"), c.lock("z")
		c.acquire(exclusive(c.t, a.m, "jobs"))
		hz := c.acquire(z)
		hb := c.acquire(b)
		nodes := a.die()
		c.held(hz)
		c.unlock(hz)
		c.held(hb)
		a.note(nodes)
		wantEq(c.t, "takeovers of the last", b.m.Stats().Takeovers, 0)
		wantEq(c.t, "takeovers of the one between", z.m.Stats().Takeovers, 1)
		c.unlock(hb)
	})
	subtest(t, "it had to queue again", func(c *cluster) {
		a, b, z := c.guarded("a"), c.lock("b"), c.lock("z")
		hb, nodes := waitsForDelay(c, a, b)
		hz := c.acquire(z)
		c.remove(c.nodeOf(b.m))
		time.Sleep(time.Second)
		c.held(hz)
		c.waiting(hb)
		c.unlock(hz)
		time.Sleep(11 * time.Second)
		c.held(hb)
		a.note(nodes)
		wantTold(c, b, 0)
		c.unlock(hb)
	})
	subtest(t, "it had to queue again, and was alone", func(c *cluster) {
		a, b, z := c.guarded("a"), c.lock("b"), c.lock("z")
		hb, nodes := waitsForDelay(c, a, b)
		hz := c.acquire(z)
		away := c.stopAt(b.m, zktest.OpMulti, 1) // b's next node
		c.remove(c.nodeOf(b.m))
		<-away.arrived
		c.held(hz)
		c.unlock(hz)
		close(away.resume)
		time.Sleep(11 * time.Second)
		c.held(hb)
		a.note(nodes)
		wantTold(c, b, 0)
		c.unlock(hb)
	})
	subtest(t, "its last step was before others left", func(c *cluster) {
		a, b, z := c.guarded("a"), c.lock("b"), c.lock("z")
		c.acquire(exclusive(c.t, a.m, "jobs"))
		hz := c.acquire(z)
		hb := c.acquire(b)
		c.away("b", 3*time.Second)
		nodes := a.die()
		c.held(hz)
		c.unlock(hz)
		time.Sleep(5 * time.Second)
		c.held(hb)
		a.note(nodes)
		wantEq(c.t, "takeovers of the last", b.m.Stats().Takeovers, 0)
		wantEq(c.t, "takeovers of the one between", z.m.Stats().Takeovers, 1)
		c.unlock(hb)
	})
	subtest(t, "the notes may not be read", func(c *cluster) {
		a, b := c.guarded("a"), c.lock("b")
		closed := []zkio.ACL{{Perms: zkio.PermCreate, Scheme: "world", ID: "anyone"}}
		wantErr(c.t, "the directory", a.m.client.Session().Create("/holdfast/_taken_", nil, closed), nil)
		c.acquire(exclusive(c.t, a.m, "jobs"))
		hb := c.acquire(b)
		a.die()
		c.held(hb)
		before := c.srv.Requests(zktest.OpGetChildren2)
		time.Sleep(5 * time.Second)
		expect(c.t, c.srv.Requests(zktest.OpGetChildren2)-before < 5, "it is tried again and again")
		wantTold(c, b, 0)
		c.unlock(hb)
	})
}

// Notes cost nothing where there are no helpers, and with them two requests at most in a session, and two for a
// note.
func TestF352_TakeoverCosts(t *testing.T) {
	bubble(t, func(c *cluster) {
		asked := 0
		c.srv.OnRequest(func(_ int64, op zktest.Op, path string) {
			if strings.Contains(path, takeover.Segment) || op == zktest.OpMultiRead {
				asked++
			}
		})
		want := func(what string, n int) {
			c.t.Helper()
			synctest.Wait()
			wantEq(c.t, what, asked, n)
			asked = 0
		}
		handOver := func(from, to *Lock) {
			h := c.acquire(from)
			next := c.acquire(to)
			c.unlock(h)
			c.held(next)
			c.unlock(next)
		}
		a, b := c.guarded("a"), c.lock("b")
		handOver(c.lock("z"), b)
		want("without a helper", 0)
		handOver(exclusive(c.t, a.m, "jobs"), b)
		want("with a helper", 2) // there is no directory yet
		handOver(exclusive(c.t, a.m, "jobs"), b)
		want("once more", 0)
		a.note([]string{"/holdfast/x/1"})
		synctest.Wait()
		asked = 0 // one more or less: the directory and the note are news, both together or not
		a.note([]string{"/holdfast/x/1"})
		want("another", 2+2)
		c.expire(b.m)
		want("in the next session", 0)
		handOver(exclusive(c.t, a.m, "jobs"), b)
		want("in the next session, with a helper", 1)
	})
}

// A process remembers only so many locks that it had, and for which no note has come.
func TestF352_TakeoversForget(t *testing.T) {
	k := new(takeovers)
	k.heirs = make(map[*roundIO]*inheritance)
	for range 10 * mostLate {
		r := new(roundIO)
		k.heirs[r] = &inheritance{granted: true}
		k.over(r)
	}
	if n := len(k.late); n > mostLate || n < mostLate/2 || len(k.heirs) != 0 {
		t.Errorf("%d remembered, and %d heirs", n, len(k.heirs))
	}
}
