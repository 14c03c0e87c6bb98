// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/queue"
)

// The first processes in the line of those that wait for elements are dead, and ZooKeeper does
// not know it yet. One that lives takes the elements that come: the second in line in a moment,
// and any other within half the session timeout.
func TestF297_DeadIdleConsumers(t *testing.T) {
	type row struct {
		dead int
		most time.Duration
	}
	recipetest.Bubbles(t, map[string]row{"none": {0, 10 * time.Millisecond}, "one": {1, 300 * time.Millisecond}, "two": {2, 5 * time.Second}, "three": {3, 5 * time.Second}}, func(t *testing.T, c *recipetest.Cluster, tt row) {
		p := open(t, c.Open("producer"), queue.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range tt.dead {
			m := c.Open("dying")
			takeLater(ctx, open(t, m, queue.Options{}))
			recipetest.Later(time.Second)
			defer c.Srv.Faults().Blackhole(recipetest.SessionOf(m)).Remove()
		}
		alive := open(t, c.Open("alive"), queue.Options{})
		for i := range 3 {
			taken := takeLater(t.Context(), alive)
			recipetest.Later(100 * time.Millisecond)
			offered := time.Now()
			offer(t, p, fmt.Sprint(i))
			e := <-taken
			if d := time.Since(offered); d > tt.most {
				t.Errorf("element %d was taken after %v, want at most %v", i, d, tt.most)
			}
			ack(t, e)
		}
	})
}

// A consumer has died that ZooKeeper takes for alive, and others have work all the time. They
// take its share of the elements, too.
func TestF297_ShareOfADeadConsumer(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		dying := c.Open("dying")
		a, b := open(t, dying, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "0")
		held := take(t, a, "0")
		c.Srv.Faults().Blackhole(recipetest.SessionOf(dying))
		offered := make(map[string]time.Time)
		offerMore := func() {
			id := fmt.Sprint(1 + len(offered))
			offered[id] = time.Now()
			offer(t, b, id)
		}
		for range 40 { // b's share never ends
			offerMore()
		}
		longest := time.Duration(0)
		for begun := time.Now(); time.Since(begun) < 9*time.Second; offerMore() {
			e, err := b.Take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			longest = max(longest, time.Since(offered[string(e.Data())]))
			<-time.After(10 * time.Millisecond)
			ack(t, e)
		}
		if longest > 5*time.Second {
			t.Errorf("an element lay there for %v", longest)
		}
		if held.Err() == nil {
			t.Error("the dead one has its element")
		}
		c.Srv.Faults().Clear()
	})
}

// An administrator deletes the nodes of the consumers, and then one dies. What it had is taken by
// one that waits, although no node has told of the death.
func TestF301_SeatsDeleted(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		dying := c.Open("dying")
		a, b := open(t, dying, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "1")
		take(t, a, "1")
		taken := takeLater(t.Context(), b)
		recipetest.Later(3 * time.Second)
		for _, name := range c.Srv.Children("/holdfast/q/consumers") {
			c.Remove("/holdfast/q/consumers/" + name)
		}
		recipetest.Later(3 * time.Second)
		refused := c.Srv.Faults().Refuse()
		c.Srv.ExpireSession(recipetest.SessionOf(dying))
		recipetest.Later(5 * time.Second)
		refused.Remove()
		if e := received(taken); e == nil {
			t.Error("the element is free, and a consumer waits")
		} else {
			ack(t, e)
		}
	})
}

// While elements are free, no Poll says that the queue is empty, however many poll at the same
// time: in each round they are apart by other microseconds.
func TestF298_ConcurrentPolls(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(t, c.Open("a"), queue.Options{}), open(t, c.Open("b"), queue.Options{})
		const polls = 7
		for round := range 600 {
			recipetest.WantErr(t, "offer", b.Offer(t.Context(), make([][]byte, polls+2)...), nil)
			e, err := b.Take(t.Context()) // b consumes, too, so that a has a share
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for i := range polls {
				all.Go(func() {
					sum := 0
					for n := range round * (i + 1) * 7919 % 200_000 {
						sum += n
					}
					if _, err := a.Poll(t.Context()); err != nil {
						t.Errorf("poll: %v", err)
					}
				})
			}
			all.Wait()
			ack(t, e)
			for err := error(nil); err == nil; {
				_, err = a.Poll(t.Context())
			}
		}
	})
}

// What other clients put below an element keeps no consumer from taking it, and goes with it.
func TestF299_ForeignNodes(t *testing.T) {
	recipetest.Bubbles(t, map[string]int{"few": 0, "many": 150}, func(t *testing.T, c *recipetest.Cluster, others int) { // few are looked at before they are taken
		q := open(t, c.Open("a"), queue.Options{})
		offer(t, q, "odd", "buried", "claimed")
		for i := range others {
			offer(t, q, fmt.Sprint(i))
		}
		for _, path := range []string{"0/x", "0/x/claim", "0/y", "1/x", "2/claim"} {
			recipetest.WantErr(t, "create", c.Srv.Create(items+"/qn-000000000"+path, nil), nil)
		}
		ctx, cancel := context.WithCancel(t.Context())
		handled := 0
		ended := recipetest.BeginErr(t, func() error {
			return q.Run(ctx, 1, func(ctx context.Context, e *queue.Element) error {
				handled++
				if string(e.Data()) == "buried" {
					return e.Bury(ctx)
				}
				return nil
			})
		})
		recipetest.Later(time.Minute)
		cancel()
		ended.WantErr("run", context.Canceled)
		if handled != 3+others {
			t.Errorf("%d of %d elements were handled", handled, 3+others)
		}
		wantLeft(c, "dead/qn-0000000000")
	})
}

