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
		if got := holderOf(s.t, asker); got != "free" {
			s.t.Errorf("of a lock that was never used: %s", got)
		}
		h := mustLock(s.t, holder)
		w1 := first.Acquire(s.t.Context())
		s.untilQueued(asker, 2)
		w2 := second.Acquire(s.t.Context())
		s.untilQueued(asker, 3)
		if got := holderOf(s.t, asker); got != "holder:eh" {
			s.t.Errorf("holder %s", got)
		}
		if got := holderOf(s.t, first); got != "holder:eh" {
			s.t.Errorf("the first in line says %s", got)
		}
		if got := holderOf(s.t, holder); got != "holder:eho" {
			s.t.Errorf("the holder says %s of itself", got)
		}
		if got, want := queueOf(s.t, second), "holder:eh w1:e w2:eo"; got != want {
			s.t.Errorf("queue %s, want %s", got, want)
		}
		c, err := asker.Holder(s.t.Context())
		g, _ := h.Grant()
		if err != nil || c.Path != g.Path || c.Token != g.Token || c.Session != g.Session || c.Endpoint != "10.0.0.1:80" ||
			c.PID == 0 || c.Host == "" || c.Persistent || time.Since(c.Since).Abs() > time.Hour {
			s.t.Errorf("the holder is %+v, %v; its grant is %+v", c, err, g)
		}
		own, err := holder.Holder(s.t.Context())
		if err != nil || own.Path != c.Path || own.Sequence != c.Sequence || own.Token != c.Token || own.Session != c.Session ||
			own.Endpoint != c.Endpoint || own.Label != c.Label || own.Host != c.Host || own.PID != c.PID {
			s.t.Errorf("the holder says of itself %+v, %v; others say %+v", own, err, c)
		}
		mustRelease(s.t, h)
		s.granted(w1)
		if got := holderOf(s.t, asker); got != "w1:eh" {
			s.t.Errorf("after the hand-over: %s", got)
		}
		all, err := asker.Queue(s.t.Context(), 0)
		if err != nil || inBrief(all...) != "?:eh ?:e" {
			s.t.Errorf("without details: %s, %v", inBrief(all...), err)
		}
		w1.Release()
		s.granted(w2)
		w2.Release()
		s.untilQueued(asker, 0)
		if got := holderOf(s.t, asker) + "," + queueOf(s.t, asker); got != "free," {
			s.t.Errorf("at the end: %s", got)
		}
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
				if got := holderOf(c.t, l); got != holder {
					c.t.Errorf("%s: holder %s, want %s", when, got, holder)
				}
				if got := queueOf(c.t, l); got != queue {
					c.t.Errorf("%s: queue %s, want %s", when, got, queue)
				}
			}
		}
		ra, rb := c.acquire(a.Reader()), c.acquire(b.Reader())
		hw := c.acquire(w.Writer())
		rd := c.acquire(d.Reader())
		check("readers", "a:rh", "a:rh b:rh w:w d:r")
		if got := holderOf(c.t, b.Writer()); got != "b:rho" {
			c.t.Errorf("a reader asked by its writer: %s", got)
		}
		c.unlock(ra, rb)
		check("writer", "w:wh", "w:wh d:r")
		down := c.acquire(w.Reader())
		c.held(hw, down)
		check("downgrade", "w:wh", "w:wh w:rh d:r")
		c.unlock(hw)
		check("downgraded", "w:rh", "w:rh d:rh")
		if down, err := asker.Reader().Holder(c.t.Context()); err != nil || down.Token == 0 {
			c.t.Errorf("downgraded: %+v, %v", down, err)
		}
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
		if got := holderOf(c.t, knows); got != "holder:eh" {
			c.t.Fatalf("holder %s", got)
		}
		g, _ := h.Grant()
		if err := c.srv.Set(g.Path, []byte("mine")); err != nil {
			c.t.Fatal(err)
		}
		for _, test := range []struct {
			l    *Lock
			want string
		}{{knows, "holder:eh"}, {asker, "?:eh"}} {
			if got := holderOf(c.t, test.l); got != test.want {
				c.t.Errorf("%s says %s, want %s", test.l.m.cfg.Label, got, test.want)
			}
			if got := queueOf(c.t, test.l); got != test.want {
				c.t.Errorf("%s says %s, want %s", test.l.m.cfg.Label, got, test.want)
			}
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
			if got := readsOf(c.srv) - before; got != want {
				c.t.Errorf("%s: %d reads, want %d", what, got, want)
			}
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
		if err != nil || len(all) != 1000 || all[9].Session == 0 || all[10].Session != 0 || !all[0].Holds || all[1].Holds {
			c.t.Errorf("10 of 1,000: %d contenders, %v", len(all), err)
		}
	})
}

func readsOf(srv *zktest.Server) uint64 {
	return srv.Requests(zktest.OpGetData) + srv.Requests(zktest.OpGetChildren2) + srv.Requests(zktest.OpExists) + srv.Requests(zktest.OpMultiRead)
}

// A contender that goes between the list and the look at it is passed over; if it was
// a writer, the queue is listed again, since its reader may have taken its place.
func TestHolderGoesMeanwhile(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpGetData, zktest.OpMultiRead} {
		t.Run(fmt.Sprint(op), func(t *testing.T) {
			bubble(t, func(c *cluster) {
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
				if got := <-answer; got != want {
					c.t.Errorf("got %s, want %s", got, want)
				}
				c.unlock(down)
				c.held(other)
				c.unlock(other)
			})
		})
	}
}

// A question waits for a connection, tells why there is none when ctx ends, and fails
// once the manager is closed.
func TestHolderWithoutConnection(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("asker")
		ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
		defer cancel()
		c.srv.Stop()
		_, err := l.Holder(ctx)
		var e *Error
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.Op != "holder" || e.Name != "jobs" || e.Outage == nil {
			c.t.Errorf("in an outage: %v", err)
		}
		answer := make(chan string)
		go func() { answer <- holderOf(c.t, l) }()
		synctest.Wait()
		c.srv.Start()
		if got := <-answer; got != "free" {
			c.t.Errorf("after the outage: %s", got)
		}
		if err := l.m.Sync(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		if _, err := l.Queue(ctx, -1); !errors.Is(err, context.DeadlineExceeded) {
			c.t.Errorf("with a ctx that has ended: %v", err)
		}
		if err := l.m.Close(); err != nil {
			c.t.Fatal(err)
		}
		if _, err := l.Holder(c.t.Context()); !errors.Is(err, ErrClosed) {
			c.t.Errorf("once closed: %v", err)
		}
		if err := l.m.Sync(c.t.Context()); !errors.Is(err, ErrClosed) {
			c.t.Errorf("sync once closed: %v", err)
		}
	})
}
