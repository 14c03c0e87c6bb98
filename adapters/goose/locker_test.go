// SPDX-License-Identifier: Apache-2.0

package goose

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/adapters/internal/adaptertest"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

const queuePath = "/holdfast/migrations/orders"

func newLocker(t *testing.T, m *manager.Manager, cfg Config) *Locker {
	t.Helper()
	l, err := New(m, "migrations/orders", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newDatabase makes an SQLite file in a new directory, and returns its path. It puts the file in
// WAL mode, which the file keeps. SQLite does not wait for other connections when a file changes
// its mode, whatever the busy timeout is, so the connections of a test must not do it side by side.
func newDatabase(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "orders.db")
	if _, err := database(t, file).ExecContext(t.Context(), "PRAGMA journal_mode = wal"); err != nil {
		t.Fatal(err)
	}
	return file
}

// database returns a new connection pool for the SQLite file.
func database(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

var migrations = fstest.MapFS{
	"001_a.sql":    {Data: []byte("-- +goose Up\nCREATE TABLE a (x INTEGER);\n-- +goose Down\nDROP TABLE a;")},
	"002_b.sql":    {Data: []byte("-- +goose Up\nCREATE TABLE b (x INTEGER);\n-- +goose Down\nDROP TABLE b;")},
	"003_rows.sql": {Data: []byte("-- +goose Up\nINSERT INTO a VALUES (1);\nINSERT INTO b VALUES (2);")},
}

// goose's own tests of lockers, with five processes, and with five providers in one.
func TestGooseProviderLocking(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		oneProcess bool
		option     func(l *Locker) goose.ProviderOption
	}{
		"lockers":                     {false, func(l *Locker) goose.ProviderOption { return goose.WithLocker(l) }},
		"session lockers":             {false, func(l *Locker) goose.ProviderOption { return goose.WithSessionLocker(l) }},
		"one locker, five providers":  {true, func(l *Locker) goose.ProviderOption { return goose.WithLocker(l) }},
		"one session, five providers": {true, func(l *Locker) goose.ProviderOption { return goose.WithSessionLocker(l) }},
	} {
		t.Run(name, func(t *testing.T) {
			srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
			t.Cleanup(func() { _ = srv.Close() })
			file := newDatabase(t)
			shared := newLocker(t, adaptertest.Open(t, srv), Config{})
			locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
				l := shared
				if !tt.oneProcess {
					l = newLocker(t, adaptertest.Open(t, srv), Config{})
				}
				p, err := goose.NewProvider(goose.DialectSQLite3, database(t, file), migrations, tt.option(l))
				if err != nil {
					t.Fatal(err)
				}
				return p
			})
		})
	}
}

func TestGooseConcurrentLocking(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		locktesting.TestConcurrentLocking(t, nil, func(t *testing.T) lock.Locker {
			// goose's test unlocks with a context that has ended. Time is Config.Timeout's here.
			return detached{newLocker(t, adaptertest.Open(t, srv), Config{})}
		}, time.Second)
		if nodes := srv.Children(queuePath); len(nodes) != 0 {
			t.Errorf("left in the queue: %v", nodes)
		}
	})
}

// detached unlocks as goose's Provider does.
type detached struct{ *Locker }

func (d detached) Unlock(ctx context.Context, db *sql.DB) error {
	return d.Locker.Unlock(context.WithoutCancel(ctx), db)
}

// A wait that ends leaves nothing in the queue, and its error says which process has the lock.
func TestLockerGivesUp(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		first := newLocker(t, adaptertest.Open(t, srv), Config{})
		if err := first.Lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for name, tt := range map[string]struct{ timeout, deadline, after time.Duration }{
			"timeout":         {0, time.Hour, 5 * time.Minute},
			"shorter timeout": {time.Second, time.Hour, time.Second},
			"context":         {-1, time.Hour, time.Hour},
			"shorter context": {time.Hour, time.Second, time.Second},
		} {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
			err := newLocker(t, adaptertest.Open(t, srv), Config{Timeout: tt.timeout}).Lock(ctx, nil)
			cancel()
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != tt.after || !strings.Contains(err.Error(), "held by") {
				t.Errorf("%s: after %v: %v", name, took, err)
			}
			synctest.Wait()
			if nodes := srv.Children(queuePath); len(nodes) != 1 {
				t.Errorf("%s: in the queue: %v, want the holder", name, nodes)
			}
		}
	})
}

