// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/manager"
)

// The next holder learns that the one before it was interrupted, and repairs what the lock
// protects.
func ExampleLock_ReportAbandoned() {
	server := embedded()
	defer server.Close()
	ctx := context.Background()

	transfer := func(m *manager.Manager, interrupted bool) {
		l := lock(m, "accounts/4711")
		if err := l.ReportAbandoned(0); err != nil { // in every process that uses the lock
			log.Fatal(err)
		}
		err := l.Do(ctx, func(ctx context.Context, h manager.Hold) error {
			grant, err := h.Grant()
			if err != nil {
				return err
			}
			if grant.Abandoned {
				fmt.Println("a transfer may be half done: look, and finish it or take it back")
				if err := h.Recovered(); err != nil {
					return err
				}
			}
			if interrupted {
				return m.Close() // the process dies
			}
			fmt.Println("transfer")
			return nil
		})
		if err != nil {
			fmt.Println("interrupted")
		}
	}

	a, b := open(server), open(server)
	defer a.Close()
	defer b.Close()
	transfer(a, false)
	transfer(a, true)
	transfer(b, false)
	transfer(b, false)
	// Output:
	// transfer
	// interrupted
	// a transfer may be half done: look, and finish it or take it back
	// transfer
	// transfer
}
