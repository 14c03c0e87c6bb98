// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/queue"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// connect returns a Manager on the embedded server. A program would give its own servers.
func connect(ctx context.Context) (*manager.Manager, func()) {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	m, err := manager.Open(ctx, manager.Config{Servers: []string{"zk"}, Dialer: server.Dial})
	if err != nil {
		log.Fatal(err)
	}
	return m, func() {
		_ = m.Close()
		_ = server.Close()
	}
}

// A worker takes elements one by one. It gives back what it cannot do.
func ExampleQueue_Take() {
	ctx := context.Background()
	m, stop := connect(ctx)
	defer stop()
	q, err := queue.New(m, "mails", queue.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := q.Offer(ctx, []byte("to Ann"), []byte("to Bob")); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		e, err := q.Take(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s, attempt %d\n", e.Data(), e.Attempt())
		settle := e.Ack
		if string(e.Data()) == "to Ann" && e.Attempt() == 1 {
			settle = e.Return // the mail server is busy
		}
		if err := settle(ctx); err != nil {
			log.Fatal(err)
		}
	}
	_, err = q.Poll(ctx)
	fmt.Println(errors.Is(err, queue.ErrEmpty))
	// Output:
	// to Ann, attempt 1
	// to Ann, attempt 2
	// to Bob, attempt 1
	// true
}

// Run takes elements until its context ends, acks what was done, and has what failed tried
// again.
func ExampleQueue_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	m, stop := connect(ctx)
	defer stop()
	q, err := queue.New(m, "mails", queue.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, mail := range []string{"to Ann", "to Bob", "to Eve"} {
		if err := q.Offer(ctx, []byte(mail)); err != nil {
			log.Fatal(err)
		}
	}
	err = q.Run(ctx, 1, func(ctx context.Context, e *queue.Element) error {
		fmt.Printf("%s\n", e.Data())
		if string(e.Data()) == "to Eve" {
			cancel() // enough
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// to Ann
	// to Bob
	// to Eve
	// holdfast: run "mails": context canceled
}

// An element that fails too often is buried, and waits for a person who looks at it.
func ExampleQueue_Dead() {
	ctx := context.Background()
	m, stop := connect(ctx)
	defer stop()
	q, err := queue.New(m, "mails", queue.Options{MaxAttempts: 2})
	if err != nil {
		log.Fatal(err)
	}
	if err := q.Offer(ctx, []byte("to nowhere")); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		e, err := q.Take(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if err := e.Return(ctx); err != nil {
			log.Fatal(err)
		}
	}
	_, err = q.Poll(ctx)
	fmt.Println("empty:", errors.Is(err, queue.ErrEmpty))
	for dead, err := range q.Dead(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %v\n", dead.Data, q.Requeue(ctx, dead.Name)) // or Drop
	}
	data, err := q.Poll(ctx)
	fmt.Printf("%s %v\n", data, err)
	// Output:
	// empty: true
	// to nowhere: <nil>
	// to nowhere <nil>
}
