// SPDX-License-Identifier: Apache-2.0

// Package parts is what surrounds a program in a document that is only a part of a
// function. The parts themselves are written into a second file, which has a list of
// them: see internal/documents.
package parts

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A part is a piece of a program, and what it can use.
type part struct {
	at  string // where it is
	run bool   // or only compile it
	fn  func(ctx context.Context, m *manager.Manager, lock, alice, bob *manager.Lock, prices *manager.RWLock, h manager.Hold,
		work func(context.Context, manager.Hold) error, fresh func() bool) error
}

func TestParts(t *testing.T) {
	for _, p := range parts {
		if !p.run {
			continue
		}
		t.Run(p.at, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
			defer srv.Close()
			m, err := manager.Open(ctx, manager.Config{Servers: []string{"zk1"}, Dialer: srv.Dial})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			exclusive := func(name string) *manager.Lock {
				l, err := m.Exclusive(name)
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			prices, err := m.ReadWrite("prices")
			if err != nil {
				t.Fatal(err)
			}
			h, err := exclusive("held").Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			worked := false
			work := func(ctx context.Context, h manager.Hold) error {
				worked = true
				return h.Err()
			}
			err = p.fn(ctx, m, exclusive("jobs/nightly"), exclusive("alice"), exclusive("bob"), prices, h, work, func() bool { return false })
			if err != nil || !worked {
				t.Errorf("error %v; was it at work: %v", err, worked)
			}
		})
	}
}
