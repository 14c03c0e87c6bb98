// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// mutex opens a manager and returns its mutex "jobs".
func (c *cluster) mutex(label string, with ...func(*Config)) *Mutex {
	c.t.Helper()
	return openMutex(c.t, c.open(label, with...), "jobs")
}

// openMutex returns the mutex called name.
func openMutex(t testing.TB, m *Manager, name string) *Mutex {
	t.Helper()
	x, err := m.Mutex(name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// line acquires x n times without waiting, and returns the holds when nothing moves any
// more.
func (c *cluster) line(x *Mutex, n int) []Hold {
	holds := make([]Hold, n)
	for i := range holds {
		holds[i] = x.Acquire(c.t.Context())
	}
	synctest.Wait()
	return holds
}

// waitingOnly checks that none of the holds is granted, and none has failed.
func (c *cluster) waitingOnly(holds ...Hold) {
	c.t.Helper()
	synctest.Wait()
	for i, h := range holds {
		pending(c.t, fmt.Sprintf("hold %d of %d that wait", i, len(holds)), h.Granted())
	}
}

// holder checks that h holds the lock, and returns its grant.
func (c *cluster) holder(h Hold) Grant {
	c.t.Helper()
	synctest.Wait()
	g, err := h.Grant()
	if err != nil {
		c.t.Errorf("grant: %v, want it held", err)
	}
	return g
}

// wantTurn checks the turn of a grant, and that it has the token of first.
func wantTurn(t *testing.T, g, first Grant, turn uint64) {
	t.Helper()
	if g.Token != first.Token || g.Turn != turn {
		t.Errorf("granted token %d, turn %d; want token %d, turn %d", g.Token, g.Turn, first.Token, turn)
	}
}

// Goroutines of a process get the lock one after the other, in the order of their calls.
// All of that takes the requests of one round.
func TestMutexIsFIFO(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a")
		mustRelease(t, mustLockMutex(t, x)) // the directory is there now
		c.takeCounts()
		holds := c.line(x, 10)
		first := c.holder(holds[0])
		for i, h := range holds {
			wantTurn(t, c.holder(h), first, uint64(i)+1)
			c.waitingOnly(holds[i+1:]...)
			if phase, n := x.State(); phase != state.Retained || n != len(holds)-i {
				t.Errorf("state is %v/%d, want retained/%d", phase, n, len(holds)-i)
			}
			mustRelease(t, h)
			wantErr(t, "the release", settled(t, "the release", h.Released()), nil)
		}
		synctest.Wait()
		c.wantCounts("ten turns", map[verb]int{createNode: 1, deleteNode: 1, list: 0})
		if phase, n := x.State(); phase != state.Free || n != 0 {
			t.Errorf("state is %v/%d, want free/0", phase, n)
		}
		c.wantNodes(0)
	})
}

// mustLockMutex acquires the mutex.
func mustLockMutex(t *testing.T, x *Mutex) Hold {
	t.Helper()
	h, err := x.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// inside checks that one goroutine at a time is inside, and that the pairs of the grants
// rise. The race detector sees whether a release synchronizes before the next grant.
type inside struct {
	t    *testing.T
	in   int // not atomic: the mutex protects it
	last Grant
	n    int
}

// visit is work that a mutex protects.
func (in *inside) visit(h Hold) {
	g, err := h.Grant()
	if errors.Is(err, ErrLost) {
		return
	}
	wantErr(in.t, "grant", err, nil)
	if in.in++; in.in != 1 {
		in.t.Errorf("%d goroutines are inside", in.in)
	}
	if in.n++; g.Compare(in.last) <= 0 {
		in.t.Errorf("grant %d.%d after %d.%d", g.Token, g.Turn, in.last.Token, in.last.Turn)
	}
	in.last = g
	runtime.Gosched()
	in.in--
}

// Many goroutines of several processes lock and unlock in every way.
func TestMutexExcludes(t *testing.T) {
	for _, processes := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("processes=%d", processes), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				t := c.t
				in := &inside{t: t}
				var all sync.WaitGroup
				for p := range processes {
					x := c.mutex(fmt.Sprint(p))
					for i := range 32 {
						all.Go(func() {
							for j := range 20 {
								visitMutex(t, x, in, i+j)
							}
						})
					}
				}
				all.Wait()
				synctest.Wait()
				c.wantNodes(0)
			})
		})
	}
}

