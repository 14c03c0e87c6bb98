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

// These tests kill and pause processes that hold locks. Each runs on a real server
// and on the embedded one, which must not differ.

// holderTimeout is the session timeout of the holders.
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

func (h *holder) signal(s syscall.Signal) {
	h.t.Helper()
	if err := h.p.cmd.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
}

// A killed holder keeps the lock until its session expires. No other process is
// granted it earlier: instead of being dead, the holder could be alive, cut off,
// and relying on its lease.
func TestKilledHolder(t *testing.T) {
	onBothServers(t, func(t *testing.T, address, root string) {
		first := startHolder(t, address, root, holderTimeout)
		second := startHolder(t, address, root, holderTimeout)
		first.tell("lock a")
		firstToken, _ := first.granted()
		second.tell("lock a") // it queues, before or after the kill

		killed := time.Now()
		first.signal(syscall.SIGKILL)
		secondToken, at := second.granted()

		// A lease lasts for at least half of the timeout from its last proof.
		if after := at.Sub(killed); after < holderTimeout/2 {
			t.Errorf("the lock was granted %v after its holder was killed, which might have relied on it for %v", after, holderTimeout/2)
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

// A holder that is stopped until its session has expired learns of the loss from
// its first call, whichever it is.
func TestPausedHolder(t *testing.T) {
	onBothServers(t, func(t *testing.T, address, root string) {
		first := startHolder(t, address, root, holderTimeout)
		second := startHolder(t, address, root, holderTimeout)
		questions := []string{"err", "grant", "reenter", "share", "again"}
		firstTokens := map[string]uint64{}
		for _, q := range questions { // a lock for each, so that each call is its first
			first.tell("lock " + q)
			firstTokens[q], _ = first.granted()
		}

		stopped := time.Now()
		first.signal(syscall.SIGSTOP)
		resume := func() { first.signal(syscall.SIGCONT) }
		defer func() {
			if t.Failed() {
				resume() // so that it can end
			}
		}()
		for _, q := range questions {
			second.tell("lock " + q)
			token, at := second.granted()
			if after := at.Sub(stopped); after < holderTimeout/2 {
				t.Errorf("the lock %s was granted %v after its holder was stopped, which might have relied on it for %v", q, after, holderTimeout/2)
			}
			if token <= firstTokens[q] {
				t.Errorf("token %d after token %d: it did not rise", token, firstTokens[q])
			}
		}

		// It finds the commands when it wakes up.
		for _, q := range questions {
			first.tell(fmt.Sprintf("%s %s", q, q))
		}
		resume()
		for _, q := range questions {
			if got := first.hear(); got != "ErrLost" {
				t.Errorf("%s: it said %q, want ErrLost", q, got)
			}
		}
		for _, q := range questions {
			first.tell("lost " + q)
			first.expect("closed")
			first.tell("release " + q)
			first.expect("ErrLost")
		}

		// None of that affects the second one's locks, and the first can acquire
		// them again, in a new session.
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
