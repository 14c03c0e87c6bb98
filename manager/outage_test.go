// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A lock that is acquired soon after an outage is kept if the session survives. By
// then the proofs from before the outage are old, and if the connection has outlived it,
// newer ones must extend the lease before it ends.
func TestF053_LockSoonAfterAnOutage(t *testing.T) {
	cases := 0
	const timeout = 10 * time.Second
	for kind, fault := range map[string]struct {
		margin time.Duration
		begin  func(*zktest.Faults, time.Duration)
	}{
		"cut": {0, func(f *zktest.Faults, d time.Duration) { f.RefuseFor(d); f.CutAll() }},
		// The connection outlives it. Less the margin, a lease from before is too short then.
		"silent": {2 * time.Second, func(f *zktest.Faults, d time.Duration) { silent := f.BlackholeAll(); later(d); silent.Remove() }},
	} {
		for outage := time.Second; outage <= 6*time.Second; outage += time.Second / 2 {
			for pause := time.Duration(0); pause <= 3*time.Second; pause += time.Second / 4 {
				if cases++; !racing.Some(cases) {
					continue
				}
				subtest(t, fmt.Sprintf("%s/outage=%v/pause=%v", kind, outage, pause), func(c *cluster) {
					l := exclusive(c.t, c.open("a", func(cfg *Config) { cfg.SessionTimeout, cfg.LostMargin = timeout, fault.margin }), "jobs")
					mustRelease(c.t, mustLock(c.t, l))
					later(time.Minute)
					id := session(l.m)
					began := time.Now()
					fault.begin(c.srv.Faults(), outage)
					later(time.Until(began.Add(outage + pause)))
					h := mustLock(c.t, l)
					for range 120 {
						later(time.Second / 2)
						wantErr(c.t, "the hold", h.Err(), nil)
					}
					expect(c.t, session(l.m) == id, "the session was lost, which is not what this is about")
					mustRelease(c.t, h)
				})
			}
		}
	}
}

// saysOutage checks that an error that a caller got in an outage says so.
func saysOutage(t *testing.T, what string, err error, outages ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Outage == nil || !strings.Contains(err.Error(), e.Outage.Error()) {
		t.Errorf("%s says nothing of the outage: %v", what, err)
		return
	}
	for _, o := range outages {
		if strings.Contains(e.Outage.Error(), o) {
			return
		}
	}
	t.Errorf("%s: outage %v, want one of %q", what, e.Outage, outages)
}

// withTimeout returns a context that ends after d.
func withTimeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// No server can be reached for a minute. Every error that a caller gets says so, and
// the log tells the story in a few lines, however many locks there are.
func TestF104_OutageIsTold(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a", func(cfg *Config) { cfg.Logger = slog.New(atLeast{c.log, slog.LevelInfo}) })
		b := c.open("b", func(cfg *Config) { cfg.Logger = slog.New(slog.DiscardHandler) })
		var held []Hold
		for i := range 100 {
			held = append(held, mustLock(c.t, exclusive(c.t, m, fmt.Sprintf("held/%d", i))))
		}
		other := mustLock(c.t, exclusive(c.t, b, "other"))
		waits := exclusive(c.t, m, "other")
		pending := c.acquire(waits)
		withdrawn := waits.Acquire(withTimeout(c.t, 20*time.Second))
		work, stop := held[1].Context(c.t.Context())
		defer stop()
		later(time.Second)

		refused := c.srv.Faults().Refuse()
		c.srv.Faults().CutAll()
		const reason = ": zk1:2181: connection refused"
		for _, at := range []time.Duration{3 * time.Second, 12 * time.Second, 30 * time.Second} {
			began := time.Now()
			_, err := waits.Lock(withTimeout(c.t, at/2))
			saysOutage(c.t, "lock", err, "no connection for "+(at/2).String()+reason, "no connection for ")
			_, err = exclusive(c.t, m, "new").TryLock(withTimeout(c.t, at/4))
			saysOutage(c.t, "trylock", err, "no connection for ")
			saysOutage(c.t, "a hold that waits", pending.Err(), reason)
			_, err = waits.Holder(withTimeout(c.t, at/20))
			saysOutage(c.t, "holder", err, reason)
			_, err = waits.CachedHolder(withTimeout(c.t, at/20))
			saysOutage(c.t, "cached holder", err, reason)
			for _, err = range waits.WatchHolder(withTimeout(c.t, at/20)) {
			}
			saysOutage(c.t, "watch holder", err, reason)
			_, err = waits.Ask(withTimeout(c.t, at/20), nil)
			saysOutage(c.t, "ask", err, reason)
			saysOutage(c.t, "revoke", waits.Revoke(withTimeout(c.t, at/20), ""), reason)
			later(at - time.Since(began))
		}
		saysOutage(c.t, "a hold that was withdrawn", withdrawn.Err(), "no connection for 20s"+reason, "no connection for 19")
		saysOutage(c.t, "its future", settled(c.t, "ready", withdrawn.Ready()), "no connection for ")
		saysOutage(c.t, "a hold that was lost", held[0].Err(), "no connection for ")
		wantErr(c.t, "a hold that was lost", held[0].Err(), ErrLost)
		saysOutage(c.t, "the context of a lost hold", context.Cause(work), "no connection for ")
		_, err := held[1].Guard(c.t.Context(), zkio.SetOp("/x", nil, -1))
		saysOutage(c.t, "guard", err, "no connection for ")
		saysOutage(c.t, "unlock", held[1].Unlock(c.t.Context()), "no connection for ")
		later(15 * time.Second)
		refused.Remove()
		later(10 * time.Second)

		// The session has timed out at the server; waiters queue again.
		other.Release()
		c.held(pending)
		wantErr(c.t, "the waiter", pending.Err(), nil)
		lines := c.log.with("")
		c.t.Logf("the log:\n%s", strings.Join(lines, "\n"))
		want := []string{
			"INFO zookeeper session begins",
			"INFO lost the connection to zookeeper; connecting again",
			"WARN no zookeeper server can be reached",
			"WARN holdfast: lost locks; their holders have been told locks=100 first=held/",
			"WARN zookeeper session is over",
			"INFO zookeeper session begins",
		}
		if len(lines) != len(want) {
			c.t.Fatalf("%d lines, want %d", len(lines), len(want))
		}
		for i, line := range lines {
			expect(c.t, strings.HasPrefix(line, want[i]), "line %d is %q, want %q", i, line, want[i])
		}
		c.unlock(pending)
		for _, h := range held[2:] {
			h.Release()
		}
	})
}

