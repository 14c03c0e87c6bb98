// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A tool looks at all locks below a name, and at the queue of one of them.
func Example() {
	quiet := slog.New(slog.DiscardHandler)
	server := zktest.NewServer(zktest.Config{Logger: quiet}) // in production: an ensemble
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := manager.Open(ctx, manager.Config{Servers: []string{"zk1:2181"}, Label: "importer-1", Dialer: server.Dial, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	nightly, err := m.Exclusive("jobs/nightly")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := nightly.Lock(ctx); err != nil {
		log.Fatal(err)
	}

	client, err := zkio.Open(ctx, zkio.Config{Servers: []string{"zk1:2181"}, Dialer: server.Dial, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	r, err := inspect.NewReader(client, "/holdfast")
	if err != nil {
		log.Fatal(err)
	}
	view, err := r.Survey("jobs").Look(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range view.Locks {
		fmt.Printf("%s is held by %q, and %d wait\n", l.Name, l.Holder.Label, l.Waiting)
	}
	queue, err := r.Queue(ctx, "jobs/weekly", -1)
	if err != nil {
		log.Fatal(err)
	}
	if queue.Missing {
		fmt.Println("no lock is called jobs/weekly")
	}
	// Output:
	// jobs/nightly is held by "importer-1", and 0 wait
	// no lock is called jobs/weekly
}

// open returns a process with the label that holds the lock, and a Reader.
func open(ctx context.Context, server *zktest.Server, label, name string) (*manager.Lock, *inspect.Reader, func()) {
	quiet := slog.New(slog.DiscardHandler)
	m, err := manager.Open(ctx, manager.Config{Servers: []string{"zk1:2181"}, Label: label, Dialer: server.Dial, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	l, err := m.Exclusive(name)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := l.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	client, err := zkio.Open(ctx, zkio.Config{Servers: []string{"zk1:2181"}, Dialer: server.Dial, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	r, err := inspect.NewReader(client, "/holdfast")
	if err != nil {
		log.Fatal(err)
	}
	return l, r, func() {
		_ = client.Close(ctx)
		_ = m.Close()
	}
}

// A tool finds the processes that hold locks or wait for them.
func ExampleReader_Processes() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, r, done := open(ctx, server, "importer-1", "jobs/nightly")
	defer done()

	found, err := r.Processes(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range found.All {
		fmt.Printf("%s holds %d and waits for %d\n", p.Label, p.Holds, p.Waits)
	}
	// Output:
	// importer-1 holds 1 and waits for 0
}

// An operator takes a lock from a process that does not give it up. Only its fencing token
// keeps that process from working on.
func ExampleReader_Delete() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, r, done := open(ctx, server, "importer-1", "jobs/nightly")
	defer done()
	h := l.Acquire(ctx) // enters at once: its process holds the lock

	queue, err := r.Queue(ctx, "jobs/nightly", 1)
	if err != nil {
		log.Fatal(err)
	}
	deleted, err := r.Delete(ctx, queue.Holder)
	fmt.Println("taken from", queue.Holder.Label, deleted, err)
	<-h.Lost()
	fmt.Println("lost:", errors.Is(h.Err(), manager.ErrLost))
	// Output:
	// taken from importer-1 true <nil>
	// lost: true
}