func TestUnlock(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := newLocker(t, adaptertest.Open(t, srv), Config{OnLost: func(err error) { t.Error(err) }})
		for range 2 {
			if err := l.SessionLock(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if err := l.Hold().Err(); err != nil {
				t.Error(err)
			}
			if err := l.SessionUnlock(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if err := l.Unlock(t.Context(), nil); !errors.Is(err, manager.ErrReleased) {
				t.Errorf("unlock without a lock: %v, want ErrReleased", err)
			}
			if err := l.Hold().Err(); !errors.Is(err, manager.ErrReleased) {
				t.Errorf("hold: %v, want ErrReleased", err)
			}
		}
	})
}

// When the lock is lost in the middle of a migration, Up stops, and its error says so.
func TestUpTellsOfALoss(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		l := newLocker(t, adaptertest.Open(t, srv), Config{OnLost: cancel})
		other := newLocker(t, adaptertest.Open(t, srv), Config{})
		slow := goose.NewGoMigration(4, &goose.GoFunc{RunTx: func(ctx context.Context, _ *sql.Tx) error {
			grant, err := l.Hold().Grant()
			if err != nil {
				return err
			}
			srv.ExpireSession(grant.Session)
			select {
			case <-ctx.Done(): // by OnLost
				return context.Cause(ctx)
			case <-time.After(time.Minute):
				t.Error("the migration goes on")
				return nil
			}
		}}, nil)
		p, err := goose.NewProvider(goose.DialectSQLite3, database(t, newDatabase(t)), migrations, goose.WithLocker(l), goose.WithGoMigrations(slow))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Up(ctx); !errors.Is(err, manager.ErrLost) {
			t.Errorf("up: %v, want ErrLost", err)
		}
		if v, err := p.GetDBVersion(t.Context()); v != 3 || err != nil {
			t.Errorf("the database has version %d, %v; want 3", v, err)
		}
		if err := other.Lock(t.Context(), nil); err != nil {
			t.Errorf("another process: %v", err)
		}
	})
}

// Up fails with ErrLost also if OnLost does not stop it.
func TestUpFailsAfterALoss(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := newLocker(t, adaptertest.Open(t, srv), Config{})
		lose := goose.NewGoMigration(4, &goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error {
			grant, err := l.Hold().Grant()
			if err != nil {
				return err
			}
			srv.ExpireSession(grant.Session)
			<-l.Hold().Lost()
			return nil
		}}, nil)
		p, err := goose.NewProvider(goose.DialectSQLite3, database(t, newDatabase(t)), migrations, goose.WithLocker(l), goose.WithGoMigrations(lose))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Up(t.Context()); !errors.Is(err, manager.ErrLost) {
			t.Errorf("up: %v, want ErrLost", err)
		}
	})
}

func TestNewRefusesBadNames(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := adaptertest.Open(t, srv)
		if _, err := New(m, "a//b", Config{}); !errors.Is(err, manager.ErrBadName) {
			t.Errorf("%v, want ErrBadName", err)
		}
	})
}

// A process that was paused may unlock before the watch has looked at the clock. OnLost is
// called then, too, and once.
func TestTellsOfALossAtUnlock(t *testing.T) {
	adaptertest.TellsOfALossAtUnlock(t, func(t *testing.T, m *manager.Manager, onLost func(err error)) (unlock func()) {
		l := newLocker(t, m, Config{OnLost: onLost})
		if err := l.Lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		l.unwatch = adaptertest.Late(l.unwatch)
		return func() { _ = l.Unlock(t.Context(), nil) }
	})
}
