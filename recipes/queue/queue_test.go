// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/queue"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// What is put into the queue comes out in the same order, and is gone once it is acked.
func TestFIFO(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(t, c.Open("a"), queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, a, "1", "2")
		recipetest.WantErr(t, "offer two", a.Offer(t.Context(), []byte("3"), []byte("4")), nil)
		token := uint64(0)
		for _, want := range []string{"1", "2", "3", "4"} {
			e := take(t, b, want)
			if e.Attempt() != 1 || e.Token() <= token {
				t.Errorf("attempt %d with token %d after %d", e.Attempt(), e.Token(), token)
			}
			token = e.Token()
			ack(t, e)
			recipetest.WantErr(t, "ack again", e.Ack(t.Context()), queue.ErrSettled)
		}
		recipetest.WantErr(t, "poll", recipetest.ErrOf(b.Poll(t.Context())), queue.ErrEmpty)
		if c.Srv != nil {
			wantLeft(c)
		}
	})
}

// Element and Poll see at once what another process has offered, and Element takes nothing.
func TestElementAndPoll(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(t, c.Open("a"), queue.Options{}), open(t, c.Open("b"), queue.Options{})
		recipetest.WantErr(t, "element of nothing", recipetest.ErrOf(b.Element(t.Context())), queue.ErrEmpty)
		recipetest.WantErr(t, "poll of nothing", recipetest.ErrOf(b.Poll(t.Context())), queue.ErrEmpty)
		offer(t, a, "1", "2", "3")
		e, err := a.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		left := []string{"1", "2", "3"}
		left = slices.DeleteFunc(left, func(s string) bool { return s == string(e.Data()) })
		for _, want := range left {
			data, err := b.Element(t.Context())
			if string(data) != want {
				t.Errorf("element: %q, %v; want %q", data, err, want)
			}
			if data, err = b.Poll(t.Context()); string(data) != want {
				t.Errorf("poll: %q, %v; want %q", data, err, want)
			}
		}
		recipetest.WantErr(t, "element of taken ones", recipetest.ErrOf(b.Element(t.Context())), queue.ErrEmpty)
		recipetest.WantErr(t, "poll of taken ones", recipetest.ErrOf(b.Poll(t.Context())), queue.ErrEmpty)
		ack(t, e)
	})
}

// Poll does not wait while another goroutine of the process does.
func TestPollBesideTake(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		q := open(t, c.Open("a"), queue.Options{})
		taken := takeLater(t.Context(), q)
		recipetest.Later(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		recipetest.WantErr(t, "poll", recipetest.ErrOf(q.Poll(ctx)), queue.ErrEmpty)
		offer(t, q, "1")
		ack(t, received(taken))
	})
}

// An element that is returned is taken again, where it was, by the process that waits. One
// that was taken too often, or is buried, goes to dead/.
func TestF256_ReturnAndBury(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(t, c.Open("a"), queue.Options{}), open(t, c.Open("b"), queue.Options{MaxAttempts: 3})
		offer(t, a, "1", "2")
		first, second := take(t, a, "1"), take(t, a, "2")
		taken := takeLater(t.Context(), b)
		if e := received(taken); e != nil {
			t.Fatalf("took %q, and all are taken", e.Data())
		}
		recipetest.WantErr(t, "return", first.Return(t.Context()), nil)
		e := received(taken)
		if e == nil || string(e.Data()) != "1" || e.Attempt() != 2 {
			t.Fatalf("the waiting process has %v, want the first element", e)
		}
		recipetest.WantErr(t, "return", e.Return(t.Context()), nil)
		e = take(t, b, "1")
		recipetest.WantErr(t, "return", e.Return(t.Context()), nil)
		recipetest.WantErr(t, "bury", second.Bury(t.Context()), nil)
		_, err := b.Poll(t.Context()) // the fourth attempt
		recipetest.WantErr(t, "poll", err, queue.ErrEmpty)
		wantLeft(c, "dead/qn-0000000000", "dead/qn-0000000001")
		if data, _, _ := c.Srv.Get("/holdfast/q/dead/qn-0000000001"); string(data) != "1" {
			t.Errorf("buried is %q", data)
		}
	})
}

