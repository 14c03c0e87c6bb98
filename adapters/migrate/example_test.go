// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	holdfast "github.com/holdfast-go/holdfast/adapters/migrate"
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

// Of all processes that start with these lines, one migrates the database.
func Example() {
	m, done := connect()
	defer done()
	source, err := iofs.New(fstest.MapFS{ // in a program: an embed.FS
		"1_users.up.sql":  {Data: []byte("CREATE TABLE users (name TEXT);")},
		"2_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER);")},
	}, ".")
	if err != nil {
		log.Fatal(err)
	}
	inner, err := stub.WithInstance(nil, &stub.Config{}) // in a program: postgres.WithInstance, …
	if err != nil {
		log.Fatal(err)
	}
	driver, err := holdfast.New(inner, m, "migrations/orders", holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	migration, err := migrate.NewWithInstance("iofs", source, "stub", driver)
	if err != nil {
		log.Fatal(err)
	}
	defer migration.Close()
	fmt.Println(migration.Up())
	fmt.Println(migration.Version())
	// Output:
	// <nil>
	// 2 false <nil>
}
