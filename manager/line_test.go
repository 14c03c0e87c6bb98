// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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

// wantSoon checks that w is granted when h is released, and not only when the manager
// looks after its waiters.
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

// oneWorker leaves a manager one worker for fetches.
func oneWorker(cfg *Config) { cfg.Workers = 9 }

// The workers are busy when a waiter's look at its own node is due, and then there is
// news of the contender ahead, which uses up that watch: the waiter looks at both.
func TestNewsTogetherWithTheLookAtTheOwnNode(t *testing.T) {
	each(t, map[string]func(c *cluster) (a, b *Lock){
		"mutex":                 func(c *cluster) (a, b *Lock) { return c.lock("a"), c.lock("b", oneWorker) },
		"reader behind a write": func(c *cluster) (a, b *Lock) { return c.rw("a").Writer(), c.rw("b", oneWorker).Reader() },
	}, func(c *cluster, take func(c *cluster) (a, b *Lock)) {
		a, b := take(c)
		c.cycle(a)
		h, w := mustLock(c.t, a), c.acquire(b)
		done := make(busy)
		b.m.client.Submit(zkio.Fetches, done)
		later(defaultTenure + time.Millisecond) // its look is due
		wantErr(c.t, "set", c.srv.Set(c.nodeOf(a.m), []byte("hello")), nil)
		synctest.Wait()
		close(done)
		synctest.Wait()
		c.wantSoon(h, w)
	})
}

// A waiter's second look fails, and the retry is due together with the look at its
// own node.
func TestRetryTogetherWithTheLookAtTheOwnNode(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b", oneWorker)
		c.cycle(a)
		h, w := mustLock(c.t, a), c.acquire(b)
		later(defaultTenure - 4*time.Millisecond)
		f := c.lossAt(dropReply, b.m, zktest.OpGetChildren2)
		wantErr(c.t, "set", c.srv.Set(c.nodeOf(a.m), []byte("hello")), nil)
		later(time.Millisecond)
		done := make(busy)
		b.m.client.Submit(zkio.Fetches, done)
		later(time.Second) // the look is due, and then the retry
		if f.Hits() != 1 {
			c.t.Fatal("no answer was lost")
		}
		close(done)
		synctest.Wait()
		c.wantSoon(h, w)
	})
}

// The Stat of a directory says which number its next child gets.
func TestNextNumber(t *testing.T) {
	everywhere(t, func(s *backend) {
		m := s.open("a")
		session, dir := m.client.Session(), m.cfg.Root+"/numbers"
		wantErr(s.t, "create", session.EnsureDir(dir, nil), nil)
		for i := range 20 {
			_, stat, err := session.Children(dir)
			wantErr(s.t, "list", err, nil)
			next := nextNumber(stat)
			n := zkio.NewNode(dir, "lock-", hex32, nil, nil, nil)
			wantErr(s.t, "create", n.Create(session), nil)
			if sequenceOf(n.Name()) != fmt.Sprintf("%010d", next) {
				s.t.Fatalf("after %d children: %s, expected the number %d", i, n.Name(), next)
			}
			if i%3 != 0 {
				wantErr(s.t, "delete", n.Delete(session), nil)
			}
			if i%4 == 0 {
				wantErr(s.t, "create", session.Create(fmt.Sprintf("%s/x%d", dir, i), nil, nil), nil)
			}
		}
	})
}