// visitMutex locks x in the given way, visits and unlocks.
func visitMutex(t *testing.T, x *Mutex, in *inside, way int) {
	ctx := t.Context()
	switch way % 5 {
	case 0:
		h := x.Acquire(ctx)
		if _, err := h.Ready().Wait(ctx); err != nil {
			t.Errorf("ready: %v", err)
		}
		in.visit(h)
		wantErr(t, "unlock", h.Unlock(ctx), nil)
	case 1:
		wantErr(t, "do", x.Do(ctx, func(_ context.Context, h Hold) error {
			in.visit(h)
			return nil
		}), nil)
	case 2:
		h, err := x.TryLock(ctx)
		if errors.Is(err, ErrLocked) {
			return
		}
		wantErr(t, "trylock", err, nil)
		in.visit(h)
		h.Release()
	case 3:
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		h, err := x.Lock(short)
		if errors.Is(err, context.DeadlineExceeded) {
			return
		}
		wantErr(t, "lock", err, nil)
		in.visit(h)
		h.Release()
	default:
		h, err := x.Lock(ctx)
		wantErr(t, "lock", err, nil)
		in.visit(h)
		h.Release()
	}
}

// When other processes wait for the tenure, the process lets them go first, in one
// request, and its goroutines keep their order.
func TestF122_GateClosesWithALine(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x, other := c.mutex("a"), c.lock("b")
		holds := c.line(x, 4)
		first := c.holder(holds[0])
		theirs := c.acquire(other)
		later(3 * defaultTenure)
		if !isClosed(holds[0].Contended()) {
			t.Error("the holder was not told that another process waits")
		}
		c.takeCounts()
		released := holds[0].Release()
		c.held(theirs)
		wantErr(t, "the release", settled(t, "the release", released), nil)
		c.waitingOnly(holds[1:]...)
		c.wantNodes(2)
		if n := c.takeCounts(); n[deleteNode] != 0 {
			t.Errorf("the process left and queued again by %v, want one request for both", n)
		}
		between, _ := theirs.Grant()
		c.unlock(theirs)
		next := c.holder(holds[1])
		if next.Turn != 1 || between.Compare(first) <= 0 || next.Compare(between) <= 0 {
			t.Errorf("granted %v, then %v, then %v", first, between, next)
		}
		mustRelease(t, holds[1])
		wantTurn(t, c.holder(holds[2]), next, 2)
		c.waitingOnly(holds[3])
		mustRelease(t, holds[2])
		mustRelease(t, holds[3])
	})
}

// What ends a holder's lock leaves those who wait in the line. The process does not queue
// before the holder has left, and then its goroutines keep their order.
func TestF120_LostWithALine(t *testing.T) {
	losses := map[string]func(c *cluster, x *Mutex, h Hold){
		"session": func(c *cluster, x *Mutex, _ Hold) { c.expire(x.lock.m) },
		"node":    func(c *cluster, _ *Mutex, h Hold) { g, _ := h.Grant(); later(time.Second); c.remove(g.Path) },
		"lease":   func(c *cluster, x *Mutex, _ Hold) { c.away("a", 9*time.Second); later(8 * time.Second) },
	}
	each(t, losses, func(c *cluster, lose func(*cluster, *Mutex, Hold)) {
		x, other := c.mutex("a"), c.lock("b")
		holds := c.line(x, 3)
		first := c.holder(holds[0])
		inside, cancel := holds[0].Context(c.t.Context())
		defer cancel()
		lose(c, x, holds[0])
		synctest.Wait()
		wantErr(c.t, "the holder", holds[0].Err(), ErrLost)
		wantErr(c.t, "its context", context.Cause(inside), ErrLost)
		if !isClosed(holds[0].Lost()) {
			c.t.Error("Lost is open")
		}
		c.waitingOnly(holds[1:]...)
		_, err := x.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrLocked)
		if !strings.Contains(err.Error(), "has lost the lock") {
			c.t.Errorf("trylock: %v", err)
		}
		later(20 * time.Second) // the session is back
		c.wantNodes(0)
		theirs := c.acquire(other)
		between := c.holder(theirs)
		c.waitingOnly(holds[1:]...)

		wantErr(c.t, "unlock", holds[0].Unlock(c.t.Context()), ErrLost)
		c.waitingOnly(holds[1:]...)
		c.wantNodes(2)
		mustRelease(c.t, theirs)
		second := c.holder(holds[1])
		if between.Compare(first) <= 0 || second.Compare(between) <= 0 {
			c.t.Errorf("granted %v, then %v, then %v", first, between, second)
		}
		mustRelease(c.t, holds[1])
		wantTurn(c.t, c.holder(holds[2]), second, 2)
		mustRelease(c.t, holds[2])
	})
}

