// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// contenderOf returns a contender as a test writes it: x5 is a mutex with the number 5, r a read,
// w a write, and - a number that nobody has.
func contenderOf(t *testing.T, mark string) contender {
	t.Helper()
	kind := map[byte]Kind{'x': KindExclusive, 'r': KindRead, 'w': KindWrite}[mark[0]]
	var seq int
	if _, err := fmt.Sscan(mark[1:], &seq); err != nil || kind == 0 {
		t.Fatalf("%q is no contender", mark)
	}
	c, ok := parseContender(fmt.Sprintf("_c_%s-%s%010d", hex32, kind.mark(), seq))
	if !ok {
		t.Fatalf("%q does not parse", mark)
	}
	return c
}

// String names a prospect as the tests do: how many are ahead, who is watched, and
// what is done when that one has gone.
func (p prospect) String() string {
	if p.n == 0 {
		return "enter"
	}
	name := func(c contender) string { return fmt.Sprintf("%c%d", " xrw"[c.kind], c.seq) }
	s := fmt.Sprintf("%d ahead, watch %s, then ", p.n, name(p.watch))
	switch {
	case !p.sure:
		return s + "look"
	case p.then == nil:
		return s + "enter"
	}
	return s + "watch " + name(*p.then)
}

// What a process does that has listed the queue.
func TestProspect(t *testing.T) {
	for _, test := range []struct {
		queue []string
		own   string
		want  string
	}{
		{[]string{"x1"}, "x1", "enter"},
		{[]string{"x1", "x2"}, "x1", "enter"},
		{[]string{"x1", "x2"}, "x2", "1 ahead, watch x1, then enter"},
		{[]string{"x1", "x2", "x3"}, "x3", "2 ahead, watch x1, then watch x2"},
		{[]string{"x9", "x7", "x8"}, "x9", "2 ahead, watch x7, then watch x8"},
		{[]string{"x1", "x2", "x3", "x4"}, "x4", "3 ahead, watch x3, then look"},
		{[]string{"x1", "x2", "x3", "x4", "x5"}, "x3", "2 ahead, watch x1, then watch x2"},
		{[]string{"x1", "x2", "x3", "x4", "x5"}, "x5", "4 ahead, watch x4, then look"},

		// Readers wait for writers alone.
		{[]string{"r1", "r2"}, "r2", "enter"},
		{[]string{"w1", "r2"}, "r2", "1 ahead, watch w1, then enter"},
		{[]string{"w1", "r2", "w3", "r4"}, "r4", "2 ahead, watch w1, then watch w3"},
		{[]string{"w1", "w2", "w3", "r4"}, "r4", "3 ahead, watch w3, then look"},

		// A write may have been downgraded when its node goes: then a read stands
		// in its place, and excludes a writer.
		{[]string{"w1", "w2"}, "w2", "1 ahead, watch w1, then look"},
		{[]string{"r1", "w2"}, "w2", "1 ahead, watch r1, then enter"},
		{[]string{"r1", "r2", "w3"}, "w3", "2 ahead, watch r1, then watch r2"},
		{[]string{"w1", "r2", "w3"}, "w3", "2 ahead, watch r2, then look"},
		{[]string{"r1", "w2", "w3"}, "w3", "2 ahead, watch w2, then look"},
		{[]string{"w1", "r1", "w2"}, "w2", "2 ahead, watch r1, then look"},
		{[]string{"w1", "x2"}, "x2", "1 ahead, watch w1, then look"},

		// Numbers that do not order.
		{[]string{"x2147483646", "x2147483647"}, "x2147483647", "1 ahead, watch x2147483646, then look"},
	} {
		var names []string
		for _, mark := range test.queue {
			names = append(names, contenderOf(t, mark).name)
		}
		q := parseQueue(names)
		own := contenderOf(t, test.own)
		p, found := q.prospect(own.name, own.kind)
		if !found || p.String() != test.want {
			t.Errorf("%s in %v: %v, want %s", test.own, test.queue, p, test.want)
		}
		if _, found := q.prospect(contenderOf(t, "x99").name, KindExclusive); found {
			t.Errorf("%v: found somebody who is not there", test.queue)
		}
	}
}

