// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A loop is one of WatchHolder, and what it was told.
type loop struct {
	c      *cluster
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu   sync.Mutex // protects what follows
	told []string   // labels, names of other clients' nodes, or "free"
	err  error
}

// follow begins a loop of WatchHolder on l. It ends with the test.
func (c *cluster) follow(l *Lock) *loop {
	ctx, cancel := context.WithCancelCause(context.Background())
	f := &loop{c: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for holder, err := range l.WatchHolder(ctx) {
			f.mu.Lock()
			if err != nil {
				f.err = err
			} else {
				f.told = append(f.told, nameOfHolder(holder))
			}
			f.mu.Unlock()
		}
	}()
	c.t.Cleanup(func() { cancel(nil); <-f.done })
	synctest.Wait()
	return f
}

// nameOfHolder returns a holder's label, the name of another client's node, or "free".
func nameOfHolder(c *Contender) string {
	switch {
	case c == nil:
		return "free"
	case c.Label == "":
		return c.Path[strings.LastIndexByte(c.Path, '/')+1:]
	}
	return c.Label
}

// want checks what the loop was told since the last call, once nothing moves any more.
func (f *loop) want(what string, want ...string) {
	f.c.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.told, want) {
		f.c.t.Errorf("%s: told %q, want %q", what, f.told, want)
	}
	f.told = nil
}

// stop ends the loop and returns its error.
func (f *loop) stop() error {
	f.cancel(nil)
	<-f.done
	synctest.Wait()
	return f.err
}

// cachedName returns what CachedHolder says.
func (c *cluster) cachedName(l *Lock) string {
	c.t.Helper()
	holder, err := l.CachedHolder(c.t.Context())
	if err != nil {
		c.t.Errorf("cached holder: %v", err)
	}
	return nameOfHolder(holder)
}

// wantHolder checks what Holder says.
func (c *cluster) wantHolder(what string, l *Lock, want string) {
	c.t.Helper()
	holder, err := l.Holder(c.t.Context())
	wantErr(c.t, what, err, nil)
	if got := nameOfHolder(holder); got != want {
		c.t.Errorf("%s: holder %q, want %q", what, got, want)
	}
}

// wantCached checks what CachedHolder says.
func (c *cluster) wantCached(what string, l *Lock, want string) {
	c.t.Helper()
	if got := c.cachedName(l); got != want {
		c.t.Errorf("%s: cached holder %q, want %q", what, got, want)
	}
}

// CachedHolder answers from memory until a change is heard. A change that no caller
// asks about costs a notification, and no request.
func TestCachedHolderCounts(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, asker := c.lock("a"), c.lock("b"), c.lock("asker")
		ha := mustLock(c.t, a)
		hb := c.acquire(b)
		n := c.tally(asker.m)
		events := func() uint64 { return asker.m.client.Stats().WatchEvents }
		c.wantCached("first", asker, "a")
		n.want("first", "getChildren2=2 getData=1")
		for range 100 {
			c.wantCached("again", asker, "a")
		}
		n.want("again", "")

		before := events()
		c.unlock(ha)
		c.held(hb)
		later(time.Second)
		n.want("a change", "")
		if got := events() - before; got != 1 {
			c.t.Errorf("%d notifications of a change, want 1", got)
		}
		c.wantCached("after a change", asker, "b")
		n.want("after a change", "getChildren2=1 getData=1")
		c.unlock(hb)
		later(time.Second)
		n.want("another change", "")
		c.wantCached("free", asker, "free")
		n.want("free", "getChildren2=2")
		c.wantCached("free", asker, "free")
		n.want("free", "")
		ha = mustLock(c.t, a)
		later(time.Second)
		c.wantCached("taken again", asker, "a")
		n.want("taken again, by a process that is known", "getChildren2=2")
		c.unlock(ha)
	})
}

// A process that holds the lock itself asks nothing.
func TestCachedHolderOwn(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		n := c.tally(a.m)
		for range 3 {
			holder, err := a.CachedHolder(c.t.Context())
			wantErr(c.t, "cached holder", err, nil)
			if g := grantOf(c.t, h); holder == nil || !holder.Own || !holder.Holds || holder.Token != g.Token || holder.Path != g.Path || holder.Label != "a" {
				c.t.Errorf("says %+v, want the grant %+v", holder, g)
			}
		}
		n.want("own", "")
		c.unlock(h)
		n.want("unlock", "delete=1")
		c.wantCached("after the release", a, "free")
		hb := mustLock(c.t, b)
		later(time.Second)
		c.wantCached("another", a, "b")
		c.unlock(hb)
	})
}

