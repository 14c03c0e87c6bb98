// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/queue"
)

// dead returns the buried elements.
func dead(t *testing.T, q *queue.Queue) (all []queue.Buried) {
	t.Helper()
	for b, err := range q.Dead(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// bury puts elements into the queue and buries them.
func bury(t *testing.T, q *queue.Queue, data ...string) {
	t.Helper()
	offer(t, q, data...)
	for _, d := range data {
		recipetest.WantErr(t, "bury", take(t, q, d).Bury(t.Context()), nil)
	}
}

// What is buried can be listed, put into the queue again, and dropped.
func TestDead(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		q := open(t, c.Open("a"), queue.Options{MaxLength: 40})
		if got := dead(t, q); len(got) != 0 {
			t.Errorf("dead before the first element: %v", got)
		}
		for i := range 25 { // they are read in several requests
			bury(t, q, fmt.Sprint(i))
		}
		all := dead(t, q)
		for i, b := range all {
			if string(b.Data) != fmt.Sprint(i) || b.Since.Before(time.Now().Add(-time.Hour)) {
				t.Errorf("dead at %d: %s, %q, since %v", i, b.Name, b.Data, b.Since)
			}
		}
		if len(all) != 25 {
			t.Fatalf("%d elements are dead", len(all))
		}
		recipetest.WantErr(t, "requeue", q.Requeue(t.Context(), all[3].Name), nil)
		recipetest.WantErr(t, "drop", q.Drop(t.Context(), all[0].Name), nil)
		for _, name := range []string{all[3].Name, all[0].Name, "qn-9999999999", "", "../items/qn-0000000000"} {
			recipetest.WantErr(t, "requeue "+name, q.Requeue(t.Context(), name), queue.ErrNotDead)
			recipetest.WantErr(t, "drop "+name, q.Drop(t.Context(), name), queue.ErrNotDead)
		}
		e := take(t, q, "3")
		if e.Attempt() != 1 {
			t.Errorf("attempt %d", e.Attempt())
		}
		ack(t, e)
		if got := dead(t, q); len(got) != 23 {
			t.Errorf("%d elements are dead, want 23", len(got))
		}
		recipetest.WantErr(t, "fill", q.Offer(t.Context(), make([][]byte, 40)...), nil)
		recipetest.WantErr(t, "requeue into a full queue", q.Requeue(t.Context(), all[5].Name), queue.ErrFull)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		recipetest.WantErr(t, "requeue without a ctx", q.Requeue(ended, all[5].Name), context.Canceled)
		for _, err := range q.Dead(ended) {
			recipetest.WantErr(t, "list without a ctx", err, context.Canceled)
		}
		if got := dead(t, q); len(got) != 23 {
			t.Errorf("%d elements are dead, want 23", len(got))
		}
	})
}

// Each request is lost once, and each reply, and two processes do the same at the same time: a
// buried element is put into the queue once.
func TestF303_RequeueOnce(t *testing.T) {
	recipetest.EachRequest(t, recipetest.Lost, func(t *testing.T, v *recipetest.Victim) {
		a, b := open(t, v.M, queue.Options{}), open(t, v.Open("b"), queue.Options{})
		bury(t, a, "1", "2")
		recipetest.Later(5 * time.Second)
		all := dead(t, a)
		recipetest.WantErr(t, "requeue", a.Requeue(t.Context(), all[0].Name), nil)
		recipetest.WantErr(t, "drop", a.Drop(t.Context(), all[1].Name), nil)
		v.Calm()
		if left := dead(t, b); len(left) != 0 || len(v.Srv.Children(items)) != 1 {
			t.Errorf("dead are %v, and the queue has %v", left, v.Srv.Children(items))
		}
		recipetest.WantErr(t, "bury", take(t, a, "1").Bury(t.Context()), nil)
		name := dead(t, a)[0].Name
		one := recipetest.BeginErr(t, func() error { return a.Requeue(t.Context(), name) })
		two := recipetest.BeginErr(t, func() error { return b.Requeue(t.Context(), name) })
		if (one.Err() == nil) == (two.Err() == nil) || !errors.Is(errors.Join(one.Err(), two.Err()), queue.ErrNotDead) {
			t.Errorf("two processes requeue: %v, %v", one.Err(), two.Err())
		}
		if n := len(v.Srv.Children(items)); n != 1 {
			t.Errorf("the queue has %d elements", n)
		}
	})
}

// An operator lists what is buried while the Manager is closed.
func TestDeadOfAClosedManager(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		q := open(t, m, queue.Options{})
		bury(t, q, "1")
		name := dead(t, q)[0].Name
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		for _, err := range q.Dead(t.Context()) {
			recipetest.WantErr(t, "list", err, manager.ErrClosed)
		}
		recipetest.WantErr(t, "requeue", q.Requeue(t.Context(), name), manager.ErrClosed)
		recipetest.WantErr(t, "drop", q.Drop(t.Context(), name), manager.ErrClosed)
	})
}
