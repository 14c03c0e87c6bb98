// SPDX-License-Identifier: Apache-2.0

//go:build unix

package manager

import (
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// The process that holds the lock is stopped for longer than its session lives,
// and goes on: the first thing that it asks tells it of the loss, its late
// release harms nobody, and it can have the lock again.
func TestRealHolderIsPaused(t *testing.T) {
	zk := realzk.Shared(t)
	m := openReal(t, zk.Addr(), "waiter", func(cfg *Config) { cfg.Root = defaultRoot })
	type pair struct {
		first string
		p     *holder
		l     *Lock
		h     Hold // ours
	}
	var pairs []pair
	for _, first := range []string{"err", "reenter", "unlock", "lost"} {
		name := "paused/" + first
		p := startHolder(t, zk.Addr(), name)
		if answer := p.ask("err"); answer != "ok" {
			t.Fatalf("the holder says %q", answer)
		}
		l := exclusive(t, m, name)
		h := l.Acquire(t.Context())
		<-h.round.trip().placed().Done()
		pairs = append(pairs, pair{first, p, l, h})
	}
	signal := func(s syscall.Signal) {
		for _, pr := range pairs {
			if err := pr.p.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	signal(syscall.SIGSTOP)
	for _, pr := range pairs {
		granted(t, "while the holder stands still", pr.h, 3*holderTimeout)
		if g := grantOf(t, pr.h); g.Token <= pr.p.token {
			t.Errorf("token %d after %d", g.Token, pr.p.token)
		}
	}
	signal(syscall.SIGCONT)
	for _, pr := range pairs {
		if answer := pr.p.ask(pr.first); answer != "lost" {
			t.Errorf("%s: the process that has lost the lock says %q", pr.first, answer)
		}
		want := "lost"
		if pr.first == "unlock" {
			want = "released"
		}
		if answer := pr.p.ask("unlock"); answer != want {
			t.Errorf("unlock: the process says %q, want %q", answer, want)
		}
		wantErr(t, "the new holder", pr.h.Err(), nil)
		mustRelease(t, pr.h)
		if answer := pr.p.ask("lock"); answer != "ok" {
			t.Errorf("lock: the process says %q", answer)
		}
		if answer := pr.p.ask("close"); answer != "ok" {
			t.Errorf("close: the process says %q", answer)
		}
		mustRelease(t, mustLock(t, pr.l))
	}
}
