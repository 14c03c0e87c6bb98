// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A holder learns that another process waits, whatever its tenure is and whenever
// it asks: at the grant's 100 ms at the latest, and at once after that.
func TestF101_Contended(t *testing.T) {
	cases := 0
	for _, tenure := range []time.Duration{-1, 1, 20 * time.Millisecond, defaultTenure, time.Second, time.Hour} {
		for _, asks := range []string{"while it waits", "at the grant", "when the other one waits", "when that has been seen"} {
			for _, comes := range []time.Duration{0, 30 * time.Millisecond, 99 * time.Millisecond, 150 * time.Millisecond, 2 * time.Second, time.Minute} {
				if cases++; !racing.Some(cases) {
					continue
				}
				subtest(t, fmt.Sprintf("tenure=%v/asks %s/comes after %v", tenure, asks, comes), func(c *cluster) { contendedAfter(c, tenure, asks, comes) })
			}
		}
	}
}

func contendedAfter(c *cluster, tenure time.Duration, asks string, comes time.Duration) {
	a, b := c.lock("a", withTenure(tenure)), c.lock("b")
	h := a.Acquire(c.t.Context())
	var told <-chan struct{}
	if asks == "while it waits" {
		told = h.Contended()
	}
	c.held(h)
	granted := time.Now()
	if asks == "at the grant" {
		told = h.Contended()
	}
	later(comes)
	expect(c.t, told == nil || !isClosed(told), "told before another process waited")
	waits := c.acquire(b)
	due := time.Now()
	if first := granted.Add(defaultTenure); due.Before(first) {
		due = first
	}
	switch asks {
	case "when the other one waits":
		told = h.Contended()
	case "when that has been seen":
		later(defaultTenure)
		due = time.Now()
		told = h.Contended()
	}
	later(time.Until(due) + time.Millisecond)
	expect(c.t, isClosed(told), "not told %v after the other process began to wait", time.Since(due))
	wantErr(c.t, "the hold", h.Err(), nil)
	expect(c.t, isClosed(h.Contended()), "not told again")
	c.unlock(h)
	c.held(waits)
}

// A look has shown the waiter before any holder asked for a channel: the flag alone tells.
func TestF101_SeenBeforeAsked(t *testing.T) {
	c := newCluster(t, zktest.Config{})
	r := newRound(c.lock("a"))
	r.io()
	r.seeContention()
	if r.promises().signalled.Load() != nil {
		t.Fatal("there is a channel")
	}
	r.flags.Set(state.ContentionAsked) // no look is to be made
	expect(t, isClosed(r.contention()), "not told of what the process has seen")
}

// Asking costs no request where the process looks in any case. Where it does not, it
// costs a look, and one for each change until a waiter is seen.
func TestContendedRequests(t *testing.T) {
	type test struct {
		tenure time.Duration
		ask    bool
		want   [3]int // lists: of the first minute, with a waiter, with another one when the gate has closed
	}
	eachOf(t, []test{
		{defaultTenure, false, [3]int{1, 2, 0}},
		{defaultTenure, true, [3]int{1, 2, 0}},
		{-1, false, [3]int{0, 0, 0}},
		{-1, true, [3]int{1, 1, 0}},
	}, func(c *cluster, test test) {
		h := mustLock(c.t, c.lock("a", withTenure(test.tenure)))
		strangers := c.crowd()
		c.takeCounts()
		if test.ask {
			h.Contended()
		}
		for i, want := range test.want {
			if i > 0 {
				strangers.node(fmt.Sprint("lock-000000000", i))
			}
			later(time.Minute)
			c.wantCounts(fmt.Sprintf("minute %d", i), map[verb]int{list: want})
		}
		mustRelease(c.t, h)
	})
}

// Only what the lock excludes is a contender: another process, or this one's own writer.
func TestContendedByExcludedOnly(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.rw("a"), c.rw("b")
		if (Hold{}).Contended() != nil {
			c.t.Error("the zero Hold has a channel")
		}
		read, shared := mustLock(c.t, a.Reader()), mustLock(c.t, b.Reader())
		told, toldShared := read.Contended(), shared.Contended()
		again := c.acquire(a.Reader())
		later(time.Minute)
		expect(c.t, !isClosed(told) && !isClosed(toldShared), "told of a reader")
		own := c.acquire(a.Writer())
		toldOwn := own.Contended()
		later(time.Minute)
		expect(c.t, isClosed(told) && isClosed(toldShared),
			"told of a writer: the reader of its process %t, that of another %t", isClosed(told), isClosed(toldShared))
		other := c.acquire(b.Writer())
		later(defaultTenure)
		expect(c.t, !isClosed(toldOwn), "a hold that waits was told")
		c.unlock(shared, read, again)
		c.held(own)
		later(defaultTenure + time.Millisecond)
		expect(c.t, isClosed(toldOwn), "the writer is not told of the other process's writer")
		c.unlock(own)
		c.unlock(other)
	})
}

