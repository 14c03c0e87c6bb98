// SPDX-License-Identifier: Apache-2.0

//go:build unix

package manager

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// A process is stopped for longer than its session lives while it makes a call
// over and over. The first of those that it makes after the pause tells it of
// the loss, whatever the call is. Only a newcomer whom a timer of the process
// forestalls is not told, but queues like any other process; none ever gets in.
func TestF044_RealFirstCallAfterAPause(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	m := openReal(t, zk.Addr(), "waiter", func(cfg *Config) { cfg.Root = defaultRoot })
	type pair struct {
		call string
		p    *holder
		h    Hold // ours
	}
	var pairs []pair
	for _, call := range []string{"err", "grant", "reenter", "share", "lock", "trylock"} {
		name := "paused while calling/" + call
		p := startHolder(t, zk.Addr(), name)
		if answer := p.ask("repeat " + call); answer != "repeating" {
			t.Fatalf("%s: the process says %q", call, answer)
		}
		<-time.After(20 * time.Millisecond) // in the midst of the calls
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		// From now on only, or the tenure would make newcomers of that process wait.
		pairs = append(pairs, pair{call, p, exclusive(t, m, name).Acquire(t.Context())})
	}
	for _, pr := range pairs {
		granted(t, "while the holder stands still", pr.h, 3*holderTimeout)
		if g := grantOf(t, pr.h); g.Token <= pr.p.token {
			t.Errorf("%s: token %d after %d", pr.call, g.Token, pr.p.token)
		}
	}
	// The newcomer who comes too late to be told queues behind us, in vain.
	late := map[string]string{"lock": context.DeadlineExceeded.Error(), "trylock": ErrLocked.Error()}
	for _, pr := range pairs {
		began := time.Now()
		if err := pr.p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		answer := pr.p.answer(pr.call)
		t.Logf("%s: %q, %v after the pause", pr.call, answer, ms(time.Since(began)))
		if alternative, ok := late[pr.call]; answer != "lost" && (!ok || !strings.Contains(answer, alternative)) {
			t.Errorf("%s: the process that has lost the lock says %q", pr.call, answer)
		}
		if answer := pr.p.ask("unlock"); answer != "lost" {
			t.Errorf("%s: unlock: the process says %q", pr.call, answer)
		}
		wantErr(t, "the new holder", pr.h.Err(), nil)
		mustRelease(t, pr.h)
	}
}
