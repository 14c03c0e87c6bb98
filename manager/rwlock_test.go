// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// readWrite returns the read/write lock called "jobs" of a new manager.
func (c *cluster) readWrite(label string, with ...func(*Config)) *RWLock {
	c.t.Helper()
	rw, err := c.open(label, with...).ReadWrite("jobs")
	if err != nil {
		c.t.Fatal(err)
	}
	return rw
}

// Readers are inside together, a writer alone; who comes later waits behind who
// excludes him and came before, so that neither starves the other.
func TestReadersAndWriters(t *testing.T) {
	// Each letter is a process that asks for a read or a write, in this order.
	// want says who is inside after each release, which is that of the first
	// of those inside.
	for _, test := range []struct {
		queue string
		want  []string
	}{
		{"R", []string{"0"}},
		{"W", []string{"0"}},
		{"RR", []string{"01", "1"}},
		{"WW", []string{"0", "1"}},
		{"RW", []string{"0", "1"}},
		{"WR", []string{"0", "1"}},
		{"RRRW", []string{"012", "12", "2", "3"}},
		{"WRRR", []string{"0", "123", "23", "3"}},
		{"RWR", []string{"0", "1", "2"}}, // the late reader does not overtake
		{"RWRRW", []string{"0", "1", "23", "3", "4"}},
		{"RRWWRR", []string{"01", "1", "2", "3", "45", "5"}},
	} {
		t.Run(test.queue, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				var holds []Hold
				for i, kind := range test.queue {
					rw := c.readWrite(fmt.Sprint(i))
					l := rw.Reader()
					if kind == 'W' {
						l = rw.Writer()
					}
					holds = append(holds, l.Acquire(c.t.Context()))
					synctest.Wait()
				}
				c.wantNodes(len(holds))
				for _, want := range test.want {
					var inside string
					first := -1
					for i, h := range holds {
						if h.Err() == nil {
							inside += fmt.Sprint(i)
							if first < 0 {
								first = i
							}
						}
					}
					if inside != want {
						c.t.Fatalf("inside are %q, want %q", inside, want)
					}
					mustRelease(c.t, holds[first])
					synctest.Wait()
				}
				c.wantNodes(0)
			})
		})
	}
}

// The nodes are those of Apache Curator's read/write lock.
func TestReadWriteNodes(t *testing.T) {
	bubble(t, func(c *cluster) {
		rw := c.readWrite("a")
		for _, l := range []*Lock{rw.Reader(), rw.Writer()} {
			h := mustLock(c.t, l)
			n, ok := parseContender(c.nodes()[0])
			if !ok || n.kind != l.kind {
				c.t.Errorf("the node of a %v is %q", l.kind, c.nodes()[0])
			}
			mustRelease(c.t, h)
		}
	})
}

// While a process holds the write lock its readers enter, and stay when the
// write lock is released: nobody who queued behind the writer comes in between.
func TestDowngrade(t *testing.T) {
	for _, queued := range []string{"", "W", "R", "WR"} {
		for _, before := range []bool{false, true} { // does the reader wait before the writer is in?
			t.Run(fmt.Sprintf("queued=%s/reader first=%t", queued, before), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					a, b := c.readWrite("a"), c.readWrite("b")
					var theirs []Hold
					stranger := mustLock(c.t, b.Writer())
					w := a.Writer().Acquire(c.t.Context())
					synctest.Wait()
					for i, kind := range queued {
						rw := c.readWrite(fmt.Sprint(i))
						l := rw.Reader()
						if kind == 'W' {
							l = rw.Writer()
						}
						theirs = append(theirs, l.Acquire(c.t.Context()))
						synctest.Wait()
					}
					var r Hold
					if before {
						r = a.Reader().Acquire(c.t.Context())
						synctest.Wait()
					}
					mustRelease(c.t, stranger)
					synctest.Wait()
					wantErr(c.t, "the writer", w.Err(), nil)
					if !before {
						r = mustLock(c.t, a.Reader())
					}
					wantErr(c.t, "the reader beside its writer", r.Err(), nil)
					if wt, rt := grantOf(c.t, w).Token, grantOf(c.t, r).Token; rt != wt {
						c.t.Errorf("the reader's token is %d, its writer's %d", rt, wt)
					}
					mustRelease(c.t, w)
					later(time.Second)
					wantErr(c.t, "the reader after its writer", r.Err(), nil)
					token := grantOf(c.t, r).Token
					for i, h := range theirs {
						// Readers may come in now, unless a writer is ahead of them.
						if in := h.Err() == nil; in != (queued == "R") {
							c.t.Errorf("%d of %s is inside: %t", i, queued, in)
						}
					}
					mustRelease(c.t, r)
					for _, h := range theirs {
						synctest.Wait()
						wantErr(c.t, "the next", h.Err(), nil)
						if g := grantOf(c.t, h); g.Token <= token {
							c.t.Errorf("token %d after %d", g.Token, token)
						}
						mustRelease(c.t, h)
					}
					c.wantNodes(0)
				})
			})
		}
	}
}

