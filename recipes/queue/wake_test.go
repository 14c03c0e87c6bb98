// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/queue"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// An element that is claimed from a list of the session before is free again when its
// consumer dies, and one that waits hears of it.
func TestF252_ConsumerOfAnOldListDies(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		dying := c.Open("dying")
		a, b := open(t, dying, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "1", "2")
		ack(t, take(t, a, "1")) // and a's list has the second
		c.Expire(dying)
		take(t, a, "2")
		taken := takeLater(t.Context(), b)
		recipetest.Later(time.Second)
		// As if the process were killed.
		refused := c.Srv.Faults().Refuse()
		c.Srv.ExpireSession(recipetest.SessionOf(dying))
		recipetest.Later(10 * time.Second)
		refused.Remove()
		if e := received(taken); e == nil {
			t.Errorf("the element is free, and the consumer that waits does not take it")
		} else {
			ack(t, e)
		}
	})
}

// While one goroutine cannot claim its process's share, another takes what else there is.
func TestF257_ShareIsBeingClaimed(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m, busy := c.Open("a"), c.Open("busy")
		a, b := open(t, m, queue.Options{}), open(t, busy, queue.Options{})
		offer(t, b, "0")
		held := take(t, b, "0") // so b is a consumer
		// a is one, too, with a rank.
		recipetest.WantErr(t, "poll", recipetest.ErrOf(a.Poll(t.Context())), queue.ErrEmpty)
		seats := c.Srv.Children("/holdfast/q/consumers")
		slices.Sort(seats)
		rank := slices.IndexFunc(seats, func(name string) bool {
			_, stat, _ := c.Srv.Get("/holdfast/q/consumers/" + name)
			return stat.EphemeralOwner == recipetest.SessionOf(m)
		})
		offer(t, b, "1", "2")
		own := 1 + (1+rank)%2 // the element of a's share
		f := c.Srv.Faults().FailRequest(zktest.Match{
			Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Times: zktest.Every,
			Path: fmt.Sprintf("%s/qn-%010d/claim", items, own),
		}, zktest.Code(-127)) // throttled: it is tried again
		first := takeLater(t.Context(), a)
		synctest.Wait()
		second := takeLater(t.Context(), a)
		recipetest.Later(1500 * time.Millisecond)
		if f.Hits() == 0 {
			t.Fatal("the test shows nothing")
		}
		f.Remove()
		recipetest.Later(5 * time.Second)
		one, two := received(first), received(second)
		if one == nil || two == nil {
			t.Fatalf("an element is free, and a goroutine that waits does not take it: took %v and %v of %v", one, two, c.Srv.Children(items))
		}
		ack(t, one)
		ack(t, two)
		ack(t, held)
	})
}

// An element that ZooKeeper refuses to bury is free again, and any consumer can take it.
func TestF258_BurialIsRefused(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		a, b := open(t, m, queue.Options{MaxAttempts: 1}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "1")
		e := take(t, a, "1")
		match := zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Times: 1}
		c.Srv.Faults().FailRequest(match, zktest.Code(-125)) // a quota is exceeded
		recipetest.WantErr(t, "bury", e.Bury(t.Context()), zkio.ErrQuota)
		match.Nth = 2 // behind the claim
		c.Srv.Faults().FailRequest(match, zktest.Code(-125))
		recipetest.WantErr(t, "take", recipetest.ErrOf(a.Take(t.Context())), zkio.ErrQuota)
		ack(t, take(t, b, "1"))
		wantLeft(c)
	})
}
