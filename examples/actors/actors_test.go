// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/examples/internal/exampletest"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func TestMain(m *testing.M) {
	exampletest.RunIfProgram(main)
	goleak.VerifyTestMain(realzk.WithShared(m))
}

// small are the arguments of a run that has a process killed and one stopped for longer
// than its session lasts.
var small = []string{"-entities", "300", "-messages", "2000", "-duration", "12s", "-pause", "8s"}

func TestActors(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		testActors(t, small...)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		testActors(t, append([]string{"-servers", realzk.Shared(t).Addr()}, small...)...)
	})
}

func testActors(t *testing.T, args ...string) {
	t.Helper()
	output, err := exampletest.Run(t, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if n := figure(t, output, "messages handled"); n <= 2000 {
		t.Errorf("%d messages were handled, want 2,000, and some for the stopped process\n%s", n, output)
	}
	if n := figure(t, output, "activations"); n <= 300 {
		t.Errorf("%d activations of 300 entities, whose owners were killed and stopped\n%s", n, output)
	}
	if n := figure(t, output, "violations"); n != 0 {
		t.Errorf("%d violations\n%s", n, output)
	}
}

// figure returns a figure of the summary.
func figure(t *testing.T, output, name string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` +(\d+)`).FindStringSubmatch(output)
	if m == nil {
		t.Fatalf("the summary does not say %q:\n%s", name, output)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A host that leaves out what the documentation says it must do is found out.
func TestMistakesAreFoundOut(t *testing.T) {
	unchecked := []exampletest.Change{
		{File: "actor.go", Old: "if err := a.hold.Err(); err != nil {", New: "if err := error(nil); err != nil {"},
		{File: "actor.go", Old: "case <-a.hold.Lost():", New: "case <-make(chan struct{}):"},
	}
	for name, tt := range map[string]struct {
		changes []exampletest.Change
		want    string
	}{
		"no owner check": {unchecked, `VIOLATION: message \d+ for account \d+ was handled under token \d+, after token \d+`},
		"nor a fence": {
			append(unchecked[:2:2], exampletest.Change{File: "store.go", Old: "if r.Token < account.token {", New: "if false {"}),
			`VIOLATION: message \d+ for account \d+ was written under token \d+, after token \d+`,
		},
	} {
		if testing.Short() && name != "nor a fence" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := exampletest.RunChanged(t, tt.changes, small...)
			if err == nil || !regexp.MustCompile(tt.want).MatchString(output) {
				t.Errorf("ended with %v, want a line %q\n%s", err, tt.want, output)
			}
		})
	}
}

// The owner check notices the loss by itself, and does not need the channel Lost.
func TestActorChecksItsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
		defer server.Close()
		m, err := manager.Open(ctx, manager.Config{Servers: []string{"zk:2181"}, Dialer: server.Dial, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		h := &Host{manager: m}
		a := &actor{entity: "7", host: h}
		lock, err := h.lock(a.entity)
		if err != nil {
			t.Fatal(err)
		}
		if a.hold, err = lock.Lock(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := a.handle(ctx, Message{}); err != nil {
			t.Errorf("a question to the owner: %v", err)
		}
		server.Faults().BlackholeAll()
		time.Sleep(10 * time.Second) // the session timeout
		if reply, err := a.handle(ctx, Message{}); !errors.Is(err, manager.ErrLost) {
			t.Errorf("a question to a former owner: %+v, %v", reply, err)
		}
	})
}

// newHost returns a host with a manager of its own, which stands for a process. Others
// are told that it is at the endpoint.
func newHost(t *testing.T, server, store, endpoint string) *Host {
	t.Helper()
	m, err := manager.Open(t.Context(), manager.Config{Servers: []string{server}, Endpoint: endpoint, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &Host{manager: m, endpoint: endpoint, store: store, ctx: ctx, actors: map[string]*actor{}}
	t.Cleanup(func() {
		cancel()
		h.Wait()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// newHosts returns two hosts on an embedded server, which cannot reach each other.
func newHosts(t *testing.T, store http.Handler) (a, b *Host) {
	t.Helper()
	zk := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = zk.Close() })
	address, err := zk.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	t.Cleanup(pooled.CloseIdleConnections)
	return newHost(t, address, server.URL, "127.0.0.1:1"), newHost(t, address, server.URL, "127.0.0.1:2")
}

// A host that lives, and that another one cannot reach, hands the entity over. A message
// whose sender had no answer is not applied again.
func TestHandOver(t *testing.T) {
	store := newStore()
	a, b := newHosts(t, store)
	m := Message{ID: 1, Entity: "7", Amount: 10}
	first, err := a.Send(t.Context(), m)
	if err != nil || first.Balance != 10 {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := b.Send(t.Context(), m)
	if err != nil || again.Balance != 10 || again.Token <= first.Token {
		t.Errorf("after the hand-over %+v, %v; before it %+v", again, err, first)
	}
	if _, err := a.Deliver(t.Context(), m); !errors.Is(err, errNotOwner) {
		t.Errorf("the former owner: %v, want %v", err, errNotOwner)
	}
	if n := len(store.account(m.Entity).entries); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

// A write that the store has not answered may still reach it when the process has the
// entity anew. By then the process has another token, so the store refuses the write.
func TestLateWriteIsRefused(t *testing.T) {
	store := newStore()
	var late atomic.Pointer[storeRequest]
	a, _ := newHosts(t, answers(func(ctx context.Context, r storeRequest) ([]Entry, error) {
		if r.Entry != nil && late.CompareAndSwap(nil, &r) {
			return nil, errNoAnswer
		}
		return store.answer(ctx, r)
	}))
	reply, err := a.Send(t.Context(), Message{ID: 1, Entity: "7", Amount: 10})
	if err != nil || reply.Balance != 10 {
		t.Fatalf("%+v, %v", reply, err)
	}
	if _, err := store.answer(t.Context(), *late.Load()); !errors.Is(err, errFenced) {
		t.Errorf("the write under token %d, after token %d: %v, want %v", late.Load().Token, reply.Token, err, errFenced)
	}
}

// A host gives an entity up when another process asks for it.
func TestRevoke(t *testing.T) {
	a, b := newHosts(t, newStore())
	m := Message{ID: 1, Entity: "7", Amount: 10}
	if _, err := a.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	lock, err := b.lock(m.Entity)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := lock.Revoke(ctx, "test"); err != nil {
		t.Error(err)
	}
	if holder, err := lock.Holder(ctx); holder != nil || err != nil {
		t.Errorf("holder %v, %v", holder, err)
	}
}

func TestStoreRefusesFormerOwners(t *testing.T) {
	s := newStore()
	ask := func(token uint64, e *Entry) error {
		_, err := s.answer(t.Context(), storeRequest{Entity: "7", Token: token, Entry: e})
		return err
	}
	for _, step := range []struct {
		token   uint64
		entry   *Entry
		refused bool
	}{
		{5, nil, false},
		{5, &Entry{1, 10, 5}, false},
		{8, nil, false},
		{5, &Entry{2, 10, 5}, true},
		{5, nil, true},
		{8, &Entry{3, 10, 8}, false},
	} {
		if err := ask(step.token, step.entry); errors.Is(err, errFenced) != step.refused {
			t.Errorf("token %d, entry %v: %v", step.token, step.entry, err)
		}
	}
}