// atLeast is a log handler that drops lines below a level.
type atLeast struct {
	*records
	level slog.Level
}

func (a atLeast) Enabled(_ context.Context, l slog.Level) bool { return l >= a.level }

// A server answers nothing for seven seconds and keeps its connections. The locks are
// lost, and the log and the errors say why.
func TestF104_FreezeIsTold(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a", func(cfg *Config) { cfg.Logger = slog.New(atLeast{c.log, slog.LevelInfo}) })
		h, h2 := mustLock(c.t, exclusive(c.t, m, "jobs")), mustLock(c.t, exclusive(c.t, m, "more"))
		later(time.Minute)
		c.log.clear()
		frozen := c.srv.Faults().BlackholeAll()
		later(7 * time.Second)
		frozen.Remove()
		later(time.Minute)
		wantErr(c.t, "the hold", h.Err(), ErrLost)
		saysOutage(c.t, "the hold", h.Err(), "no answer for ")
		saysOutage(c.t, "unlock", h2.Unlock(c.t.Context()), "no answer for ")
		lines := c.log.with(" held=1m5s cause=")
		expect(c.t, len(lines) == 2 && len(c.log.with("WARN holdfast: lost a lock; its holders have been told lock=jobs ")) == 1 && strings.Contains(lines[0], "outage=no answer for "),
			"logged: %v", lines)
		h.Release()
	})
}

// Each lock that is lost makes a line, unless many are lost one after the other within a
// moment: those make one line together.
func TestF104_LossesOfAMomentAreOneLine(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		lose := func(n int) {
			for i := range n {
				name := fmt.Sprintf("jobs/%d", i)
				m.journal.losses.note(exclusive(c.t, m, name), Loss{
					Held: time.Minute, Err: &Error{Op: "hold", Name: name, Err: errLeaseEnded},
					Session: 0x1f, Node: fmt.Sprintf("/n/%d", i), Token: uint64(40 + i),
				})
				synctest.Wait() // the report has begun to wait
			}
			later(2 * lossMoment)
		}
		for _, n := range []int{1, lossLines, lossLines + 1, 1000, 2} {
			c.log.clear()
			lose(n)
			want := []string{fmt.Sprintf("WARN holdfast: lost locks; their holders have been told locks=%d first=jobs/0 session=0x1f node=/n/0 token=40 held=1m0s cause=%v", n, errLeaseEnded)}
			if n <= lossLines {
				want = nil
				for i := range n {
					want = append(want, fmt.Sprintf("WARN holdfast: lost a lock; its holders have been told lock=jobs/%d kind=exclusive session=0x1f node=/n/%d token=%d held=1m0s cause=%v", i, i, 40+i, errLeaseEnded))
				}
			}
			lines := c.log.with("lost")
			expect(c.t, slices.Equal(lines, want),
				"%d losses: logged\n%s\nwant\n%s", n, strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
	})
}
