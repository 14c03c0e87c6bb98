// SPDX-License-Identifier: Apache-2.0

package members_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/members"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Two workers join a group, and a third process watches it. The first leaves.
func Example() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	m, err := manager.Open(context.Background(), manager.Config{
		Servers: []string{"embedded"}, Dialer: server.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	group, err := members.New(m, "workers")
	if err != nil {
		log.Fatal(err)
	}
	views := group.Watch(ctx)
	show := func() {
		view := <-views
		if view.Err != nil {
			log.Fatal(view.Err)
		}
		fmt.Println(len(view.Members), "members")
		for _, member := range view.Members {
			fmt.Printf("  %s at %s\n", member.ID, member.Data)
		}
	}
	show()
	first, err := group.Join(ctx, "worker-1", []byte("10.0.0.1:8080"))
	if err != nil {
		log.Fatal(err)
	}
	show()
	if _, err := group.Join(ctx, "worker-2", []byte("10.0.0.2:8080")); err != nil {
		log.Fatal(err)
	}
	show()
	if err := first.Leave(ctx); err != nil {
		log.Fatal(err)
	}
	show()
	// Output:
	// 0 members
	// 1 members
	//   worker-1 at 10.0.0.1:8080
	// 2 members
	//   worker-1 at 10.0.0.1:8080
	//   worker-2 at 10.0.0.2:8080
	// 1 members
	//   worker-2 at 10.0.0.2:8080
}

// A member tells the others something new about itself. A process that is no member reads it.
func ExampleMember_Set() {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	m, err := manager.Open(context.Background(), manager.Config{
		Servers: []string{"embedded"}, Dialer: server.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	group, err := members.New(m, "workers")
	if err != nil {
		log.Fatal(err)
	}
	worker, err := group.Join(ctx, "worker-1", []byte("idle"))
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Set(ctx, []byte("busy")); err != nil {
		log.Fatal(err)
	}
	all, err := group.List(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, member := range all {
		fmt.Printf("%s is %s\n", member.ID, member.Data)
	}
	// Output:
	// worker-1 is busy
}
