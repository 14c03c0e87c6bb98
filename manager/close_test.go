// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/zkio"
)

// refusesNewcomers checks what a manager that is closed, or closing, tells
// newcomers.
func refusesNewcomers(t *testing.T, l *Lock) {
	t.Helper()
	h := l.Acquire(t.Context())
	wantErr(t, "acquire", settled(t, "grant", h.Granted()), ErrClosed)
	wantErr(t, "its release", settled(t, "release", h.Release()), ErrClosed)
	wantErr(t, "lock", errOf(l.Lock(t.Context())), ErrClosed)
	wantErr(t, "trylock", errOf(l.TryLock(t.Context())), ErrClosed)
	wantErr(t, "do", l.Do(t.Context(), func(context.Context, Hold) error { t.Error("do ran"); return nil }), ErrClosed)
	wantErr(t, "exclusive", errOf(l.m.Exclusive("another")), ErrClosed)
}

// moment is by how much a bounded wait may exceed its bound.
const moment = 100 * time.Millisecond

// Close takes one round trip to a server that answers, however old the session is.
func TestCloseIsQuick(t *testing.T) {
	eachOf(t, []time.Duration{0, time.Second, time.Minute, time.Hour}, func(c *cluster, age time.Duration) {
		l := c.lock("a")
		mustLock(c.t, l)
		later(age)
		start := time.Now()
		wantErr(c.t, "close", l.m.Close(), nil)
		expect(c.t, time.Since(start) <= moment, "after %v: Close took %v", age, time.Since(start))
	})
}

// Several goroutines close both managers at the same time, while others use the
// lock.
func TestCloseUnderLoad(t *testing.T) {
	eachOf(t, []string{"Close", "Shutdown"}, func(c *cluster, shut string) {
		l := c.lock("a")
		b := c.lock("b")
		var wg sync.WaitGroup
		for range 8 {
			for _, l := range []*Lock{l, b} {
				wg.Go(func() {
					for {
						h, err := l.Lock(c.t.Context())
						if err == nil {
							<-time.After(time.Millisecond)
							err = h.Unlock(c.t.Context())
						}
						if errors.Is(err, ErrClosed) {
							return
						} else if err != nil {
							c.t.Errorf("got %v", err)
						}
					}
				})
			}
		}
		later(100 * time.Millisecond)
		for _, m := range []*Manager{l.m, b.m} {
			for range 3 {
				wg.Go(func() {
					if shut == "Close" {
						wantErr(c.t, "close", m.Close(), nil)
					} else {
						wantErr(c.t, "shutdown", m.Shutdown(c.t.Context()), nil)
					}
				})
			}
		}
		wg.Wait()
		c.wantNodes(0)
		wantEq(c.t, "sessions are left", len(c.srv.Sessions()), 0)
	})
}

// A callback may call Close: it runs on no goroutine that Close waits for.
func TestF086_CloseInACallback(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		done := make(chan error, 1)
		l.Acquire(c.t.Context()).Granted().OnDone(func(Grant, error) { done <- l.m.Close() })
		wantErr(c.t, "close", <-done, nil)
	})
}

// meddled is a round's I/O as its Runner sees it, with something that happens
// right after the Runner has asked whether the step is urgent.
type meddled struct {
	*roundIO
	then func()
}

func (m *meddled) Urgent() bool {
	urgent := m.roundIO.Urgent()
	if !urgent {
		m.then()
	}
	return urgent
}

// taken is a task that has to release, and whose entry a worker has just taken.
type taken struct{ errand.Stepper }

func (taken) Urgent() bool      { return true }
func (taken) Submit(zkio.Queue) {}

// A caller joins a round that all others left before its turn came, and the manager
// is closed as a worker finds out that the round's step is not urgent any more. The
// round must end all the same.
func TestCloseAsARoundIsJoinedAgain(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		l := exclusive(c.t, m, "jobs")
		io := l.cur.Load().io()
		io.runner.Wake(taken{}, zkio.Releases)
		joined := l.Acquire(c.t.Context())
		io.runner.Run(&meddled{io, sync.OnceFunc(func() { _ = m.Close() })}, m.client.Session())
		synctest.Wait()
		wantErr(c.t, "the grant", settled(c.t, "the grant", joined.Granted()), ErrClosed)
		wantErr(c.t, "the release", settled(c.t, "the release", joined.Released()), ErrClosed)
	})
}

// A holder whose lock ends with the manager is told so, and by what. A caller that waits is told
// only that the manager is closed.
func TestHolderIsToldWhatCutItOff(t *testing.T) {
	type test struct {
		end  func(context.Context, *Manager) error
		says string
	}
	each(t, map[string]test{
		"Close": {func(_ context.Context, m *Manager) error { return m.Close() },
			"manager is closed: Manager.Close ended this lock while it was held, so it is lost"},
		"Shutdown": {func(ctx context.Context, m *Manager) error { return m.Shutdown(ctx) },
			"manager is closed: Manager.Shutdown did not wait any longer for the holders of this lock, so it is lost"},
	}, func(c *cluster, test test) {
		m, ahead := c.open("a"), mustLock(c.t, exclusive(c.t, c.open("b"), "busy"))
		h, x := mustLock(c.t, exclusive(c.t, m, "jobs")), mustLockMutex(c.t, openMutex(c.t, m, "mutex"))
		waits := c.acquire(exclusive(c.t, m, "busy"))
		_ = test.end(withTimeout(c.t, time.Second), m)
		for name, hold := range map[string]Hold{"jobs": h, "mutex": x} {
			wantErr(c.t, name, hold.Err(), ErrClosed)
			wantEq(c.t, "the error", fmt.Sprint(hold.Err()), fmt.Sprintf("holdfast: hold %q: %s", name, test.says))
		}
		wantErr(c.t, "a waiter", waits.Err(), ErrClosed)
		expect(c.t, !strings.Contains(fmt.Sprint(waits.Err()), "lost"), "a waiter is told %v", waits.Err())
		ahead.Release()
	})
}