// The holder leaves as the lease ends. The next in the line is not let in under it.
func TestF120_LostAtTheRelease(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a")
		for range 10 {
			holds := c.line(x, 2)
			first := c.holder(holds[0])
			c.away("a", 6*time.Second)
			// The timer of the lease and this one are due at the same moment: the holder
			// may be told before it leaves, or not.
			time.Sleep(holds[0].share.promises().tenure.lease.Remaining())
			released := holds[0].Release()
			wantErr(t, "granted to the next under the lease that is over", holds[1].Err(), ErrNotGranted)
			synctest.Wait()
			wantErr(t, "release", settled(t, "release", released), ErrLost)
			c.waitingOnly(holds[1])
			later(20 * time.Second)
			if g := c.holder(holds[1]); g.Token <= first.Token || g.Turn != 1 {
				t.Errorf("granted %v after %v", g, first)
			}
			mustRelease(t, holds[1])
		}
		c.wantNodes(0)
	})
}

// A name is of one kind.
func TestMutexKind(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m := c.open("a")
		x := openMutex(t, m, "mutex")
		l := exclusive(t, m, "lock")
		rw := readWrite(t, m, "rw")
		if openMutex(t, m, "/mutex") != x {
			t.Error("the same name gave two mutexes")
		}
		_, err := m.Exclusive("mutex")
		wantErr(t, "exclusive", err, ErrKind)
		_, err = m.ReadWrite("mutex")
		wantErr(t, "readwrite", err, ErrKind)
		for _, name := range []string{"lock", "rw"} {
			_, err := m.Mutex(name)
			wantErr(t, "mutex", err, ErrKind)
		}
		_, err = m.Mutex("bad//name")
		wantErr(t, "mutex", err, ErrBadName)
		if x.Name() != "mutex" || x.Path() != "/holdfast/mutex" {
			t.Errorf("it is called %q, at %q", x.Name(), x.Path())
		}
		runtime.KeepAlive(l)
		runtime.KeepAlive(rw)
		m.Close()
		_, err = m.Mutex("another")
		wantErr(t, "mutex", err, ErrClosed)
	})
}

// TryLock does not wait: not for goroutines of its process, nor for other processes.
func TestMutexTryLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x, other := c.mutex("a"), c.lock("b")
		try := func(what string, want error, text string) Hold {
			t.Helper()
			h, err := x.TryLock(t.Context())
			wantErr(t, what, err, want)
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %q in it", what, err, text)
			}
			return h
		}
		h := try("free", nil, "")
		wantTurn(t, c.holder(h), c.holder(h), 1)
		try("held by a goroutine", ErrLocked, "a goroutine of this process holds the lock")
		mustRelease(t, h)

		theirs := c.acquire(other)
		try("held by another process", ErrLocked, "held by b@")
		synctest.Wait()
		c.wantNodes(1)

		waits := c.line(x, 1)[0]
		try("waited for", ErrLocked, "other goroutines of this process wait")
		c.wantNodes(2)
		c.unlock(theirs)
		c.holder(waits)
		mustRelease(t, waits)

		ran := false
		wantErr(t, "trydo", x.TryDo(t.Context(), func(ctx context.Context, h Hold) error {
			ran = true
			try("inside", ErrLocked, "holds the lock")
			again, err := x.TryLock(ctx)
			wantErr(t, "trylock with the context of the hold", err, nil)
			again.Release()
			return h.Err()
		}), nil)
		if !ran {
			t.Error("TryDo did not call its function")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := x.TryLock(ctx)
		wantErr(t, "trylock with a context that has ended", err, context.Canceled)
	})
}

