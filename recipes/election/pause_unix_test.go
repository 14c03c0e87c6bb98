// SPDX-License-Identifier: Apache-2.0

//go:build unix

package election_test

import (
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// A leader that is paused for longer than its session lasts does nothing more as a leader
// when it goes on: it stands again.
func TestPausedLeader(t *testing.T) {
	zk := realzk.Start(t, realzk.TickTime(tickTime))
	m, e := openObserver(t, zk.Addr())
	leaders := e.Observe(t.Context())
	first, _ := startCandidate(t, zk.Addr())
	var told []uint64
	nextLeader := func(id int) {
		t.Helper()
		l := next(t, leaders)
		for l.Token == 0 {
			l = next(t, leaders)
		}
		if l.ID != strconv.Itoa(id) {
			t.Errorf("%s leads, want %d", l.ID, id)
		}
		told = append(told, l.Token)
		untilWorking(t, m, l)
	}
	nextLeader(first.Pid)
	second, kill := startCandidate(t, zk.Addr())
	untilStanding(t, e, 2)
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	nextLeader(second.Pid)
	untilStanding(t, e, 1)
	if err := first.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	untilStanding(t, e, 2)
	kill()
	nextLeader(first.Pid)
	if _, terms := marked(t, m); !slices.Equal(terms, told) {
		t.Errorf("the terms in ZooKeeper's order: %v; the observer was told of %v", terms, told)
	}
}
