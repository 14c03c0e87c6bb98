// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// The examples run on an embedded server. A service names its ensemble instead:
//
//	manager.Open(ctx, manager.Config{Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"}})
func start() (server *zktest.Server, config manager.Config) {
	quiet := slog.New(slog.DiscardHandler)
	server = zktest.NewServer(zktest.Config{Logger: quiet})
	return server, manager.Config{Servers: []string{"embedded:2181"}, Dialer: server.Dial, Logger: quiet}
}

// Do is the shortest way: wait, work, release.
func Example() {
	server, config := start()
	defer server.Close()
	ctx := context.Background()
	m, err := manager.Open(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	lock, err := m.Exclusive("jobs/nightly")
	if err != nil {
		log.Fatal(err)
	}

	err = lock.Do(ctx, func(ctx context.Context, h manager.Hold) error {
		// ctx ends when the lock is lost. Deeper down, the same lock can be
		// acquired again with it.
		return lock.Do(ctx, func(_ context.Context, h manager.Hold) error {
			fmt.Println("handles of this holder:", h.Depth())
			return nil
		})
	})
	fmt.Println("released:", err)
	// Output:
	// handles of this holder: 2
	// released: <nil>
}

// Acquire does not block: the grant is a future.
func ExampleLock_Acquire() {
	server, config := start()
	defer server.Close()
	ctx := context.Background()
	m, err := manager.Open(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	lock, err := m.Exclusive("jobs/nightly")
	if err != nil {
		log.Fatal(err)
	}

	// All who ask while the process has not got the lock yet share one request
	// to ZooKeeper, and one future.
	first, second := lock.Acquire(ctx), lock.Acquire(ctx)
	fmt.Println("one future:", first.Granted() == second.Granted())

	select {
	case <-first.Granted().Done():
	case <-time.After(time.Minute):
		log.Fatal("still not granted")
	}
	grant, err := first.Grant() // also says whether the lock is held at this moment
	fmt.Println("granted:", grant.Token > 0, err)

	ended := first.Release() // does not block; settles when the last holder has left
	_, _, isOver := ended.Poll()
	fmt.Println("over:", isOver)
	second.Release()
	_, err = ended.Wait(ctx)
	fmt.Println("over:", err == nil)
	// Output:
	// one future: true
	// granted: true <nil>
	// over: false
	// over: true
}

// TryLock does not wait for other processes. Here the other process is a second
// Manager.
func ExampleLock_TryLock() {
	server, config := start()
	defer server.Close()
	ctx := context.Background()
	lockOf := func(label string) (*manager.Manager, *manager.Lock) {
		config.Label = label
		m, err := manager.Open(ctx, config)
		if err != nil {
			log.Fatal(err)
		}
		lock, err := m.Exclusive("jobs/nightly")
		if err != nil {
			log.Fatal(err)
		}
		return m, lock
	}
	billing, theirs := lockOf("billing")
	defer billing.Close()
	reports, ours := lockOf("reports")
	defer reports.Close()

	h, err := theirs.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = ours.TryLock(ctx)
	fmt.Println("locked:", errors.Is(err, manager.ErrLocked))
	var e *manager.Error
	if errors.As(err, &e) {
		fmt.Println("by:", e.Ahead.Label)
	}
	fmt.Println("released:", h.Unlock(ctx))
	// Output:
	// locked: true
	// by: billing
	// released: <nil>
}

// A process that holds the write lock takes the read lock at once, and lets the
// write lock go: nobody else writes in between.
func ExampleManager_ReadWrite() {
	server, config := start()
	defer server.Close()
	ctx := context.Background()
	m, err := manager.Open(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	prices, err := m.ReadWrite("prices")
	if err != nil {
		log.Fatal(err)
	}

	write, err := prices.Writer().Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	read, err := prices.Reader().Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("write lock released:", write.Unlock(ctx) == nil)
	fmt.Println("still reading:", read.Err() == nil)

	inside, cancel := read.Context(ctx)
	defer cancel()
	_, err = prices.Writer().Lock(inside)
	fmt.Println("the other way round:", errors.Is(err, manager.ErrUpgrade))
	fmt.Println("read lock released:", read.Unlock(ctx) == nil)
	// Output:
	// write lock released: true
	// still reading: true
	// the other way round: true
	// read lock released: true
}

// The resource that the lock protects remembers the highest token that it has
// seen, and refuses lower ones. That stops a process that was paused while it
// held the lock, whatever its clock says.
func ExampleGrant() {
	server, config := start()
	defer server.Close()
	ctx := context.Background()
	m, err := manager.Open(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	lock, err := m.Exclusive("ledger")
	if err != nil {
		log.Fatal(err)
	}

	var highest uint64
	write := func(token uint64) {
		if token < highest {
			fmt.Println("refused: a newer holder has written")
			return
		}
		highest = token
		fmt.Println("written")
	}
	var tokens [2]uint64
	for i := range tokens {
		err := lock.Do(ctx, func(_ context.Context, h manager.Hold) error {
			grant, err := h.Grant()
			tokens[i] = grant.Token
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	write(tokens[1])
	write(tokens[0]) // the earlier holder wakes up
	// Output:
	// written
	// refused: a newer holder has written
}
