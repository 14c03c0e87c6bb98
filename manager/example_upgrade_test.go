// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// A process reads under the upgradable read lock. When it finds that it must write, it
// upgrades its Hold: nothing that it has read can have changed by then.
func ExampleHold_Upgrade() {
	server := embedded() // in production: an ensemble
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
	err = index.Upgradable().Do(ctx, func(ctx context.Context, h manager.Hold) error {
		fmt.Println("reads, beside other readers:", tryRead(ctx, other))
		if err := h.Upgrade(ctx); err != nil { // waits for them
			return err
		}
		fmt.Println("writes, beside other readers:", tryRead(ctx, other))
		return nil
	})
	fmt.Println(err)
	// Output:
	// reads, beside other readers: true
	// writes, beside other readers: false
	// <nil>
}

// tryRead reports whether another process can read now.
func tryRead(ctx context.Context, other *manager.Manager) bool {
	index, err := other.ReadWrite("index")
	if err != nil {
		log.Fatal(err)
	}
	return index.Reader().TryDo(ctx, func(context.Context, manager.Hold) error { return nil }) == nil
}
