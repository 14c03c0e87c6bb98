// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Waiting locks take no goroutine: a process that waits for 100,000 of them has as
// many as one that waits for none. It runs on real time, because it counts real
// goroutines.
func TestManyQueuedLocks(t *testing.T) {
	n := 100_000
	if racing.Detector || testing.Short() {
		n = 2000
	}
	c := newCluster(t, zktest.Config{})
	stranger := session(c.open("stranger"))
	m := c.open("a", func(cfg *Config) {
		cfg.SessionTimeout, cfg.MaxPathBytes = 40*time.Second, -1
		cfg.Logger = slog.New(slog.DiscardHandler)
	})
	ahead := make([]string, n)
	for i := range ahead {
		dir := fmt.Sprintf("/holdfast/many/%06d", i)
		ahead[i] = dir + "/lock-0000000000"
		wantErr(t, "create", c.srv.CreateAll(dir, nil), nil)
		wantErr(t, "create", c.srv.CreateEphemeral(stranger, ahead[i], nil), nil)
	}

	before := runtime.NumGoroutine()
	most := before
	look := func(i int) {
		if i%1000 == 0 {
			most = max(most, runtime.NumGoroutine())
		}
	}
	start := time.Now()
	lap := func() time.Duration {
		defer func() { start = time.Now() }()
		return time.Since(start).Round(time.Millisecond)
	}
	holds := make([]Hold, n)
	for i := range holds {
		holds[i] = exclusive(t, m, fmt.Sprintf("many/%06d", i)).Acquire(t.Context())
		look(i)
	}
	for i, deadline := 0, time.Now().Add(2*time.Minute); i < n; {
		switch {
		case c.srv.Watches(ahead[i]).Data > 0:
			i++
		case time.Now().After(deadline):
			t.Fatalf("%d of %d are queued in time", i, n)
		default:
			look(0)
			<-time.After(time.Millisecond)
		}
	}
	look(0)
	queued := lap()
	perLock := float64(liveHeap()) / float64(n)

	lap()
	for i, path := range ahead {
		wantErr(t, "delete", c.srv.Delete(path), nil)
		look(i)
	}
	for i, h := range holds {
		if _, err := h.Granted().Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		look(i)
	}
	granted := lap()

	for i, h := range holds {
		h.Release()
		look(i)
	}
	for i, h := range holds {
		if _, err := h.Released().Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		look(i)
	}
	t.Logf("%d locks: queued in %v, granted in %v, released in %v; at most %d goroutines, %d with no lock; %.0f bytes a queued lock, the server's included",
		n, queued, granted, lap(), most, before, perLock)
	// The clients and the server have started all theirs before the first lock.
	expect(t, most <= before+10, "%d goroutines, %d before the first lock", most, before)
}

// When a session ends, every lock that the process waits for queues again. A lock
// that a caller asks for then goes ahead of them.
func TestF099_AskedNowGoesFirst(t *testing.T) {
	const waiting = 400
	for _, test := range []struct {
		when string
		ask  int // after how many of them have queued again
	}{
		{"as the session ends", 0},
		{"while they queue", 20},
	} {
		bubble(t, func(c *cluster) {
			s := c.crowd()
			m := c.open("a")
			holds := make([]Hold, waiting)
			for i := range holds {
				dir := fmt.Sprintf("/holdfast/waits/%d", i)
				wantErr(c.t, "create", c.srv.CreateAll(dir, nil), nil)
				wantErr(c.t, "create", c.srv.CreateEphemeral(s.session, dir+"/lock-0000000000", nil), nil)
				holds[i] = exclusive(c.t, m, fmt.Sprintf("waits/%d", i)).Acquire(c.t.Context())
			}
			later(time.Second)

			// From here on the server executes one request at a time.
			first := c.stopBefore(nil, createNode)
			c.srv.ExpireSession(session(m))
			first.reached()
			block := c.srv.Faults().BlockRequests(session(m))
			first.goOn()
			c.takeCounts()
			step := func() int {
				if block.Let(1) == 0 {
					c.t.Fatal("no request waits")
				}
				synctest.Wait()
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.counts[createNode]
			}
			queuedAgain := func() (n int) {
				for i := range holds {
					n += len(c.srv.Children(fmt.Sprintf("/holdfast/waits/%d", i))) - 1
				}
				return n
			}
			begun := 0
			for begun < test.ask {
				begun = step()
			}
			asked := exclusive(c.t, m, "asked").Acquire(c.t.Context())
			synctest.Wait()
			before := queuedAgain()
			for asked.Err() != nil {
				step()
			}
			n := queuedAgain() - before
			// Only what is in flight when one of its requests is made can go first: the requests
			// of two workers of three.
			expect(c.t, n <= waiting/3, "%s: %d of those that wait queued again first", test.when, n)
			block.Remove()
			later(time.Second)
			c.waiting(holds...)
			c.held(asked)
		})
	}
}