// By default an element is buried after ten attempts, and a queue has 10,000 elements at most.
func TestDefaults(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		q := open(t, c.Open("a"), queue.Options{})
		offer(t, q, "1")
		for range 10 {
			recipetest.WantErr(t, "return", take(t, q, "1").Return(t.Context()), nil)
		}
		_, err := q.Poll(t.Context())
		recipetest.WantErr(t, "an eleventh attempt", err, queue.ErrEmpty)
		wantLeft(c, "dead/qn-0000000000")
		for range 10 {
			recipetest.WantErr(t, "a thousand", q.Offer(t.Context(), make([][]byte, 1000)...), nil)
		}
		recipetest.WantErr(t, "one more", q.Offer(t.Context(), nil), queue.ErrFull)
	})
}

// Idle processes have their elements by few requests: only the first two and the next list the queue.
func TestF257_NoHerd(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const processes = 8
		a := open(t, c.Open("a"), queue.Options{})
		offer(t, a, "0")
		ack(t, take(t, a, "0"))
		var all []<-chan *queue.Element
		for i := range processes {
			all = append(all, takeLater(t.Context(), open(t, c.Open(fmt.Sprint(i)), queue.Options{})))
			synctest.Wait()
		}
		recipetest.Later(5 * time.Second)
		for i := range processes {
			requests := c.Count(func() {
				offer(t, a, "x")
				recipetest.Later(400 * time.Millisecond) // the others give the first some time
			})
			e := received(all[i])
			if e == nil {
				t.Fatalf("process %d has not got the element", i)
			}
			t.Logf("%d waited: %v", processes-i, requests)
			if n := requests[zktest.OpGetChildren2]; n > 13 {
				t.Errorf("%d lists for one element, with %d idle processes", n, processes-i)
			}
			ack(t, e)
			recipetest.Later(3 * time.Second)
		}
	})
}

// What a consumer's death sets free is taken at once by one that waits.
func TestF252_ConsumerDies(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		dying := c.Open("dying")
		a, b := open(t, dying, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "1")
		e := take(t, a, "1")
		ctx, done := e.Context(t.Context())
		defer done()
		taken := takeLater(t.Context(), b)
		recipetest.Later(time.Minute)
		if received(taken) != nil {
			t.Fatal("two have the element")
		}
		c.Expire(dying)
		recipetest.WantErr(t, "its owner", e.Err(), queue.ErrLost)
		recipetest.WantErr(t, "its context", context.Cause(ctx), queue.ErrLost)
		got := received(taken)
		if got == nil || got.Attempt() != 2 || got.Token() <= e.Token() {
			t.Fatalf("the waiting process has %+v", got)
		}
		recipetest.WantErr(t, "ack of the lost one", e.Ack(t.Context()), queue.ErrLost)
		ack(t, got)
	})
}

// When only the lease ends, and the session lives on, the element is lost, and its claim
// does not stay behind.
func TestF253_LeaseEnds(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a", func(cfg *manager.Config) { cfg.SessionTimeout = 12 * time.Second })
		a, b := open(t, m, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "1")
		e := take(t, a, "1")
		taken := takeLater(t.Context(), b)
		session := recipetest.SessionOf(m)
		recipetest.Later(time.Minute)
		hole := c.Srv.Faults().Blackhole(session)
		<-e.Lost()
		recipetest.WantErr(t, "its owner", e.Err(), queue.ErrLost)
		hole.Remove()
		recipetest.Later(6 * time.Second)
		if recipetest.SessionOf(m) != session {
			t.Fatal("the session has ended, too")
		}
		got := received(taken)
		if got == nil || got.Attempt() != 2 {
			t.Fatalf("the waiting process has %+v", got)
		}
		recipetest.WantErr(t, "ack of the lost one", e.Ack(t.Context()), queue.ErrLost)
		ack(t, got)
		wantLeft(c)
	})
}

// An administrator's deletion of a claim is a loss. The element is taken again at once.
func TestF254_ClaimDeleted(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(t, c.Open("a"), queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "1")
		e := take(t, a, "1")
		taken := takeLater(t.Context(), b)
		recipetest.Later(3 * time.Second)
		c.Remove(items + "/" + e.Name() + "/claim")
		synctest.Wait()
		recipetest.WantErr(t, "its owner", e.Err(), queue.ErrLost)
		got := received(taken)
		if got == nil || got.Attempt() != 2 {
			t.Fatalf("the waiting process has %+v", got)
		}
		recipetest.WantErr(t, "return of the lost one", e.Return(t.Context()), queue.ErrLost)
		recipetest.WantErr(t, "the other", got.Err(), nil)
		ack(t, got)
		wantLeft(c)
	})
}

