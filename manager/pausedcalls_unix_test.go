// SPDX-License-Identifier: Apache-2.0

//go:build unix

package manager

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// A process is stopped for longer than its session lives while it makes a call
// over and over. The first call after the pause reports the loss, whichever call
// it is. If one of the process's timers comes first, a newcomer does not hear of
// it, and queues like any other; it never enters.
func TestF044_RealFirstCallAfterAPause(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	m := openReal(t, zk.Addr(), "waiter", func(cfg *Config) { cfg.Root = defaultRoot })
	type pair struct {
		call string
		p    *holder
		h    Hold // of this process
	}
	var pairs []pair
	for _, call := range []string{"err", "grant", "reenter", "share", "lock", "trylock"} {
		name := "paused while calling/" + call
		p := startHolder(t, zk.Addr(), name)
		p.says("repeat "+call, "repeating")
		<-time.After(20 * time.Millisecond) // in the middle of the calls
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		// Not earlier: the tenure would make newcomers of that process wait.
		pairs = append(pairs, pair{call, p, exclusive(t, m, name).Acquire(t.Context())})
	}
	for _, pr := range pairs {
		granted(t, "while the holder stands still", pr.h, 3*holderTimeout)
		g := grantOf(t, pr.h)
		expect(t, g.Token > pr.p.token, "%s: token %d after %d", pr.call, g.Token, pr.p.token)
	}
	// A newcomer that the timer has forestalled queues behind this process, in
	// vain.
	late := map[string]string{"lock": "deadline exceeded", "trylock": "locked"}
	for _, pr := range pairs {
		began := time.Now()
		if err := pr.p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		answer := pr.p.answer(pr.call)
		t.Logf("%s: %q, %v after the pause", pr.call, answer, ms(time.Since(began)))
		alternative, ok := late[pr.call]
		expect(t, answer == "lost" || ok && strings.Contains(answer, alternative),
			"%s: the process that has lost the lock says %q", pr.call, answer)
		pr.p.says("unlock", "lost")
		wantErr(t, "the new holder", pr.h.Err(), nil)
		mustRelease(t, pr.h)
	}
}
