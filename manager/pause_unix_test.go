// SPDX-License-Identifier: Apache-2.0

//go:build unix

package manager

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio"
)

func init() {
	stopItself = func() {
		// The signal stops the threads one after the other: this one may get a
		// little further.
		goOn := make(chan os.Signal, 1)
		signal.Notify(goOn, syscall.SIGCONT)
		defer signal.Stop(goOn)
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			panic(err)
		}
		<-goOn
	}
}

// signal sends the process a signal.
func (h *holder) signal(s syscall.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
}

// stopped waits until the process has stopped.
func (h *holder) stopped() {
	h.t.Helper()
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(h.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil || !status.Stopped():
			h.t.Fatalf("the process has not stopped: %v, status %#x", err, status)
		default:
			return
		}
	}
}

// A process loses the lock while it is stopped: before a guarded write, or in the
// middle of one, after all its checks and just before the request is sent. Another
// process holds the lock and writes. The late write has no effect.
func TestF055_RealStaleHolderGuards(t *testing.T) {
	zk := realzk.Shared(t)
	m := openReal(t, zk.Addr(), "waiter", func(cfg *Config) { cfg.Root = defaultRoot })
	s := m.client.Session()
	for _, test := range []struct {
		what string
		// stop stops the holder, and deletes its node unless the session is to
		// expire; it reports whether the write is under way.
		stop func(p *holder, write, node string) bool
		want string
	}{
		{"before", func(p *holder, _, _ string) bool {
			p.signal(syscall.SIGSTOP)
			return false
		}, "lost"},
		{"amidst", func(p *holder, write, _ string) bool {
			p.tell("guard-at-the-brink " + write)
			p.stopped()
			return true
		}, "unknown"},
		{"amidst, for a moment", func(p *holder, write, node string) bool {
			p.tell("guard-at-the-brink " + write)
			p.stopped()
			wantErr(t, "delete", s.Delete(node, -1), nil)
			return true
		}, "lost"},
	} {
		t.Run(test.what, func(t *testing.T) {
			path := ownRoot(t)
			name := path[1:]
			wantErr(t, "create", s.Create(path, nil, nil), nil)
			p := startHolder(t, zk.Addr(), name)
			p.says("guard "+path+" first", "ok")
			h := exclusive(t, m, name).Acquire(t.Context())
			<-ioOf(h).whereabouts().known().Done()
			sent := test.stop(p, path+" stale", ioOf(h).position.Load().contender().Path)
			granted(t, "while the holder stands still", h, 3*holderTimeout)
			wantErr(t, "the new holder", errOf(h.Guard(t.Context(), zkio.SetOp(path, []byte("second"), 1))), nil)
			p.signal(syscall.SIGCONT)
			if !sent {
				p.tell("guard " + path + " stale")
			}
			wantEq(t, "the late write: the process says", p.answer(test.what), test.want)
			p.says("guard "+path+" stale", "lost")
			if data, stat, err := s.Get(path); err != nil || string(data) != "second" || stat.Version != 2 {
				t.Errorf("the node has %q, version %d, %v", data, stat.Version, err)
			}
			wantErr(t, "the new holder", h.Err(), nil)
			mustRelease(t, h)
			p.says("unlock", "lost")
		})
	}
}

// The process that holds the lock is stopped for longer than its session lives.
// When it resumes, its first call reports the loss, its late release has no effect
// on the new holder, and it can acquire the lock again.
func TestF044_RealHolderIsPaused(t *testing.T) {
	zk := realzk.Shared(t)
	m := openReal(t, zk.Addr(), "waiter", func(cfg *Config) { cfg.Root = defaultRoot })
	type pair struct {
		first string
		p     *holder
		l     *Lock
		h     Hold // of this process
	}
	var pairs []pair
	for _, first := range []string{"err", "reenter", "unlock", "lost"} {
		name := "paused/" + first
		p := startHolder(t, zk.Addr(), name)
		p.says("err", "ok")
		l := exclusive(t, m, name)
		h := l.Acquire(t.Context())
		<-ioOf(h).whereabouts().known().Done()
		pairs = append(pairs, pair{first, p, l, h})
	}
	signal := func(s syscall.Signal) {
		for _, pr := range pairs {
			pr.p.signal(s)
		}
	}
	signal(syscall.SIGSTOP)
	for _, pr := range pairs {
		granted(t, "while the holder stands still", pr.h, 3*holderTimeout)
		g := grantOf(t, pr.h)
		expect(t, g.Token > pr.p.token, "token %d after %d", g.Token, pr.p.token)
	}
	signal(syscall.SIGCONT)
	for _, pr := range pairs {
		pr.p.says(pr.first, "lost")
		want := "lost"
		if pr.first == "unlock" {
			want = "released"
		}
		pr.p.says("unlock", want)
		wantErr(t, "the new holder", pr.h.Err(), nil)
		mustRelease(t, pr.h)
		pr.p.says("lock", "ok")
		pr.p.says("close", "ok")
		mustRelease(t, mustLock(t, pr.l))
	}
}
