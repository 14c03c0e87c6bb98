// SPDX-License-Identifier: Apache-2.0

package certmagic_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/caddyserver/certmagic"

	holdfast "github.com/holdfast-go/holdfast/adapters/certmagic"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// connect returns a Manager on a ZooKeeper server within this process. A program would
// have its own configuration here.
func connect() (m *manager.Manager, done func()) {
	quiet := slog.New(slog.DiscardHandler)
	srv := zktest.NewServer(zktest.Config{Logger: quiet})
	m, err := manager.Open(context.Background(), manager.Config{
		Servers: []string{"embedded"}, Dialer: srv.Dial, Logger: quiet,
	})
	if err != nil {
		log.Fatal(err)
	}
	return m, func() {
		_ = m.Close()
		_ = srv.Close()
	}
}

// The certificates are in a shared directory, and the locks in ZooKeeper.
func Example() {
	m, done := connect()
	defer done()
	shared, err := os.MkdirTemp("", "certs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(shared)

	storage, err := holdfast.New(&certmagic.FileStorage{Path: shared}, m, holdfast.Config{
		OnLost: func(name string, err error) { log.Printf("%s: %v", name, err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	certmagic.Default.Storage = storage
	// Here a program calls certmagic.HTTPS, certmagic.Listen, or certmagic.ManageSync. What
	// these do with the locks:
	ctx := context.Background()
	if err := storage.Lock(ctx, "issue_cert_*.example.com"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(storage.TryLock(ctx, "issue_cert_*.example.com"))
	fmt.Println(storage.Unlock(ctx, "issue_cert_*.example.com"))
	// Output:
	// false <nil>
	// <nil>
}