// WatchHolder tells the present holder, and then each other, with few requests.
func TestWatchHolderCounts(t *testing.T) {
	bubble(t, func(c *cluster) {
		holds, ms := c.queueUp(4)
		asker := c.lock("asker")
		n := c.tally(asker.m)
		events := asker.m.client.Stats().WatchEvents
		f := c.follow(asker)
		f.want("at first", ms[0].cfg.Label)
		n.want("at first", "getChildren2=2 getData=1")
		for i, h := range holds[:3] {
			later(time.Second)
			c.unlock(h)
			f.want("a change", ms[i+1].cfg.Label)
			n.want("a change", "getChildren2=1 getData=1")
		}
		later(time.Second)
		c.unlock(holds[3])
		f.want("free", "free")
		n.want("free", "getChildren2=2")
		later(time.Second)
		h := mustLock(c.t, exclusive(c.t, ms[2], "jobs"))
		f.want("again", ms[2].cfg.Label)
		n.want("again, by a process that is known", "getChildren2=2")
		if got := asker.m.client.Stats().WatchEvents - events; got != 5 {
			c.t.Errorf("%d notifications of 5 changes", got)
		}
		wantErr(c.t, "the loop's end", f.stop(), context.Canceled)
		n.want("the end", "removeWatches=1")
		c.unlock(h)
	})
}

// The holder's node is watched for its deletion only: data that is written into it, and
// contenders that come and go, are no news.
func TestWatchHolderHearsOnlyOfTheEnd(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, asker := c.lock("a"), c.lock("b"), c.lock("asker")
		ha := mustLock(c.t, a)
		f := c.follow(asker)
		n := c.tally(asker.m)
		before := asker.m.client.Stats().WatchEvents
		wantErr(c.t, "set", c.srv.Set(grantOf(c.t, ha).Path, []byte("x")), nil)
		_, err := b.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrLocked)
		later(time.Second)
		f.want("at last", "a")
		n.want("others", "")
		if got := asker.m.client.Stats().WatchEvents - before; got != 0 {
			c.t.Errorf("%d notifications", got)
		}
		c.unlock(ha)
	})
}

// wantNoWatches checks that neither m nor the server has a watch.
func (c *cluster) wantNoWatches(what string, ms ...*Manager) {
	c.t.Helper()
	synctest.Wait()
	for _, m := range ms {
		if n := m.client.Stats().Watches; n != 0 {
			c.t.Errorf("%s: the client has %d watches", what, n)
		}
	}
	if n := c.srv.AllWatches(); n != (zktest.WatchCount{}) {
		c.t.Errorf("%s: the server has watches: %+v", what, n)
	}
}

// Whatever ends a loop, no goroutine and no watch is left, here or at the server.
func TestF108_WatchHolderLeavesNothing(t *testing.T) {
	states := map[string]func(c *cluster){
		"no directory": func(c *cluster) {},
		"no contender": func(c *cluster) { wantErr(c.t, "create", c.srv.CreateAll(dir, nil), nil) },
		"held":         func(c *cluster) { c.crowd().node("lock-0000000000") },
		"may not be read": func(c *cluster) {
			path := c.crowd().node("lock-0000000000")
			for _, op := range []zktest.Op{zktest.OpGetData, zktest.OpGetChildren2} {
				c.srv.Faults().FailRequest(zktest.Match{Op: op, Path: path, Times: zktest.Every}, zktest.CodeNoAuth)
			}
		},
	}
	each(t, states, func(c *cluster, prepare func(*cluster)) {
		prepare(c)
		l := c.lock("a")
		breaks := func(l *Lock) {
			for range l.WatchHolder(c.t.Context()) {
				break
			}
		}
		breaks(l)
		c.wantNoWatches("break", l.m)
		f, other := c.follow(l), c.follow(l)
		wantErr(c.t, "one of two ends", f.stop(), context.Canceled)
		if n := c.srv.AllWatches(); n == (zktest.WatchCount{}) {
			c.t.Error("the other's watch is gone")
		}
		wantErr(c.t, "the other ends", other.stop(), context.Canceled)
		c.wantNoWatches("ctx ends", l.m)

		c.cachedName(l)
		breaks(l)
		if n := c.srv.AllWatches(); n == (zktest.WatchCount{}) {
			c.t.Error("the watch for CachedHolder is gone")
		}
		f = c.follow(l)
		wantErr(c.t, "close", l.m.Close(), nil)
		synctest.Wait()
		wantErr(c.t, "a loop after Close", f.err, ErrClosed)
		c.wantNoWatches("Close")
		_, err := l.CachedHolder(c.t.Context())
		wantErr(c.t, "cached holder after Close", err, ErrClosed)
		for _, err := range l.WatchHolder(c.t.Context()) {
			wantErr(c.t, "a loop that begins after Close", err, ErrClosed)
		}
	})
}