// A process that keeps the read lock until Contended makes room for its own writer, and for
// its own upgrade: it hears of them at once, without a request, whatever its tenure is.
func TestF101_ContendedByOwnWriter(t *testing.T) {
	for _, tenure := range []time.Duration{-1, defaultTenure, time.Hour} {
		for _, writes := range []string{"a writer", "an upgrade"} {
			for _, comes := range []string{"before the reader's grant", "after it", "before the reader asks"} {
				subtest(t, fmt.Sprintf("tenure=%v/%s comes %s", tenure, writes, comes), func(c *cluster) {
					contendedByOwn(c, c.rw("a", withTenure(tenure)), writes == "an upgrade", comes)
				})
			}
		}
	}
}

func contendedByOwn(c *cluster, rw *RWLock, upgrades bool, comes string) {
	var up Hold
	if upgrades {
		up = mustLock(c.t, rw.Upgradable())
	}
	granted := make(chan Hold, 1)
	write := func() {
		if upgrades {
			go func() { wantErr(c.t, "upgrade", up.Upgrade(c.t.Context()), nil); granted <- up }()
			later(time.Millisecond)
			return
		}
		w := c.acquire(rw.Writer())
		go func() { wantErr(c.t, "write", wait(c.t, w.Granted()), nil); granted <- w }()
	}
	var read Hold
	var told <-chan struct{}
	switch {
	case comes == "before the reader's grant" && !upgrades:
		other := mustLock(c.t, c.rw("b").Writer())
		read = rw.Reader().Acquire(c.t.Context())
		later(time.Second)
		told = read.Contended()
		write()
		later(time.Second)
		expect(c.t, !isClosed(told), "told before it holds the lock")
		mustRelease(c.t, other)
		c.held(read)
		told = read.Contended()
	case comes == "before the reader asks":
		read = mustLock(c.t, rw.Reader())
		write()
		told = read.Contended()
	default:
		read = mustLock(c.t, rw.Reader())
		told = read.Contended()
		write()
	}
	later(time.Millisecond)
	if !isClosed(told) {
		c.t.Fatal("not told")
	}
	c.unlock(read)
	c.unlock(<-granted)
}

// wantFlag checks that a flag of the hold's round is set.
func wantFlag(t *testing.T, h Hold, f state.Flags) {
	t.Helper()
	expect(t, h.share.flags.Load().Has(f),
		"the flags of the round are %b, without %b", h.share.flags.Load(), f)
}

// A holder that asks after the gate has closed, and after the look that found it
// closed, is told as well.
func TestF101_ContendedBehindAClosedGate(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.rw("a"), c.rw("b")
		read := mustLock(c.t, a.Reader())
		later(time.Minute) // it has looked, and left a watch
		ioOf(read).incumbent().revoke(Revocation{})
		later(time.Minute)
		wantFlag(c.t, read, state.GateClosed)
		other := c.acquire(b.Writer())
		later(time.Minute) // nothing looks
		told := read.Contended()
		later(time.Millisecond)
		expect(c.t, isClosed(told), "not told")
		c.unlock(read)
		c.unlock(other)
	})
}

// A hold that is lost is not told that others wait.
func TestContendedAfterALoss(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		told := h.Contended()
		later(time.Minute)
		c.remove(c.nodeOf(a.m))
		later(time.Millisecond)
		wantErr(c.t, "the hold", h.Err(), ErrLost)
		next := mustLock(c.t, b)
		later(time.Minute)
		expect(c.t, !isClosed(told) && !isClosed(h.Contended()), "told")
		c.unlock(next)
	})
}

// A holder with a long tenure asks when it has looked, and another process has come
// since: the look that is due anyway is half a tenure away.
func TestContendedSinceTheLastLook(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", withTenure(10*time.Second)), c.lock("b")
		h := mustLock(c.t, a)
		later(10*time.Second + 100*time.Millisecond) // it has looked at 10 s
		waits := c.acquire(b)
		later(time.Second)
		told := h.Contended()
		later(time.Millisecond)
		expect(c.t, isClosed(told), "not told at once")
		c.unlock(h)
		c.held(waits)
	})
}
