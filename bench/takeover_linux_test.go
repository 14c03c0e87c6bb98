// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// In each way in which a holder can end, its sentinel closes its session, which does not expire.
func TestTakeover(t *testing.T) {
	srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer srv.Close()
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asSubject, oursSentinel)
	next := newProgram(t.Context(), oursSentinel, addr, []string{os.Args[0], "-test.run=^$"})
	if err := next.begin(); err != nil {
		t.Fatal(err)
	}
	defer next.end()
	s := &suite{report: &report{measured: newMeasured()}, places: map[place]string{ensemble: addr}, log: io.Discard}
	ways := []string{work.ByKill, work.ByGroup, work.ByPanic, work.ByExit}
	if g, err := newMemoryGroup("holdfast-bench-test"); err == nil {
		g.remove()
		ways = append(ways, work.ByOOM)
	}
	for _, how := range ways {
		for _, locks := range []int{1, 10} {
			r, err := s.dieOnce(t.Context(), "", next, death{how: how, subject: oursSentinel, locks: locks})
			if err != nil || len(r.Waits) != 1 {
				t.Errorf("%s, %d locks: %+v, %v", how, locks, r, err)
			}
		}
	}
	if expired := srv.Expired(); len(expired) > 0 {
		t.Errorf("sessions have expired: %v", expired)
	}
}