// Loops end as Close begins, and not when the server has answered, which can take seconds.
func TestF108_LoopsEndAsCloseBegins(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		f := c.follow(l)
		later(time.Second)
		silence := c.srv.Faults().BlackholeAll()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = l.m.Close() // the server does not confirm it, or late
		}()
		synctest.Wait()
		f.mu.Lock()
		err := f.err
		f.mu.Unlock()
		wantErr(c.t, "the loop", err, ErrClosed)
		silence.Remove()
		<-closed
	})
}

// However quickly holders change, there is one look in 50 ms, and the last holder is
// told. The loop may take its time.
func TestF109_WatchHolderCoalesces(t *testing.T) {
	for _, slow := range []time.Duration{0, 120 * time.Millisecond} {
		bubble(t, func(c *cluster) {
			s, l := c.crowd(), c.lock("a")
			n := c.tally(l.m)
			var told []string
			ctx, cancel := context.WithCancel(c.t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for holder, err := range l.WatchHolder(ctx) {
					if err == nil {
						told = append(told, nameOfHolder(holder))
						time.Sleep(slow)
					}
				}
			}()
			node := func(i int) string { return fmt.Sprintf("_c_%032x-lock-%010d", i, i) }
			path := s.node(node(0))
			for i := range 1000 {
				next := s.node(node(i + 1))
				time.Sleep(500 * time.Microsecond)
				c.remove(path)
				path = next
			}
			later(time.Second)
			cancel()
			<-done
			if len(told) > 12 || told[len(told)-1] != node(1000) {
				c.t.Errorf("told %q, want few, and the last of 1,000", told)
			}
			if counts := n.take("1,000 changes"); counts["getChildren2"]+counts["getData"] > 12*4 {
				c.t.Errorf("%v for 1,000 changes in half a second", counts)
			}
		})
	}
}

// An outage is silent. Afterwards a loop is told what has changed, in the same session
// or in a new one, and nothing if nothing has.
func TestF107_WatchHolderAcrossOutages(t *testing.T) {
	for _, expires := range []bool{false, true} {
		for _, changes := range []bool{false, true} {
			bubble(t, func(c *cluster) {
				a, b, l := c.lock("a"), c.lock("b"), c.lock("asker")
				ha := mustLock(c.t, a)
				hb := c.acquire(b)
				f := c.follow(l)
				f.want("before", "a")
				c.wantCached("before", l, "a")
				c.away("asker", 5*time.Second)
				if expires {
					c.srv.ExpireSession(session(l.m))
				}
				later(time.Second)
				var want []string
				if changes {
					c.unlock(ha)
					want = []string{"b"}
				}
				later(time.Minute)
				f.want("after", want...)
				c.wantCached("after", l, map[bool]string{true: "b", false: "a"}[changes])
				if !changes {
					c.unlock(ha)
				}
				later(time.Second)
				if changes {
					want = nil
				} else {
					want = []string{"b"}
				}
				f.want("the next", want...)
				c.unlock(hb)
				f.want("free", "free")
				wantErr(c.t, "end", f.stop(), context.Canceled)
			})
		}
	}
}

// A process that was told that a node is gone connects again, to a server that is
// behind. What it says then is not older than what it was told.
func TestF107_ServerBehindWhatWasTold(t *testing.T) {
	bubble(t, func(c *cluster) {
		ha := mustLock(c.t, c.lock("a"))
		var there atomic.Pointer[string]
		zk1, zk2 := "zk1:2181", "zk2:2181"
		there.Store(&zk1)
		l := c.lock("asker", func(cfg *Config) {
			cfg.Servers = []string{zk1, zk2}
			dial := cfg.Dialer
			cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				if address != *there.Load() {
					return nil, errors.New("connection refused")
				}
				return dial(ctx, network, address)
			}
		})
		c.wantCached("before", l, "a")
		c.srv.Faults().LagServer(-1, zk2)
		c.unlock(ha)
		there.Store(&zk2)
		c.srv.Faults().Cut(session(l.m))
		later(2 * time.Second)
		n := c.tally(l.m)
		c.wantCached("after", l, "free")
		if got := n.take("after"); got["sync"] != 1 || c.srv.Faults().Hits()[zktest.FaultLag] == 0 {
			c.t.Errorf("sent %v, faults %v, want a sync at a server that is behind", got, c.srv.Faults().Hits())
		}
		c.srv.Faults().Clear()
	})
}

