// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"time"
)

// Two accounts are locked together. Another process that names them in the other order
// does not get in the way, nor does one that needs only one of them.
func ExampleManager_LockAll() {
	server := embedded()
	defer server.Close()
	m := open(server)
	defer m.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	holds, err := m.LockAll(ctx, lock(m, "accounts/alice"), lock(m, "accounts/bob"))
	if err != nil {
		fmt.Println(err)
		return
	}
	inside, done := holds.Context(ctx) // ends when one of the locks is lost
	defer done()
	fmt.Println("both are held:", holds.Err() == nil && inside.Err() == nil)
	fmt.Println("released:", holds.Unlock(ctx))
	// Output:
	// both are held: true
	// released: <nil>
}
