// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Call repeats what fails for a reason that passes, and gives up at a refusal.
func TestAccessCall(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.open("a").Access()
		tries := 0
		err := a.Call(c.t.Context(), func(*zkio.Session) error {
			if tries++; tries < 3 {
				return zkio.ErrNotSent
			}
			return nil
		}, nil)
		wantErr(c.t, "at last", err, nil)
		if tries != 3 {
			c.t.Errorf("%d tries", tries)
		}
		err = a.Call(c.t.Context(), func(s *zkio.Session) error { return s.Delete("/none", -1) }, nil)
		wantErr(c.t, "refused", err, zkio.ErrNoNode)

		wantErr(c.t, "close", a.m.Close(), nil)
		err = a.Call(c.t.Context(), func(*zkio.Session) error { return nil }, nil)
		wantErr(c.t, "closed", err, ErrClosed)
	})
}

// A function of the user's that panics ends neither the process nor the goroutine.
func TestAccessProtect(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.open("a").Access()
		called := 0
		a.Protect("OnTest", func() { called++ })
		a.Protect("OnTest", func() { called++; panic("oops") })
		lines := c.log.with("ERROR")
		if called != 2 || len(lines) != 1 || !strings.Contains(lines[0], "panic=oops ") || !strings.Contains(lines[0], "OnTest") {
			c.t.Errorf("called %d times; logged %q", called, lines)
		}
	})
}

// A caller whose context ends does not wait for the request, and what that has made is
// undone once it is known.
func TestAccessCallGivenUp(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.open("a").Access()
		f := c.srv.Faults().DelayReply(zktest.Match{Op: zktest.OpCreate, Times: 1}, time.Second)
		ctx, cancel := context.WithCancelCause(c.t.Context())
		why := errors.New("no longer wanted")
		made := false // the caller is told of the context's end after it was set
		go func() {
			<-f.Hit()
			synctest.Wait() // the server acts on the request after it has chosen it
			made = c.srv.Exists("/holdfast/made")
			cancel(why)
		}()
		begun := time.Now()
		var undone atomic.Int32
		err := a.Call(ctx,
			func(s *zkio.Session) error { return s.CreateEphemeral("/holdfast/made", nil, nil) },
			func(s *zkio.Session) error { undone.Add(1); return s.Delete("/holdfast/made", -1) })
		wantErr(c.t, "given up", err, why)
		wantErr(c.t, "given up", err, context.Canceled)
		if d := time.Since(begun); d != 0 {
			c.t.Errorf("it returned after %v", d)
		}
		if !made {
			c.t.Error("nothing was made: the test shows nothing")
		}
		later(2 * time.Second)
		if c.srv.Exists("/holdfast/made") || undone.Load() != 1 {
			c.t.Errorf("undone %d times", undone.Load())
		}

		// A caller that gives up before a worker has begun leaves nothing to undo.
		err = a.Call(ctx, func(*zkio.Session) error { c.t.Error("done"); return nil }, nil)
		wantErr(c.t, "over from the start", err, why)
	})
}

// manyCalls calls Access.Call more often than m has workers, with do, and returns a channel
// of the answers. It returns when all of them run or wait.
func (c *cluster) manyCalls(a Access, do func(*zkio.Session) error) (answers chan error, calls int) {
	calls = defaultWorkers + 8
	answers = make(chan error, calls)
	for range calls {
		go func() { answers <- a.Call(c.t.Context(), do, nil) }()
	}
	synctest.Wait()
	return answers, calls
}

// However many functions of Call wait for a lock, workers are left to get it, and others.
func TestF280_CallsThatLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		inner, start := exclusive(c.t, m, "inner"), make(chan struct{})
		answers, calls := c.manyCalls(m.Access(), func(*zkio.Session) error {
			<-start
			ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
			defer cancel()
			return inner.Do(ctx, func(context.Context, Hold) error { return nil })
		})
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		h, err := exclusive(c.t, m, "other").Lock(ctx)
		wantErr(c.t, "another lock meanwhile", err, nil)
		h.Release()
		close(start)
		for range calls {
			wantErr(c.t, "a call", <-answers, nil)
		}
	})
}

// Close answers the calls that wait for a place, too.
func TestF280_CloseWhileCallsWait(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		ran := atomic.Int32{}
		answers, calls := c.manyCalls(m.Access(), func(s *zkio.Session) error {
			ran.Add(1)
			<-m.Access().Context().Done()
			for {
				if err := s.Sync("/"); err != nil {
					return err // the session is over
				}
			}
		})
		if n := int(ran.Load()); n == 0 || n >= calls {
			c.t.Errorf("%d of %d calls run: the test shows nothing", n, calls)
		}
		wantErr(c.t, "close", m.Close(), nil)
		for range calls {
			wantErr(c.t, "a call", <-answers, ErrClosed)
		}
	})
}

// An ear is a listener that counts.
type ear struct{ started, lapsed, over atomic.Int32 }