// A new session may be at a server that is behind the one of the last session. Its
// answers say so.
func TestF107_NewSessionAtServerBehind(t *testing.T) {
	bubble(t, func(c *cluster) {
		ha := mustLock(c.t, c.lock("a"))
		var old atomic.Bool
		l := c.lock("asker", c.forged(func(op int32, _ []byte) func([]byte) []byte {
			if op == jute.OpSync {
				old.Store(false)
			}
			if !old.Load() {
				return nil
			}
			return func(frame []byte) []byte {
				binary.BigEndian.PutUint64(frame[8:], 1) // the last transaction that the server has heard of
				return frame
			}
		}))
		f := c.follow(l)
		f.want("before", "a")
		old.Store(true)
		n := c.tally(l.m)
		c.expire(l.m)
		later(time.Second)
		f.want("after")
		if got := l.m.client.Stats().Sent; got["sync"] != 1 || got["getChildren2"]-n.sent["getChildren2"] != 3 {
			c.t.Errorf("sent %v after %v, want a list, a sync, a list, and a look at the holder", got, n.sent)
		}
		c.unlock(ha)
		f.want("free", "free")
	})
}

// With HOLDER, W1, W2, W3 in line, errors name HOLDER, whichever contender is waited for.
func TestErrorsNameTheHolder(t *testing.T) {
	for waiters := range 5 {
		for _, kind := range []string{"exclusive", "read", "write"} {
			t.Run(fmt.Sprintf("%s behind %d waiters", kind, waiters), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					of := func(label string) *Lock {
						if kind == "exclusive" {
							return c.lock(label)
						}
						return pick(c.rw(label), kind == "write")
					}
					holder := c.lock
					if kind != "exclusive" {
						holder = func(label string, with ...func(*Config)) *Lock { return c.rw(label, with...).Writer() }
					}
					holds := []Hold{c.acquire(holder("HOLDER"))}
					for i := range waiters {
						holds = append(holds, c.acquire(holder(fmt.Sprintf("W%d", i+1))))
					}
					l := of("asker")
					wantHolder := func(what string, err error, want string) {
						c.t.Helper()
						var e *Error
						if !errors.As(err, &e) || e.Holder == nil || nameOfHolder(e.Holder) != want || !e.Holder.Holds {
							c.t.Errorf("%s: %v, want it to name %s", what, err, want)
						}
					}
					n := c.tally(l.m)
					_, err := l.TryLock(c.t.Context())
					wantErr(c.t, "trylock", err, ErrLocked)
					wantHolder("trylock", err, "HOLDER")
					text := "held by HOLDER@"
					if waiters > 1 {
						text = fmt.Sprintf("(%d ahead; held by HOLDER@", waiters+1)
					}
					wantSays(c.t, err, text)
					later(time.Second)
					got := n.take("trylock")
					gets := 2 // the directory, and the one ahead
					if waiters > 0 && kind != "read" || waiters > 0 {
						gets = 3 // the two nearest
					}
					if waiters > 1 {
						gets++ // the holder
					}
					if got["getData"] > gets || got["getChildren2"] > 1 {
						c.t.Errorf("trylock sent %v, want at most %d getData", got, gets)
					}

					// A process that is known is not asked for again.
					_, err = l.TryLock(c.t.Context())
					wantHolder("trylock again", err, "HOLDER")
					later(time.Second)
					if again := n.take("trylock again"); again["getData"] > 2 {
						c.t.Errorf("trylock again sent %v", again)
					}
					ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
					defer cancel()
					_, err = l.Lock(ctx)
					wantErr(c.t, "lock", err, context.DeadlineExceeded)
					wantHolder("lock", err, "HOLDER")

					// The holder goes while a call waits.
					if waiters > 0 {
						ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute) // at last from 10 s ago
						defer cancel()
						done := make(chan error)
						go func() { _, err := l.Lock(ctx); done <- err }()
						synctest.Wait()
						c.unlock(holds[0])
						holds = holds[1:]
						wantHolder("lock, and the holder goes", <-done, "W1")
					}
					for _, h := range holds {
						c.unlock(h)
					}
				})
			})
		}
	}
}

// The holder goes while a process looks: what it has seen is old, and it looks again.
func TestF109_HolderGoesDuringALook(t *testing.T) {
	for _, at := range []verb{list, lookAtNode} {
		bubble(t, func(c *cluster) {
			ha := mustLock(c.t, c.lock("a"))
			hb := c.acquire(c.lock("b"))
			l := c.lock("asker")
			stop := c.stopBefore(l.m, at)
			if at == list {
				stop.skip = 1 // the look at the holder, which sets the watch
			}
			f := c.follow(l)
			stop.reached()
			second := make(chan string, 1)
			go func() { second <- c.cachedName(l) }()
			synctest.Wait()
			c.unlock(ha)
			stop.goOn()
			later(time.Second)
			synctest.Wait()
			f.mu.Lock()
			if len(f.told) == 0 || f.told[len(f.told)-1] != "b" {
				c.t.Errorf("stopped before %s: told %q, want b at last", at, f.told)
			}
			f.mu.Unlock()
			if got := <-second; got != "b" {
				c.t.Errorf("stopped before %s: a call in between is told %q, want b", at, got)
			}
			c.wantCached("then", l, "b")
			c.unlock(hb)
			c.wantCached("in the end", l, "free")
		})
	}
}

