// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
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

func TestActors(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		testActors(t)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		testActors(t, "-servers", realzk.Shared(t).Addr())
	})
}

func testActors(t *testing.T, args ...string) {
	t.Helper()
	output, err := exampletest.Run(t, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if n := figure(t, output, "messages handled"); n != messages {
		t.Errorf("%d messages were handled, want %d\n%s", n, messages, output)
	}
	if n := figure(t, output, "activations"); n <= accounts {
		t.Errorf("%d activations of %d accounts, whose owners were killed and stopped\n%s", n, accounts, output)
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
	exampletest.FindsOut(t, "nor a fence", map[string]exampletest.Mistake{
		"no owner check": {Changes: unchecked, Says: `VIOLATION: message \d+ for account \d+ was handled under token \d+, after token \d+`},
		"nor a fence": {
			Changes: append(unchecked[:2:2], exampletest.Change{File: "store.go", Old: "return errFenced", New: ""}),
			Says:    `VIOLATION: message \d+ for account \d+ was written under token \d+, after token \d+`,
		},
	})
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
		lock, err := m.Exclusive("account/7")
		if err != nil {
			t.Fatal(err)
		}
		hold, err := lock.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		a := &actor{hold: hold}
		if _, err := a.handle(Message{}); err != nil {
			t.Errorf("a question to the owner: %v", err)
		}
		server.Faults().BlackholeAll()
		time.Sleep(10 * time.Second) // the session timeout
		if reply, err := a.handle(Message{}); !errors.Is(err, manager.ErrLost) {
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
	h := &Host{manager: m, store: store, ctx: ctx, actors: map[string]*actor{}}
	t.Cleanup(func() {
		cancel()
		closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := m.Shutdown(closing); err != nil {
			t.Error(err)
		}
	})
	return h
}

// newHosts returns two hosts on an embedded server, which cannot reach each other. The
// store is a Store, or stands for one.
func newHosts(t *testing.T, store any) (a, b *Host) {
	t.Helper()
	zk := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = zk.Close() })
	address, err := zk.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go serve(listener, "Store", store)
	at := listener.Addr().String()
	return newHost(t, address, at, "127.0.0.1:1"), newHost(t, address, at, "127.0.0.1:2")
}

func newStore() *Store { return &Store{entries: map[string][]Entry{}} }

func send(h *Host, m Message) (r Reply, err error) {
	err = h.Send(m, &r)
	return r, err
}

// A host that lives, and that another one cannot reach, hands the entity over. A message
// whose sender had no answer is not applied again.
func TestHandOver(t *testing.T) {
	store := newStore()
	a, b := newHosts(t, store)
	m := Message{ID: 1, Entity: "7", Amount: 10}
	first, err := send(a, m)
	if err != nil || first.Balance != 10 {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := send(b, m)
	if err != nil || again.Balance != 10 || again.Token <= first.Token {
		t.Errorf("after the hand-over %+v, %v; before it %+v", again, err, first)
	}
	if err := a.Deliver(m, new(Reply)); !errors.Is(err, errNotOwner) {
		t.Errorf("the former owner: %v, want %v", err, errNotOwner)
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	if _, balance := store.state(m.Entity); balance != 10 {
		t.Errorf("balance %d in the store, want 10", balance)
	}
}

// deafStore does not answer the first write, and keeps it.
type deafStore struct {
	*Store
	late atomic.Pointer[Entry]
}

func (s *deafStore) Ask(e Entry, before *[]Entry) error {
	if e.ID != 0 && s.late.CompareAndSwap(nil, &e) {
		return errNoAnswer
	}
	return s.Store.Ask(e, before)
}

// A write that the store has not answered may still reach it when the process has the
// entity anew. By then the process has another token, so the store refuses the write.
func TestLateWriteIsRefused(t *testing.T) {
	store := &deafStore{Store: newStore()}
	a, _ := newHosts(t, store)
	reply, err := send(a, Message{ID: 1, Entity: "7", Amount: 10})
	if err != nil || reply.Balance != 10 {
		t.Fatalf("%+v, %v", reply, err)
	}
	late := store.late.Load()
	if err := store.Store.Ask(*late, nil); !errors.Is(err, errFenced) {
		t.Errorf("the write under token %d, after token %d: %v, want %v", late.Token, reply.Token, err, errFenced)
	}
}

// A host gives an entity up when another process asks for it.
func TestRevoke(t *testing.T) {
	a, b := newHosts(t, newStore())
	if _, err := send(a, Message{ID: 1, Entity: "7", Amount: 10}); err != nil {
		t.Fatal(err)
	}
	lock, err := b.manager.Exclusive("account/7")
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
	for _, step := range []struct {
		id, token uint64
		refused   bool
	}{
		{0, 5, false},
		{1, 5, false},
		{0, 8, false},
		{2, 5, true},
		{0, 5, true},
		{3, 8, false},
	} {
		e := Entry{Message{ID: step.id, Entity: "7", Amount: 10}, step.token}
		if err := s.Ask(e, new([]Entry)); errors.Is(err, errFenced) != step.refused {
			t.Errorf("token %d, message %d: %v", step.token, step.id, err)
		}
	}
}
