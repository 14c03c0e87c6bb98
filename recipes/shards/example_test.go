// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/shards"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A process that is alone owns all shards.
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

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var owned atomic.Int32
	err = shards.Run(ctx, m, shards.Options{Name: "orders", N: 12}, func(ctx context.Context, s shards.Shard) error {
		if owned.Add(1) == 12 {
			stop() // for the example
		}
		select {
		case <-ctx.Done(): // stop now
		case <-s.Revoked: // another process is to have it
		}
		return nil
	})
	fmt.Println(owned.Load(), "shards; ended by ctx:", errors.Is(err, context.Canceled))
	// Output:
	// 12 shards; ended by ctx: true
}

// When a third process joins two, shards move to it, and hardly any between the two.
func ExampleAssign() {
	before := shards.Assign(12, []string{"a", "b"})
	after := shards.Assign(12, []string{"a", "b", "c"})
	to := make(map[string]int)
	for i := range before {
		if before[i] != after[i] {
			to[after[i]]++
		}
	}
	fmt.Println("before:", before)
	fmt.Println("after: ", after)
	fmt.Println("moved, by the new owner:", to)
	// Output:
	// before: [a b a a b b a a b b a b]
	// after:  [c b a a c c b a b b a c]
	// moved, by the new owner: map[b:1 c:4]
}
