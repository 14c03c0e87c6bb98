// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/database/stub"
	dbtesting "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/holdfast-go/holdfast/adapters/internal/adaptertest"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

const queuePath = "/holdfast/migrations/orders"

var migrations = fstest.MapFS{
	"1_a.up.sql":   {Data: []byte("CREATE TABLE a (x INTEGER);")},
	"1_a.down.sql": {Data: []byte("DROP TABLE a;")},
	"2_b.up.sql":   {Data: []byte("CREATE TABLE b (x INTEGER);")},
	"2_b.down.sql": {Data: []byte("DROP TABLE b;")},
	"3_c.up.sql":   {Data: []byte("INSERT INTO a VALUES (1);")},
}

func newDriver(t *testing.T, inner database.Driver, m *manager.Manager, cfg Config) *Driver {
	t.Helper()
	d, err := New(inner, m, "migrations/orders", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func migration(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	source, err := iofs.New(migrations, ".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", source, "test", d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = m.Close() })
	return m
}

// migrate's own tests of drivers, with its stub and a real database.
func TestMigrateTests(t *testing.T) {
	t.Parallel()
	srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = srv.Close() })
	for name, tt := range map[string]struct {
		driver database.Driver
		url    func(t *testing.T) string
		cfg    Config
	}{
		"stub":         {&stub.Stub{}, func(*testing.T) string { return "stub://" }, Config{}},
		"stub alone":   {&stub.Stub{}, func(*testing.T) string { return "stub://" }, Config{Alone: true}},
		"sqlite":       {&sqlite.Sqlite{}, sqliteURL, Config{}},
		"sqlite alone": {&sqlite.Sqlite{}, sqliteURL, Config{Alone: true}},
	} {
		for _, test := range []struct {
			name string
			run  func(t *testing.T, d database.Driver)
		}{
			{"Test", func(t *testing.T, d database.Driver) { dbtesting.Test(t, d, []byte("CREATE TABLE t (x INTEGER);")) }},
			{"TestMigrate", func(t *testing.T, d database.Driver) { dbtesting.TestMigrate(t, migration(t, d)) }},
		} {
			t.Run(name+" "+test.name, func(t *testing.T) {
				d, err := newDriver(t, tt.driver, adaptertest.Open(t, srv), tt.cfg).Open(tt.url(t))
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				test.run(t, d)
			})
		}
	}
}

func sqliteURL(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "orders.db") }

// A shared database, without a lock that works.
type shared struct {
	t       *testing.T
	mu      sync.Mutex
	version int
	dirty   bool
	inside  int
	runs    []string
	onRun   func()
}

// A connection is a driver for the shared database. Its lock is for one process only.
type connection struct {
	*shared
	locks, unlocks *int
	refuse         error
	wait           time.Duration // what Lock takes
}

func (s *shared) connect() connection {
	return connection{shared: s, locks: new(int), unlocks: new(int)}
}

func (c connection) Open(string) (database.Driver, error) { return c, nil }
func (c connection) Close() error                         { return nil }
func (c connection) Lock() error {
	time.Sleep(c.wait)
	if c.refuse == nil {
		*c.locks++
	}
	return c.refuse
}
func (c connection) Unlock() error { *c.unlocks++; return c.refuse }
func (c connection) Drop() error   { return nil }
func (c connection) Run(r io.Reader) error {
	text, err := io.ReadAll(r)
	c.mu.Lock()
	c.runs = append(c.runs, string(text))
	if c.inside++; c.inside != 1 {
		c.t.Errorf("%d processes migrate", c.inside)
	}
	c.mu.Unlock()
	if c.onRun != nil {
		c.onRun()
	}
	time.Sleep(time.Second) // what a migration takes
	c.mu.Lock()
	c.inside--
	c.mu.Unlock()
	return err
}
func (c connection) SetVersion(version int, dirty bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.dirty = version, dirty
	return nil
}
func (c connection) Version() (int, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version, c.dirty, nil
}

// Five processes, and five drivers of one, migrate once.
func TestFiveMigrateOnce(t *testing.T) {
	for _, processes := range []int{5, 1} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				db := &shared{t: t, version: database.NilVersion}
				var managers []*manager.Manager
				for range processes {
					managers = append(managers, adaptertest.Open(t, srv))
				}
				var wg sync.WaitGroup
				changed := make([]error, 5)
				for i := range changed {
					m := migration(t, newDriver(t, db.connect(), managers[i%processes], Config{}))
					wg.Go(func() { changed[i] = m.Up() })
				}
				wg.Wait()
				did := 0
				for i, err := range changed {
					if err == nil {
						did++
					} else if !errors.Is(err, migrate.ErrNoChange) {
						t.Errorf("driver %d: %v", i, err)
					}
				}
				if did != 1 || len(db.runs) != 3 || db.version != 3 || db.dirty {
					t.Errorf("%d processes migrated, runs %q, version %d, dirty %v", did, db.runs, db.version, db.dirty)
				}
			})
		})
	}
}

