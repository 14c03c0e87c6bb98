// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// These tests do to processes that hold locks what happens to processes: they
// are killed, and they are paused for longer than anybody waits for them. Each
// runs on a real server and on the embedded one, which is to be no different.

// holderTimeout is the session timeout that the holders ask for.
const holderTimeout = 4 * time.Second

func onBothServers(t *testing.T, test func(t *testing.T, address, root string)) {
	t.Parallel()
	root := "/" + strings.ReplaceAll(t.Name(), "/", "-")
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, realzk.Shared(t).Addr(), root)
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		_, address := newServer(t)
		test(t, address, root)
	})
}

// signal sends a signal to the holder.
func (h *holder) signal(s syscall.Signal) {
	h.t.Helper()
	if err := h.p.cmd.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
}

// A holder that is killed keeps the lock until its session has timed out. Only
// then does another process get it: not while the dead one could still have
// been alive and sure of its lock, had it been cut off instead.
func TestKilledHolder(t *testing.T) {
	onBothServers(t, func(t *testing.T, address, root string) {
		first := startHolder(t, address, root, holderTimeout)
		second := startHolder(t, address, root, holderTimeout)
		first.tell("lock a")
		firstToken, _ := first.granted()
		second.tell("lock a") // it queues; whether before the kill or after does not matter

		killed := time.Now()
		first.signal(syscall.SIGKILL)
		secondToken, at := second.granted()

		// A lease lasts for at most half of the timeout from the last proof.
		if after := at.Sub(killed); after < holderTimeout/2 {
			t.Errorf("the lock was granted %v after its holder was killed, who could have trusted in it for %v", after, holderTimeout/2)
		}
		if secondToken <= firstToken {
			t.Errorf("token %d after token %d: it did not rise", secondToken, firstToken)
		}
		second.tell("err a")
		second.expect("nil")
		second.tell("release a")
		second.expect("nil")
	})
}

// A holder that is stopped and goes on after its session has timed out learns
// of it from the first thing that it asks, whatever that is, and before it can
// do any harm by believing that it still has the lock.
func TestPausedHolder(t *testing.T) {
	onBothServers(t, func(t *testing.T, address, root string) {
		first := startHolder(t, address, root, holderTimeout)
		second := startHolder(t, address, root, holderTimeout)
		questions := []string{"err", "grant", "reenter", "share", "again"}
		firstTokens := map[string]uint64{}
		for _, q := range questions { // a lock for each, so that each is the first
			first.tell("lock " + q)
			firstTokens[q], _ = first.granted()
		}

		stopped := time.Now()
		first.signal(syscall.SIGSTOP)
		resume := func() { first.signal(syscall.SIGCONT) }
		defer func() {
			if t.Failed() {
				resume() // or it could not end
			}
		}()
		for _, q := range questions {
			second.tell("lock " + q)
			token, at := second.granted()
			if after := at.Sub(stopped); after < holderTimeout/2 {
				t.Errorf("the lock %s was granted %v after its holder was stopped, who could have trusted in it for %v", q, after, holderTimeout/2)
			}
			if token <= firstTokens[q] {
				t.Errorf("token %d after token %d: it did not rise", token, firstTokens[q])
			}
		}

		// It finds the questions waiting when it wakes up.
		for _, q := range questions {
			first.tell(fmt.Sprintf("%s %s", q, q))
		}
		resume()
		for _, q := range questions {
			if got := first.hear(); got != "ErrLost" {
				t.Errorf("asked for %s first, it said %q, want ErrLost", q, got)
			}
		}
		for _, q := range questions {
			first.tell("lost " + q)
			first.expect("closed")
			first.tell("release " + q)
			first.expect("ErrLost")
		}

		// Nothing of that has touched the other's locks, and the first one can
		// have them again, with a new session.
		for _, q := range questions {
			second.tell("err " + q)
			second.expect("nil")
			second.tell("release " + q)
			second.expect("nil")
			first.tell("lock " + q)
			if token, _ := first.granted(); token <= firstTokens[q] {
				t.Errorf("token %d after token %d: it did not rise", token, firstTokens[q])
			}
		}
	})
}