// A change that is heard during a look, too late for what it asks, has it looked again.
func TestF109_ChangeHeardDuringALook(t *testing.T) {
	bubble(t, func(c *cluster) {
		h := mustLock(c.t, c.lock("a"))
		l := c.lock("asker")
		stop := c.stopBefore(l.m, lookAtNode)
		first := make(chan string, 1)
		go func() { first <- c.cachedName(l) }()
		stop.reached()
		l.observer.Load().outdate() // as by the news of a watch
		stop.goOn()
		if got := <-first; got != "a" {
			c.t.Errorf("told %q, want a, whose node was there after the call", got)
		}
		n := c.tally(l.m)
		c.wantCached("then", l, "a")
		n.want("then", "getChildren2=2")
		c.unlock(h)
	})
}

// When a writer becomes a reader, that reader holds the lock, and not the writer that
// was behind the write in the last list.
func TestF109_ReaderInAWritersPlace(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, asker := c.rw("a"), c.rw("b"), c.rw("asker")
		write := mustLock(c.t, a.Writer())
		next := c.acquire(b.Writer())
		f := c.follow(asker.Reader())
		f.want("first", "a")
		c.wantCached("first", asker.Writer(), "a")
		read := mustLock(c.t, a.Reader())
		later(time.Second)
		c.unlock(write)
		later(time.Second)
		c.wantCached("the reader", asker.Reader(), "a")
		holder, err := asker.Writer().CachedHolder(c.t.Context())
		if err != nil || holder.Kind != KindRead {
			c.t.Errorf("the reader: %+v, %v", holder, err)
		}
		c.unlock(read)
		later(time.Second)
		f.want("the reader, and the next writer", "a", "b")
		c.unlock(next)
		f.want("free", "free")
	})
}

// A look at the next in line fails, and before the next try that writer has gone and has
// left its place to a reader. The list that named it must not name the one behind it.
func TestF109_LookFailsBeforeAWriterGoes(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, last, asker := c.rw("a"), c.rw("b"), c.rw("last"), c.rw("asker")
		first := mustLock(c.t, a.Reader())
		write := c.acquire(b.Writer())
		behind := c.acquire(last.Writer())
		f := c.follow(asker.Reader())
		later(time.Second)
		f.want("first", "a")
		node := c.nodeOf(b.Writer().m)
		failing := c.srv.Faults().FailRequest(zktest.Match{Op: zktest.OpGetChildren2, Path: node, Session: session(asker.Reader().m), Times: 1}, zktest.CodeRuntimeInconsistency)
		c.unlock(first)
		if failing.Hits() != 1 {
			c.t.Fatalf("%d looks have failed, want 1", failing.Hits())
		}
		read := mustLock(c.t, b.Reader())
		c.unlock(write)
		asker.Reader().observer.Load().PathChanged(node, zkio.Event{What: zkio.NodeDeleted}) // as if the watch had been set
		later(time.Second)
		f.want("the reader", "b")
		c.unlock(read)
		later(time.Second)
		f.want("the last", "last")
		c.unlock(behind)
	})
}

// What a process learns by its own grant, or from Holder, is newer than its memory, even
// if the news of the watch come later.
func TestF109_MemoryIsNotOlderThanAGrant(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, l := c.lock("a"), c.lock("asker")
		ha := mustLock(c.t, a)
		c.wantCached("before", l, "a")
		o := l.observer.Load()
		before := o.seen.Load()
		c.unlock(ha)
		o.seen.Store(before) // as if the news were on their way
		h := mustLock(c.t, l)
		c.wantCached("held", l, "asker")
		c.unlock(h)
		c.wantCached("released", l, "free")

		before = o.seen.Load()
		ha = mustLock(c.t, a)
		later(time.Second)
		o.seen.Store(before)
		if _, err := l.Holder(c.t.Context()); err != nil {
			c.t.Error(err)
		}
		c.wantCached("after Holder", l, "a")
		o.seen.Store(before)
		_, err := l.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrLocked)
		c.wantCached("after an error that names the holder", l, "a")
		c.unlock(ha)
	})
}

