// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
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
