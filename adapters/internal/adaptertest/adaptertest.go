// SPDX-License-Identifier: Apache-2.0

// Package adaptertest has what the tests of all adapters need.
package adaptertest

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Bubble runs test in virtual time beside other tests, with a server of its own.
func Bubble(t *testing.T, test func(t *testing.T, srv *zktest.Server)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(func() { _ = srv.Close() })
		test(t, srv)
	})
}

// Open returns a Manager, as a process of its own would have. The end of the test closes it.
func Open(t *testing.T, srv *zktest.Server) *manager.Manager {
	t.Helper()
	m, err := manager.Open(context.Background(), manager.Config{
		Servers: []string{"zk"}, Dialer: srv.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}
