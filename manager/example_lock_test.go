// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// Queue tells which processes hold a lock, and which wait, in the order of their turns.
func ExampleLock_Queue() {
	server := embedded()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := range 3 {
		m := service(server, fmt.Sprintf("10.0.0.%d:80", i+1))
		defer m.Close()
		lock(m, "orders").Acquire(ctx)
		waitForContenders(ctx, m, i+1)
	}
	tool := open(server)
	defer tool.Close()
	queue, err := lock(tool, "orders").Queue(ctx, -1)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range queue {
		fmt.Println(c.Endpoint, c.Kind, c.Holds)
	}
	// Output:
	// 10.0.0.1:80 exclusive true
	// 10.0.0.2:80 exclusive false
	// 10.0.0.3:80 exclusive false
}

// waitForContenders waits until n processes are in the queue of the lock "orders".
func waitForContenders(ctx context.Context, m *manager.Manager, n int) {
	for {
		queue, err := lock(m, "orders").Queue(ctx, 0)
		if err != nil {
			log.Fatal(err)
		}
		if len(queue) >= n {
			return
		}
	}
}

// A lock that lingers stays with the process when its last holder has left. Entering it
// again takes no request, until another process wants it.
func ExampleLock_SetLinger() {
	server := embedded()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, other := open(server), open(server)
	defer m.Close()
	defer other.Close()
	account := lock(m, "accounts/4711") // keep it: the setting lasts as long as it does
	if err := account.SetLinger(time.Minute); err != nil {
		log.Fatal(err)
	}
	for range 1000 {
		if err := hold(ctx, account).Unlock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("grants:", account.Stats().Grants)
	fmt.Println("another process gets it:", hold(ctx, lock(other, "accounts/4711")).Err() == nil)
	// Output:
	// grants: 1
	// another process gets it: true
}

// A Listener is told what becomes of a lock in this process, in order.
func ExampleLock_Listen() {
	server := embedded()
	defer server.Close()
	ctx := context.Background()
	m := open(server)
	l := lock(m, "cache/prices")
	l.Listen(manager.Listener{
		Acquired: func(manager.Grant) { fmt.Println("ours: fill the cache") },
		Released: func(error) { fmt.Println("given up: drop it") },
		Lost:     func(err error) { fmt.Println("lost: drop it at once") },
	})
	if err := hold(ctx, l).Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	m.Close() // which waits until all is told
	// Output:
	// ours: fill the cache
	// given up: drop it
}

// A worker that has time looks between two pieces of work whether the lock is still its own,
// and whether another process waits for it.
func ExampleHold_Contended() {
	server := embedded()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, other := open(server), open(server)
	defer m.Close()
	defer other.Close()
	h := hold(ctx, lock(m, "backlog"))
	theirs := lock(other, "backlog").Acquire(ctx)

	work := time.NewTicker(time.Millisecond)
	defer work.Stop()
	for working := true; working; {
		select {
		case <-h.Lost():
			log.Fatal(h.Err())
		case <-h.Contended():
			fmt.Println("another process waits")
			working = false
		case <-work.C: // the next piece
		}
	}
	if err := h.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	_, err := theirs.Ready().Wait(ctx)
	fmt.Println("it has the lock:", err == nil)
	// Output:
	// another process waits
	// it has the lock: true
}

// Get and Guard change data that the lock protects: what Get returns is the newest, and Guard
// writes only if the lock is held, and nothing has changed.
func ExampleHold_Get() {
	server := embedded()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := server.Create("/counter", []byte("41")); err != nil {
		log.Fatal(err)
	}
	m := open(server)
	defer m.Close()

	err := lock(m, "counter").Do(ctx, func(ctx context.Context, h manager.Hold) error {
		data, stat, err := h.Get(ctx, "/counter")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(data))
		if err != nil {
			return err
		}
		_, err = h.Guard(ctx, zkio.SetOp("/counter", []byte(strconv.Itoa(n+1)), stat.Version))
		return err
	})
	data, _, _ := server.Get("/counter")
	fmt.Printf("%s %v\n", data, err)
	// Output:
	// 42 <nil>
}

// After it has written, a process goes on reading, and lets other readers in again.
func ExampleHold_Downgrade() {
	server := embedded()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, other := open(server), open(server)
	defer m.Close()
	defer other.Close()
	index, err := m.ReadWrite("index")
	if err != nil {
		log.Fatal(err)
	}
	theirs, err := other.ReadWrite("index")
	if err != nil {
		log.Fatal(err)
	}

	h := hold(ctx, index.Upgradable())
	defer h.Release()
	if err := h.Upgrade(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("exclusive:", h.Upgraded())
	if err := h.Downgrade(); err != nil {
		log.Fatal(err)
	}
	reader := hold(ctx, theirs.Reader())
	defer reader.Release()
	fmt.Println("two processes read:", h.Err() == nil && reader.Err() == nil)
	// Output:
	// exclusive: true
	// two processes read: true
}

// Reenter makes another handle for the same holder, for a function that is to release one of
// its own.
func ExampleHold_Reenter() {
	server := embedded()
	defer server.Close()
	m := open(server)
	defer m.Close()
	h := hold(context.Background(), lock(m, "ledger"))
	book := func(h manager.Hold) {
		defer h.Release()
		fmt.Println("at depth", h.Depth())
	}
	again, err := h.Reenter()
	if err != nil {
		log.Fatal(err)
	}
	book(again)
	fmt.Println("still held:", h.Err() == nil)
	book(h)
	fmt.Println("released:", errors.Is(h.Err(), manager.ErrReleased))
	// Output:
	// at depth 2
	// still held: true
	// at depth 1
	// released: true
}
