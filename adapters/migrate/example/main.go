// SPDX-License-Identifier: Apache-2.0

// Example has three processes that start at the same time and migrate one SQLite database
// with golang-migrate. The one that gets the lock is killed between two migrations. Another
// takes over when its lock is free, and in the end each migration has run once. (A process that is killed
// in the middle of a migration leaves the database dirty, and a person has to look.)
//
//	go run ./example
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/holdfast-go/holdfast/adapters/internal/demo"
	holdfast "github.com/holdfast-go/holdfast/adapters/migrate"
	"github.com/holdfast-go/holdfast/manager"
)

var migrations = fstest.MapFS{ // in a program: an embed.FS
	"1_runs.up.sql":   {Data: []byte("CREATE TABLE runs (version INTEGER); INSERT INTO runs VALUES (1);")},
	"2_users.up.sql":  {Data: []byte("CREATE TABLE users (name TEXT); INSERT INTO runs VALUES (2);")},
	"3_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER); INSERT INTO runs VALUES (3);")},
}

func main() {
	var check checker
	demo.Main(demo.Program{Work: work, Watch: check.watch})
}

// work is a process that migrates the database before it does anything else.
func work(ctx context.Context, m *manager.Manager, dir string) error {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "orders.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	inner, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		return err
	}
	driver, err := holdfast.New(slow{inner}, m, "migrations/orders", holdfast.Config{})
	if err != nil {
		return err
	}
	source, err := iofs.New(migrations, ".")
	if err != nil {
		return err
	}
	migration, err := migrate.NewWithInstance("iofs", source, "sqlite", driver)
	if err != nil {
		return err
	}
	if err := migration.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	var runs int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM runs").Scan(&runs); err != nil {
		return err
	}
	fmt.Printf("starts: the database has %d runs\n", runs)
	<-ctx.Done()
	_, err = migration.Close()
	return err
}

// slow says what the database does, and takes half a second before each migration, and after it.
type slow struct{ database.Driver }

func (s slow) Run(migration io.Reader) error {
	fmt.Println("runs a migration")
	return s.Driver.Run(migration)
}

func (s slow) SetVersion(version int, dirty bool) error {
	err := s.Driver.SetVersion(version, dirty)
	if err == nil && !dirty {
		fmt.Println("the version is", version)
	}
	<-time.After(500 * time.Millisecond)
	return err
}

// A checker kills the first process that has run a migration.
type checker struct {
	migrates string // the process
	started  int
}

func (c *checker) watch(process, line string) (demo.Next, error) {
	switch {
	case strings.HasPrefix(line, "runs"):
		if c.migrates != "" && c.migrates != process {
			return 0, fmt.Errorf("%s migrates while %s does", process, c.migrates)
		}
		c.migrates = process
	case line == "the version is 1":
		c.migrates = ""
		return demo.Kill, nil
	case strings.HasPrefix(line, "starts"):
		if !strings.HasSuffix(line, "the database has 3 runs") {
			return 0, fmt.Errorf("%s %s", process, line)
		}
		if c.started++; c.started == 2 {
			fmt.Println("each migration has run once")
			return demo.End, nil
		}
	}
	return demo.GoOn, nil
}
