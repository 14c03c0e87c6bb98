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
	"github.com/holdfast-go/holdfast/zkio"
)

// What a process says about itself is read by the processes that wait for it, and by people
// who look for the holder of a lock.
func ExampleConfig() {
	server := embedded()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	billing, err := manager.Open(ctx, manager.Config{
		Servers:        []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		SessionTimeout: 15 * time.Second, // a wish: the servers have bounds
		Label:          "billing",
		Endpoint:       "10.0.0.7:8080",
		Dialer:         server.Dial, // leave it out to dial the servers
		Logger:         slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer billing.Close()
	hold(ctx, lock(billing, "invoices"))

	reports := open(server)
	defer reports.Close()
	holder, err := lock(reports, "invoices").Holder(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(holder.Label, "at", holder.Endpoint)
	fmt.Println("session timeout:", billing.Stats().Timeout)
	// Output:
	// billing at 10.0.0.7:8080
	// session timeout: 15s
}

// With an ACL, only processes that have the credentials can take locks, or take them away
// from their holders.
func ExampleConfig_acl() {
	server := embedded()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := manager.Open(ctx, manager.Config{
		Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		Auth:    []zkio.Auth{{Scheme: "digest", Data: []byte("billing:secret")}},
		ACL:     []zkio.ACL{{Scheme: "auth", Perms: zkio.PermAll}}, // who has created a node
		Dialer:  server.Dial,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	hold(ctx, lock(m, "invoices"))

	_, err = manager.Open(ctx, manager.Config{
		Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		Dialer:  server.Dial,
		Logger:  slog.New(slog.DiscardHandler),
	})
	fmt.Println("without credentials:", errors.Is(err, zkio.ErrNoAuth))
	// Output:
	// without credentials: true
}

// Most errors are an Error, which says on which lock what was attempted, and what the
// process has waited for.
func ExampleError() {
	server := embedded()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	first, second := service(server, "10.0.0.1:80"), open(server)
	defer first.Close()
	defer second.Close()
	hold(ctx, lock(first, "orders"))

	_, err := lock(second, "orders").TryLock(ctx)
	if e, ok := errors.AsType[*manager.Error](err); ok && errors.Is(err, manager.ErrLocked) {
		fmt.Println(e.Name, "is held at", e.Holder.Endpoint)
	}
	// Output:
	// orders is held at 10.0.0.1:80
}

// Stats counts, and tells the state of the session.
func ExampleManager_Stats() {
	server := embedded()
	defer server.Close()
	m := open(server)
	defer m.Close()
	orders := lock(m, "orders")
	for range 1000 {
		hold(context.Background(), orders) // all are inside at the same time
	}
	s := m.Stats()
	fmt.Println("connected:", s.Connected, "grants:", s.Grants, "losses:", s.Losses)
	// Output:
	// connected: true grants: 1 losses: 0
}

// Access opens the Manager's session to recipes of your own. This one announces a process by
// a node that goes with the session.
func ExampleManager_Access() {
	server := embedded()
	defer server.Close()
	m := open(server)
	a := m.Access()
	path, err := a.Path("announced")
	if err != nil {
		log.Fatal(err)
	}
	err = a.Call(context.Background(), func(s *zkio.Session) error {
		err := s.CreateEphemeral(path, []byte("10.0.0.7:8080"), a.ACL())
		if errors.Is(err, zkio.ErrNodeExists) {
			return nil // by an earlier run, whose answer was lost
		}
		return err
	}, nil)
	fmt.Println(err)
	fmt.Println("announced:", server.Exists(path))
	m.Close()
	fmt.Println("announced:", server.Exists(path))
	// Output:
	// <nil>
	// announced: true
	// announced: false
}