// A TryLock that finds another process ahead leaves the node to goroutines that have come
// to wait meanwhile.
func TestMutexFailedTryLockKeepsThePlace(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x, other := c.mutex("a"), c.lock("b")
		theirs := c.acquire(other)
		s := c.stopBefore(x.lock.m, createNode)
		failed := make(chan error)
		go func() {
			_, err := x.TryLock(t.Context())
			failed <- err
		}()
		s.reached()
		waits := x.Acquire(t.Context())
		s.goOn()
		wantErr(t, "trylock", <-failed, ErrLocked)
		c.waitingOnly(waits)
		c.wantNodes(2)
		if n := c.takeCounts(); n[createNode] > 2 {
			t.Errorf("the process queued again: %v", n)
		}
		c.unlock(theirs)
		c.holder(waits)
		mustRelease(t, waits)
	})
}

// A waiter that gives up leaves the line, and the last one the queue.
func TestMutexGivingUp(t *testing.T) {
	ways := map[string]func(h Hold, cancel context.CancelFunc){
		"release": func(h Hold, _ context.CancelFunc) { h.Release() },
		"context": func(_ Hold, cancel context.CancelFunc) { cancel() },
	}
	each(t, ways, func(c *cluster, giveUp func(Hold, context.CancelFunc)) {
		x, other := c.mutex("a"), c.lock("b")
		theirs := c.acquire(other)
		holds, cancels := make([]Hold, 3), make([]context.CancelFunc, 3)
		for i := range holds {
			ctx, cancel := context.WithCancel(c.t.Context())
			defer cancel()
			holds[i], cancels[i] = x.Acquire(ctx), cancel
		}
		ready := holds[1].Ready()
		giveUp(holds[1], cancels[1])
		synctest.Wait()
		wantErr(c.t, "ready", settled(c.t, "ready", ready), ErrReleased)
		wantErr(c.t, "granted", settled(c.t, "granted", holds[1].Granted()), ErrNotGranted)
		wantErr(c.t, "released", settled(c.t, "released", holds[1].Released()), ErrNotGranted)
		wantErr(c.t, "unlock", holds[1].Unlock(c.t.Context()), ErrReleased)
		c.waitingOnly(holds[0], holds[2])
		c.wantNodes(2)
		giveUp(holds[0], cancels[0])
		synctest.Wait()
		c.wantNodes(2)
		giveUp(holds[2], cancels[2])
		synctest.Wait()
		c.wantNodes(1)
		if phase, n := x.State(); phase != state.Free || n != 0 {
			c.t.Errorf("state is %v/%d, want free/0", phase, n)
		}
		again := x.Acquire(c.t.Context())
		wantErr(c.t, "unlock of a pending hold", again.Unlock(c.t.Context()), ErrNotGranted)
		c.unlock(theirs)
		c.wantNodes(0)
	})
}

// The holder leaves as the first in the line gives up: the lock goes to the next, and to
// one goroutine only.
func TestF121_GivingUpAtTheHandOver(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a")
		holder := mustLockMutex(t, x)
		var granted, withdrawn int
		for range 500 {
			ctx, cancel := context.WithCancel(t.Context())
			first, second := x.Acquire(ctx), x.Acquire(t.Context())
			var both sync.WaitGroup
			both.Go(cancel)
			both.Go(func() { holder.Release() })
			both.Wait()
			synctest.Wait()
			if first.Err() == nil {
				granted++
				pending(t, "the second, while the first holds", second.Granted())
				mustRelease(t, first)
			} else {
				withdrawn++
				wantErr(t, "the first", first.Err(), ErrReleased)
			}
			c.holder(second)
			holder = second
		}
		t.Logf("the first in the line was granted the lock %d times, and gave up %d times", granted, withdrawn)
		mustRelease(t, holder)
		c.wantNodes(0)
	})
}

// The same, where the grant finds that the waiter has just left, and before that has told.
func TestF121_GivenUpAndStillInTheLine(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a")
		holds := c.line(x, 3)
		first := c.holder(holds[0])
		w, e, _ := holds[1].share.word.Apply(state.Word.Leave) // as giveUp begins
		if w.Phase() != state.Fetching || e != state.Withdrawn {
			t.Fatalf("the second was %v, leaving: %v", w, e)
		}
		mustRelease(t, holds[0])
		wantTurn(t, c.holder(holds[2]), first, 2)
		holds[1].share.left(e, 0) // as it ends
		wantErr(t, "granted", settled(t, "granted", holds[1].Granted()), ErrNotGranted)
		wantErr(t, "released", settled(t, "released", holds[1].Released()), ErrNotGranted)
		wantTurn(t, c.holder(holds[2]), first, 2)
		mustRelease(t, holds[2])
		holds[1].slot.release(holds[1].gen)
	})
}