// The end of ctx leaves nothing, in whichever state Take is, and does not swallow elements.
func TestF255_TakeGivenUp(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		ma := c.Open("a")
		a, b := open(t, ma, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		for _, op := range []zktest.Op{zktest.OpGetChildren2, zktest.OpCreate, zktest.OpMulti, zktest.OpGetData} {
			for _, dropped := range []bool{false, true} {
				offer(t, b, "1")
				match := zktest.Match{Session: recipetest.SessionOf(ma), Op: op, Times: 1}
				fault := c.Srv.Faults().SwallowReply(match)
				if dropped {
					fault.Remove()
					fault = c.Srv.Faults().SwallowRequest(match)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				e, err := a.Take(ctx)
				cancel()
				fault.Remove()
				if err == nil {
					recipetest.WantErr(t, "return", e.Return(t.Context()), nil)
				} else {
					recipetest.WantErr(t, "take", err, context.DeadlineExceeded)
				}
				recipetest.Later(time.Minute)
				ack(t, take(t, b, "1"))
				wantLeft(c)
			}
		}
		// While it is idle, as the first and behind another.
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			first, second := takeLater(ctx, a), takeLater(ctx, b)
			recipetest.Later(3 * time.Second)
			cancel()
			synctest.Wait()
			if <-first != nil || <-second != nil {
				t.Error("took an element of an empty queue")
			}
			wantLeft(c)
		}
	})
}

// Each reply is lost once, and each request, at whichever step: everything is done once.
func TestF250_LostReplies(t *testing.T) {
	recipetest.EachRequest(t, recipetest.Lost, func(t *testing.T, v *recipetest.Victim) {
		q := open(t, v.M, queue.Options{MaxAttempts: 2})
		offer(t, q, "1", "2", "3")
		e := take(t, q, "1")
		recipetest.WantErr(t, "return", e.Return(t.Context()), nil)
		e = take(t, q, "1")
		if e.Attempt() != 2 {
			t.Errorf("attempt %d", e.Attempt())
		}
		ack(t, e)
		recipetest.WantErr(t, "bury", take(t, q, "2").Bury(t.Context()), nil)
		if data, err := q.Poll(t.Context()); string(data) != "3" {
			t.Errorf("poll: %q, %v", data, err)
		}
		offer(t, q, "4")
		v.Calm()
		wantLeft(v.Cluster, "dead/qn-0000000000", "items/qn-0000000003")
	})
}

// If the session ends while the answer to a persistent change is missing, the caller learns
// that the outcome is not known. What the death set free is taken again.
func TestF251_SessionEndsWithoutAnswer(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		q := open(t, m, queue.Options{})
		offer(t, q, "0") // makes the directories
		ack(t, take(t, q, "0"))
		// The answer to the next transaction never comes, and the session ends.
		during := func(what func() error) error {
			recipetest.Later(100 * time.Millisecond) // what came before sends no more
			session := recipetest.SessionOf(m)
			fault := c.Srv.Faults().SwallowReply(zktest.Match{Session: session, Op: zktest.OpMulti, Times: 1})
			done := recipetest.BeginErr(t, what)
			<-fault.Hit()
			c.Expire(m)
			return done.Err()
		}
		recipetest.WantErr(t, "offer", during(func() error { return q.Offer(t.Context(), []byte("1")) }), manager.ErrUnknownOutcome)
		e := take(t, q, "1")
		recipetest.WantErr(t, "ack", during(func() error { return e.Ack(t.Context()) }), manager.ErrUnknownOutcome)
		offer(t, q, "2")
		e = take(t, q, "2")
		recipetest.WantErr(t, "return", during(func() error { return e.Return(t.Context()) }), manager.ErrUnknownOutcome)
		// A take is tried again.
		recipetest.WantErr(t, "take", during(func() error { ack(t, take(t, q, "2")); return nil }), nil)
		wantLeft(c)
	})
}