// Goroutines that wait for the same lock cost only themselves.
func TestManyWaitersOfOneLock(t *testing.T) {
	const n = 10_000
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		h := mustLock(c.t, c.lock("b"))
		sent := c.tally(a.m)
		holds := make([]Hold, n)
		before := runtime.NumGoroutine()
		for i := range holds {
			holds[i] = a.Acquire(c.t.Context())
		}
		later(time.Second)
		goroutines := runtime.NumGoroutine()
		expect(c.t, goroutines <= before, "%d goroutines, %d before", goroutines, before)
		wantState(c.t, a, state.Fetching, n)
		got := sent.take("queueing")
		expect(c.t, got["multi"]+got["create"] == 1, "queueing took %v, want one creation", got)
		mustRelease(c.t, h)
		later(time.Second)
		wantState(c.t, a, state.Retained, n)
		for _, h := range holds {
			h.Release()
		}
		later(time.Second)
		wantState(c.t, a, state.Free, 0)
	})
}

// The first looks behind held locks are spread: a process that holds many locks, and
// leaves them alone, sends next to nothing.
func TestF100_FirstLooksAreSpread(t *testing.T) {
	const n = 1000
	bubble(t, func(c *cluster) {
		m := c.open("a")
		holds := make([]Hold, n)
		for i := range holds {
			holds[i] = exclusive(c.t, m, fmt.Sprintf("many/%d", i)).Acquire(c.t.Context())
		}
		sent := c.tally(m)
		later(500 * time.Millisecond)
		c.held(holds...)
		got := sent.take("a moment later")
		expect(c.t, got["getChildren2"] <= lookBurst+20, "%d looks at once, want at most %d", got["getChildren2"], lookBurst+20)
		expect(c.t, got["setWatches"] != 0 && got["setWatches"] <= 20,
			"the watches of %d nodes took %d requests", n, got["setWatches"])
		for _, h := range holds {
			if g, err := h.Grant(); err != nil || c.srv.Watches(g.Path).Data != 1 {
				c.t.Fatalf("%v: its node has %d watches", err, c.srv.Watches(g.Path).Data)
			}
		}
		looks := got["getChildren2"]
		for range 6 {
			later(10 * time.Second)
			got = sent.take("ten seconds")
			looks += got["getChildren2"]
			all := 0
			for _, n := range got {
				all += n
			}
			expect(c.t, all <= 500, "%d requests in ten seconds: %v", all, got)
		}
		expect(c.t, looks == n, "%d looks in the end, want one for each of %d locks", looks, n)
		c.unlock(holds...)
	})
}

// A look that is put off costs nothing but the look: the own node is watched in
// time, and the gate closes for the newcomers that come.
func TestF100_LookIsPutOff(t *testing.T) {
	const n = 2 * lookBurst
	bubble(t, func(c *cluster) {
		m, b := c.open("a"), c.open("b")
		holds := make([]Hold, n)
		for i := range holds {
			holds[i] = c.acquire(exclusive(c.t, m, fmt.Sprintf("many/%d", i)))
		}
		c.held(holds...)
		last := holds[n-1]
		name := last.Lock().Name()
		other := exclusive(c.t, b, name).Acquire(c.t.Context())
		later(200 * time.Millisecond)
		if c.srv.Watches(last.Lock().Path()).Child != 0 {
			c.t.Fatal("there was a look: the test shows nothing")
		}

		// Newcomers keep arriving, each before the one before it has left.
		inside := last
		for start := time.Now(); other.Err() != nil; {
			if time.Since(start) > time.Second {
				c.t.Fatal("the other process is still waiting")
			}
			next := last.Lock().Acquire(c.t.Context())
			later(10 * time.Millisecond)
			inside.Release()
			inside = next
			synctest.Wait()
		}
		c.waiting(inside)
		mustRelease(c.t, other)

		// Another lock without a look loses its node.
		alone := holds[n-2]
		g, err := alone.Grant()
		wantErr(c.t, "grant", err, nil)
		c.remove(g.Path)
		synctest.Wait()
		wantErr(c.t, "a lock whose node was deleted", alone.Err(), ErrLost)
	})
}
