// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
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
	told []*Contender
	err  error
}

// follow begins a loop of WatchHolder on l. It ends with the test.
func (c *cluster) follow(l *Lock) *loop { return c.followTimes(l, 0) }

// followTimes begins a loop that breaks when it was told of so many holders, if that is
// not 0.
func (c *cluster) followTimes(l scriptLock, times int) *loop {
	ctx, cancel := context.WithCancelCause(context.Background())
	f := &loop{c: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for holder, err := range l.WatchHolder(ctx) {
			f.mu.Lock()
			if err != nil {
				f.err = err
			} else {
				f.told = append(f.told, holder)
			}
			f.mu.Unlock()
			if times--; times == 0 {
				break
			}
		}
	}()
	c.t.Cleanup(func() { cancel(nil); <-f.done })
	synctest.Wait()
	return f
}

// take returns what the loop was told since the last call, once nothing moves any more.
func (f *loop) take() ([]*Contender, error) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	told := f.told
	f.told = nil
	return told, f.err
}

// nameOfHolder returns a holder's label, the name of another client's node, or "free".
func nameOfHolder(c *Contender) string {
	switch {
	case c == nil:
		return "free"
	case c.Label == "":
		return lastSegment(c.Path)
	}
	return c.Label
}

// want checks what the loop was told since the last call, once nothing moves any more.
func (f *loop) want(what string, want ...string) {
	f.c.t.Helper()
	var names []string
	told, _ := f.take()
	for _, holder := range told {
		names = append(names, nameOfHolder(holder))
	}
	expect(f.c.t, slices.Equal(names, want), "%s: told %q, want %q", what, names, want)
}

// cachedName returns what CachedHolder says.
func (c *cluster) cachedName(l *Lock) string {
	c.t.Helper()
	holder, err := l.CachedHolder(c.t.Context())
	expect(c.t, err == nil, "cached holder: %v", err)
	return nameOfHolder(holder)
}

// wantHolder checks what Holder says.
func (c *cluster) wantHolder(what string, l *Lock, want string) {
	c.t.Helper()
	holder, err := l.Holder(c.t.Context())
	wantErr(c.t, what, err, nil)
	got := nameOfHolder(holder)
	expect(c.t, got == want, "%s: holder %q, want %q", what, got, want)
}

// wantCached checks what CachedHolder says.
func (c *cluster) wantCached(what string, l *Lock, want string) {
	c.t.Helper()
	got := c.cachedName(l)
	expect(c.t, got == want, "%s: cached holder %q, want %q", what, got, want)
}

// However quickly holders change, there is one look in 50 ms, and the last holder is
// told. The loop may take its time.
func TestF109_WatchHolderCoalesces(t *testing.T) {
	eachOf(t, []time.Duration{0, 120 * time.Millisecond}, func(c *cluster, slow time.Duration) {
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
		expect(c.t, len(told) <= 12 && told[len(told)-1] == node(1000),
			"told %q, want few, and the last of 1,000", told)
		counts := n.take("1,000 changes")
		expect(c.t, counts["getChildren2"]+counts["getData"] <= 12*4,
			"%v for 1,000 changes in half a second", counts)
	})
}

// A process that was told that a node is gone connects again, to a server that is
// behind. What it says then is not older than what it was told.
func TestF107_ServerBehindWhatWasTold(t *testing.T) {
	onServers(t, 2, func(c *cluster, behind *zktest.Server) {
		ha := mustLock(c.t, c.lock("a"))
		var there atomic.Pointer[zktest.Server]
		there.Store(c.srv)
		l := c.lock("asker", func(cfg *Config) {
			cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				return there.Load().Dial(ctx, network, address)
			}
		})
		c.wantCached("before", l, "a")
		lag := behind.Faults().Lag(-1)
		c.unlock(ha)
		there.Store(behind)
		c.srv.Faults().Cut(session(l.m))
		c.srv = behind
		later(2 * time.Second)
		n := c.tally(l.m)
		c.wantCached("after", l, "free")
		got := n.take("after")
		expect(c.t, got["sync"] == 1 && lag.Hits() != 0, "sent %v, %d answers from the past, want a sync at a server that is behind", got, lag.Hits())
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
		got := l.m.client.Stats().Sent
		expect(c.t, got["sync"] == 1 && got["getChildren2"]-n.sent["getChildren2"] == 3,
			"sent %v after %v, want a list, a sync, a list, and a look at the holder", got, n.sent)
		c.unlock(ha)
		f.want("free", "free")
	})
}