// The paths of the nodes count for how much travels in a request.
func TestF300_LongName(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		name := strings.Repeat(strings.Repeat("n", 120)+"/", 7) + "q"
		m := c.Open("a")
		q, err := queue.New(m, name, queue.Options{})
		if err != nil {
			t.Fatal(err)
		}
		offer(t, q, "first")
		block := c.Srv.Faults().BlockRequests(recipetest.SessionOf(m))
		var all sync.WaitGroup
		for range 1500 {
			all.Go(func() { recipetest.WantErr(t, "offer", q.Offer(t.Context(), make([]byte, 500)), nil) })
		}
		recipetest.Later(time.Second)
		block.Remove()
		all.Wait()
		recipetest.WantErr(t, "too many for a request", q.Offer(t.Context(), make([][]byte, 1000)...), queue.ErrTooLarge)
		recipetest.WantErr(t, "half as many", q.Offer(t.Context(), make([][]byte, 500)...), nil)
	})
}

// Run ends in an outage: a session timeout after its ctx at the latest, with what ZooKeeper has
// not been told.
func TestF295_RunEndsInAnOutage(t *testing.T) {
	recipetest.Bubbles(t, map[string]bool{"the work is done": false, "the work has failed": true}, func(t *testing.T, c *recipetest.Cluster, fails bool) {
		q := open(t, c.Open("a"), queue.Options{})
		offer(t, q, "1")
		ctx, cancel := context.WithCancel(t.Context())
		entered, finish, ended := make(chan bool), make(chan bool), make(chan error, 1)
		go func() {
			ended <- q.Run(ctx, 2, func(context.Context, *queue.Element) error {
				entered <- true
				<-finish
				if fails {
					return context.Canceled
				}
				return nil
			})
		}()
		<-entered
		refuse := c.Srv.Faults().Refuse()
		c.Srv.Faults().BlackholeAll()
		finish <- true
		recipetest.Later(time.Second)
		cancel()
		begun := time.Now()
		select {
		case err := <-ended:
			recipetest.WantErr(t, "run", err, context.Canceled)
		case <-time.After(time.Hour):
			t.Error("Run goes on an hour after its ctx has ended")
		}
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("Run has ended after %v", d)
		}
		c.Srv.Faults().Clear()
		refuse.Remove()
	})
}

// Shutdown falls between the call of Ack, Return, Bury or Run and its end: what was begun is
// carried out, and the other consumers do not get what is done.
func TestF302_ShutdownMeetsSettling(t *testing.T) {
	type row struct {
		settle func(e *queue.Element, ctx context.Context) error
		left   int   // elements in the queue
		poll   error // what a consumer is told that looks for one
	}
	recipetest.Bubbles(t, map[string]row{
		"ack":          {(*queue.Element).Ack, 0, queue.ErrEmpty},
		"bury":         {(*queue.Element).Bury, 0, queue.ErrEmpty},
		"return":       {(*queue.Element).Return, 1, nil},
		"return later": {func(e *queue.Element, ctx context.Context) error { return e.ReturnAfter(ctx, time.Hour) }, 1, queue.ErrEmpty},
	}, func(t *testing.T, c *recipetest.Cluster, tt row) {
		m := c.Open("a")
		q, b := open(t, m, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "1")
		e := take(t, q, "1")
		refuse := c.Srv.Faults().Refuse()
		c.Srv.Faults().Cut(recipetest.SessionOf(m))
		time.AfterFunc(2*time.Second, refuse.Remove)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		recipetest.WantErr(t, "settle", tt.settle(e, ctx), context.DeadlineExceeded)
		c.Shutdown(m)
		if n := len(c.Srv.Children(items)); n != tt.left {
			t.Errorf("%d elements are left, want %d", n, tt.left)
		}
		recipetest.WantErr(t, "poll", recipetest.ErrOf(b.Poll(t.Context())), tt.poll)
	})
}

// Shutdown ends Run as the end of its ctx does, and waits for it: what its workers have done is
// acked, and the rest is free at once.
func TestF302_ShutdownMeetsRun(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		q, b := open(t, m, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "done", "given up", "next")
		ended := recipetest.BeginErr(t, func() error {
			return q.Run(t.Context(), 2, func(ctx context.Context, e *queue.Element) error {
				<-ctx.Done()
				recipetest.WantErr(t, "the end", context.Cause(ctx), manager.ErrClosed)
				<-time.After(time.Second)
				if string(e.Data()) == "done" {
					return nil
				}
				return ctx.Err()
			})
		})
		recipetest.Later(time.Second)
		c.Shutdown(m)
		ended.WantErr("run", manager.ErrClosed)
		for _, want := range []string{"given up", "next"} {
			ack(t, take(t, b, want))
		}
		recipetest.WantErr(t, "poll", recipetest.ErrOf(b.Poll(t.Context())), queue.ErrEmpty)
	})
}

// An administrator deletes the queue between any two requests of a process that offers or takes.
// The next element comes all the same.
func TestF301_QueueDeleted(t *testing.T) {
	for n, struck := 1, true; struck; n++ {
		recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
			m := c.Open("a")
			q := open(t, m, queue.Options{})
			did := c.RemovedBefore(m, n, "/holdfast/q")
			offer(t, q, "1")
			taken := recipetest.Begin(t, func() (*queue.Element, error) { return q.Take(t.Context()) })
			recipetest.Later(time.Second)
			if !taken.Over() {
				offer(t, q, "2") // the first was deleted
			}
			_, err := taken.Wait()
			recipetest.WantErr(t, fmt.Sprintf("take, if all is deleted before request %d", n), err, nil)
			struck = did()
		})
	}
}
