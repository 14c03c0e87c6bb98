// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A revocation of which the holder was told has taken effect, also if the holder keeps the
// lock: then the judge must see that. One that came to no holder has not.
func TestRevoked(t *testing.T) {
	t.Parallel()
	server := zktest.NewServer(zktest.Config{})
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	address, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*manager.Manager, *manager.Lock) {
		m, err := manager.Open(t.Context(), manager.Config{Servers: []string{address}, Root: "/revoked"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		l, err := m.Exclusive("a")
		if err != nil {
			t.Fatal(err)
		}
		return m, l
	}
	_, holders := open()
	m, asks := open()
	h, err := holders.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err = asks.Revoke(ctx, "a test")
	<-h.Revoked()
	if err == nil || revoked(err) != nil {
		t.Errorf("the holder was told: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := asks.Revoke(t.Context(), "a test"); err == nil || revoked(err) == nil {
		t.Errorf("no holder was told: %v", err)
	}
}
