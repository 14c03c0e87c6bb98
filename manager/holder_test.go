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

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// inBrief describes contenders for a test: label, kind, h if it holds, o if it is the
// asker's own, ? if it says nothing.
func inBrief(all ...Contender) string {
	var words []string
	for _, c := range all {
		w := c.Label
		if w == "" {
			w = "?"
		}
		w += ":" + c.Kind.String()[:1]
		if c.Holds {
			w += "h"
		}
		if c.Own {
			w += "o"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

// holderOf is inBrief of the lock's holder.
func holderOf(t *testing.T, l *Lock) string {
	t.Helper()
	c, err := l.Holder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return "free"
	}
	return inBrief(*c)
}

func queueOf(t *testing.T, l *Lock) string {
	t.Helper()
	all, err := l.Queue(t.Context(), -1)
	if err != nil {
		t.Fatal(err)
	}
	return inBrief(all...)
}

// Holder and Queue tell who holds a mutex and who waits for it, on either server.
func TestHolder(t *testing.T) {
	everywhere(t, func(s *backend) {
		endpoint := func(c *Config) { c.Endpoint = "10.0.0.1:80" }
		holder, first, second, asker := s.lock("holder", endpoint), s.lock("w1"), s.lock("w2"), s.lock("asker")
		wantEq(s.t, "of a lock that was never used", holderOf(s.t, asker), "free")
		h := mustLock(s.t, holder)
		w1 := first.Acquire(s.t.Context())
		s.untilQueued(asker, 2)
		w2 := second.Acquire(s.t.Context())
		s.untilQueued(asker, 3)
		wantEq(s.t, "holder", holderOf(s.t, asker), "holder:eh")
		wantEq(s.t, "the first in line says", holderOf(s.t, first), "holder:eh")
		wantEq(s.t, "the holder says of itself", holderOf(s.t, holder), "holder:eho")
		wantEq(s.t, "queue", queueOf(s.t, second), "holder:eh w1:e w2:eo")
		c, err := asker.Holder(s.t.Context())
		wantErr(s.t, "holder", err, nil)
		g := grantOf(s.t, h)
		expect(s.t, c.Path == g.Path && c.Token == g.Token && c.Session == g.Session && c.Endpoint == "10.0.0.1:80" &&
			c.PID != 0 && c.Host != "" && !c.Persistent && time.Since(c.Since).Abs() <= time.Hour,
			"the holder is %+v; its grant is %+v", c, g)
		own, err := holder.Holder(s.t.Context())
		wantErr(s.t, "the holder asks", err, nil)
		said := *own
		said.Own, said.Since = c.Own, c.Since
		wantEq(s.t, "the holder says of itself", said, *c)
		mustRelease(s.t, h)
		s.granted(w1)
		wantEq(s.t, "after the hand-over", holderOf(s.t, asker), "w1:eh")
		all, err := asker.Queue(s.t.Context(), 0)
		wantErr(s.t, "queue", err, nil)
		wantEq(s.t, "without details", inBrief(all...), "?:eh ?:e")
		w1.Release()
		s.granted(w2)
		w2.Release()
		s.untilQueued(asker, 0)
		wantEq(s.t, "at the end", holderOf(s.t, asker)+","+queueOf(s.t, asker), "free,")
	})
}

// Of readers and writers, all readers ahead of the first writer hold the lock, and a
// writer together with the read lock that its process took beside it.
func TestHolderOfReadWrite(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, w, d := c.rw("a"), c.rw("b"), c.rw("w"), c.rw("d")
		asker := c.rw("asker")
		check := func(when, holder, queue string) {
			c.t.Helper()
			synctest.Wait()
			for _, l := range []*Lock{asker.Reader(), asker.Writer()} {
				wantEq(c.t, when+": holder", holderOf(c.t, l), holder)
				wantEq(c.t, when+": queue", queueOf(c.t, l), queue)
			}
		}
		ra, rb := c.acquire(a.Reader()), c.acquire(b.Reader())
		hw := c.acquire(w.Writer())
		rd := c.acquire(d.Reader())
		check("readers", "a:rh", "a:rh b:rh w:w d:r")
		wantEq(c.t, "a reader asked by its writer", holderOf(c.t, b.Writer()), "b:rho")
		c.unlock(ra, rb)
		check("writer", "w:wh", "w:wh d:r")
		down := c.acquire(w.Reader())
		c.held(hw, down)
		check("downgrade", "w:wh", "w:wh w:rh d:r")
		c.unlock(hw)
		check("downgraded", "w:rh", "w:rh d:rh")
		holder, err := asker.Reader().Holder(c.t.Context())
		expect(c.t, err == nil && holder.Token != 0, "downgraded: %+v, %v", holder, err)
		c.unlock(down, rd)
	})
}

// Other clients' contenders are found by their names, and told by what they say.
func TestHolderOfOtherClients(t *testing.T) {
	bubble(t, func(c *cluster) {
		asker := c.lock("asker")
		s := c.crowd()
		for _, test := range []struct{ name, data, want string }{
			{"_c_" + dashed + "-lock-0000000001", "10.0.0.8", `says "10.0.0.8"`},
			{hex32 + "__lock__0000000001", "worker-7", `says "worker-7"`},
			{"_c_" + hex32 + "-lock-0000000001", "", "lock-0000000001, since"},
		} {
			path := s.node(test.name, []byte(test.data)...)
			got, err := asker.Holder(c.t.Context())
			if err != nil || got.Path != path || got.Identity != test.data || !got.Holds || got.Own || got.Session != s.session || !strings.Contains(got.String(), test.want) {
				c.t.Errorf("%s: %+v, %v: %s", test.name, got, err, got)
			}
			c.remove(path)
		}
	})
}