// If the answer to a return is lost, and another consumer has the element when the return is
// repeated, that one keeps it.
func TestF251_ReturnedAndTaken(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		a, b := open(t, m, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, a, "1")
		e := take(t, a, "1")
		taken := takeLater(t.Context(), b)
		recipetest.Later(3 * time.Second)
		c.Srv.Faults().DropReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Path: items + "/" + e.Name() + "/claim", Times: 1})
		recipetest.WantErr(t, "return", e.Return(t.Context()), nil)
		got := received(taken)
		if got == nil {
			t.Fatal("the element is not taken again")
		}
		recipetest.Later(time.Minute)
		recipetest.WantErr(t, "the other", got.Err(), nil)
		ack(t, got)
	})
}

// Close ends what is pending.
// Shutdown fails the callers that wait for elements, and waits for none of them.
func TestShutdown(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		q := open(t, m, queue.Options{})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				recipetest.WantErr(t, "take", recipetest.ErrOf(q.Take(t.Context())), manager.ErrClosed)
			})
		}
		recipetest.Later(time.Second)
		c.Shutdown(m)
		all.Wait()
	})
}

// Shutdown fails a producer that waits for room at once, although it waits for a lock.
func TestShutdownWhileFull(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		q := open(t, m, queue.Options{MaxLength: 1})
		offer(t, q, "1")
		lock, err := m.Exclusive("lock")
		recipetest.WantErr(t, "open a lock", err, nil)
		held, err := lock.Lock(t.Context())
		recipetest.WantErr(t, "lock", err, nil)
		waiting := recipetest.BeginErr(t, func() error { return q.OfferWait(t.Context(), []byte("2")) })
		recipetest.Later(10 * time.Second)
		shutdown := recipetest.BeginErr(t, func() error { return m.Shutdown(t.Context()) })
		waiting.WantErr("offer", manager.ErrClosed)
		held.Release()
		shutdown.WantErr("shutdown", nil)
	})
}

func TestClose(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		q := open(t, m, queue.Options{MaxLength: 1})
		offer(t, q, "1")
		e := take(t, q, "1")
		var all sync.WaitGroup
		for _, call := range []func() error{
			func() error { _, err := q.Take(t.Context()); return err },
			func() error { _, err := q.Take(t.Context()); return err },
			func() error { return q.OfferWait(t.Context(), []byte("2")) },
			func() error {
				return q.Run(t.Context(), 2, func(context.Context, *queue.Element) error { return nil })
			},
		} {
			all.Go(func() { recipetest.WantErr(t, "pending", call(), manager.ErrClosed) })
		}
		recipetest.Later(time.Second)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		recipetest.WantErr(t, "the element", e.Err(), manager.ErrClosed)
		recipetest.WantErr(t, "ack", e.Ack(t.Context()), manager.ErrClosed)
		recipetest.WantErr(t, "offer", q.Offer(t.Context(), []byte("1")), manager.ErrClosed)
		recipetest.WantErr(t, "new", recipetest.ErrOf(queue.New(m, "q", queue.Options{})), manager.ErrClosed)
	})
}

// What is too large, or too much, is refused, and nothing of it is in the queue.
func TestF258_Bounds(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		q := open(t, m, queue.Options{MaxLength: 3, MaxSize: 100})
		big := open(t, m, queue.Options{MaxSize: 512 << 10})
		recipetest.WantErr(t, "one", q.Offer(t.Context(), bytes.Repeat([]byte("x"), 101)), queue.ErrTooLarge)
		recipetest.WantErr(t, "together", big.Offer(t.Context(), make([]byte, 300<<10), make([]byte, 300<<10)), queue.ErrTooLarge)
		recipetest.WantErr(t, "many", q.Offer(t.Context(), make([][]byte, 1001)...), queue.ErrTooLarge)
		recipetest.WantErr(t, "none", q.Offer(t.Context()), nil)
		recipetest.WantErr(t, "more than ever fit", q.Offer(t.Context(), make([][]byte, 4)...), queue.ErrTooLarge)
		patience, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		recipetest.WantErr(t, "more than ever fit, with patience", q.OfferWait(patience, make([][]byte, 4)...), queue.ErrTooLarge)
		recipetest.WantErr(t, "while it was refused", patience.Err(), nil)
		if c.Srv.Exists(items + "/qn-0000000000") {
			t.Error("something is in the queue")
		}
		recipetest.WantErr(t, "three", q.Offer(t.Context(), []byte("1"), []byte("2"), []byte("3")), nil)
		recipetest.WantErr(t, "a fourth", q.Offer(t.Context(), []byte("4")), queue.ErrFull)
		recipetest.WantErr(t, "as many as ever fit", q.Offer(t.Context(), make([][]byte, 3)...), queue.ErrFull)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := q.OfferWait(ctx, []byte("4"))
		recipetest.WantErr(t, "wait", err, queue.ErrFull)
		recipetest.WantErr(t, "wait", err, context.DeadlineExceeded)
		var all sync.WaitGroup
		all.Go(func() { recipetest.WantErr(t, "wait", q.OfferWait(t.Context(), []byte("4")), nil) })
		recipetest.Later(time.Second)
		ack(t, take(t, q, "1"))
		all.Wait()
		recipetest.WantErr(t, "half a megabyte", big.Offer(t.Context(), make([]byte, 512<<10)), nil)

		for _, o := range []queue.Options{{MaxLength: 50_001}, {MaxLength: -1}, {MaxSize: 1 << 20}} {
			recipetest.WantErr(t, "new", recipetest.ErrOf(queue.New(m, "q", o)), manager.ErrBadConfig)
		}
		recipetest.WantErr(t, "new", recipetest.ErrOf(queue.New(m, "/q//", queue.Options{})), manager.ErrBadName)
	})
}

