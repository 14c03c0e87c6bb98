// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A value is a resource that compares tokens.
type value interface {
	Get(ctx context.Context, token uint64) (string, error)
	Set(ctx context.Context, token uint64, value string) error
}

// sqlValue is a row of a SQL database.
type sqlValue struct{ db *sql.DB }

func (v sqlValue) Get(ctx context.Context, token uint64) (got string, err error) {
	err = InFencedTx(ctx, v.db, "jobs/nightly", token, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT text FROM reports WHERE id = 1").Scan(&got)
	})
	return got, err
}

func (v sqlValue) Set(ctx context.Context, token uint64, value string) error {
	return InFencedTx(ctx, v.db, "jobs/nightly", token, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE reports SET text = $1 WHERE id = 1", value)
		return err
	})
}

// objectValue is an object that is replaced as a whole.
type objectValue struct{ Object }

func (v objectValue) Get(ctx context.Context, token uint64) (got string, err error) {
	err = v.Update(ctx, token, func(old []byte) []byte {
		got = string(old)
		return old
	})
	return got, err
}

func (v objectValue) Set(ctx context.Context, token uint64, value string) error {
	return v.Update(ctx, token, func([]byte) []byte { return []byte(value) })
}

// resources are the resources of this package, as far as this machine has them.
var resources = map[string]func(t *testing.T) value{
	"postgresql":   func(t *testing.T) value { return sqlTables(t, startPostgres(t)) },
	"miniredis":    func(t *testing.T) value { return RedisValue{miniRedis(t), "report"} },
	"redis-server": func(t *testing.T) value { return RedisValue{startRedis(t), "report"} },
	"mongodb":      func(t *testing.T) value { return mongoDocument(t) },
	"object store": func(t *testing.T) value {
		s := httptest.NewServer(&objects{})
		t.Cleanup(s.Close)
		return objectValue{Object{s.Client(), s.URL + "/bucket/report"}}
	},
}

// sqlTables makes the tables of the test in an empty database.
func sqlTables(t *testing.T, source string) value {
	t.Helper()
	db, err := sql.Open("postgres", source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{
		"CREATE TABLE fences (name TEXT PRIMARY KEY, token BIGINT NOT NULL)",
		"CREATE TABLE reports (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",
		"INSERT INTO reports VALUES (1, '')",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return sqlValue{db}
}

// A holder loses its lock without knowing it. The next one has read the value, and has
// written nothing yet: from then on the first one is refused, and cannot change what the
// second one has read.
func TestLateHolderIsRefused(t *testing.T) {
	for name, open := range resources {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			v := open(t)
			first, second := grants(t)

			want(t, v, first, "")
			set(t, v, first, "one", nil)
			set(t, v, first, "two", nil) // the token is as high as the highest: not refused
			want(t, v, second, "two")
			set(t, v, first, "late", ErrStale)
			if _, err := v.Get(ctx, first); !errors.Is(err, ErrStale) {
				t.Errorf("the first holder reads: %v, want ErrStale", err)
			}
			want(t, v, second, "two")
			set(t, v, second, "three", nil)
			want(t, v, second, "three")
		})
	}
}

func want(t *testing.T, v value, token uint64, want string) {
	t.Helper()
	if got, err := v.Get(t.Context(), token); err != nil || got != want {
		t.Errorf("Get: %q, %v; want %q", got, err, want)
	}
}

func set(t *testing.T, v value, token uint64, text string, want error) {
	t.Helper()
	if err := v.Set(t.Context(), token, text); !errors.Is(err, want) {
		t.Errorf("Set %q: %v, want %v", text, err, want)
	}
}

// process opens a manager, which stands for a process, and returns its lock.
func process(t *testing.T, srv *zktest.Server) *manager.Lock {
	t.Helper()
	m, err := manager.Open(t.Context(), manager.Config{
		Servers: []string{"zk1"}, Dialer: srv.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	lock, err := m.Exclusive("jobs/nightly")
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// hold has a new process take the lock.
func hold(t *testing.T, srv *zktest.Server) (manager.Hold, manager.Grant) {
	t.Helper()
	h, err := process(t, srv).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g, err := h.Grant()
	if err != nil {
		t.Fatal(err)
	}
	return h, g
}

// zookeeper starts a server.
func zookeeper(t *testing.T) *zktest.Server {
	srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

// grants returns the tokens of a holder whose session expires, and of the next one.
func grants(t *testing.T) (first, second uint64) {
	t.Helper()
	srv := zookeeper(t)
	_, a := hold(t, srv)
	srv.ExpireSession(a.Session)
	_, b := hold(t, srv)
	return a.Token, b.Token
}

func TestUpdateNode(t *testing.T) {
	srv := zookeeper(t)
	if err := srv.Create("/count", nil); err != nil {
		t.Fatal(err)
	}
	add := func(h manager.Hold, text string) error {
		return UpdateNode(t.Context(), h, "/count", func(old []byte) []byte { return append(old, text...) })
	}
	first, g := hold(t, srv)
	if err := add(first, "a"); err != nil {
		t.Fatal(err)
	}
	srv.ExpireSession(g.Session)
	second, _ := hold(t, srv)
	if err := add(first, "late"); !errors.Is(err, manager.ErrLost) {
		t.Errorf("the first holder: %v, want ErrLost", err)
	}
	if err := add(second, "b"); err != nil {
		t.Fatal(err)
	}
	if data, _, _ := srv.Get("/count"); string(data) != "ab" {
		t.Errorf("count %q, want ab", data)
	}
}