// A Hold of a Mutex has one holder: it can reenter, and not share.
func TestMutexOneHolder(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a")
		h := mustLockMutex(t, x)
		if h.Lock() != nil {
			t.Error("the private lock leaks out of a Hold")
		}
		_, err := h.Share()
		wantErr(t, "share", err, ErrNotShared)
		waits := c.line(x, 1)[0]
		_, err = waits.Share()
		wantErr(t, "share of a pending hold", err, ErrNotShared)
		again, err := h.Reenter()
		wantErr(t, "reenter", err, nil)
		ctx, cancel := h.Context(t.Context())
		defer cancel()
		third := x.Acquire(ctx)
		if h.Depth() != 3 {
			t.Errorf("depth %d, want 3", h.Depth())
		}
		for _, one := range []Hold{h, third} {
			mustRelease(t, one)
			c.waitingOnly(waits)
		}
		mustRelease(t, again)
		c.holder(waits)
		wantErr(t, "a second release", settled(t, "release", h.Release()), ErrReleased)
		mustRelease(t, waits)
		x.lock.m.Close()
		refused := x.Acquire(t.Context())
		if refused.Lock() != nil {
			t.Error("the private lock leaks out of a refused Hold")
		}
		wantErr(t, "acquire", settled(t, "granted", refused.Granted()), ErrClosed)
	})
}

// Guard works under a turn, and notices a loss for the whole process.
func TestMutexGuard(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a")
		h := mustLockMutex(t, x)
		wantErr(t, "create", c.srv.CreateAll("/data", nil), nil)
		_, err := h.Guard(t.Context(), zkio.SetOp("/data", []byte("1"), -1))
		wantErr(t, "guard", err, nil)
		g := c.holder(h)
		c.remove(g.Path)
		_, err = h.Guard(t.Context(), zkio.SetOp("/data", []byte("2"), -1))
		wantErr(t, "guard", err, ErrLost)
		wantErr(t, "unlock", h.Unlock(t.Context()), ErrLost)
	})
}

// Unlock of the last one waits until the node is gone.
func TestMutexUnlockWaits(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a")
		h := mustLockMutex(t, x)
		s := c.stopBefore(x.lock.m, deleteNode)
		done := make(chan error, 1)
		go func() { done <- h.Unlock(t.Context()) }()
		s.reached()
		select {
		case err := <-done:
			t.Errorf("Unlock returned %v before the node was gone", err)
		default:
		}
		waits := x.Acquire(t.Context())
		c.waitingOnly(waits)
		s.goOn()
		wantErr(t, "unlock", <-done, nil)
		if g := c.holder(waits); g.Turn != 1 {
			t.Errorf("turn %d of a new round, want 1", g.Turn)
		}
		mustRelease(t, waits)
	})
}

// Close and Shutdown find the turns.
func TestMutexClose(t *testing.T) {
	t.Run("close", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			t := c.t
			x := c.mutex("a")
			holds := c.line(x, 3)
			wantErr(t, "close", x.lock.m.Close(), nil)
			for _, h := range holds {
				wantErr(t, "hold", h.Err(), ErrClosed)
				if !isClosed(h.Lost()) {
					t.Error("Lost is open")
				}
				h.Release()
			}
			c.wantNodes(0)
		})
	})
	t.Run("shutdown", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			t := c.t
			x := c.mutex("a")
			holds := c.line(x, 3)
			done := make(chan error, 1)
			go func() { done <- x.lock.m.Shutdown(t.Context()) }()
			synctest.Wait()
			c.holder(holds[0])
			for _, h := range holds[1:] {
				wantErr(t, "a waiter", settled(t, "granted", h.Granted()), ErrClosed)
			}
			_, err := x.Lock(t.Context())
			wantErr(t, "lock", err, ErrClosed)
			select {
			case err := <-done:
				t.Errorf("Shutdown returned %v while a goroutine holds the lock", err)
			default:
			}
			wantErr(t, "unlock", holds[0].Unlock(t.Context()), nil)
			wantErr(t, "shutdown", <-done, nil)
			c.wantNodes(0)
		})
	})
	t.Run("lost holder", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			t := c.t
			x := c.mutex("a")
			holds := c.line(x, 2)
			c.expire(x.lock.m)
			c.waitingOnly(holds[1])
			wantErr(t, "shutdown", x.lock.m.Shutdown(t.Context()), nil)
			wantErr(t, "the waiter", settled(t, "granted", holds[1].Granted()), ErrClosed)
			wantErr(t, "the holder", holds[0].Err(), ErrLost)
		})
	})
}