// Lock gives up before migrate does, and leaves nothing in the queue.
func TestLockGivesUp(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		db := &shared{t: t}
		m := adaptertest.Open(t, srv)
		first := newDriver(t, db.connect(), m, Config{})
		if err := first.Lock(); err != nil {
			t.Fatal(err)
		}
		for name, other := range map[string]*manager.Manager{"another process": adaptertest.Open(t, srv), "another driver": m} {
			start := time.Now()
			err := migration(t, newDriver(t, db.connect(), other, Config{})).Up()
			if took := time.Since(start); !errors.Is(err, database.ErrLocked) || took != 10*time.Second {
				t.Errorf("%s: after %v: %v, want ErrLocked after 10s", name, took, err)
			}
			if name == "another process" && (err == nil || !strings.Contains(err.Error(), "held by")) {
				t.Errorf("%v: does not name the holder", err)
			}
			synctest.Wait()
			if nodes := srv.Children(queuePath); len(nodes) != 1 {
				t.Errorf("%s: in the queue: %v, want the holder", name, nodes)
			}
		}
		if err := first.Lock(); err != database.ErrLocked {
			t.Errorf("the same driver: %v, want ErrLocked", err)
		}
		cut := newDriver(t, db.connect(), adaptertest.Open(t, srv), Config{})
		srv.Stop() // there is no telling whether it is locked then
		if err := cut.Lock(); err == nil || errors.Is(err, database.ErrLocked) {
			t.Errorf("in an outage: %v, want no ErrLocked", err)
		}
		srv.Start()
	})
}

func TestUnlock(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		db := (&shared{t: t}).connect()
		d := newDriver(t, db, adaptertest.Open(t, srv), Config{OnLost: func(err error) { t.Error(err) }})
		if err := d.Unlock(); err != database.ErrNotLocked {
			t.Errorf("unlock without a lock: %v, want ErrNotLocked", err)
		}
		for range 2 {
			if err := d.Lock(); err != nil {
				t.Fatal(err)
			}
			if err := d.Hold().Err(); err != nil {
				t.Error(err)
			}
			if err := d.Unlock(); err != nil {
				t.Error(err)
			}
			if nodes := srv.Children(queuePath); len(nodes) != 0 {
				t.Errorf("left in the queue: %v", nodes)
			}
			if err := d.Unlock(); err != database.ErrNotLocked {
				t.Errorf("second unlock: %v, want ErrNotLocked", err)
			}
		}
		if *db.locks != 2 || *db.unlocks != 2 {
			t.Errorf("the database was locked %d times and unlocked %d times, want 2, 2", *db.locks, *db.unlocks)
		}
		alone := newDriver(t, db, adaptertest.Open(t, srv), Config{Alone: true})
		if err := alone.Lock(); err != nil {
			t.Fatal(err)
		}
		if err := alone.Close(); err != nil { // gives it up
			t.Error(err)
		}
		synctest.Wait()
		if nodes := srv.Children(queuePath); len(nodes) != 0 || *db.locks != 2 {
			t.Errorf("left in the queue after Close: %v; the database was locked %d times, want 2", nodes, *db.locks)
		}
	})
}

// If the database cannot be locked, Holdfast's lock is given up, and its error is told.
func TestDatabaseCannotBeLocked(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		db := (&shared{t: t}).connect()
		db.refuse = errors.New("no such table")
		d := newDriver(t, db, adaptertest.Open(t, srv), Config{})
		for range 2 {
			if err := d.Lock(); err != db.refuse {
				t.Errorf("lock: %v, want %v", err, db.refuse)
			}
		}
		synctest.Wait()
		if nodes := srv.Children(queuePath); len(nodes) != 0 {
			t.Errorf("left in the queue: %v", nodes)
		}
	})
}

// After a loss no migration begins. One that has begun ends, and migrate fails.
func TestNoMigrationBeginsAfterALoss(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		db, lost := &shared{t: t, version: database.NilVersion}, make(chan error, 1)
		d := newDriver(t, db.connect(), adaptertest.Open(t, srv), Config{OnLost: func(err error) { lost <- err }})
		db.onRun = func() {
			if grant, err := d.Hold().Grant(); err == nil {
				srv.ExpireSession(grant.Session)
				<-d.Hold().Lost()
			}
		}
		// Not Up, which leaves goroutines behind when it stops before the last migration.
		if err := migration(t, d).Steps(1); !errors.Is(err, manager.ErrLost) {
			t.Errorf("a step: %v, want ErrLost", err)
		}
		if err := <-lost; !errors.Is(err, manager.ErrLost) {
			t.Errorf("OnLost was told %v, want ErrLost", err)
		}
		if len(db.runs) != 1 || db.version != 1 || db.dirty {
			t.Errorf("runs %q, version %d, dirty %v; want one, 1, false", db.runs, db.version, db.dirty)
		}
		db.onRun = nil
		if err := migration(t, newDriver(t, db.connect(), adaptertest.Open(t, srv), Config{})).Up(); err != nil {
			t.Error(err)
		}
		if len(db.runs) != 3 || db.version != 3 {
			t.Errorf("runs %q, version %d; want three, 3", db.runs, db.version)
		}

		// Each step by itself, with a lock that is lost already.
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		grant, err := d.Hold().Grant()
		if err != nil {
			t.Fatal(err)
		}
		srv.ExpireSession(grant.Session)
		<-d.Hold().Lost()
		for name, step := range map[string]func() error{
			"run": func() error { return d.Run(strings.NewReader("")) }, "drop": d.Drop,
			"dirty": func() error { return d.SetVersion(4, true) },
		} {
			if err := step(); !errors.Is(err, manager.ErrLost) {
				t.Errorf("%s: %v, want ErrLost", name, err)
			}
		}
		if err := d.Unlock(); !errors.Is(err, manager.ErrLost) {
			t.Errorf("unlock: %v, want ErrLost", err)
		}
		if len(db.runs) != 3 || db.version != 3 {
			t.Errorf("runs %q, version %d; want three, 3", db.runs, db.version)
		}
	})
}

