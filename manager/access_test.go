// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
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
		expect(c.t, tries == 3, "%d tries", tries)
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
		expect(c.t, called == 2 && len(lines) == 1 && strings.Contains(lines[0], "panic=oops ") &&
			strings.Contains(lines[0], "OnTest"), "called %d times; logged %q", called, lines)
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
		wantEq(c.t, "it returned after", time.Since(begun), 0)
		expect(c.t, made, "nothing was made: the test shows nothing")
		later(2 * time.Second)
		expect(c.t, !c.srv.Exists("/holdfast/made") && undone.Load() == 1,
			"undone %d times", undone.Load())

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
		patient := withTimeout(c.t, time.Minute)
		answers, calls := c.manyCalls(m.Access(), func(*zkio.Session) error {
			<-start
			return inner.Do(patient, func(context.Context, Hold) error { return nil })
		})
		h, err := exclusive(c.t, m, "other").Lock(withTimeout(c.t, time.Second))
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
		expect(c.t, int(ran.Load()) != 0 && int(ran.Load()) < calls,
			"%d of %d calls run: the test shows nothing", int(ran.Load()), calls)
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
		expect(c.t, h.started.Load() == 1 && h.lapsed.Load() == 1 && h.over.Load() == 1,
			"heard of %d sessions, %d leases, %d ends", h.started.Load(), h.lapsed.Load(), h.over.Load())
		wantErr(c.t, "close", m.Close(), nil)
		expect(c.t, h.over.Load() == 2, "Close ends the session, and it did not hear")
		expect(c.t, stopped.over.Load() == 0, "heard after stop")
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
		expect(c.t, ran, "after Close it has not run")
	})
}

// longRequest has a request of a be under way that other processes rely on, which takes so long;
// 0 is as long as it can. It returns where it is noted that the request has been made.
func longRequest(a Access, takes time.Duration) (told *bool) {
	told = new(bool)
	a.Finish(func() {
		<-a.Accepting().Done()
		var request <-chan time.Time
		if takes > 0 {
			request = time.After(takes)
		}
		select {
		case <-request:
			*told = true
		case <-a.Context().Done():
		}
	})
	return told
}

// Shutdown waits for a request that other processes rely on, for as long as its context and
// Config.CloseTimeout allow. Close does not.
func TestAccessFinish(t *testing.T) {
	type test struct {
		takes, patience time.Duration // 0: as long as it can, and without end
		close           bool
		want            time.Duration
		told            bool
		err             error
	}
	each(t, map[string]test{
		"Shutdown waits":              {takes: time.Second, want: time.Second, told: true},
		"not for longer than a close": {want: 2 * time.Second, err: context.DeadlineExceeded},
		"nor than its caller":         {patience: time.Second, want: time.Second, err: context.DeadlineExceeded},
		"Close does not wait":         {takes: time.Second, close: true},
	}, func(c *cluster, tt test) {
		m := c.open("a", func(cfg *Config) { cfg.CloseTimeout = 2 * time.Second })
		told := longRequest(m.Access(), tt.takes)
		start := time.Now()
		if tt.close {
			wantErr(c.t, "close", m.Close(), tt.err)
		} else {
			ctx := withTimeout(c.t, cmp.Or(tt.patience, time.Hour))
			wantErr(c.t, "shutdown", m.Shutdown(ctx), tt.err)
		}
		wantTook(c.t, start, tt.want, tt.want+moment)
		wantEq(c.t, "told", *told, tt.told)
		ran := false
		m.Access().Finish(func() { ran = true })
		expect(c.t, ran, "after the end it has not run")
	})
}

// Shutdown waits for it also if a lock's node cannot be deleted, and its caller has not given up.
func TestAccessFinishBesideALockThatCannotBeReleased(t *testing.T) {
	bubble(t, func(c *cluster) {
		l, owner := c.lock("a"), c.lock("owner", owned(zkio.PermCreate|zkio.PermRead))
		c.cycle(owner)
		end := mustLock(c.t, l).Release()
		later(time.Second)
		wantErr(c.t, "release", settled(c.t, "release", end), zkio.ErrNoAuth)
		told := longRequest(l.m.Access(), time.Second)
		err := l.m.Shutdown(c.t.Context())
		wantSays(c.t, err, "cannot be deleted")
		expect(c.t, *told, "it was not told: %v", err)
	})
}

func TestAccessNames(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("billing")
		a := m.Access()
		path, err := a.Path("jobs/nightly")
		wantErr(c.t, "path", err, nil)
		expect(c.t, path == "/holdfast/jobs/nightly", "path %s", path)
		wantErr(c.t, "bad name", errOf(a.Path("jobs//nightly")), ErrBadName)
		first, second := a.GUID(), a.GUID()
		expect(c.t, first != second, "two equal GUIDs")
		if got := DescribeNode("/x/thing-0000000001", a.Describe("thing"), zkio.Stat{Czxid: 1}); got.Label != "billing" || got.PID == 0 || got.Since.IsZero() {
			c.t.Errorf("a node describes %+v", got)
		}
		wantErr(c.t, "close", m.Close(), nil)
		wantErr(c.t, "closed", errOf(a.Path("jobs")), ErrClosed)
	})
}
