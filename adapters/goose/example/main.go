// SPDX-License-Identifier: Apache-2.0

// Example has three processes that start at the same time and migrate one SQLite database
// with goose. The one that gets the lock is killed in the middle of a migration. Another
// takes over, and in the end each migration has run once.
//
//	go run ./example
package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite"

	holdfast "github.com/holdfast-go/holdfast/adapters/goose"
	"github.com/holdfast-go/holdfast/adapters/internal/demo"
	"github.com/holdfast-go/holdfast/manager"
)

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

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	locker, err := holdfast.New(m, "migrations/orders", holdfast.Config{OnLost: cancel})
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, nil,
		goose.WithLocker(locker), goose.WithGoMigrations(migration(1), migration(2), migration(3)))
	if err != nil {
		return err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return err
	}
	var runs int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM runs").Scan(&runs); err != nil {
		return err
	}
	fmt.Printf("starts: it has run %d migrations, and the database has %d runs\n", len(results), runs)
	<-ctx.Done()
	return nil
}

// migration returns one that takes a second, and leaves a row.
func migration(version int64) *goose.Migration {
	return goose.NewGoMigration(version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		fmt.Println("runs migration", version)
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS runs (version INTEGER)"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO runs VALUES (?)", version); err != nil {
			return err
		}
		select {
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}, nil)
}

// A checker kills the first process that runs the second migration.
type checker struct {
	killed, migrates string // processes
	started          int
}

func (c *checker) watch(process, line string) (demo.Next, error) {
	switch {
	case strings.HasPrefix(line, "runs"):
		if c.migrates != "" && c.migrates != process {
			return 0, fmt.Errorf("%s migrates while %s does", process, c.migrates)
		}
		c.migrates = process
		if line == "runs migration 2" && c.killed == "" {
			c.killed, c.migrates = process, ""
			return demo.Kill, nil
		}
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