// A reader comes while its writer is being released, at each moment.
func TestDowngradeAtTheRelease(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.readWrite("a"), c.readWrite("b")
		for range 20 {
			w := mustLock(c.t, a.Writer())
			theirs := b.Writer().Acquire(c.t.Context())
			synctest.Wait()
			stop := c.stopBefore(a.Writer().m, deleteNode)
			w.Release()
			stop.reached()
			r := a.Reader().Acquire(c.t.Context())
			stop.goOn()
			later(time.Second)
			if (r.Err() == nil) == (theirs.Err() == nil) {
				c.t.Fatalf("our reader: %v; their writer: %v", r.Err(), theirs.Err())
			}
			first, second := r, theirs
			if first.Err() != nil {
				first, second = theirs, r
			}
			mustRelease(c.t, first)
			synctest.Wait()
			mustRelease(c.t, second)
			waitUntil(c.t, "all have left", func() bool { return len(c.nodes()) == 0 })
		}
	})
}

// Who holds the read lock and asks for the write lock would wait for himself.
func TestUpgrade(t *testing.T) {
	bubble(t, func(c *cluster) {
		rw, other := c.readWrite("a"), c.readWrite("b")
		r := mustLock(c.t, rw.Reader())
		ctx, cancel := r.Context(c.t.Context())
		defer cancel()
		_, err := rw.Writer().Lock(ctx)
		wantErr(c.t, "lock", err, ErrUpgrade)
		_, err = rw.Writer().TryLock(ctx)
		wantErr(c.t, "trylock", err, ErrUpgrade)
		h := rw.Writer().Acquire(ctx)
		wantErr(c.t, "acquire", settled(c.t, "grant", h.Granted()), ErrUpgrade)

		// Another goroutine's writer waits for the readers, our own included.
		_, err = rw.Writer().TryLock(c.t.Context())
		wantErr(c.t, "trylock beside our own reader", err, ErrLocked)
		_, err = other.Writer().TryLock(ctx)
		wantErr(c.t, "another process, with a context of ours", err, ErrLocked)
		w := rw.Writer().Acquire(c.t.Context())
		synctest.Wait()
		pending(c.t, "the writer", w.Granted())

		// A dead read hold is no reader.
		mustRelease(c.t, r)
		synctest.Wait()
		wantErr(c.t, "the writer", w.Err(), nil)
		n, err := rw.Writer().Lock(context.WithoutCancel(ctx))
		wantErr(c.t, "with the context of a dead reader", err, nil)
		mustRelease(c.t, n)

		// Under the write lock: read and write again.
		wctx, cancelW := w.Context(c.t.Context())
		defer cancelW()
		r, err = rw.Reader().Lock(wctx)
		wantErr(c.t, "read under write", err, nil)
		rctx, cancelR := r.Context(wctx)
		defer cancelR()
		n, err = rw.Writer().Lock(rctx)
		wantErr(c.t, "write under read under write", err, nil)
		if n.Depth() != 2 {
			c.t.Errorf("depth %d", n.Depth())
		}
		for _, h := range []Hold{n, r, w} {
			mustRelease(c.t, h)
		}
		c.wantNodes(0)
	})
}

// A name is of one kind as long as anybody remembers it.
func TestKinds(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		l := exclusive(c.t, m, "jobs")
		_, err := m.ReadWrite("jobs")
		wantErr(c.t, "a mutex's name", err, ErrKind)
		rw, err := m.ReadWrite("other")
		wantErr(c.t, "readwrite", err, nil)
		_, err = m.Exclusive("other")
		wantErr(c.t, "a read/write lock's name", err, ErrKind)
		again, err := m.ReadWrite("/other")
		if again != rw || err != nil {
			c.t.Errorf("got another lock, %v", err)
		}
		runtime.KeepAlive(l)
		reader := rw.Reader()
		for range 5 {
			runtime.GC() // rw is kept by its reader
		}
		if again, err := m.ReadWrite("other"); err != nil || again.Reader() != reader {
			c.t.Errorf("got another lock, %v", err)
		}
		_, err = m.ReadWrite("zookeeper")
		wantErr(c.t, "a bad name", err, ErrBadName)
	})
}

