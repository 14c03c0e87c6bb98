// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/adapters/internal/adaptertest"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func newLocker(t *testing.T, m *manager.Manager, cfg Config) *Locker {
	t.Helper()
	l, err := New(m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// runs counts the runs of a job by their planned times, which are full minutes.
type runs struct {
	t      *testing.T
	mu     sync.Mutex
	inside int
	at     map[time.Time]int
	missed []error // what AfterLockError was told
}

// schedule starts a scheduler whose job begins every minute, late after the full minute, and
// takes long.
func (r *runs) schedule(late, long time.Duration, option gocron.SchedulerOption) {
	s, err := gocron.NewScheduler(option, gocron.WithLocation(time.UTC))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.Shutdown() })
	job := func(ctx context.Context) {
		r.mu.Lock()
		r.at[time.Now().Truncate(time.Minute)]++
		r.inside++
		if r.inside != 1 {
			r.t.Errorf("%d processes run the job at %v", r.inside, time.Now())
		}
		r.mu.Unlock()
		select {
		case <-time.After(long):
		case <-ctx.Done():
		}
		r.mu.Lock()
		r.inside--
		r.mu.Unlock()
	}
	_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(job), gocron.WithName("pkg/nightly"),
		gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Truncate(time.Minute).Add(time.Minute+late))),
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.missed = append(r.missed, err)
		})))
	if err != nil {
		r.t.Fatal(err)
	}
	s.Start()
}

func (r *runs) count(n int) (times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.at {
		if k == n {
			times++
		}
	}
	return times
}

// Two schedulers run a job once for each planned time, if their timers are closer together than
// the job is long, or than Splay. Otherwise they run it twice, as the documentation warns.
func TestLockerOfTwoSchedulers(t *testing.T) {
	for name, tt := range map[string]struct {
		late, long, splay time.Duration
		once, twice       int
	}{
		"long job":                   {300 * time.Millisecond, 10 * time.Second, -1, 60, 0},
		"short job":                  {300 * time.Millisecond, time.Millisecond, 0, 60, 0},
		"short job, timers together": {0, 100 * time.Millisecond, 0, 60, 0},
		"short job without splay":    {300 * time.Millisecond, time.Millisecond, -1, 0, 60},
		"short job, later than that": {700 * time.Millisecond, time.Millisecond, 0, 0, 60},
		"short job, longer splay":    {700 * time.Millisecond, time.Millisecond, time.Second, 60, 0},
	} {
		t.Run(name, func(t *testing.T) {
			adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				r := &runs{t: t, at: map[time.Time]int{}}
				for _, late := range []time.Duration{0, tt.late} {
					r.schedule(late, tt.long, gocron.WithDistributedLocker(newLocker(t, adaptertest.Open(t, srv), Config{Splay: tt.splay})))
				}
				time.Sleep(time.Hour + 30*time.Second)
				if once, twice := r.count(1), r.count(2); once != tt.once || twice != tt.twice {
					t.Errorf("%d runs once, %d twice; want %d, %d", once, twice, tt.once, tt.twice)
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				if len(r.missed) != tt.once {
					t.Errorf("gocron was told %d times that the lock is taken, want %d", len(r.missed), tt.once)
				}
				for _, err := range r.missed {
					if !errors.Is(err, manager.ErrLocked) {
						t.Errorf("gocron was told %v, want ErrLocked", err)
					}
				}
			})
		})
	}
}

// Schedulers of one process exclude each other, too, also while the lock is only kept.
func TestLockerExcludesItsOwnProcess(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := newLocker(t, adaptertest.Open(t, srv), Config{Splay: time.Second})
		k, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := l.Lock(t.Context(), "job"); !errors.Is(err, manager.ErrLocked) {
				t.Errorf("another scheduler: %v, want ErrLocked", err)
			}
			if err := k.Unlock(t.Context()); err != nil && !errors.Is(err, manager.ErrReleased) {
				t.Error(err)
			}
		}
		if h := l.Hold("job"); h != (manager.Hold{}) {
			t.Error("there is a Hold after Unlock")
		}
		time.Sleep(time.Second)
		synctest.Wait() // the timer may be behind ours
		if _, err := l.Lock(t.Context(), "job"); err != nil {
			t.Error(err)
		}
	})
}

// Lock does not wait longer than Timeout in an outage, and leaves nothing in the queue.
func TestLockerInAnOutage(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := adaptertest.Open(t, srv)
		l := newLocker(t, m, Config{Timeout: 2 * time.Second})
		srv.Stop()
		start := time.Now()
		_, err := l.Lock(t.Context(), "job")
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 2*time.Second {
			t.Errorf("after %v: %v, want a deadline after 2s", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = l.Lock(ctx, "job"); time.Since(start) != 3*time.Second {
			t.Errorf("after %v: %v, want the end of the context", time.Since(start), err)
		}
		srv.Start()
		time.Sleep(time.Minute)
		if nodes := srv.Children("/holdfast/gocron/job"); len(nodes) != 0 {
			t.Errorf("left in the queue: %v", nodes)
		}
		k, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if nodes := srv.Children("/holdfast/gocron/job"); len(nodes) != 1 {
			t.Errorf("in the queue: %v, want one", nodes)
		}
		_ = k.Unlock(t.Context())
	})
}