func (h *ear) SessionStarted(*zkio.Session)                   { h.started.Add(1) }
func (h *ear) ConnectionLost(*zkio.Session, error)            {}
func (h *ear) ConnectionResumed(*zkio.Session, time.Duration) {}
func (h *ear) ProcessPaused(time.Duration)                    {}
func (h *ear) LeaseLapsed(*zkio.Lease)                        { h.lapsed.Add(1) }
func (h *ear) SessionOver(*zkio.Session, error)               { h.over.Add(1) }

func TestAccessListen(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		mustLock(c.t, exclusive(c.t, m, "jobs")) // for a lease
		var h, stopped ear
		m.Access().Listen(&h)
		stop := m.Access().Listen(&stopped)
		stop()
		c.expire(m)
		if h.started.Load() != 1 || h.lapsed.Load() != 1 || h.over.Load() != 1 {
			c.t.Errorf("heard of %d sessions, %d leases, %d ends", h.started.Load(), h.lapsed.Load(), h.over.Load())
		}
		wantErr(c.t, "close", m.Close(), nil)
		if h.over.Load() != 2 {
			c.t.Error("Close ends the session, and it did not hear")
		}
		if stopped.over.Load() != 0 {
			c.t.Error("heard after stop")
		}
	})
}

// Close ends the context of what runs, and joins it.
func TestAccessGo(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		var cause error
		closing := m.Access().Context()
		m.Access().Go(func() {
			<-closing.Done()
			cause = context.Cause(closing)
		})
		synctest.Wait()
		wantErr(c.t, "close", m.Close(), nil)
		wantErr(c.t, "its context", cause, ErrClosed)
		ran := false
		m.Access().Go(func() { ran = true })
		if !ran {
			c.t.Error("after Close it has not run")
		}
	})
}

// Shutdown waits for a request that other processes rely on, for as long as its context and
// Config.CloseTimeout allow. Close does not.
func TestAccessFinish(t *testing.T) {
	for name, tt := range map[string]struct {
		takes, patience time.Duration // 0: as long as it can, and without end
		close           bool
		want            time.Duration
		told            bool
		err             error
	}{
		"Shutdown waits":              {takes: time.Second, want: time.Second, told: true},
		"not for longer than a close": {want: 2 * time.Second, err: context.DeadlineExceeded},
		"nor than its caller":         {patience: time.Second, want: time.Second, err: context.DeadlineExceeded},
		"Close does not wait":         {takes: time.Second, close: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				m := c.open("a", func(cfg *Config) { cfg.CloseTimeout = 2 * time.Second })
				a := m.Access()
				told := false
				a.Finish(func() {
					<-a.Accepting().Done()
					var request <-chan time.Time
					if tt.takes > 0 {
						request = time.After(tt.takes)
					}
					select {
					case <-request:
						told = true
					case <-a.Context().Done():
					}
				})
				ctx := c.t.Context()
				if tt.patience > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.patience)
					defer cancel()
				}
				end := func() error { return m.Shutdown(ctx) }
				if tt.close {
					end = m.Close
				}
				start := time.Now()
				wantErr(c.t, name, end(), tt.err)
				if took := time.Since(start).Truncate(100 * time.Millisecond); took != tt.want || told != tt.told {
					c.t.Errorf("it took %v, told %t; want %v, %t", took, told, tt.want, tt.told)
				}
				ran := false
				a.Finish(func() { ran = true })
				if !ran {
					c.t.Error("after the end it has not run")
				}
			})
		})
	}
}

// Shutdown waits for it also if a lock's node cannot be deleted, and its caller has not given up.
func TestAccessFinishBesideALockThatCannotBeReleased(t *testing.T) {
	bubble(t, func(c *cluster) {
		l, owner := c.lock("a"), c.lock("owner", owned(zkio.PermCreate|zkio.PermRead))
		c.cycle(owner)
		end := mustLock(c.t, l).Release()
		later(time.Second)
		wantErr(c.t, "release", settled(c.t, "release", end), zkio.ErrNoAuth)
		a := l.m.Access()
		told := false
		a.Finish(func() {
			<-a.Accepting().Done()
			select {
			case <-time.After(time.Second):
				told = true
			case <-a.Context().Done():
			}
		})
		err := l.m.Shutdown(c.t.Context())
		wantSays(c.t, err, "cannot be deleted")
		if !told {
			c.t.Errorf("it was not told: %v", err)
		}
	})
}

func TestAccessNames(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("billing")
		a := m.Access()
		path, err := a.Path("jobs/nightly")
		wantErr(c.t, "path", err, nil)
		if path != "/holdfast/jobs/nightly" {
			c.t.Errorf("path %s", path)
		}
		_, err = a.Path("jobs//nightly")
		wantErr(c.t, "bad name", err, ErrBadName)
		if first, second := a.GUID(), a.GUID(); first == second {
			c.t.Error("two equal GUIDs")
		}
		if got := DescribeNode("/x/thing-0000000001", a.Describe("thing"), zkio.Stat{}); got.Label != "billing" || got.PID == 0 || got.Since.IsZero() {
			c.t.Errorf("a node describes %+v", got)
		}
		wantErr(c.t, "close", m.Close(), nil)
		_, err = a.Path("jobs")
		wantErr(c.t, "closed", err, ErrClosed)
	})
}