// The holder's node is deleted, and its own loop of WatchHolder is told of the next
// holder before the deletion is: that is queued behind a slow watcher.
func TestF109_LoopOvertakesTheLoss(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		ha := mustLock(c.t, a)
		next := b.Acquire(c.t.Context())
		later(time.Second) // a watches its own node by now
		w := c.watchSlowly(a.m)
		c.block(w)
		c.remove(grantOf(c.t, ha).Path)
		synctest.Wait()
		wantHeld(c.t, "the next", next)
		c.wantCached("before the loop", a, "a")
		f := c.follow(a)
		f.want("the loop", "b")
		wantErr(c.t, "the loop's end", f.stop(), context.Canceled)
		c.wantCached("after the loop", a, "b")
		if ha.Err() != nil {
			c.t.Error("the loss is known already: the test shows nothing")
		}
		close(w.resume)
		synctest.Wait()
		wantErr(c.t, "the old hold", ha.Err(), ErrLost)
		c.wantCached("after the news", a, "b")
		mustRelease(c.t, next)
	})
}

// A process whose node was deleted is told who holds the lock instead, and is granted the lock
// after that, by what it heard before. It had asked nothing but Holder. Until it knows, it must not
// name itself.
func TestF109_GrantIsOlderThanAnAnswer(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, d := c.lock("a"), c.lock("b"), c.lock("d")
		hb := mustLock(c.t, b)
		own := c.acquire(a)
		next := c.acquire(d)
		w := c.watchSlowly(a.m)
		c.block(w)
		c.remove(c.nodeOf(a.m)) // a does not watch its own node yet
		c.unlock(hb)
		wantHeld(c.t, "the next", next)
		c.wantHolder("asked", a, "d")
		close(w.resume)
		synctest.Wait()
		wantHeld(c.t, "by what was heard before", own) // or the test shows nothing
		c.wantCached("after the grant", a, "d")
		c.wantHolder("after the grant", a, "d")
		later(time.Second)
		wantErr(c.t, "the hold without a node", own.Err(), ErrLost)
		c.unlock(next)
	})
}

// A process that waits is told that the lock is free: its own node was deleted. By what it heard
// before, it is granted the lock after that. Until it knows, it must not name itself.
func TestF109_GrantIsOlderThanFree(t *testing.T) {
	asks := map[string]func(c *cluster, l *Lock){
		"Holder":       func(c *cluster, l *Lock) { c.wantHolder("asked", l, "free") },
		"CachedHolder": func(c *cluster, l *Lock) { c.wantCached("asked", l, "free") },
	}
	each(t, asks, func(c *cluster, ask func(*cluster, *Lock)) {
		a, b := c.lock("a"), c.lock("b")
		hb := mustLock(c.t, b)
		own := c.acquire(a)
		w := c.watchSlowly(a.m)
		c.block(w)
		c.remove(c.nodeOf(a.m)) // a does not watch its own node yet
		c.unlock(hb)
		ask(c, a)
		close(w.resume)
		synctest.Wait()
		wantHeld(c.t, "by what was heard before", own) // or the test shows nothing
		c.wantCached("after the grant", a, "free")
		c.wantHolder("after the grant", a, "free")
		later(time.Second)
		wantErr(c.t, "the hold without a node", own.Err(), ErrLost)
	})
}

// The holder's node is deleted, and its own loop of WatchHolder is told that the lock is free
// before the holder is told of the deletion.
func TestF109_LoopTellsOfAFreeLockFirst(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		ha := mustLock(c.t, a)
		later(time.Second) // a watches its own node by now
		w := c.watchSlowly(a.m)
		c.block(w)
		c.remove(grantOf(c.t, ha).Path)
		f := c.follow(a)
		f.want("the loop", "free")
		wantHeld(c.t, "as far as its process knows", ha) // or the test shows nothing
		c.wantCached("after the loop", a, "free")
		c.wantHolder("after the loop", a, "free")
		close(w.resume)
		synctest.Wait()
		wantErr(c.t, "the old hold", ha.Err(), ErrLost)
	})
}

// An error that names the holder which CachedHolder remembers is no news: the next call of
// CachedHolder asks nothing, and a loop of WatchHolder looks no more than before.
func TestErrorNamesTheHolderThatIsRemembered(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, l := c.lock("a"), c.lock("asker")
		ha := mustLock(c.t, a)
		c.wantCached("first", l, "a")
		_, err := l.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrLocked)
		if e, ok := errors.AsType[*Error](err); !ok || e.Holder == nil || e.Holder.Path != grantOf(c.t, ha).Path {
			c.t.Errorf("trylock: %v; want the holder named", err)
		}
		n := c.tally(l.m)
		c.wantCached("after the error", l, "a")
		n.want("after the error", "")
		c.unlock(ha)
	})
}