// What a process does that has left the queue and queued again, in one transaction,
// by what it saw when it listed the queue: then others may have come, or gone.
func TestProspectBehindTheLast(t *testing.T) {
	for _, test := range []struct {
		seen []string
		own  string // the one that left
		now  string // its new node
		want string
	}{
		{[]string{"x1"}, "x1", "x2", "look"},
		{[]string{"x1", "x2"}, "x1", "x3", "1 ahead, watch x2, then enter"},
		{[]string{"x1", "x2"}, "x1", "x4", "2 ahead, watch x2, then look"},
		{[]string{"x1", "x2"}, "x1", "x5", "look"},
		{[]string{"x1", "x2", "x3"}, "x1", "x4", "2 ahead, watch x2, then watch x3"},
		{[]string{"x1", "x5", "x3"}, "x1", "x6", "2 ahead, watch x3, then watch x5"},
		{[]string{"x1", "x2", "x3"}, "x1", "x5", "3 ahead, watch x3, then look"},
		{[]string{"x1", "x2", "x3"}, "x1", "x6", "look"},
		{[]string{"x1", "x2", "x3", "x4"}, "x1", "x5", "3 ahead, watch x3, then look"},
		{[]string{"x1", "x2", "x3", "x4"}, "x1", "x6", "4 ahead, watch x4, then look"},

		// It was not the head yet when it looked: who was ahead has gone since.
		{[]string{"x1", "x2", "x3"}, "x2", "x4", "1 ahead, watch x3, then enter"},
		{[]string{"x1", "x2", "x3"}, "x2", "x5", "2 ahead, watch x3, then look"},
		{[]string{"x1", "x2"}, "x2", "x4", "look"},

		// Readers and writers.
		{[]string{"w1", "r2"}, "w1", "w3", "1 ahead, watch r2, then enter"},
		{[]string{"w1", "w2"}, "w1", "w3", "1 ahead, watch w2, then look"},
		{[]string{"w1", "w2"}, "w1", "w4", "look"},
		{[]string{"w1", "r2", "r3"}, "w1", "w4", "2 ahead, watch r3, then look"},
		{[]string{"r1", "w2"}, "r1", "r3", "1 ahead, watch w2, then enter"},
		{[]string{"r1", "w2", "w3"}, "r1", "r4", "2 ahead, watch w3, then look"},
		{[]string{"r1", "w2", "r3"}, "r1", "r4", "look"},
		{[]string{"r1", "r2"}, "r1", "r3", "look"},
		{[]string{"x1", "w2", "x3"}, "x1", "x4", "2 ahead, watch x3, then look"},

		// Numbers that do not order.
		{[]string{"x2146435071", "x2146435072"}, "x2146435071", "x2146435073", "look"},
		{[]string{"x2146435071", "x2146435073"}, "x2146435071", "x2146435074", "look"},
	} {
		var names []string
		for _, mark := range test.seen {
			names = append(names, contenderOf(t, mark).name)
		}
		old := contenderOf(t, test.own)
		got := "look"
		q := parseQueue(names)
		q.next = 1 << 31
		if last := q.last(old.name, old.kind); last != nil {
			if p, ok := last.prospect(contenderOf(t, test.now)); ok {
				got = p.String()
			}
		}
		if got != test.want {
			t.Errorf("%s left %v and is %s now: %s, want %s", test.own, test.seen, test.now, got, test.want)
		}
	}
}

// wantSoon checks that w is granted when h is released, and not only when the
// rotation looks.
func (c *cluster) wantSoon(h, w Hold) {
	c.t.Helper()
	began := time.Now()
	mustRelease(c.t, h)
	<-w.Granted().Done()
	if d := time.Since(began); d > 200*time.Millisecond {
		c.t.Errorf("granted %v after the release", d)
	}
	mustRelease(c.t, w)
}

// The look at its own node and news of the one ahead, which use up that watch, come
// together, since all who fetch are busy: both are looked at.
func TestNewsTogetherWithTheLookAtTheOwnNode(t *testing.T) {
	for _, kind := range []string{"mutex", "reader behind a write"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				one := func(cfg *Config) { cfg.Workers = 9 }
				var a, b *Lock
				if kind == "mutex" {
					a, b = c.lock("a"), c.lock("b", one)
				} else {
					a, b = c.rw("a").Writer(), c.rw("b", one).Reader()
				}
				mustRelease(c.t, mustLock(c.t, a))
				h := mustLock(c.t, a)
				w := b.Acquire(c.t.Context())
				synctest.Wait()
				done := make(chan struct{})
				b.m.client.Submit(zkio.Fetches, busy(done))
				later(defaultTenure + time.Millisecond) // its ownLook is queued behind the busy one
				wantErr(c.t, "set", c.srv.Set(c.nodeOf(a.m), []byte("hello")), nil)
				synctest.Wait()
				close(done)
				synctest.Wait()
				c.wantSoon(h, w)
			})
		})
	}
}

// A wait's second look fails, and its retry comes together with the look at its own node.
func TestRetryTogetherWithTheLookAtTheOwnNode(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b", func(cfg *Config) { cfg.Workers = 9 })
		mustRelease(c.t, mustLock(c.t, a))
		h := mustLock(c.t, a)
		w := b.Acquire(c.t.Context())
		synctest.Wait()
		later(defaultTenure - 4*time.Millisecond)
		f := c.srv.Faults().DropReply(zktest.Match{Op: zktest.OpGetChildren2, Session: session(b.m), Path: dir})
		wantErr(c.t, "set", c.srv.Set(c.nodeOf(a.m), []byte("hello")), nil)
		synctest.Wait()
		later(time.Millisecond)
		done := make(chan struct{})
		b.m.client.Submit(zkio.Fetches, busy(done))
		later(time.Second) // ownLook is due, and then the retry
		if f.Hits() != 1 {
			c.t.Fatal("no answer was lost")
		}
		close(done)
		synctest.Wait()
		c.wantSoon(h, w)
	})
}

// The Stat of a directory says which number its next child is given, here and on a
// real server.
func TestNextNumber(t *testing.T) {
	check := func(t *testing.T, m *Manager, dir string) {
		s := m.client.Session()
		wantErr(t, "create", s.EnsureDir(dir, m.cfg.ACL), nil)
		for i := range 20 {
			_, stat, err := s.Children(dir)
			wantErr(t, "list", err, nil)
			next := nextNumber(stat)
			n := zkio.NewNode(dir, "lock-", m.guid, nil, m.cfg.ACL, nil)
			wantErr(t, "create", n.Create(s), nil)
			if c, ok := parseContender(n.Name()); !ok || c.seq != next {
				t.Fatalf("after %d children: %s, expected the number %d", i, n.Name(), next)
			}
			if i%3 != 0 {
				wantErr(t, "delete", n.Delete(s), nil)
			}
			if i%4 == 0 {
				wantErr(t, "create", s.Create(fmt.Sprintf("%s/x%d", dir, i), nil, m.cfg.ACL), nil)
			}
		}
	}
	t.Run("embedded", func(t *testing.T) {
		bubble(t, func(c *cluster) { check(c.t, c.open("a"), "/numbers") })
	})
	t.Run("real", func(t *testing.T) {
		r := newReal(t, realzk.Shared(t))
		m := r.open("a")
		check(t, m, m.cfg.Root+"/numbers")
	})
}
