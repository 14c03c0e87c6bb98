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

// service opens a manager of a process that says where it can be reached, and answers
// questions about the locks that it holds.
func service(server *zktest.Server, endpoint string) *manager.Manager {
	m, err := manager.Open(context.Background(), manager.Config{
		Servers:  []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		Endpoint: endpoint,
		OnAsk: func(_ context.Context, q manager.Question) ([]byte, error) {
			return fmt.Appendf(nil, "%s has done half of %s", endpoint, q.Lock.Name()), nil
		},
		Dialer: server.Dial,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// hold takes a lock.
func hold(ctx context.Context, l *manager.Lock) manager.Hold {
	h, err := l.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return h
}

// A participant of a two-phase commit, with its data in memory.
type participant struct{ prepared, committed int }

func (p *participant) prepare(v int) { p.prepared = v }
func (p *participant) commit()       { p.committed, p.prepared = p.prepared, 0 }
func (p *participant) rollback()     { p.prepared = 0 }

// transact has all participants take v over, or none of them.
func transact(h manager.Hold, v int, participants ...*participant) error {
	for _, p := range participants {
		p.prepare(v)
	}
	err := h.Leave() // nil: the lock was ours until now, so all have prepared under it
	for _, p := range participants {
		if err != nil {
			p.rollback()
		} else {
			p.commit()
		}
	}
	return err
}

// Leave decides a two-phase commit: it releases the lock, and says whether the first phase
// was protected. It does not wait, although another goroutine keeps the lock.
func ExampleHold_Leave() {
	server := embedded()
	defer server.Close()
	m := open(server)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l := lock(m, "orders")
	h, other, late := hold(ctx, l), hold(ctx, l), hold(ctx, l)
	defer other.Release()

	var orders, stock participant
	fmt.Println(transact(h, 7, &orders, &stock), orders, stock)

	m.Close() // with the lock still held: it is lost
	err := transact(late, 8, &orders, &stock)
	fmt.Println(errors.Is(err, manager.ErrClosed), orders, stock)
	// Output:
	// <nil> {0 7} {0 7}
	// true {0 7} {0 7}
}

// CachedHolder sends each message to the process that holds the lock of what the message
// is about. It answers from memory, and asks ZooKeeper only when the holder may have changed.
func ExampleLock_CachedHolder() {
	server := embedded()
	defer server.Close()
	m1, m2 := service(server, "10.0.0.1:80"), service(server, "10.0.0.2:80")
	defer m1.Close()
	defer m2.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer hold(ctx, lock(m1, "actors/4711")).Release()

	for range 3 { // messages
		holder, err := lock(m2, "actors/4711").CachedHolder(ctx)
		switch {
		case err != nil:
			fmt.Println(err)
		case holder == nil:
			fmt.Println("free: take it")
		case holder.Own:
			fmt.Println("handle it here")
		default:
			fmt.Println("send it to", holder.Endpoint)
		}
	}
	// Output:
	// send it to 10.0.0.1:80
	// send it to 10.0.0.1:80
	// send it to 10.0.0.1:80
}

// WatchHolder follows which process holds a lock.
func ExampleLock_WatchHolder() {
	server := embedded()
	defer server.Close()
	m1, m2 := service(server, "10.0.0.1:80"), service(server, "10.0.0.2:80")
	defer m1.Close()
	defer m2.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	h := hold(ctx, lock(m1, "leader"))
	for holder, err := range lock(m2, "leader").WatchHolder(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if holder == nil {
			fmt.Println("free")
			return // leaves nothing behind
		}
		fmt.Println("held by", holder.Endpoint)
		h.Release()
	}
	// Output:
	// held by 10.0.0.1:80
	// free
}

// Ask puts a question to the process that holds the lock, which Config.OnAsk answers there.
func ExampleLock_Ask() {
	server := embedded()
	defer server.Close()
	m1, m2 := service(server, "10.0.0.1:80"), service(server, "10.0.0.2:80")
	defer m1.Close()
	defer m2.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer hold(ctx, lock(m1, "imports/customers")).Release()

	answer, err := lock(m2, "imports/customers").Ask(ctx, []byte("how far are you?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%v, %d holder: %s\n", answer.Phase, answer.Holders, answer.Reply)
	// Output:
	// retained, 1 holder: 10.0.0.1:80 has done half of imports/customers
}

// Revoke asks the holder to give the lock up, and waits until it has. The holder decides.
func ExampleLock_Revoke() {
	server := embedded()
	defer server.Close()
	m1, m2 := open(server), open(server)
	defer m1.Close()
	defer m2.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	h := hold(ctx, lock(m1, "imports/customers"))
	released := make(chan error, 1)
	go func() {
		<-h.Revoked() // finish what must not be interrupted, and go
		released <- h.Unlock(ctx)
	}()
	if err := lock(m2, "imports/customers").Revoke(ctx, "the schema changes at 10:00"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("given up:", <-released)
	// Output:
	// given up: <nil>
}

// TryDo runs a function if no other process holds the lock or waits for it.
func ExampleLock_TryDo() {
	server := embedded()
	defer server.Close()
	m1, m2 := open(server), open(server)
	defer m1.Close()
	defer m2.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer hold(ctx, lock(m1, "jobs/clean-up")).Release()

	err := lock(m2, "jobs/clean-up").TryDo(ctx, func(context.Context, manager.Hold) error {
		fmt.Println("cleaning up")
		return nil
	})
	if errors.Is(err, manager.ErrLocked) {
		fmt.Println("another process is at it")
	}
	// Output:
	// another process is at it
}

// Readers share their lock; a writer has it alone, among processes.
func ExampleManager_ReadWrite() {
	server := embedded()
	defer server.Close()
	m1, m2 := open(server), open(server)
	defer m1.Close()
	defer m2.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	prices := func(m *manager.Manager) *manager.RWLock {
		rw, err := m.ReadWrite("prices")
		if err != nil {
			log.Fatal(err)
		}
		return rw
	}

	r1, r2 := hold(ctx, prices(m1).Reader()), hold(ctx, prices(m2).Reader())
	fmt.Println("two processes read:", r1.Err() == nil && r2.Err() == nil)
	_, err := prices(m2).Writer().TryLock(ctx)
	fmt.Println("one of them may not write:", errors.Is(err, manager.ErrLocked))
	r1.Release()
	r2.Release()
	w := hold(ctx, prices(m2).Writer())
	fmt.Println("now it may:", w.Err() == nil)
	w.Release()
	// Output:
	// two processes read: true
	// one of them may not write: true
	// now it may: true
}

// Shutdown refuses newcomers, and waits for those that hold a lock.
func ExampleManager_Shutdown() {
	server := embedded()
	defer server.Close()
	m := open(server)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	h, next := hold(ctx, lock(m, "orders/4711")), lock(m, "orders/4712")
	go func() {
		fmt.Println("the last order is done")
		h.Release()
	}()
	if err := m.Shutdown(ctx); err != nil { // of ctx: holders were still there, and have lost their locks
		fmt.Println(err)
	}
	_, err := next.Lock(ctx)
	fmt.Println("closed:", errors.Is(err, manager.ErrClosed))
	// Output:
	// the last order is done
	// closed: true
}
