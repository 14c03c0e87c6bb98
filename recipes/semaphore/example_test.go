// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/semaphore"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A process that connects to a real ZooKeeper leaves Dialer out.
func open(srv *zktest.Server) *manager.Manager {
	m, err := manager.Open(context.Background(), manager.Config{Servers: []string{"zk1:2181"}, Dialer: srv.Dial})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// At most eight connections to a database, in all processes together.
func Example() {
	srv := zktest.NewServer(zktest.Config{})
	defer srv.Close()
	m := open(srv)
	defer m.Close()
	ctx := context.Background()

	connections, err := semaphore.New(m, "db/connections", semaphore.Options{Permits: 8})
	if err != nil {
		log.Fatal(err)
	}
	permits, err := connections.Lock(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	work, done := permits.Context(ctx) // ends if the permits are lost
	defer done()
	fmt.Println("three connections are ours:", work.Err() == nil)
	if err := permits.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// three connections are ours: true
}

// A process does something else if no permit is free.
func ExampleSemaphore_TryLock() {
	srv := zktest.NewServer(zktest.Config{})
	defer srv.Close()
	m := open(srv)
	defer m.Close()
	ctx := context.Background()

	reports, err := semaphore.New(m, "reports", semaphore.Options{Permits: 2})
	if err != nil {
		log.Fatal(err)
	}
	first, err := reports.TryLock(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer first.Unlock(ctx)
	_, err = reports.TryLock(ctx, 1)
	fmt.Println(errors.Is(err, semaphore.ErrNoPermits), err)
	// Output:
	// true holdfast: trylock "reports": not enough permits are free
}

// A caller asks first, and waits for the grant together with other things.
func ExampleSemaphore_Acquire() {
	srv := zktest.NewServer(zktest.Config{})
	defer srv.Close()
	m := open(srv)
	defer m.Close()

	jobs, err := semaphore.New(m, "jobs", semaphore.Options{Permits: 1})
	if err != nil {
		log.Fatal(err)
	}
	permits := jobs.Acquire(context.Background(), 1)
	defer permits.Release()
	select {
	case <-permits.Granted().Done():
		fmt.Println(permits.Err())
	case <-time.After(time.Minute):
		fmt.Println("still not")
	}
	// Output:
	// <nil>
}

// The number changes while processes use the semaphore.
func ExampleSemaphore_Resize() {
	srv := zktest.NewServer(zktest.Config{})
	defer srv.Close()
	m := open(srv)
	defer m.Close()
	ctx := context.Background()

	s, err := semaphore.New(m, "db", semaphore.Options{Permits: 1})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Lock(ctx, 1); err != nil {
		log.Fatal(err)
	}
	if err := s.Resize(ctx, 3); err != nil {
		log.Fatal(err)
	}
	if _, err := s.Lock(ctx, 2); err != nil {
		log.Fatal(err)
	}
	state, err := s.State(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(state.Leases), "of", state.Permits)
	// Output:
	// 3 of 3
}
