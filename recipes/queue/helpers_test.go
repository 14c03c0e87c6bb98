// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/queue"
)

const items = "/holdfast/q/items"

// open returns the queue q of m.
func open(t *testing.T, m *manager.Manager, o queue.Options) *queue.Queue {
	t.Helper()
	q, err := queue.New(m, "q", o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func offer(t *testing.T, q *queue.Queue, data ...string) {
	t.Helper()
	for _, d := range data {
		recipetest.WantErr(t, "offer", q.Offer(context.Background(), []byte(d)), nil)
	}
}

// take takes an element, which must have these data.
func take(t *testing.T, q *queue.Queue, want string) *queue.Element {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := q.Take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(e.Data()); got != want {
		t.Errorf("took %q, want %q", got, want)
	}
	return e
}

func ack(t *testing.T, e *queue.Element) {
	t.Helper()
	recipetest.WantErr(t, "ack", e.Ack(context.Background()), nil)
}

// takeLater starts to take an element.
func takeLater(ctx context.Context, q *queue.Queue) <-chan *queue.Element {
	taken := make(chan *queue.Element, 1)
	go func() {
		e, _ := q.Take(ctx)
		taken <- e
	}()
	return taken
}

// wantLeft checks what is left in the queue's directories, when this process has stopped
// consuming for a while.
func wantLeft(c *recipetest.Cluster, want ...string) {
	c.T.Helper()
	recipetest.Later(5 * time.Second)
	var left []string
	for _, path := range c.Srv.Nodes() {
		if rest, ok := strings.CutPrefix(path, "/holdfast/q/"); ok && strings.Contains(rest, "/") && !strings.HasPrefix(rest, "producers/") {
			left = append(left, rest)
		}
	}
	if strings.Join(left, " ") != strings.Join(want, " ") {
		c.T.Errorf("left are %v, want %v", left, want)
	}
	// A Manager that has held a lock watches for questions about it, at another place.
	data := 0
	for _, path := range c.Srv.Nodes() {
		data += c.Srv.Watches(path).Data
	}
	if n := c.Srv.AllWatches().Child; data+n > 0 {
		c.T.Errorf("%d watches of data and %d of children are left", data, n)
	}
}

func received(taken <-chan *queue.Element) *queue.Element {
	synctest.Wait()
	select {
	case e := <-taken:
		return e
	default:
		return nil
	}
}