// A loss is told, by OnLost and by the Hold, and Unlock says so.
func TestLockerTellsOfALoss(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		type loss struct {
			key string
			err error
		}
		lost := make(chan loss, 1)
		l := newLocker(t, adaptertest.Open(t, srv), Config{OnLost: func(key string, err error) { lost <- loss{key, err} }})
		other := newLocker(t, adaptertest.Open(t, srv), Config{})
		k, err := l.Lock(t.Context(), "a/b")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := l.Hold("a/b").Context(t.Context())
		defer cancel()
		grant, err := l.Hold("a/b").Grant()
		if err != nil {
			t.Fatal(err)
		}
		srv.ExpireSession(grant.Session)
		<-ctx.Done()
		if got := <-lost; got.key != "a/b" || !errors.Is(got.err, manager.ErrLost) {
			t.Errorf("OnLost was told %v", got)
		}
		if !errors.Is(context.Cause(ctx), manager.ErrLost) {
			t.Errorf("the context ended with %v, want ErrLost", context.Cause(ctx))
		}
		if _, err := other.Lock(t.Context(), "a/b"); err != nil {
			t.Errorf("another process: %v", err)
		}
		if err := k.Unlock(t.Context()); !errors.Is(err, manager.ErrLost) {
			t.Errorf("unlock: %v, want ErrLost", err)
		}
		if err := k.Unlock(t.Context()); !errors.Is(err, manager.ErrReleased) {
			t.Errorf("second unlock: %v, want ErrReleased", err)
		}
		synctest.Wait()
		if len(lost) != 0 {
			t.Errorf("OnLost was called again: %v", <-lost)
		}
	})
}

// OnLost is not called for a lock that was given up, even if the session ends later.
func TestLockerTellsOfNoOtherLoss(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := adaptertest.Open(t, srv)
		onLost := func(key string, err error) { t.Errorf("lost %s: %v", key, err) }
		kept, err := newLocker(t, m, Config{Splay: time.Minute, OnLost: onLost}).Lock(t.Context(), "kept")
		if err != nil {
			t.Fatal(err)
		}
		_ = kept.Unlock(t.Context())
		l := newLocker(t, m, Config{Splay: -1, OnLost: onLost})
		k, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel() // as gocron's has, in Shutdown
		if err := k.Unlock(ended); err != nil {
			t.Error(err)
		}
		if nodes := srv.Children("/holdfast/gocron/job"); len(nodes) != 0 {
			t.Errorf("left in the queue after Unlock: %v", nodes)
		}
		_ = m.Close()
		synctest.Wait()
		if _, err := l.Lock(t.Context(), "job"); !errors.Is(err, manager.ErrClosed) {
			t.Errorf("lock after Close: %v, want ErrClosed", err)
		}
	})
}

func TestNewRefusesBadPrefixes(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := adaptertest.Open(t, srv)
		for prefix, want := range map[string]error{
			"jobs/": nil, "/jobs/": nil, "jobs-": nil, "a//": manager.ErrBadName, "../": manager.ErrBadName, "\x00/": manager.ErrBadName,
		} {
			if _, err := New(m, Config{Prefix: prefix}); !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", prefix, err, want)
			}
		}
	})
}

// Any name of a job is the name of a lock.
func TestJobsOfAnyName(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := newLocker(t, adaptertest.Open(t, srv), Config{Splay: -1})
		keys := []string{"a", "a/b", "a%2Fb", "A", "github.com/x/y.(*T).run-fm", "", ".", "zookeeper", "täglich"}
		for _, key := range keys {
			if _, err := l.Lock(t.Context(), key); err != nil {
				t.Errorf("%q: %v", key, err)
			}
		}
		if n := len(srv.Children("/holdfast/gocron")); n != len(keys) {
			t.Errorf("%d locks for %d names: %v", n, len(keys), slices.Sorted(slices.Values(srv.Children("/holdfast/gocron"))))
		}
	})
}

// A process that was paused may unlock before the watch has looked at the clock. OnLost is
// called then, too, and once.
func TestTellsOfALossAtUnlock(t *testing.T) {
	adaptertest.TellsOfALossAtUnlock(t, func(t *testing.T, m *manager.Manager, onLost func(err error)) (unlock func()) {
		l := newLocker(t, m, Config{OnLost: func(_ string, err error) { onLost(err) }})
		taken, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		k := taken.(*lock)
		k.unwatch = adaptertest.Late(k.unwatch)
		return func() { _ = k.Unlock(t.Context()) }
	})
}