// A definite refusal fails all that wait.
func TestMutexRefused(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a")
		mustRelease(t, mustLockMutex(t, x))
		id := session(x.lock.m)
		c.srv.Faults().FailRequest(zktest.Match{Op: zktest.OpMulti, Session: id, Times: 1}, zktest.CodeInvalidACL)
		before := c.srv.Faults().BlockRequests(id)
		holds := c.line(x, 3)
		before.Remove() // all wait by now
		synctest.Wait()
		for _, h := range holds {
			err := settled(t, "granted", h.Granted())
			wantErr(t, "granted", err, zkio.ErrInvalidACL)
			h.Release()
		}
		mustRelease(t, mustLockMutex(t, x))
		c.wantNodes(0)
	})
}

// A revocation reaches the holder, and closes the gate.
func TestMutexRevoked(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x, y := c.mutex("a"), c.mutex("b")
		holds := c.line(x, 2)
		first := c.holder(holds[0])
		theirs := y.Acquire(t.Context())
		synctest.Wait()
		revoked := make(chan error, 1)
		go func() { revoked <- y.Revoke(t.Context(), "maintenance") }()
		<-holds[0].Revoked()
		if r, ok := holds[0].Revocation(); !ok || r.Reason != "maintenance" {
			t.Errorf("revocation: %+v, %v", r, ok)
		}
		mustRelease(t, holds[0])
		wantErr(t, "revoke", <-revoked, nil)
		between := c.holder(theirs)
		c.waitingOnly(holds[1])
		if _, ok := holds[1].Revocation(); ok {
			t.Error("the next in the line is told of the revocation")
		}
		mustRelease(t, theirs)
		last := c.holder(holds[1])
		if between.Compare(first) <= 0 || last.Compare(between) <= 0 {
			t.Errorf("granted %v, then %v, then %v", first, between, last)
		}
		mustRelease(t, holds[1])
	})
}

// Contended tells of other processes, and not of goroutines.
func TestMutexContended(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a", func(cfg *Config) { cfg.Tenure = -1 })
		other := c.lock("b")
		holds := c.line(x, 3)
		contended := holds[1].Contended() // asked while it waits
		mustRelease(t, holds[0])
		later(time.Second)
		if isClosed(contended) {
			t.Error("Contended has closed for a goroutine of this process")
		}
		theirs := c.acquire(other)
		later(time.Second)
		if !isClosed(contended) {
			t.Error("Contended is open, and another process waits")
		}
		if isClosed(holds[2].Contended()) {
			t.Error("Contended of a waiter has closed")
		}
		mustRelease(t, holds[1])
		c.holder(holds[2])
		if !isClosed(holds[2].Contended()) {
			t.Error("Contended is open for the next holder, and another process waits")
		}
		mustRelease(t, holds[2])
		c.held(theirs)
		c.unlock(theirs)
	})
}