func TestNewRefusesBadNames(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		if _, err := New(&stub.Stub{}, adaptertest.Open(t, srv), "a//b", Config{}); !errors.Is(err, manager.ErrBadName) {
			t.Errorf("%v, want ErrBadName", err)
		}
	})
}

// A process that was paused may unlock before the watch has looked at the clock. OnLost is
// called then, too, and once.
func TestTellsOfALossAtUnlock(t *testing.T) {
	adaptertest.TellsOfALossAtUnlock(t, func(t *testing.T, m *manager.Manager, onLost func(err error)) (unlock func()) {
		d := newDriver(t, (&shared{t: t}).connect(), m, Config{OnLost: onLost})
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		d.unwatch = adaptertest.Late(d.unwatch)
		return func() { _ = d.Unlock() }
	})
}

// Close tells of a loss, too, that the watch has not seen.
func TestCloseTellsOfALoss(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m, lost := adaptertest.Open(t, srv), make(chan error, 2)
		d := newDriver(t, (&shared{t: t}).connect(), m, Config{OnLost: func(err error) { lost <- err }})
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		d.unwatch = adaptertest.Late(d.unwatch)
		srv.ExpireSession(m.Access().Session().ID())
		time.Sleep(time.Minute) // until the Manager knows
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(lost) != 1 {
			t.Errorf("OnLost was called %d times, want once", len(lost))
		}
	})
}

// migrate forgets a Lock that takes too long for it, and closes the driver. Neither lock is kept.
func TestCloseDuringLock(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		first := newDriver(t, (&shared{t: t}).connect(), adaptertest.Open(t, srv), Config{})
		if err := first.Lock(); err != nil {
			t.Fatal(err)
		}
		waiting := newDriver(t, (&shared{t: t}).connect(), adaptertest.Open(t, srv), Config{})
		done := make(chan error, 1)
		go func() { done <- waiting.Lock() }()
		time.Sleep(time.Second)
		if err := waiting.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, errClosed) || !errors.Is(err, database.ErrLocked) {
			t.Errorf("the Lock that waits: %v, want errClosed and ErrLocked", err)
		}
		if err := waiting.Lock(); !errors.Is(err, errClosed) {
			t.Errorf("lock after Close: %v, want errClosed", err)
		}
		if err := first.Unlock(); err != nil {
			t.Error(err)
		}

		// The lock of the database may be what takes too long.
		slow := (&shared{t: t}).connect()
		slow.wait = time.Minute
		last := newDriver(t, slow, adaptertest.Open(t, srv), Config{})
		go func() { done <- last.Lock() }()
		time.Sleep(time.Second)
		if err := last.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, errClosed) {
			t.Errorf("the Lock in the database: %v, want errClosed", err)
		}
		synctest.Wait()
		if nodes := srv.Children(queuePath); len(nodes) != 0 || *slow.locks != 1 || *slow.unlocks != 1 {
			t.Errorf("in the queue: %v; the database was locked %d times and unlocked %d times, want 1, 1", nodes, *slow.locks, *slow.unlocks)
		}
	})
}

// After an Unlock that ZooKeeper has not confirmed, the same Migrate can migrate again.
func TestUnlockUnconfirmed(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		db := &shared{t: t, version: database.NilVersion}
		m := adaptertest.Open(t, srv)
		d := newDriver(t, db.connect(), m, Config{OnLost: func(err error) { t.Error(err) }})
		mig := migration(t, d)
		var silent, refused *zktest.Fault
		db.onRun = func() {
			silent, refused = srv.Faults().Blackhole(m.Access().Session().ID()), srv.Faults().Refuse()
		}
		start := time.Now()
		if err := mig.Steps(1); err != nil {
			t.Errorf("a step: %v", err)
		}
		if took := time.Since(start); took < 2*time.Second {
			t.Errorf("it took %v, so Unlock has not waited for ZooKeeper", took)
		}
		db.onRun = nil
		silent.Remove()
		refused.Remove()
		time.Sleep(time.Minute)
		if err := mig.Steps(1); err != nil {
			t.Errorf("the next step: %v", err)
		}
	})
}