// A writer that waits is told of a read beside another process's write, and then has the lock. The
// read's node is younger than the writer's, so the writer asks, but only once: from then on it names
// itself without a request, and in an outage, too.
func TestF109_HolderAfterAYoungerRead(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.rw("a"), c.rw("b")
		write := mustLock(c.t, a.Writer())
		next := c.acquire(b.Writer())
		read := mustLock(c.t, a.Reader())
		c.unlock(write)
		c.wantHolder("asked", b.Writer(), "a")
		c.unlock(read)
		later(time.Second)
		c.held(next)
		c.wantHolder("its own", b.Writer(), "b")
		n := c.tally(b.writer.m)
		for range 3 {
			c.wantHolder("its own again", b.Writer(), "b")
		}
		n.want("its own again", "")
		c.away("b", time.Second)
		ctx, cancel := context.WithTimeout(c.t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := b.Writer().Holder(ctx)
		wantErr(c.t, "in an outage", err, nil)
		c.held(next)
		later(2 * time.Second)
		c.unlock(next)
	})
}

// The manager forgets what it remembers of a lock while CachedHolder asks for its holder. The answer
// counts all the same: a grant that is older must not be named after it.
func TestF109_AnswerOfAForgottenObserver(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, d := c.lock("a"), c.lock("b"), c.lock("d")
		a.m.observers.most = 1
		other := exclusive(c.t, a.m, "other")
		hd := mustLock(c.t, d)
		c.wantHolder("before", a, "d") // so that a knows d's process, and need not read its node
		c.unlock(hd)

		hb := mustLock(c.t, b)
		own := c.acquire(a)
		next := c.acquire(d)
		w := c.watchSlowly(a.m)
		c.block(w)
		c.remove(c.nodeOf(a.m)) // a does not watch its own node yet
		c.unlock(hb)
		wantHeld(c.t, "the next", next)

		// The server stops in the first look, before it is asked for the holder's node, and then
		// before the second look.
		inFirst, inSecond := make(chan struct{}), make(chan struct{})
		goOn, goOnAgain := make(chan struct{}), make(chan struct{})
		var lists atomic.Int32
		asker := session(a.m)
		c.srv.OnRequest(func(session int64, op zktest.Op, path string) {
			switch {
			case session != asker || op != zktest.OpGetChildren2:
			case path == dir && lists.Add(1) == 2:
				close(inSecond)
				<-goOnAgain
			case path != dir && lists.Load() == 1 && verbOf(zktest.OpGetData, path) == lookAtNode:
				close(inFirst)
				<-goOn
			}
		})
		first, second := make(chan string, 1), make(chan string, 1)
		go func() { first <- c.cachedName(a) }()
		<-inFirst
		go c.cachedName(other) // takes the place of a's observer
		synctest.Wait()
		go func() { second <- c.cachedName(a) }() // makes another one
		synctest.Wait()
		close(goOn)
		if got := <-first; got != "d" {
			c.t.Errorf("the first call is told %q, want d", got)
		}
		<-inSecond
		close(w.resume)
		synctest.Wait()
		wantHeld(c.t, "by what was heard before", own) // or the test shows nothing
		if holder, _ := a.CachedHolder(expired(c.t)); nameOfHolder(holder) == "a" {
			c.t.Error("the next call is told a, whose node was gone before d was told of")
		}
		close(goOnAgain)
		<-second
		later(time.Second)
		c.unlock(next)
	})
}

// expired returns a context that has ended: a call with it is answered from memory, or fails.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A contender that comes in ahead of the holder by its name is named while it is there,
// and not for longer.
func TestF109_StrangerComesInAhead(t *testing.T) {
	bubble(t, func(c *cluster) {
		first := c.crowd().node("_c_" + hex32 + "-lock-0000000000")
		c.remove(first)
		l := c.lock("a")
		h := mustLock(c.t, l)
		f := c.follow(l)
		f.want("at first", "a")
		wantErr(c.t, "a stranger comes", c.srv.CreateAll(first, nil), nil)
		c.wantCached("not heard of", l, "a")
		_ = f.stop()
		f = c.follow(l)
		c.wantCached("beside the stranger", l, nameOfHolder(&Contender{Path: first}))
		c.remove(first)
		later(time.Second)
		f.want("it goes", nameOfHolder(&Contender{Path: first}), "a")
		n := c.tally(l.m)
		c.wantCached("alone again", l, "a")
		n.want("alone again", "")
		c.unlock(h)
	})
}

