// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

var losses = flag.Int("losses", 2, "how often tests with real servers lose a lock")

// TestRunBlackholedReal: the connection to a real server loses all packets. The program's
// last time stamp is before the next one's first.
func TestRunBlackholedReal(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	least := time.Hour
	for i := range *losses {
		relay := realzk.NewRelay(t, zk.Addr())
		program := programs[i%len(programs)]
		l := newLoss(t, relay.Addr(), zk.Addr(), program.words, program.processes)
		relay.Cut()
		least = min(least, l.check())
		relay.Mend()
		if code := l.first.code(); code != exitLost {
			t.Errorf("exit code %d, %s", code, l.first.stderr)
		}
		relay.Close()
	}
	t.Logf("%d losses: the program had ended at least %v before the next one began", *losses, least)
}

// TestRunIsolatedFollowerReal: the follower that run is connected to loses the rest of
// the ensemble, and goes on answering pings. The program's last time stamp is before the
// next one's first.
func TestRunIsolatedFollowerReal(t *testing.T) {
	t.Parallel()
	e := realzk.StartEnsemble(t, 3)
	least := time.Hour
	for i := range *losses {
		follower := e.Follower()
		program := programs[i%len(programs)]
		others := strings.Join(realzk.Addrs(e.Others(follower)...), ",")
		l := newLoss(t, follower.Addr(), others, program.words, program.processes)
		e.Isolate(follower)
		least = min(least, l.check())
		if code := l.first.code(); code != exitLost {
			t.Errorf("exit code %d, %s", code, l.first.stderr)
		}
		e.Heal()
		e.Settled()
	}
	t.Logf("%d losses: the program had ended at least %v before the next one began", *losses, least)
}
