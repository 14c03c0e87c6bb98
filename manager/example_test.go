// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// embedded returns a server within the process that the examples run on.
func embedded() *zktest.Server {
	return zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
}

// open returns a manager, which stands for a process. With a real ensemble, name its
// servers and leave Dialer out.
func open(server *zktest.Server) *manager.Manager {
	m, err := manager.Open(context.Background(), manager.Config{
		Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		Dialer:  server.Dial,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// lock returns the exclusive lock called name.
func lock(m *manager.Manager, name string) *manager.Lock {
	l, err := m.Exclusive(name)
	if err != nil {
		log.Fatal(err)
	}
	return l
}

// A process opens one Manager, takes its locks by name, and closes it at the end.
func Example() {
	server := embedded() // in production: an ensemble
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := manager.Open(ctx, manager.Config{
		Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		Dialer:  server.Dial, // leave it out to dial the servers
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	nightly, err := m.Exclusive("jobs/nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = nightly.Do(ctx, func(ctx context.Context, h manager.Hold) error {
		fmt.Println("no other process is here")
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// no other process is here
	// done: <nil>
}

// Lock waits; Unlock waits until the next process can have the lock.
func ExampleLock_Lock() {
	server := embedded()
	defer server.Close()
	m := open(server)
	defer m.Close()
	l := lock(m, "accounts/4711")

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	h, err := l.Lock(ctx)
	if err != nil {
		fmt.Println(err) // if ctx ended, it names the process ahead
		return
	}
	fmt.Println("held:", h.Err() == nil)
	if err := h.Unlock(ctx); err != nil {
		fmt.Println(err) // ErrLost: the work may have been done without the lock
		return
	}
	fmt.Println("held:", h.Err() == nil)
	// Output:
	// held: true
	// held: false
}

// Do holds the lock while a function runs, and releases it even if that panics.
func ExampleLock_Do() {
	server := embedded()
	defer server.Close()
	m := open(server)
	defer m.Close()

	err := lock(m, "reports").Do(context.Background(), func(ctx context.Context, h manager.Hold) error {
		// ctx ends when the lock is lost; pass it to what is called here.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
			return errors.New("no paper")
		}
	})
	fmt.Println(err)
	// Output:
	// no paper
}

// Acquire never blocks. The outcome is a future: wait for it, select on it, or have
// it call a function.
func ExampleLock_Acquire() {
	server := embedded()
	defer server.Close()
	m, other := open(server), open(server)
	defer m.Close()
	defer other.Close()
	ctx := context.Background()
	theirs, err := lock(other, "printer").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}

	h := lock(m, "printer").Acquire(ctx)
	var done sync.WaitGroup
	done.Add(1)
	h.Granted().OnDone(func(g manager.Grant, err error) {
		defer done.Done()
		fmt.Println("granted:", err == nil)
	})
	fmt.Println("acquired, not granted:", errors.Is(h.Err(), manager.ErrNotGranted))

	theirs.Release() // does not block either
	done.Wait()

	released := h.Release()
	if _, err := released.Wait(ctx); err == nil {
		fmt.Println("released")
	}
	// Output:
	// acquired, not granted: true
	// granted: true
	// released
}

// TryLock does not wait for other processes. Goroutines of its own process share
// the lock.
func ExampleLock_TryLock() {
	server := embedded()
	defer server.Close()
	m, other := open(server), open(server)
	defer m.Close()
	defer other.Close()
	ctx := context.Background()

	h, err := lock(m, "leader").TryLock(ctx)
	fmt.Println("this process:", err)
	again, err := lock(m, "leader").TryLock(ctx)
	fmt.Println("this process, another goroutine:", err)

	_, err = lock(other, "leader").TryLock(ctx)
	fmt.Println("another process is locked out:", errors.Is(err, manager.ErrLocked))

	again.Release()
	h.Release()
	// Output:
	// this process: <nil>
	// this process, another goroutine: <nil>
	// another process is locked out: true
}

// A lock can be lost while it is held: when the connection to ZooKeeper is down for
// too long, or an administrator deletes the lock's node. A context made from the
// Hold ends then.
func ExampleHold_Context() {
	server := embedded()
	defer server.Close()
	m := open(server)
	defer m.Close()
	h, err := lock(m, "import").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := h.Context(context.Background())
	defer cancel()

	if g, err := h.Grant(); err == nil {
		_ = server.Delete(g.Path) // an administrator
	}

	<-ctx.Done() // work that takes ctx ends by itself
	fmt.Println("lost:", errors.Is(context.Cause(ctx), manager.ErrLost))
	fmt.Println("told so at the release:", errors.Is(h.Unlock(context.Background()), manager.ErrLost))
	// Output:
	// lost: true
	// told so at the release: true
}

// Goroutines have no identity, so a context says that its caller already holds the
// lock: with it, a function that takes the lock can be called by one that has it.
func ExampleHold_Context_reenter() {
	server := embedded()
	defer server.Close()
	m := open(server)
	defer m.Close()
	l := lock(m, "ledger")

	// book takes the lock, whether its caller has it or not.
	book := func(ctx context.Context, what string) error {
		return l.Do(ctx, func(ctx context.Context, h manager.Hold) error {
			fmt.Println(what, "at depth", h.Depth())
			return nil
		})
	}
	ctx := context.Background()
	err := errors.Join(
		book(ctx, "a single entry"),
		l.Do(ctx, func(ctx context.Context, h manager.Hold) error {
			return book(ctx, "an entry of many")
		}),
	)
	fmt.Println(err)
	// Output:
	// a single entry at depth 1
	// an entry of many at depth 2
	// <nil>
}

// A holder shares the lock with other goroutines. The process gives it up when the
// last of them has released its Hold.
func ExampleHold_Share() {
	server := embedded()
	defer server.Close()
	m := open(server)
	defer m.Close()
	l := lock(m, "batch")
	h, err := l.Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	var workers sync.WaitGroup
	for range 3 {
		mine, err := h.Share()
		if err != nil {
			fmt.Println(err)
			return
		}
		workers.Go(func() { mine.Release() })
	}
	released := h.Release()
	workers.Wait()
	_, err = released.Wait(context.Background())
	fmt.Println("given up:", err == nil)
	// Output:
	// given up: true
}

// A store is a resource that remembers the highest token that it has seen, and
// refuses writes with a lower one.
type store struct {
	mu    sync.Mutex
	token uint64
	value string
}

func (s *store) write(token uint64, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.token {
		return fmt.Errorf("token %d is older than %d", token, s.token)
	}
	s.token, s.value = token, value
	return nil
}

// The fencing token makes a lock safe: the resource refuses a process that was
// paused, and does not know yet that it has lost the lock.
func ExampleGrant() {
	server := embedded()
	defer server.Close()
	slow, quick := open(server), open(server)
	defer slow.Close()
	defer quick.Close()
	ctx := context.Background()
	var s store

	h, err := lock(slow, "store").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	old, err := h.Grant()
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = server.Delete(old.Path) // as if the process had been paused until its session was over

	err = lock(quick, "store").Do(ctx, func(ctx context.Context, h manager.Hold) error {
		g, err := h.Grant()
		if err != nil {
			return err
		}
		return s.write(g.Token, "new")
	})
	fmt.Println("the new holder:", err)

	err = s.write(old.Token, "old") // too late
	fmt.Println("the old holder is refused:", err != nil)
	fmt.Println("value:", s.value)
	// Output:
	// the new holder: <nil>
	// the old holder is refused: true
	// value: new
}

// Data in the same ZooKeeper as the lock needs no token: a guarded write takes effect
// only while the lock is held, however late it arrives.
func ExampleHold_Guard() {
	server := embedded()
	defer server.Close()
	slow, quick := open(server), open(server)
	defer slow.Close()
	defer quick.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := server.Create("/leader", nil); err != nil {
		fmt.Println(err)
		return
	}
	claim := func(h manager.Hold, name string) error {
		_, err := h.Guard(ctx, zkio.SetOp("/leader", []byte(name), -1))
		return err
	}

	late, err := lock(slow, "leader").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := late.Grant()
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = server.Delete(g.Path) // as if the process had been paused until its session was over

	h, err := lock(quick, "leader").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the new holder:", claim(h, "quick"))

	switch err := claim(late, "slow"); {
	case errors.Is(err, manager.ErrUnknownOutcome):
		fmt.Println("read the node to find out") // check this one first
	case errors.Is(err, manager.ErrLost):
		fmt.Println("the old holder: nothing was written")
	}
	leader, _, _ := server.Get("/leader")
	fmt.Printf("leader: %s\n", leader)
	// Output:
	// the new holder: <nil>
	// the old holder: nothing was written
	// leader: quick
}

// ParseServers takes apart a connection string, as other clients take it.
func ExampleParseServers() {
	servers, chroot, err := manager.ParseServers("zk1,zk2:2182/production")
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := manager.Config{Servers: servers, Chroot: chroot}
	fmt.Println(cfg.Servers, cfg.Chroot)
	// Output:
	// [zk1:2181 zk2:2182] /production
}

// Escape makes a legal segment of any string.
func ExampleEscape() {
	for _, id := range []string{"invoice 4711", "a/b", "100%", ".."} {
		fmt.Println("customers/" + manager.Escape(id))
	}
	// Output:
	// customers/invoice 4711
	// customers/a%2Fb
	// customers/100%25
	// customers/%2E.
}