// A holder whose node may not be read is watched by way of its directory.
func TestF109_HolderMayNotBeRead(t *testing.T) {
	bubble(t, func(c *cluster) {
		first := c.crowd().node("_c_" + hex32 + "-lock-0000000000")
		for _, op := range []zktest.Op{zktest.OpGetData, zktest.OpGetChildren2} {
			c.srv.Faults().FailRequest(zktest.Match{Op: op, Path: first, Times: zktest.Every}, zktest.CodeNoAuth)
		}
		l := c.lock("asker")
		f := c.follow(l)
		f.want("first", first[len(dir)+1:])
		c.wantCached("first", l, first[len(dir)+1:])
		later(time.Second)
		c.remove(first)
		f.want("free", "free")
		c.wantCached("free", l, "free")
	})
}

// A refusal ends a loop, and is the answer of CachedHolder; afterwards both work again.
func TestWatchHolderRefused(t *testing.T) {
	bubble(t, func(c *cluster) {
		h := mustLock(c.t, c.lock("a"))
		l := c.lock("asker")
		denied := c.srv.Faults().FailRequest(zktest.Match{Op: zktest.OpGetChildren2, Path: dir, Session: session(l.m), Times: zktest.Every}, zktest.CodeNoAuth)
		f := c.follow(l)
		<-f.done
		wantErr(c.t, "the loop", f.err, zkio.ErrNoAuth)
		wantSays(c.t, f.err, `watch holder "jobs"`)
		_, err := l.CachedHolder(c.t.Context())
		wantErr(c.t, "cached holder", err, zkio.ErrNoAuth)
		denied.Remove()
		f = c.follow(l)
		later(time.Second)
		f.want("once it is permitted", "a")
		c.wantCached("once it is permitted", l, "a")
		c.unlock(h)
	})
}

// A context bounds the call, and says why.
func TestCachedHolderContext(t *testing.T) {
	bubble(t, func(c *cluster) {
		h := mustLock(c.t, c.lock("a"))
		l := c.lock("asker")
		c.away("asker", time.Minute)
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		_, err := l.CachedHolder(ctx)
		wantErr(c.t, "in an outage", err, context.DeadlineExceeded)
		_, err = l.CachedHolder(ctx)
		wantErr(c.t, "a context that has ended", err, context.DeadlineExceeded)
		c.wantCached("after the outage", l, "a")
		c.unlock(h)
	})
}

// A process remembers so many locks, and those that were asked for lately. Of the others
// no watch is left.
func TestF108_MemoryIsBounded(t *testing.T) {
	bubble(t, func(c *cluster) {
		const most, all = 10, 50
		m := c.open("asker")
		m.observers.most = most
		locks := make([]*Lock, all)
		for i := range locks {
			locks[i] = exclusive(c.t, m, fmt.Sprint("many/", i))
		}
		c.cachedName(locks[0])
		kept := m.observers.all[locks[0].path]
		for _, l := range locks[1:] {
			c.cachedName(l)
			c.cachedName(locks[0])
		}
		synctest.Wait()
		if m.observers.all[locks[0].path] != kept {
			c.t.Error("the one that is asked for again and again was forgotten in between")
		}
		if n := c.srv.AllWatches().Data; n != most || len(m.observers.all) != most || m.client.Stats().Watches != most {
			c.t.Errorf("%d watches at the server, %d here, %d observers; want %d", n, m.client.Stats().Watches, len(m.observers.all), most)
		}
		n := c.tally(m)
		c.cachedName(locks[0])
		n.want("the one that is asked for again and again", "")
		f := c.follow(locks[1])
		for _, l := range locks[2:] {
			c.cachedName(l)
		}
		h := mustLock(c.t, exclusive(c.t, c.open("a"), "many/1"))
		later(time.Second)
		f.want("a loop keeps its own", "free", "a")
		c.unlock(h)
	})
}

// CachedHolder takes no time for what it remembers.
func BenchmarkCachedHolder(b *testing.B) {
	e := newEmbedded(b, 2)
	locks := e.locks(KindExclusive, "jobs")
	h, err := locks[0].Lock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer h.Release()
	for i, whose := range []string{"own", "another's"} {
		b.Run("holder="+whose, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c, err := locks[i].CachedHolder(b.Context()); c == nil || err != nil {
					b.Fatal(c, err)
				}
			}
		})
	}
}

// A call of CachedHolder that comes as the manager closes ends.
func TestCachedHolderAtClose(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		o, err := a.m.observers.remember(a)
		wantErr(c.t, "remember", err, nil)
		a.m.observers.close() // Close comes between the two
		f := o.ask()
		later(time.Minute)
		_, err, ok := f.Poll()
		if !ok {
			c.t.Fatal("the call has not ended")
		}
		wantErr(c.t, "the call", err, ErrClosed)
	})
}