// The session of the only consumer is over, and its node is there yet when the consumer looks in
// the next session. It does not divide the elements with itself.
func TestF252_OwnSeatOfTheLastSession(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m, other := c.Open("a"), c.Open("other")
		q := open(t, m, queue.Options{})
		for range 4 { // the names of the nodes decide which elements would be whose
			offer(t, q, "0", "1", "2", "3")
			ack(t, take(t, q, "0"))
			seats := c.Srv.Children("/holdfast/q/consumers")
			if len(seats) != 1 {
				t.Fatalf("consumers: %v", seats)
			}
			c.Expire(m)
			seat := "/holdfast/q/consumers/" + seats[0]
			recipetest.WantErr(t, "create", c.Srv.CreateEphemeral(recipetest.SessionOf(other), seat, nil), nil)
			for _, want := range []string{"1", "2", "3"} {
				ack(t, take(t, q, want))
			}
			c.Remove(seat)
		}
	})
}

// A full dead/ is an error, and the element is not lost over it.
func TestF258_DeadIsFull(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		q := open(t, m, queue.Options{})
		once := open(t, m, queue.Options{MaxAttempts: 1})
		offer(t, q, "1")
		for i := range 50_000 {
			if err := c.Srv.Create(fmt.Sprintf("/holdfast/q/dead/%d", i), nil); err != nil {
				t.Fatal(err)
			}
		}
		e := take(t, q, "1")
		recipetest.WantErr(t, "bury", e.Bury(t.Context()), queue.ErrFull)
		recipetest.WantErr(t, "the element", e.Err(), nil)
		recipetest.WantErr(t, "return", e.Return(t.Context()), nil)
		recipetest.WantErr(t, "take", recipetest.ErrOf(once.Take(t.Context())), queue.ErrFull)
		ack(t, take(t, q, "1"))
	})
}

// When ZooKeeper's numbers run out, the queue says so until it is empty; then they begin
// anew.
func TestF259_SequenceExhausted(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		q := open(t, c.Open("a"), queue.Options{})
		offer(t, q, "0")
		if err := c.Srv.SetSequence(items, 1<<31-1); err != nil {
			t.Fatal(err)
		}
		offer(t, q, "1")
		recipetest.WantErr(t, "one too many", q.Offer(t.Context(), []byte("2")), queue.ErrSequenceExhausted)
		taken := takeLater(t.Context(), q)
		ack(t, received(taken))
		ack(t, take(t, q, "1"))
		taken = takeLater(t.Context(), q) // the idle process notices the new directory
		recipetest.Later(time.Second)
		offer(t, q, "3")
		recipetest.Later(100 * time.Millisecond) // it may have seen the new directory before the element was there
		if e := received(taken); e == nil || e.Name() != "qn-0000000000" {
			t.Errorf("took %+v", e)
		}
	})
}

