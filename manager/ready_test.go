// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Each caller learns what becomes of its own wait, while others wait on.
func TestF102_Ready(t *testing.T) {
	errGivenUp := errors.New("given up")
	for _, test := range []struct {
		what string
		then func(c *cluster, ahead, h Hold, cancel context.CancelCauseFunc)
		want []error // that Ready's error wraps; none: it is the grant
		lost bool    // h is not held then
	}{
		{what: "granted", then: func(_ *cluster, ahead, _ Hold, _ context.CancelCauseFunc) { ahead.Release() }},
		{what: "granted, then its ctx ends", then: func(c *cluster, ahead, h Hold, cancel context.CancelCauseFunc) {
			ahead.Release()
			c.held(h)
			cancel(errGivenUp)
		}},
		{
			what: "released", then: func(_ *cluster, _, h Hold, _ context.CancelCauseFunc) { h.Release() },
			want: []error{ErrReleased}, lost: true,
		},
		{
			what: "its ctx ends", then: func(_ *cluster, _, _ Hold, cancel context.CancelCauseFunc) { cancel(errGivenUp) },
			want: []error{ErrReleased, context.Canceled, errGivenUp}, lost: true,
		},
		{
			what: "its deadline passes", then: func(*cluster, Hold, Hold, context.CancelCauseFunc) { later(time.Hour) },
			want: []error{ErrReleased, context.DeadlineExceeded}, lost: true,
		},
		{
			what: "refused", then: func(c *cluster, _, h Hold, _ context.CancelCauseFunc) {
				c.srv.Faults().FailRequest(zktest.Match{Op: zktest.OpMulti, Session: session(h.Lock().m), Times: 1}, zktest.CodeInvalidACL)
				later(time.Second) // its own node is watched by then
				c.remove(c.nodeOf(h.Lock().m))
			},
			want: []error{zkio.ErrInvalidACL}, lost: true,
		},
		{
			what: "closed", then: func(_ *cluster, _, h Hold, _ context.CancelCauseFunc) { h.Lock().m.Close() },
			want: []error{ErrClosed}, lost: true,
		},
	} {
		subtest(t, test.what, func(c *cluster) {
			a, b := c.lock("a"), c.lock("b")
			ahead := mustLock(c.t, a)
			ctx, cancel := context.WithCancelCause(c.t.Context())
			defer cancel(nil)
			ctx, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			h, other := b.Acquire(ctx), b.Acquire(c.t.Context())
			ready, again, beside := h.Ready(), h.Ready(), other.Ready()
			synctest.Wait()
			pending(c.t, "ready", ready)

			test.then(c, ahead, h, cancel)
			synctest.Wait()
			for _, f := range []*futures.Future[Grant]{ready, again} {
				g, err, ok := f.Poll()
				if !ok {
					c.t.Fatal("ready is pending")
				}
				for _, want := range test.want {
					wantErr(c.t, "ready", err, want)
				}
				expect(c.t, len(test.want) != 0 || err == nil && g == grantOf(c.t, h),
					"ready: %v, %v", g, err)
			}
			_, err, ok := h.Ready().Poll()
			expect(c.t, (h.Err() != nil) == test.lost, "the hold: %v", h.Err())
			expect(c.t, ok && (err != nil) == test.lost, "Ready, asked now: %v, %t", err, ok)
			left := b.cur.Load().io().signals().waitsFor()
			expect(c.t, left <= 1, "%d waits are kept, want that of the other caller", left)
			h.Release()
			ahead.Release()
			synctest.Wait()
			if err := other.Err(); err == nil {
				wantErr(c.t, "the other caller's ready", settled(c.t, "ready", beside), nil)
			} else {
				wantErr(c.t, "the other caller's ready", settled(c.t, "ready", beside), test.want[0])
			}
			other.Release()
		})
	}
}

// waitsFor returns how many callbacks wait for the grant.
func (s *signals) waitsFor() int {
	if l := s.readies.list.Load(); l != nil {
		return l.len()
	}
	return 0
}

func (l *callbackList) len() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for cb := l.first; cb != nil; cb = cb.next {
		n++
	}
	return n
}

// Of a granted hold it is the grant's own future.
func TestReadyOfAGrantedHold(t *testing.T) {
	l := retained(t)
	h := l.Acquire(t.Context())
	expect(t, h.Ready() == h.Granted(), "another future")
	n := testing.AllocsPerRun(1000, func() { h.Ready() })
	expect(t, n <= 0, "%v allocations", n)
	h.Release()
	wantErr(t, "released", settled(t, "ready", h.Ready()), ErrReleased)
	wantErr(t, "zero", settled(t, "ready", Hold{}.Ready()), ErrReleased)
}

// If the grant and the end of ctx come together, Ready says which of them counts,
// for the hold as well. The grant comes between any two steps of the withdrawal.
func TestF102_ReadyAndWithdrawal(t *testing.T) {
	m := newCluster(t, zktest.Config{}).open("a", unobserved)
	model := mustLock(t, exclusive(t, m, "model"))
	defer mustRelease(t, model)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	outcomes := make(map[bool]int)
	const steps = 4
	for grantAt := range steps + 1 {
		r := fetched(model, 2)
		h, other := newHold(&r.share), newHold(&r.share)
		ready := h.Ready()
		withdrawing := true
		for i, step := range append(h.withdrawal(ended).steps(), func() bool { return false }) {
			if i == grantAt {
				r.word.Apply(state.Word.Grant)
				r.io().settleGrant()
			}
			if withdrawing {
				withdrawing = step()
			}
		}
		err := settled(t, "ready", ready)
		expect(t, (err == nil) == (h.Err() == nil),
			"grant before step %d: ready says %v, the hold %v", grantAt, err, h.Err())
		if err != nil {
			wantErr(t, "ready", err, context.Canceled)
		}
		outcomes[err == nil]++
		h.Release()
		mustRelease(t, other)
	}
	expect(t, len(outcomes) == 2, "outcomes %v: one is missing", outcomes)
}

// The error of a hold that was withdrawn says why, and does not say that it was
// released; an older hold that had the same slot was.
func TestWithdrawnHoldSaysWhy(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		ctx := withTimeout(c.t, time.Second)
		waits := b.Acquire(ctx)
		inside, stop := waits.Context(c.t.Context())
		defer stop()
		later(time.Minute)
		const want = `"jobs": withdrawn before the grant: context deadline exceeded`
		_, grantErr := waits.Grant()
		_, reenterErr := waits.Reenter()
		for op, err := range map[string]error{
			"hold": waits.Err(), "grant": grantErr, "reenter": reenterErr, "unlock": waits.Unlock(c.t.Context()),
			"release": settled(c.t, "release", waits.Release()), "acquire": settled(c.t, "ready", waits.Ready()),
		} {
			expect(c.t, err != nil && err.Error() == "holdfast: "+op+" "+want, "%s: %v", op, err)
			wantErr(c.t, op, err, ErrReleased)
		}
		wantErr(c.t, "its context", context.Cause(inside), context.DeadlineExceeded)
		mustRelease(c.t, h)
	})
}