// The questions that a Lock answers are answered by the private lock.
func TestMutexAnswers(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		questions := make(chan Question, 2)
		x := c.mutex("a", func(cfg *Config) {
			cfg.OnAsk = func(_ context.Context, q Question) ([]byte, error) {
				questions <- q
				return []byte("yes"), nil
			}
		})
		y := c.mutex("b")
		holds := c.line(x, 3)
		g := c.holder(holds[0])
		for _, asker := range []*Mutex{x, y} {
			a, err := asker.Ask(t.Context(), []byte("?"))
			wantErr(t, "ask", err, nil)
			if string(a.Reply) != "yes" || a.Holders != 1 || a.Waiting != 2 || a.Phase != state.Retained {
				t.Errorf("the answer is %+v", a)
			}
			if q := <-questions; q.Lock != nil || q.Mutex != x || q.Grant.Token != g.Token {
				t.Errorf("the question is %+v", q)
			}
			h, err := asker.Holder(t.Context())
			wantErr(t, "holder", err, nil)
			cached, err := asker.CachedHolder(t.Context())
			wantErr(t, "cached holder", err, nil)
			q, err := asker.Queue(t.Context(), -1)
			wantErr(t, "queue", err, nil)
			if len(q) != 1 || h.Path != g.Path || cached.Path != g.Path || q[0].Path != g.Path {
				t.Errorf("holder %v, cached %v, queue %v; want %s", h, cached, q, g.Path)
			}
			for seen, err := range asker.WatchHolder(t.Context()) {
				if wantErr(t, "watch", err, nil); seen.Path != g.Path {
					t.Errorf("watched: %v", seen)
				}
				break
			}
		}
		for _, h := range holds {
			mustRelease(t, h)
		}
	})
}

// The error of a wait says what was in the way.
func TestMutexErrors(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x, other := c.mutex("a"), c.lock("b")
		lock := func(text string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := x.Lock(ctx)
			wantErr(t, "lock", err, context.DeadlineExceeded)
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("lock: %v, want %q in it", err, text)
			}
		}
		h := mustLockMutex(t, x)
		lock("a goroutine of this process holds the lock")
		mustRelease(t, h)
		theirs := c.acquire(other)
		lock("held by b@")
		c.unlock(theirs)
		h = mustLockMutex(t, x)
		c.expire(x.lock.m)
		lock("has lost the lock and has not released its Hold yet")
		h.Release()
		synctest.Wait()
		c.wantNodes(0)
	})
}

// A Locker excludes, and panics where its interface leaves no other way.
func TestMutexLocker(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a")
		n := 0 // protected by the locker
		one := x.Locker(t.Context())
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				l := one
				if i%2 == 0 {
					l = x.Locker(t.Context())
				}
				for range 10 {
					l.Lock()
					n++
					l.Unlock()
				}
			})
		}
		all.Wait()
		if n != 200 {
			t.Errorf("counted to %d, want 200", n)
		}
		wantPanic(t, "Unlock of a Locker that is not locked", one.Unlock)
		one.Lock()
		x.lock.m.Close()
		one.Unlock() // the lock is lost
		wantPanic(t, "Lock after Close", one.Lock)
	})
}

// wantPanic checks that do panics.
func wantPanic(t *testing.T, what string, do func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	do()
}

// Idle mutexes without references are collected, and busy ones are not.
func TestMutexCollected(t *testing.T) {
	m := disconnected()
	var kept *Mutex
	for i := range 5000 {
		if kept = openMutex(t, m, fmt.Sprint(i)); i%500 == 0 {
			runtime.GC()
		}
	}
	runtime.GC()
	if n := len(m.mutexes.at); n > 3000 {
		t.Errorf("%d entries are left of 5000 mutexes", n)
	}
	if openMutex(t, m, kept.Name()) != kept {
		t.Error("a mutex with a reference was made anew")
	}
	l := exclusive(t, m, "0") // free for another kind
	runtime.KeepAlive(l)

	bubble(t, func(c *cluster) {
		t := c.t
		m := c.open("a")
		p := func() weak.Pointer[Mutex] {
			x := openMutex(t, m, "jobs")
			mustLockMutex(t, x)
			return weak.Make(x)
		}()
		for range 5 {
			runtime.GC()
		}
		x := p.Value()
		if x == nil || openMutex(t, m, "jobs") != x {
			t.Error("a mutex that is held was collected")
		}
	})
}

