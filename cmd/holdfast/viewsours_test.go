// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/barrier"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/members"
	"github.com/holdfast-go/holdfast/recipes/queue"
	"github.com/holdfast-go/holdfast/recipes/semaphore"
	"github.com/holdfast-go/holdfast/recipes/shards"
)

// ls shows what the packages of recipes have made, while it is in use and when only what
// stays is left. The other tests write the nodes by hand.
func TestRecipesOfOurs(t *testing.T) {
	e := startEnsemble(t)
	open := func(label string) *manager.Manager {
		m, err := manager.Open(t.Context(), manager.Config{Servers: []string{e.addr}, Label: label, Logger: silent})
		must(t, err)
		t.Cleanup(func() { _ = m.Close() }) // once more than once
		return m
	}
	one, two := open("one"), open("two")
	ctx := t.Context()

	e1, err := election.New(one, "scheduler", election.Options{ID: "first"})
	must(t, err)
	_, err = e1.Campaign(ctx)
	must(t, err)
	g, err := members.New(one, "workers")
	must(t, err)
	_, err = g.Join(ctx, "w1", []byte("10.0.0.1:80"))
	must(t, err)
	sem, err := semaphore.New(one, "db", semaphore.Options{Permits: 3})
	must(t, err)
	_, err = sem.Lock(ctx, 2)
	must(t, err)
	q, err := queue.New(one, "mails", queue.Options{})
	must(t, err)
	must(t, q.Offer(ctx, []byte("x"), []byte("y")))
	_, err = q.Take(ctx)
	must(t, err)
	gate, err := barrier.NewGate(one, "gate")
	must(t, err)
	must(t, gate.Shut(ctx))
	entered := make(chan error, 2)
	for _, m := range []*manager.Manager{one, two} {
		d, err := barrier.NewDouble(m, "step", 2)
		must(t, err)
		go func() {
			_, err := d.Enter(ctx)
			entered <- err
		}()
	}
	must(t, errors.Join(<-entered, <-entered))
	working, stop := context.WithCancel(ctx)
	owned, ended := make(chan int, 3), make(chan error, 1)
	go func() {
		ended <- shards.Run(working, one, shards.Options{Name: "boxes", N: 3, ID: "w1"}, func(ctx context.Context, s shards.Shard) error {
			owned <- s.Index
			<-ctx.Done()
			return nil
		})
	}()
	for range 3 {
		<-owned
	}

	host, err := os.Hostname()
	must(t, err)
	here := strings.NewReplacer("@"+host, "@HOST", fmt.Sprintf(" %d ", os.Getpid()), " PID ")
	ls := func() string { return spaced(here.Replace(e.holdfast("ls").stdout)) }
	wantLines(t, "in use", ls(), spaced(`
		LOCK       KIND       HELD BY                      PID  SINCE  WAITING
		boxes      shards     3 of 3 shards, 1 member        - AGE 0
		db         semaphore  2 of 3 permits                 - AGE 0
		gate       gate       shut by one@HOST             PID AGE 0
		mails      queue      2 elements, 1 taken            - AGE 1
		scheduler  election   one@HOST                     PID AGE 0
		step       barrier    2 of 2 inside                  - AGE 0
		workers    members    1 member                       - AGE 0`))

	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, one.Close())
	must(t, two.Close())
	wantLines(t, "what stays", ls(), spaced(`
		LOCK       KIND       HELD BY                      PID  SINCE  WAITING
		boxes      shards     0 of 3 shards, 0 members       - - 0
		db         semaphore  0 of 3 permits                 - - 0
		gate       gate       shut by one@HOST             PID AGE 0
		mails      queue      2 elements, 0 taken            - AGE 2
		scheduler  election   (no leader)                    - - 0
		step       barrier    0 of 2 inside                  - AGE 0`))
}
