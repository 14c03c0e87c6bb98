// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// On both servers, a process asks another, hundreds of questions at a time.
func TestAskEverywhere(t *testing.T) {
	everywhere(t, func(s *backend) {
		const n = 300
		a, b := s.lock("a", echo), s.lock("b")
		h := mustLock(s.t, a)
		failed := make(chan error, n)
		for i := range n {
			go func() {
				question := fmt.Sprint("question ", i)
				got, err := b.Ask(s.t.Context(), []byte(question))
				if err == nil && string(got.Reply) != question {
					err = fmt.Errorf("%s: the reply is %q, %q", question, got.Reply, got.Err)
				}
				failed <- err
			}()
		}
		for range n {
			wantErr(s.t, "ask", <-failed, nil)
		}
		wantHeld(s.t, "a", h)
		s.until("the mailbox is empty", func() bool {
			names, _, err := b.m.client.Session().Children(a.m.box.path)
			return err == nil && len(names) == 0
		})
		mustRelease(s.t, h)
	})
}

// On a real server, with the connection of either side cut while a question is under
// way, every question is answered.
func TestRealAskWhileCut(t *testing.T) {
	zk := realzk.Shared(t)
	const questions = 20
	var lines [2]wires
	dial := func(i int) func(*Config) { return func(cfg *Config) { cfg.Dialer = lines[i].dial } }
	a := exclusive(t, openReal(t, zk.Addr(), "a", echo, dial(0)), "jobs")
	b := exclusive(t, openReal(t, zk.Addr(), "b", dial(1)), "jobs")
	h := mustLock(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for i := range questions {
		question := fmt.Sprint("question ", i)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			if got, err := b.Ask(ctx, []byte(question)); err != nil || string(got.Reply) != question {
				t.Errorf("%s: the answer is %q, %v", question, got.Reply, err)
			}
		}()
		<-time.After(time.Duration(i/2) * 100 * time.Microsecond)
		lines[i%2].cut()
		<-answered
	}
	wantHeld(t, "a", h)
	mustRelease(t, h)
}

// A holder that complies gives the lock up at once. The test prints how long that takes
// beside an ordinary hand-over, which is up to the machine.
func TestRealRevoke(t *testing.T) {
	zk := realzk.Shared(t)
	const times = 50
	a := exclusive(t, openReal(t, zk.Addr(), "a"), "jobs")
	b := exclusive(t, openReal(t, zk.Addr(), "b"), "jobs")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// pass has b take the lock from a, after ask, and returns when b had it.
	pass := func(ask func(Hold)) time.Time {
		h := mustLock(t, a)
		next := b.Acquire(ctx)
		select {
		case <-ioOf(next).whereabouts().known().Done():
		case <-ctx.Done():
			t.Fatal("b is not queued")
		}
		end := make(chan time.Time, 1)
		go func() {
			_, _ = next.Granted().Wait(ctx) // an error shows below
			end <- time.Now()
		}()
		ask(h)
		granted(t, "b", next, time.Minute)
		mustRelease(t, next)
		return <-end
	}
	var handOver, told, called []time.Duration
	for range times {
		start := time.Now()
		end := pass(func(h Hold) {
			start = time.Now()
			h.Release()
		})
		handOver = append(handOver, end.Sub(start))
		heard := make(chan time.Time, 1)
		end = pass(func(h Hold) {
			go func() {
				<-h.Revoked()
				heard <- time.Now()
				h.Release()
			}()
			start = time.Now()
			wantErr(t, "revoke", b.Revoke(ctx, "please"), nil)
		})
		told, called = append(told, end.Sub(<-heard)), append(called, end.Sub(start))
	}
	median := func(all []time.Duration) time.Duration { slices.Sort(all); return all[times/2] }
	one := median(handOver)
	t.Logf("medians of %d: from a release to the next grant %v", times, one)
	for what, all := range map[string][]time.Duration{"Revoked closes": told, "Revoke is called": called} {
		t.Logf("from when %s to the next grant %v, %.1f times that", what, median(all), float64(median(all))/float64(one))
	}
}
