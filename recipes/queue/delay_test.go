// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/queue"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// An element that is returned with a delay is taken again once that has passed, where it was,
// and those behind it before.
func TestReturnAfter(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		const delay = 2 * time.Second
		m := c.Open("a")
		a, b := open(t, m, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, a, "1", "2")
		e := take(t, a, "1")
		begun := time.Now()
		recipetest.WantErr(t, "return", e.ReturnAfter(t.Context(), delay), nil)
		recipetest.WantErr(t, "ack", e.Ack(t.Context()), queue.ErrSettled)
		recipetest.WantErr(t, "a delete by another client", m.Access().Session().Delete(c.Root+"/q/items/"+e.Name(), -1), zkio.ErrNotEmpty)
		ack(t, take(t, b, "2"))
		recipetest.WantErr(t, "poll", recipetest.ErrOf(b.Poll(t.Context())), queue.ErrEmpty)
		offer(t, a, "3")
		held := take(t, b, "3")
		again := take(t, b, "1")
		if d := time.Since(begun); d < delay || d > 2*delay || again.Attempt() != 2 || again.Name() != e.Name() {
			t.Errorf("%s is taken after %v, for the %d. time; want %s for the second", again.Name(), d, again.Attempt(), e.Name())
		}
		recipetest.WantErr(t, "return", again.ReturnAfter(t.Context(), -1), nil)
		last := take(t, b, "1")
		if last.Attempt() != 3 {
			t.Errorf("attempt %d, want 3", last.Attempt())
		}
		ack(t, last)
		ack(t, held)
		if c.Srv != nil {
			wantLeft(c)
		}
	})
}

// An administrator deletes the claim of a consumer, which has not heard of it when the next one
// returns the element with a delay: what the first one does comes too late, and the delay stays.
func TestF333_DelayedBehindItsBack(t *testing.T) {
	recipetest.Bubbles(t, map[string]func(*queue.Element) error{
		"ack":          func(e *queue.Element) error { return e.Ack(context.Background()) },
		"return":       func(e *queue.Element) error { return e.Return(context.Background()) },
		"return later": func(e *queue.Element) error { return e.ReturnAfter(context.Background(), time.Second) },
		"bury":         func(e *queue.Element) error { return e.Bury(context.Background()) },
	}, func(t *testing.T, c *recipetest.Cluster, do func(*queue.Element) error) {
		const delay = time.Minute
		m := c.Open("a")
		a, b := open(t, m, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, a, "1")
		e := take(t, a, "1")
		lag := c.Srv.Faults().Lag(-1, recipetest.SessionOf(m))
		c.Remove(c.Root + "/q/items/" + e.Name() + "/claim")
		again := take(t, b, "1")
		recipetest.WantErr(t, "return", again.ReturnAfter(t.Context(), delay), nil)
		recipetest.WantErr(t, "the first one", do(e), queue.ErrLost)
		lag.Remove()
		wantDelayed(t, b, delay)
	})
}

// wantDelayed takes the only element of q, which is to be free after the delay, give or take two
// seconds.
func wantDelayed(t *testing.T, q *queue.Queue, delay time.Duration) {
	t.Helper()
	last := takeLater(t.Context(), q)
	recipetest.Later(delay - 2*time.Second)
	if received(last) != nil {
		t.Error("it is taken before its time")
	}
	recipetest.Later(4 * time.Second)
	if e := received(last); e == nil {
		t.Error("it is not taken")
	} else {
		ack(t, e)
	}
}

// The answer to the first claim of a consumer is lost, from which it would know ZooKeeper's clock.
func TestF334_FirstClaimUnanswered(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const delay = time.Hour
		m := c.Open("a")
		a, b := open(t, m, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "1")
		c.Srv.Faults().SwallowReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Path: items + "/", Times: 1})
		recipetest.WantErr(t, "return", take(t, a, "1").ReturnAfter(t.Context(), delay), nil)
		wantDelayed(t, b, delay)
		wantLeft(c)
	})
}

// Another client writes to the claim of a consumer: it has the element all the same.
func TestWrittenClaim(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		a := open(t, m, queue.Options{})
		offer(t, a, "1")
		e := take(t, a, "1")
		recipetest.WantErr(t, "set", recipetest.ErrOf(m.Access().Session().Set(c.Root+"/q/items/"+e.Name()+"/claim", []byte("mine"), -1)), nil)
		ack(t, e)
		wantLeft(c)
	})
}