// With HOLDER, W1, W2, W3 in line, errors name HOLDER, whichever contender is waited for.
func TestErrorsNameTheHolder(t *testing.T) {
	for waiters := range 5 {
		for _, kind := range []string{"exclusive", "read", "write"} {
			subtest(t, fmt.Sprintf("%s behind %d waiters", kind, waiters), func(c *cluster) { testNamesTheHolder(c, waiters, kind) })
		}
	}
}

// A wait that is too short to read the holder's node names the holder if the process has met
// it while it waited, as "holdfast run" does to say for which process it waits.
func TestErrorsNameAHolderMetMeanwhile(t *testing.T) {
	bubble(t, func(c *cluster) {
		var holds []Hold
		for _, label := range []string{"HOLDER", "W1", "W2"} {
			holds = append(holds, c.acquire(c.lock(label)))
		}
		l := c.lock("asker")
		ctx := withTimeout(c.t, 2*time.Second)
		done := make(chan error)
		go func() { done <- errOf(l.Lock(ctx)) }()
		later(time.Second)
		_, err := l.Holder(ctx)
		expect(c.t, err == nil, "holder: %v", err)
		wantSays(c.t, <-done, "(3 ahead; held by HOLDER@")
		for _, h := range holds {
			c.unlock(h)
		}
	})
}

func testNamesTheHolder(c *cluster, waiters int, kind string) {
	of := func(label string, write bool) *Lock {
		if kind == "exclusive" {
			return c.lock(label)
		}
		return pick(c.rw(label), write)
	}
	holds := []Hold{c.acquire(of("HOLDER", true))}
	for i := range waiters {
		holds = append(holds, c.acquire(of(fmt.Sprintf("W%d", i+1), true)))
	}
	l := of("asker", kind == "write")
	wantHolder := func(what string, err, is error, want string) {
		c.t.Helper()
		wantErr(c.t, what, err, is)
		e, ok := errors.AsType[*Error](err)
		expect(c.t, ok && e.Holder != nil && nameOfHolder(e.Holder) == want && e.Holder.Holds,
			"%s: %v, want it to name %s", what, err, want)
	}
	n := c.tally(l.m)
	err := errOf(l.TryLock(c.t.Context()))
	wantHolder("trylock", err, ErrLocked, "HOLDER")
	text := "held by HOLDER@"
	if waiters > 1 {
		text = fmt.Sprintf("(%d ahead; held by HOLDER@", waiters+1)
	}
	wantSays(c.t, err, text)
	later(time.Second)
	got := n.take("trylock")
	// It asks for the directory and the one ahead, or the two nearest, and for the holder
	// if that is none of them.
	gets := 2 + min(waiters, 2)
	expect(c.t, got["getData"] <= gets && got["getChildren2"] <= 1, "trylock sent %v, want at most %d getData", got, gets)

	// A process that is known is not asked for again.
	wantHolder("trylock again", errOf(l.TryLock(c.t.Context())), ErrLocked, "HOLDER")
	later(time.Second)
	again := n.take("trylock again")
	expect(c.t, again["getData"] <= 2, "trylock again sent %v", again)
	wantHolder("lock", errOf(l.Lock(withTimeout(c.t, time.Minute))), context.DeadlineExceeded, "HOLDER")

	// The holder goes while a call waits.
	if waiters > 0 {
		ctx := withTimeout(c.t, time.Minute) // at last from 10 s ago
		done := make(chan error)
		go func() { done <- errOf(l.Lock(ctx)) }()
		synctest.Wait()
		c.unlock(holds[0])
		holds = holds[1:]
		wantHolder("lock, and the holder goes", <-done, context.DeadlineExceeded, "W1")
	}
	for _, h := range holds {
		c.unlock(h) // the next one holds the lock by then
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
		got := <-first
		expect(c.t, got == "a", "told %q, want a, whose node was there after the call", got)
		n := c.tally(l.m)
		c.wantCached("then", l, "a")
		n.want("then", "getChildren2=2")
		c.unlock(h)
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
		wantErr(c.t, "holder", errOf(l.Holder(c.t.Context())), nil)
		c.wantCached("after Holder", l, "a")
		o.seen.Store(before)
		wantErr(c.t, "trylock", errOf(l.TryLock(c.t.Context())), ErrLocked)
		c.wantCached("after an error that names the holder", l, "a")
		c.unlock(ha)
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
		expect(c.t, m.observers.all[locks[0].path] == kept,
			"the one that is asked for again and again was forgotten in between")
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
