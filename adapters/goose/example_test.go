// SPDX-License-Identifier: Apache-2.0

package goose_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"log/slog"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite"

	holdfast "github.com/holdfast-go/holdfast/adapters/goose"
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
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	migrations := fstest.MapFS{ // in a program: an embed.FS
		"001_users.sql":  {Data: []byte("-- +goose Up\nCREATE TABLE users (name TEXT);")},
		"002_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER);")},
	}

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	locker, err := holdfast.New(m, "migrations/orders", holdfast.Config{OnLost: cancel})
	if err != nil {
		log.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	results, err := provider.Up(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range results {
		fmt.Println("applied", r.Source.Path)
	}
	// Output:
	// applied 001_users.sql
	// applied 002_orders.sql
}
