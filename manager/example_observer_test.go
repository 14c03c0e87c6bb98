// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/holdfast-go/holdfast/manager"
)

// An observer is told what happens to a process's locks. This one writes it down; others
// count it, or make spans of it.
func ExampleEvent() {
	server := embedded()
	defer server.Close()
	m, err := manager.Open(context.Background(), manager.Config{
		Servers: []string{"zk1:2181"},
		Dialer:  server.Dial,
		Logger:  slog.New(slog.DiscardHandler),
		Observer: func(e manager.Event) {
			switch e.Kind {
			case manager.EventGranted:
				// e.Waited is how long this process waited for the lock.
				fmt.Println(e.Lock, "granted")
			case manager.EventReleased:
				// e.Held is how long it had the lock.
				fmt.Println(e.Lock, "released")
			case manager.EventLost, manager.EventFailed:
				fmt.Println(e.Lock, e.Kind, "because of", e.Cause())
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	h, err := lock(m, "jobs/nightly").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for range 1000 {
		again := lock(m, "jobs/nightly").Acquire(context.Background()) // makes no event
		again.Release()
	}
	h.Release()
	if _, err := lock(m, "jobs/hourly").Lock(context.Background()); err != nil {
		log.Fatal(err)
	}
	_ = m.Close() // waits until all is told
	// Unordered output:
	// jobs/nightly granted
	// jobs/nightly released
	// jobs/hourly granted
	// jobs/hourly lost because of closed
}

// Locks tells what a process holds, and for what it waits.
func ExampleManager_Locks() {
	server := embedded()
	defer server.Close()
	billing, reports := open(server), open(server)
	defer billing.Close()
	defer reports.Close()

	h, err := lock(billing, "accounts/4711").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	waits := lock(reports, "accounts/4711").Acquire(context.Background())
	defer waits.Release()
	for _, m := range []*manager.Manager{billing, reports} {
		for l := range m.Locks(false) {
			fmt.Println(l.Name, l.Stats.Phase, l.Stats.Holders)
		}
	}
	h.Release()
	// Output:
	// accounts/4711 retained 1
	// accounts/4711 fetching 1
}
