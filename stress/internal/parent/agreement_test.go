// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Two servers contradict each other if no one history leads to what both show.
func TestContradicts(t *testing.T) {
	created := map[string]int64{"a": 5, "b": 6, "c": 8}
	look := func(name string) (int64, bool) {
		at, ok := created[name]
		return at, ok
	}
	see := func(dir, since int64, names string) sight { return sight{strings.Fields(names), dir, since} }
	for _, tt := range []struct {
		name       string
		now, other sight
		child      string
		here       bool
	}{
		{"the same", see(1, 6, "a b"), see(1, 6, "b a"), "", false},
		{"empty", see(1, 1, ""), see(1, 1, ""), "", false},
		{"one more at the same time", see(1, 6, "a b"), see(1, 6, "a"), "b", true},
		{"one less at the same time", see(1, 6, "a"), see(1, 6, "a b"), "b", false},
		{"one was created since", see(1, 8, "a b c"), see(1, 7, "a b"), "", false},
		{"one was deleted since", see(1, 7, "a"), see(1, 6, "a b"), "", false},
		{"one was deleted before, and is there again", see(1, 9, "a b"), see(1, 7, "a"), "b", true},
		{"it cannot be looked at", see(1, 9, "a x"), see(1, 7, "a"), "", false},
		{"the younger comes first", see(1, 7, "a"), see(1, 9, "a b"), "", false},
		{"the directory was made anew", see(9, 9, ""), see(1, 7, "a"), "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if name, here := tt.now.contradicts(tt.other, look); name != tt.child || here != tt.here {
				t.Errorf("%q, %t; want %q, %t", name, here, tt.child, tt.here)
			}
		})
	}
}

// Two servers that are asked again and again show different nodes.
func TestAgreementWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agreement{dirs: map[string]string{"lock-0": "/d"}, seen: map[string]map[int]sight{}, told: map[string]bool{}}
		ctx, stop := context.WithCancel(t.Context())
		a.stop = stop
		var mu sync.Mutex
		var told []string
		var servers []*zktest.Server
		for i := range 2 {
			server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
			defer server.Close()
			servers = append(servers, server)
			cfg := zkio.Config{Servers: []string{"server:1"}, Dialer: server.Dial, Logger: slog.New(slog.DiscardHandler)}
			a.all.Go(func() {
				if err := a.watch(ctx, i, cfg, func(lock, text string) {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, lock+": "+text)
				}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // sessions are transactions, too
		}
		for _, server := range servers {
			if err := server.Create("/d", nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		mu.Lock()
		if len(told) != 0 {
			t.Errorf("they agree, and it says %q", told)
		}
		mu.Unlock()
		if err := errors.Join(servers[0].Create("/d/x", nil), servers[1].Create("/d/y", nil)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		looks, err := a.end()
		if err != nil || looks < 20 {
			t.Errorf("%d looks, %v", looks, err)
		}
		if len(told) == 0 || len(told) > 2 || !strings.Contains(told[0], "lock-0: server ") || !strings.Contains(told[0], " shows ") {
			t.Errorf("it says %q", told)
		}
	})
}