// Another client that writes into a holder's node does not hide whose it is from a
// process that has met the holder.
func TestHolderWhoseNodeWasWritten(t *testing.T) {
	bubble(t, func(c *cluster) {
		holder, knows, asker := c.lock("holder"), c.lock("knows"), c.lock("asker")
		h := mustLock(c.t, holder)
		wantEq(c.t, "holder", holderOf(c.t, knows), "holder:eh")
		wantErr(c.t, "set", c.srv.Set(grantOf(c.t, h).Path, []byte("mine")), nil)
		for l, want := range map[*Lock]string{knows: "holder:eh", asker: "?:eh"} {
			wantEq(c.t, l.m.cfg.Label, holderOf(c.t, l), want)
			wantEq(c.t, l.m.cfg.Label, queueOf(c.t, l), want)
		}
		c.unlock(h)
	})
}

// Holder takes two reads at any length of the queue, one if the lock is free, and none
// of its own; Queue two.
func TestRequestsToFindHolder(t *testing.T) {
	bubble(t, func(c *cluster) {
		asker := c.lock("asker")
		count := func(what string, want uint64, do func()) {
			c.t.Helper()
			synctest.Wait() // for what the call before has left to do
			before := readsOf(c.srv)
			do()
			expect(c.t, readsOf(c.srv)-before == want,
				"%s: %d reads, want %d", what, readsOf(c.srv)-before, want)
		}
		h := mustLock(c.t, asker)
		count("own", 0, func() { holderOf(c.t, asker) })
		c.unlock(h)
		count("free", 1, func() { holderOf(c.t, asker) })
		s := c.crowd()
		for i := range 1000 {
			s.node(fmt.Sprintf("_c_%032x-lock-%010d", i, i))
		}
		count("1,000: holder", 2, func() { holderOf(c.t, asker) })
		count("1,000: queue", 2, func() { queueOf(c.t, asker) })
		all, err := asker.Queue(c.t.Context(), 10)
		expect(c.t, err == nil && len(all) == 1000 && all[9].Session != 0 && all[10].Session == 0 &&
			all[0].Holds && !all[1].Holds, "10 of 1,000: %d contenders, %v", len(all), err)
	})
}

func readsOf(srv *zktest.Server) uint64 {
	return srv.Requests(zktest.OpGetData) + srv.Requests(zktest.OpGetChildren2) + srv.Requests(zktest.OpExists) + srv.Requests(zktest.OpMultiRead)
}

// A contender that goes between the list and the look at it is passed over; if it was
// a writer, the queue is listed again, since its reader may have taken its place.
func TestHolderGoesMeanwhile(t *testing.T) {
	eachOf(t, []zktest.Op{zktest.OpGetData, zktest.OpMultiRead}, func(c *cluster, op zktest.Op) {
		w, asker := c.rw("w"), c.rw("asker").Reader()
		hw := c.acquire(w.Writer())
		other := c.acquire(c.rw("other").Writer())
		ask := c.stopAt(asker.m, op, 1)
		answer := make(chan string)
		go func() {
			if op == zktest.OpGetData {
				answer <- holderOf(c.t, asker)
			} else {
				answer <- queueOf(c.t, asker)
			}
		}()
		ask.reached()
		down := c.acquire(w.Reader())
		c.unlock(hw)
		ask.goOn()
		want := map[zktest.Op]string{zktest.OpGetData: "w:rh", zktest.OpMultiRead: "w:rh other:w"}[op]
		got := <-answer
		expect(c.t, got == want, "got %s, want %s", got, want)
		c.unlock(down)
		c.held(other)
		c.unlock(other)
	})
}

// A question waits for a connection, tells why there is none when ctx ends, and fails
// once the manager is closed.
func TestHolderWithoutConnection(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("asker")
		ctx := withTimeout(c.t, 2*time.Second)
		c.srv.Stop()
		err := errOf(l.Holder(ctx))
		wantErr(c.t, "in an outage", err, context.DeadlineExceeded)
		var e *Error
		expect(c.t, errors.As(err, &e) && e.Op == "holder" && e.Name == "jobs" && e.Outage != nil, "in an outage: %v", err)
		answer := make(chan string)
		go func() { answer <- holderOf(c.t, l) }()
		synctest.Wait()
		c.srv.Start()
		wantEq(c.t, "after the outage", <-answer, "free")
		wantErr(c.t, "sync", l.m.Sync(c.t.Context()), nil)
		wantErr(c.t, "with a ctx that has ended", errOf(l.Queue(ctx, -1)), context.DeadlineExceeded)
		wantErr(c.t, "close", l.m.Close(), nil)
		wantErr(c.t, "once closed", errOf(l.Holder(c.t.Context())), ErrClosed)
		wantErr(c.t, "sync once closed", l.m.Sync(c.t.Context()), ErrClosed)
	})
}