// A Hold that is dropped is logged, also if its lock was lost: the others of its process
// wait for it.
func TestMutexDropped(t *testing.T) {
	drops := map[string]struct {
		drop func(c *cluster, x *Mutex)
		says string
	}{
		"held": {func(c *cluster, x *Mutex) { mustLockMutex(c.t, x) }, "a Hold was dropped"},
		"lost": {func(c *cluster, x *Mutex) {
			h := mustLockMutex(c.t, x)
			c.srv.ExpireSession(session(x.lock.m))
			<-h.Lost()
			runtime.KeepAlive(h) // a collection during the wait would find it dropped while it holds
		}, "was lost, and its Hold was dropped"},
	}
	for name, test := range drops {
		t.Run(name, func(t *testing.T) {
			// Not in a bubble: the runtime runs cleanups outside.
			c := newCluster(t, zktest.Config{})
			x := c.mutex("a")
			test.drop(c, x)
			waitForDropped(t, x.lock.m, c.log, 1)
			if len(c.log.with(test.says)) != 1 {
				t.Errorf("the log has no line with %q:\n%s", test.says, strings.Join(c.log.with(""), "\n"))
			}
			runtime.KeepAlive(x)
		})
	}
}

// A goroutine that waits costs no goroutine of the package.
func TestMutexWaitersNeedNoGoroutines(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a")
		h := mustLockMutex(t, x)
		synctest.Wait()
		before := runtime.NumGoroutine()
		holds := c.line(x, 10_000)
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines, and %d with 10,000 in the line", before, n)
		}
		mustRelease(t, h)
		for _, h := range holds {
			mustRelease(t, h)
		}
	})
}

// The grants of a mutex are ordered by token, and then by turn.
func TestGrantCompare(t *testing.T) {
	for _, test := range []struct {
		a, b Grant
		want int
	}{
		{Grant{}, Grant{}, 0},
		{Grant{Token: 5, Turn: 2}, Grant{Token: 5, Turn: 2, Path: "/x"}, 0},
		{Grant{Token: 5, Turn: 2}, Grant{Token: 5, Turn: 3}, -1},
		{Grant{Token: 5, Turn: 9}, Grant{Token: 6, Turn: 1}, -1},
		{Grant{Token: 7}, Grant{Token: 6, Turn: 8}, 1},
	} {
		if got, back := test.a.Compare(test.b), test.b.Compare(test.a); got != test.want || back != -test.want {
			t.Errorf("%+v and %+v compare as %d and %d, want %d", test.a, test.b, got, back, test.want)
		}
	}
}

// A release that another goroutine's call overtakes settles as any other: at once if the
// lock stays in the process, and well.
func TestMutexReleasesSettle(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a")
		stays := x.Acquire(t.Context()) // so that there is always one in the line, and the round does not end
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 3000 {
					h := x.Acquire(t.Context())
					if _, err := h.Granted().Wait(t.Context()); err != nil {
						t.Errorf("granted: %v", err)
					}
					next := x.Acquire(t.Context())
					released := h.Release()
					if _, err, ok := released.Poll(); err != nil || !ok {
						t.Errorf("released, with another in the line: %v, settled: %v", err, ok)
						next.Release()
						return
					}
					next.Release()
				}
			})
		}
		stays.Release()
		all.Wait()
		synctest.Wait()
		c.wantNodes(0)
	})
}

// The process loses the lock between the swap that grants it and the moment in which the grant is
// told. Those whose turn had not come wait on, for the next round.
func TestF120_LostBeforeItsGrantIsTold(t *testing.T) {
	bubble(t, func(c *cluster) {
		b := c.lock("b")
		held := mustLock(c.t, b)
		x := c.mutex("a")
		var line []Hold
		for range 3 {
			line = append(line, x.Acquire(c.t.Context()))
		}
		later(time.Second) // all wait; no step of the round runs
		io := x.host().promises().io
		s := x.lock.m.client.Session()
		// As in roundIO.grant:
		io.tenure = &tenure{token: uint64(io.node.Czxid()), path: io.node.Path(), session: s, since: x.lock.m.now(), lease: s.Lease()}
		if _, e, _ := io.round.word.Apply(state.Word.Grant); e != state.Granted {
			c.t.Fatal(e)
		}
		io.teller().granted()
		// As in roundIO.PathChanged, on the dispatcher:
		io.round.fail(io.round.lost("hold", nodeGone))
		io.settleGrant() // the granter goes on
		later(time.Second)
		for i, h := range line {
			pending(c.t, fmt.Sprint("grant ", i), h.Granted())
		}
		mustRelease(c.t, held)
		for _, h := range line {
			c.holder(h)
			mustRelease(c.t, h)
		}
		later(time.Second)
		c.wantNodes(0)
	})
}