// A mutex among readers and writers excludes everybody, and is reported.
func TestMixedKinds(t *testing.T) {
	bubble(t, func(c *cluster) {
		l, rw := c.lock("mutex"), c.readWrite("rw")
		h := mustLock(c.t, l)
		for _, side := range []*Lock{rw.Reader(), rw.Writer()} {
			_, err := side.TryLock(c.t.Context())
			wantErr(c.t, "beside a mutex", err, ErrLocked)
		}
		mustRelease(c.t, h)
		r := mustLock(c.t, rw.Reader())
		_, err := l.TryLock(c.t.Context())
		wantErr(c.t, "a mutex beside a reader", err, ErrLocked)
		mustRelease(c.t, r)
		if len(c.log.with("mutex")) == 0 {
			c.t.Error("it was not reported")
		}
	})
}

// Processes read and write at random, with cancelled waits, downgrades and
// connections that break: a writer's process is inside alone, readers see what
// the last writer left, and the writers' tokens rise.
func TestReadWriteStorm(t *testing.T) {
	bubble(t, func(c *cluster) {
		var mu sync.Mutex
		readers, writers := make(map[int]int), make(map[int]int) // holds by process
		var token uint64
		var reads, writes int
		enter := func(p int, kind Kind, h Hold) {
			mu.Lock()
			defer mu.Unlock()
			g := grantOf(c.t, h)
			for q := range 4 {
				if q != p && (writers[q] > 0 || kind == KindWrite && readers[q] > 0) {
					c.t.Errorf("process %d is inside (%v) with %d, which has %d readers, %d writers", p, kind, q, readers[q], writers[q])
				}
			}
			if g.Token < token {
				c.t.Errorf("token %d of a %v after a writer's %d", g.Token, kind, token)
			}
			if kind == KindWrite {
				token = g.Token
				writers[p]++
				writes++
			} else {
				readers[p]++
				reads++
			}
		}
		leave := func(p int, kind Kind) {
			mu.Lock()
			defer mu.Unlock()
			if kind == KindWrite {
				writers[p]--
			} else {
				readers[p]--
			}
		}
		var wg sync.WaitGroup
		var managers []*Manager
		for p := range 4 {
			rw := c.readWrite(fmt.Sprint(p), func(cfg *Config) { cfg.SessionTimeout = 40 * time.Second; cfg.Tenure = 10 * time.Millisecond })
			managers = append(managers, rw.Reader().m)
			for range 4 {
				wg.Go(func() {
					for range 40 {
						l, kind := rw.Reader(), KindRead
						if rand.IntN(3) == 0 {
							l, kind = rw.Writer(), KindWrite
						}
						ctx, cancel := context.WithTimeoutCause(c.t.Context(), rand.N(2*time.Second), errGaveUp)
						h, err := l.Lock(ctx)
						cancel()
						if err != nil {
							if !errors.Is(err, errGaveUp) {
								c.t.Errorf("got %v", err)
							}
							continue
						}
						enter(p, kind, h)
						time.Sleep(rand.N(5 * time.Millisecond))
						if kind == KindWrite && rand.IntN(2) == 0 {
							r := mustLock(c.t, rw.Reader())
							enter(p, KindRead, r)
							leave(p, KindWrite)
							mustRelease(c.t, h)
							h, kind = r, KindRead
							time.Sleep(rand.N(5 * time.Millisecond))
						}
						leave(p, kind)
						mustRelease(c.t, h)
						time.Sleep(rand.N(30 * time.Millisecond))
					}
				})
			}
		}
		stop := make(chan struct{})
		var cutter sync.WaitGroup
		cutter.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(rand.N(200 * time.Millisecond)):
					c.srv.Faults().Cut(session(managers[rand.IntN(len(managers))]))
				}
			}
		})
		wg.Wait()
		close(stop)
		cutter.Wait()
		waitUntil(c.t, "all have left", func() bool { return len(c.nodes()) == 0 })
		c.t.Logf("%d reads, %d writes", reads, writes)
		if reads < 50 || writes < 20 {
			c.t.Errorf("%d reads, %d writes", reads, writes)
		}
	})
}

// The reader that came out of a writer is lost with its own node.
func TestDowngradedReaderIsLost(t *testing.T) {
	bubble(t, func(c *cluster) {
		rw, other := c.readWrite("a"), c.readWrite("b")
		w := mustLock(c.t, rw.Writer())
		r := mustLock(c.t, rw.Reader())
		theirs := other.Writer().Acquire(c.t.Context())
		mustRelease(c.t, w)
		later(time.Minute)
		pending(c.t, "the other's writer", theirs.Granted())
		c.expire(rw.Reader().m)
		wantErr(c.t, "the reader", r.Err(), ErrLost)
		wantErr(c.t, "the other's writer", theirs.Err(), nil)
		wantErr(c.t, "unlock", r.Unlock(c.t.Context()), ErrLost)
		mustRelease(c.t, theirs)
		wantState(c.t, rw.Reader(), state.Free, 0)
	})
}