// What several goroutines of a process offer at the same time travels together.
func TestOffersTravelTogether(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		q := open(t, m, queue.Options{})
		offer(t, q, "first")
		synctest.Wait()
		block := c.Srv.Faults().BlockRequests(recipetest.SessionOf(m))
		var all sync.WaitGroup
		requests := c.Count(func() {
			for range 100 {
				all.Go(func() { offer(t, q, "x") })
			}
			synctest.Wait()
			gone, cancel := context.WithCancel(t.Context())
			all.Go(func() {
				err := q.Offer(gone, []byte("never"))
				recipetest.WantErr(t, "withdrawn", err, context.Canceled)
				if errors.Is(err, manager.ErrUnknownOutcome) {
					t.Error("the outcome is known")
				}
			})
			synctest.Wait()
			cancel()
			synctest.Wait()
			block.Remove()
			all.Wait()
		})
		// The first goes with those that came before a worker took it.
		if n := requests[zktest.OpMulti]; n < 1 || n > 2 {
			t.Errorf("%d transactions for 100 offers", n)
		}
		if n := len(c.Srv.Children(items)); n != 101 {
			t.Errorf("%d elements", n)
		}
	})
}

// Run acks what fn has done, returns what fn could not do, after a pause, and buries it in
// the end.
func TestRun(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		q := open(t, c.Open("a"), queue.Options{MaxAttempts: 3})
		offer(t, q, "good", "bad", "returned")
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		tries := make(map[string]int)
		var all sync.WaitGroup
		all.Go(func() {
			err := q.Run(ctx, 4, func(ctx context.Context, e *queue.Element) error {
				mu.Lock()
				defer mu.Unlock()
				tries[string(e.Data())]++
				switch {
				case string(e.Data()) == "bad":
					return errors.New("bad")
				case string(e.Data()) == "returned" && e.Attempt() == 1:
					return e.Return(ctx)
				}
				return nil
			})
			recipetest.WantErr(t, "run", err, context.Canceled)
		})
		recipetest.Later(time.Minute)
		cancel()
		all.Wait()
		if want := map[string]int{"good": 1, "bad": 3, "returned": 2}; fmt.Sprint(tries) != fmt.Sprint(want) {
			t.Errorf("tries: %v, want %v", tries, want)
		}
		wantLeft(c, "dead/qn-0000000000")
	})
}

// Clients that follow ZooKeeper's own recipe can put elements into the queue, and take those
// that no process has taken.
func TestOtherClients(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		m, other := c.Open("a"), c.Open("b")
		q := open(t, m, queue.Options{})
		offer(t, q, "1")
		s, dir := other.Access().Session(), c.Root+"/q/items/"
		recipetest.WantErr(t, "their create", recipetest.ErrOf(s.Multi(zkio.CreateOp(dir+"qn-", []byte("theirs"), nil).Sequential())), nil)
		recipetest.WantErr(t, "a node of another name", s.Create(dir+"note", nil, nil), nil)
		e := take(t, q, "1")
		recipetest.WantErr(t, "their delete of what is taken", s.Delete(dir+e.Name(), -1), zkio.ErrNotEmpty)
		ack(t, e)
		e = take(t, q, "theirs")
		recipetest.WantErr(t, "return", e.Return(t.Context()), nil)
		recipetest.WantErr(t, "their delete", s.Delete(dir+e.Name(), -1), nil)
		recipetest.WantErr(t, "poll", recipetest.ErrOf(q.Poll(t.Context())), queue.ErrEmpty)
	})
}

// Taking and acking takes few requests, also if many consume.
func TestRequests(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const elements, consumers = 1600, 16
		a := open(t, c.Open("producer"), queue.Options{})
		for range elements {
			offer(t, a, "x")
		}
		var all sync.WaitGroup
		var acked atomic.Int64
		requests := c.Count(func() {
			for i := range consumers {
				q := open(t, c.Open(fmt.Sprint(i)), queue.Options{})
				all.Go(func() {
					for {
						e, err := q.Take(t.Context())
						if err != nil {
							return
						}
						ack(t, e)
						if acked.Add(1) > elements-2*consumers {
							return
						}
						<-time.After(50 * time.Millisecond)
					}
				})
			}
			all.Wait()
		})
		var sum uint64
		for _, n := range requests {
			sum += n
		}
		t.Logf("%v", requests)
		if each := float64(sum) / float64(elements); each > 5 {
			t.Errorf("%.1f requests an element, want at most 5", each)
		}
	})
}