// The delay holds whatever happens to the process that has returned the element, and whichever
// consumers are there when it ends.
func TestF296_DelayedElement(t *testing.T) {
	const delay = time.Minute
	type row struct {
		meanwhile   func(c *recipetest.Cluster, m *manager.Manager, a, b *queue.Queue)
		early, late time.Duration // at most
	}
	recipetest.Bubbles(t, map[string]row{
		"a consumer waits": {func(c *recipetest.Cluster, _ *manager.Manager, _, b *queue.Queue) {}, 2 * time.Millisecond, 10 * time.Millisecond},
		"the process that has returned it dies": {func(c *recipetest.Cluster, m *manager.Manager, _, _ *queue.Queue) {
			c.Srv.Faults().Blackhole(recipetest.SessionOf(m))
		}, 2 * time.Millisecond, 10 * time.Millisecond},
		"the first in line is dead for others only": {func(c *recipetest.Cluster, m *manager.Manager, a, _ *queue.Queue) {
			ctx, cancel := context.WithCancel(c.T.Context())
			c.T.Cleanup(cancel)
			takeLater(ctx, a)
			recipetest.Later(delay - time.Second)
			c.Srv.Faults().Blackhole(recipetest.SessionOf(m))
		}, 2 * time.Millisecond, 300 * time.Millisecond},
		"the server is restarted": {func(c *recipetest.Cluster, _ *manager.Manager, _, _ *queue.Queue) {
			recipetest.Later(delay / 2)
			c.Srv.Restart()
		}, 2 * time.Millisecond, 10 * time.Millisecond},
		"an administrator deletes its entry": {func(c *recipetest.Cluster, _ *manager.Manager, _, _ *queue.Queue) {
			recipetest.Later(delay - time.Second)
			for _, name := range c.Srv.Children("/holdfast/q/delayed") {
				c.Remove("/holdfast/q/delayed/" + name)
			}
		}, delay, 6 * time.Second},
	}, func(t *testing.T, c *recipetest.Cluster, tt row) {
		m := c.Open("a")
		a, b := open(t, m, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "1")
		e := take(t, a, "1")
		recipetest.WantErr(t, "return", e.ReturnAfter(t.Context(), delay), nil)
		returned := time.Now()
		tt.meanwhile(c, m, a, b)
		again, err := b.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if late := time.Since(returned) - delay; late < -tt.early || late > tt.late {
			t.Errorf("taken %v after its time", late)
		}
		if again.Attempt() != 2 {
			t.Errorf("attempt %d, want 2", again.Attempt())
		}
		c.Srv.Faults().Clear()
		ack(t, again)
	})
}

// Consumers that always have work see that the time has come, too. So does one that comes when
// it is past, also if an administrator has deleted the claim.
func TestF296_DelayEndsWithoutAWaiter(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		q := open(t, c.Open("a"), queue.Options{})
		offer(t, q, "bad", "bad", "bad")
		for _, d := range []time.Duration{5 * time.Second, time.Minute, time.Hour} {
			recipetest.WantErr(t, "return", take(t, q, "bad").ReturnAfter(t.Context(), d), nil)
		}
		begun := time.Now()
		for n := 0; ; n++ {
			offer(t, q, "good")
			e, err := q.Take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(100 * time.Millisecond)
			ack(t, e)
			if string(e.Data()) == "bad" {
				break
			}
		}
		if d := time.Since(begun); d < 5*time.Second || d > 6500*time.Millisecond {
			t.Errorf("after %v a consumer with work has the element that was due after 5 s", d)
		}
		recipetest.Later(2 * time.Minute)
		for _, want := range []string{"bad", "good"} {
			ack(t, take(t, q, want))
		}
		c.Remove(items + "/qn-0000000002/claim")
		recipetest.Later(time.Hour)
		ack(t, take(t, q, "bad"))
		wantLeft(c)
	})
}

// Elements that fail keep no worker from the good ones, and are tried again all the same.
func TestF296_ElementsThatFail(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		q := open(t, c.Open("a"), queue.Options{MaxAttempts: 4})
		offer(t, q, "bad", "bad", "bad", "good")
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		var took time.Duration
		var tried atomic.Int64 // when an element that fails was tried last
		ended := recipetest.BeginErr(t, func() error {
			return q.Run(ctx, 3, func(_ context.Context, e *queue.Element) error {
				if string(e.Data()) == "bad" {
					tried.Store(int64(time.Since(begun)))
					return errors.New("it cannot be done")
				}
				took = time.Since(begun)
				return nil
			})
		})
		recipetest.Later(time.Minute)
		cancel()
		ended.WantErr("run", context.Canceled)
		if took > 50*time.Millisecond {
			t.Errorf("the good element was handled after %v", took)
		}
		if d := time.Duration(tried.Load()); d < 300*time.Millisecond {
			t.Errorf("the elements that fail had all their attempts within %v", d)
		}
		wantLeft(c, "dead/qn-0000000000", "dead/qn-0000000001", "dead/qn-0000000002")
	})
}
