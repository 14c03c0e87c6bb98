// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/cron"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Bubbles begin at 2000-01-01 00:00 UTC.

func everyMinute() cron.Options { return cron.Options{Schedule: cron.Every(time.Minute)} }

// One of three processes runs the job, at the planned times. When it stops, the next one goes on.
func TestRun(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", everyMinute())
		a.job = func(ctx context.Context, tick cron.Tick) error {
			if late := time.Since(tick.Planned); late < 0 || late > 50*time.Millisecond {
				t.Errorf("planned for %v, and run %v later", tick.Planned, late)
			}
			if tick.Hold.Err() != nil || ctx.Err() != nil || tick.Planned.Location() != time.UTC {
				t.Errorf("%+v", tick)
			}
			return nil
		}
		untilRunner(c, a.start())
		b, d := open(c, "b", everyMinute()).start(), open(c, "d", everyMinute()).start()
		began := time.Now()
		recipetest.Later(3 * time.Minute)
		a.end()
		recipetest.Later(2*time.Minute + time.Second)
		b.end()
		d.end()
		all := slices.Concat(a.all(), b.all(), d.all())
		for i, tick := range all {
			if want := began.Truncate(time.Minute).Add(time.Duration(i+1) * time.Minute); !tick.Planned.Equal(want) {
				t.Errorf("run %d is planned for %v, want %v", i, tick.Planned, want)
			}
			if i > 0 && tick.Token < all[i-1].Token {
				t.Errorf("token %d after %d", tick.Token, all[i-1].Token)
			}
		}
		if len(a.all()) != 3 || len(all) != 5 || slices.Concat(a.told(), b.told(), d.told()) != nil {
			t.Errorf("%q, %q, %q", a.planned(), b.planned(), d.planned())
		}
		next := "b" // which of the two queues first is open
		if len(d.all()) > 0 {
			next = "d"
		}
		want := cron.Record{Planned: all[4].Planned, State: cron.StateDone, Token: all[4].Token, Attempt: 1, ID: next}
		got, err := d.c.Last(t.Context())
		if err != nil || got != want || record(c) != want {
			t.Errorf("the record is %+v, want %+v (%v)", got, want, err)
		}
		recipetest.Later(time.Minute)
		if left := c.Srv.Children(lockDir); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// A run costs two writes.
func TestCosts(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", everyMinute()).start()
		recipetest.Later(30 * time.Second)
		run := c.Count(func() { recipetest.Later(time.Minute) })
		a.stop()
		a.done.WantErr("ends", context.Canceled)
		hold, err := a.c.Lock().Lock(t.Context())
		recipetest.WantErr(t, "lock", err, nil)
		recipetest.Later(30 * time.Second)
		idle := c.Count(func() { recipetest.Later(time.Minute) })
		recipetest.WantErr(t, "unlock", hold.Unlock(t.Context()), nil)
		if len(a.all()) != 1 || run[zktest.OpMulti] != 2+idle[zktest.OpMulti] || run[zktest.OpGetData] != idle[zktest.OpGetData] {
			t.Errorf("%d runs, with %v; without %v", len(a.all()), run, idle)
		}
	})
}

func TestNew(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		for what, tt := range map[string]struct {
			name string
			o    cron.Options
			want error
		}{
			"no schedule":    {name, cron.Options{}, manager.ErrBadConfig},
			"every nothing":  {name, cron.Options{Schedule: cron.Every(0)}, manager.ErrBadConfig},
			"bad policy":     {name, cron.Options{Schedule: cron.Every(1), Missed: cron.Skip + 1}, manager.ErrBadConfig},
			"bad grace":      {name, cron.Options{Schedule: cron.Every(1), Grace: -1}, manager.ErrBadConfig},
			"bad attempts":   {name, cron.Options{Schedule: cron.Every(1), Attempts: -1}, manager.ErrBadConfig},
			"long id":        {name, cron.Options{Schedule: cron.Every(1), ID: strings.Repeat("x", 1025)}, manager.ErrBadConfig},
			"bad name":       {"a//b", everyMinute(), manager.ErrBadName},
			"all as it is":   {name, everyMinute(), nil},
			"with a long id": {name, cron.Options{Schedule: cron.Every(1), ID: strings.Repeat("x", 1024)}, nil},
		} {
			_, err := cron.New(m, tt.name, tt.o)
			recipetest.WantErr(t, what, err, tt.want)
		}
		recipetest.WantErr(t, "last", recipetest.ErrOf(open(c, "b", everyMinute()).c.Last(t.Context())), cron.ErrNoRecord)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		recipetest.WantErr(t, "begin", open(c, "d", everyMinute()).c.Begin(ctx), context.Canceled)
		other := c.Open("e")
		recipetest.WantErr(t, "read/write", recipetest.ErrOf(other.ReadWrite(name+"/lock")), nil)
		recipetest.WantErr(t, "lock of another kind", recipetest.ErrOf(cron.New(other, name, everyMinute())), manager.ErrKind)
		_ = m.Close()
		recipetest.WantErr(t, "closed", recipetest.ErrOf(cron.New(m, name, everyMinute())), manager.ErrClosed)
	})
}

// The goroutines of a Manager share its locks, so one call is enough.
func TestOneCallOfAManager(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", everyMinute()).start()
		again := openWith(t, a.m, "a again", everyMinute())
		recipetest.Later(time.Second)
		recipetest.WantErr(t, "run", again.c.Run(t.Context(), again.run), cron.ErrRunning)
		recipetest.WantErr(t, "run due", recipetest.ErrOf(again.c.RunDue(t.Context(), again.run)), cron.ErrRunning)
		a.end()
		again.start()
		recipetest.Later(2 * time.Minute)
		again.end()
		if len(again.all()) != 2 {
			t.Errorf("%q", again.planned())
		}
	})
}

// Processes with timers of their own run the job once for each planned time: the first that comes.
func TestRunDue(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", everyMinute()), open(c, "b", everyMinute())
		due := func(p *process, want int) {
			t.Helper()
			if n, err := p.c.RunDue(t.Context(), p.run); n != want || err != nil {
				t.Errorf("%s has run %d, want %d (%v)", p.id, n, want, err)
			}
		}
		recipetest.WantErr(t, "begin", a.c.Begin(t.Context()), nil)
		recipetest.Later(time.Minute)
		recipetest.WantErr(t, "begin", b.c.Begin(t.Context()), nil) // it has begun
		due(b, 1)
		due(a, 0)
		recipetest.Later(5 * time.Minute)
		due(a, 1)
		due(b, 0)
		recipetest.Later(time.Minute)
		a.job = func(context.Context, cron.Tick) error {
			recipetest.WantErr(t, "b meanwhile", recipetest.ErrOf(b.c.RunDue(t.Context(), b.run)), manager.ErrLocked)
			return errJob
		}
		due(a, 1)
		due(b, 0)
		if got, want := a.planned(), []string{"00:06:00 missed 4", "00:07:00"}; !slices.Equal(got, want) {
			t.Errorf("a: %q, want %q", got, want)
		}
		if got, want := b.planned(), []string{"00:01:00"}; !slices.Equal(got, want) {
			t.Errorf("b: %q, want %q", got, want)
		}
		if got, want := a.told(), []string{"missed 4 00:02:00 00:06:00", "failed 00:07:00 the report is wrong"}; !slices.Equal(got, want) {
			t.Errorf("a was told %q, want %q", got, want)
		}
	})
}

// Each call of RunDue finds again what was missed or interrupted, and that the record is in the future, for
// as long as no run follows. A process is told of it once.
func TestRunDueTellsOnce(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		o := cron.Options{Schedule: cron.Every(time.Minute), Missed: cron.Skip, Grace: time.Second}
		a, b := open(c, "a", o), open(c, "b", o)
		due := func(p *process) {
			t.Helper()
			for range 3 {
				if _, err := p.c.RunDue(t.Context(), p.run); err != nil {
					t.Errorf("%s: %v", p.id, err)
				}
			}
		}
		recipetest.WantErr(t, "begin", b.c.Begin(t.Context()), nil)
		recipetest.Later(60 * time.Second)
		b.job = func(context.Context, cron.Tick) error { return cron.ErrInterrupted }
		due(b)
		want(b, "00:01:00")
		recipetest.Later(30 * time.Second)
		due(a)
		recipetest.Later(time.Minute)
		due(a)
		recipetest.Later(2 * time.Minute)
		due(a)
		b.offset.Store(int64(time.Hour - 30*time.Second))
		b.job = nil
		due(b)
		due(a)
		want(a)
		wantTold(a, "interrupted 00:01:00 1", "missed 1 00:02:00 00:03:00", "missed 2 00:03:00 00:05:00", "ahead 01:04:00")
	})
}

// A process that is asked for the lock gives it up between two runs, and queues again.
func TestRevoke(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", everyMinute())
		a.job = func(context.Context, cron.Tick) error { recipetest.Rest(30 * time.Second); return nil }
		untilRunner(c, a.start())
		b := open(c, "b", everyMinute()).start()
		recipetest.Later(70 * time.Second) // in the middle of a run
		recipetest.WantErr(t, "revoke", b.c.Lock().Revoke(t.Context(), "restart"), nil)
		if r := record(c); r.State != cron.StateDone || r.ID != "a" {
			t.Errorf("given up with the record %+v", r)
		}
		recipetest.Later(time.Minute)
		if len(a.all()) != 1 || len(b.all()) != 1 {
			t.Errorf("%q, %q", a.planned(), b.planned())
		}
		b.end()
		recipetest.Later(time.Minute)
		if len(a.all()) != 2 {
			t.Errorf("%q, %q", a.planned(), b.planned())
		}
		a.end()
	})
}

// Shutdown waits for the run that is under way, and another process goes on.
func TestShutdown(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", everyMinute())
		finished := false
		a.job = func(ctx context.Context, _ cron.Tick) error {
			recipetest.Rest(10 * time.Second)
			finished = ctx.Err() == nil
			return nil
		}
		untilRunner(c, a.start())
		b := open(c, "b", everyMinute()).start()
		recipetest.Later(62 * time.Second)
		c.Shutdown(a.m)
		a.done.WantErr("run", manager.ErrClosed)
		if r := record(c); !finished || r.State != cron.StateDone {
			t.Errorf("finished: %t, the record is %+v", finished, r)
		}
		c.Shutdown(b.m)
		b.done.WantErr("run of the one that waits", manager.ErrClosed)
	})
}

// A job that is to be finished has a context that ends with the lock only. Any other one ends with that
// of Run, and, if it says so by an error, its planned time counts as interrupted.
func TestStopInTheMiddle(t *testing.T) {
	for what, tt := range map[string]struct {
		job   func(ctx context.Context, tick cron.Tick) error
		state cron.State
	}{
		"finishes": {func(ctx context.Context, tick cron.Tick) error {
			inside, cancel := tick.Hold.Context(context.WithoutCancel(ctx))
			defer cancel()
			select {
			case <-time.After(10 * time.Second):
				return nil
			case <-inside.Done():
				return context.Cause(inside)
			}
		}, cron.StateDone},
		"stops": {func(ctx context.Context, _ cron.Tick) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, cron.StateBegun},
		"stops, and has done enough": {func(ctx context.Context, _ cron.Tick) error {
			<-ctx.Done()
			return nil
		}, cron.StateDone},
	} {
		t.Run(what, func(t *testing.T) {
			recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
				a := open(c, "a", everyMinute())
				a.job = tt.job
				a.start()
				recipetest.Later(62 * time.Second)
				a.end()
				if r := record(c); r.State != tt.state {
					t.Errorf("the record is %+v, want %s", r, tt.state)
				}
			})
		})
	}
}

// The schedule ends, and one goes back: Run says so in each process.
func TestScheduleEnds(t *testing.T) {
	recipetest.Bubbles(t, map[string]struct {
		schedule cron.Schedule
		runs     int
		want     error
	}{
		"ends":      {until{time.Date(2000, 1, 1, 0, 2, 30, 0, time.UTC)}, 2, cron.ErrEnded},
		"never was": {until{}, 0, cron.ErrEnded},
		"goes back": {back{}, 0, cron.ErrBadSchedule},
	}, func(t *testing.T, c *recipetest.Cluster, tt struct {
		schedule cron.Schedule
		runs     int
		want     error
	}) {
		a := open(c, "a", cron.Options{Schedule: tt.schedule}).start()
		untilGone := func(p *process) {
			t.Helper()
			recipetest.Later(5 * time.Minute)
			p.done.WantErr(p.id, tt.want)
		}
		untilGone(a)
		untilGone(open(c, "b", cron.Options{Schedule: tt.schedule}).start())
		if len(a.all()) != tt.runs {
			t.Errorf("%q", a.planned())
		}
	})
}

// until is each minute until then.
type until struct{ end time.Time }

func (u until) Next(t time.Time) time.Time {
	if t = cron.Every(time.Minute).Next(t); t.After(u.end) {
		return time.Time{}
	}
	return t
}

type back struct{}

func (back) Next(t time.Time) time.Time { return t.Add(-time.Second) }

// What a manager refuses ends Run.
func TestRefused(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", everyMinute())
		ctx, cancel := context.WithCancelCause(t.Context())
		errWhy := errors.New("why")
		cancel(errWhy)
		err := a.c.Run(ctx, a.run)
		recipetest.WantErr(t, "run", err, context.Canceled)
		recipetest.WantErr(t, "run", err, errWhy)
		if e, ok := errors.AsType[*manager.Error](err); !ok || !strings.HasPrefix(e.Name, name) {
			t.Errorf("%v", err)
		}
		_ = a.m.Close()
		recipetest.WantErr(t, "run", a.c.Run(t.Context(), a.run), manager.ErrClosed)
		recipetest.WantErr(t, "run due", recipetest.ErrOf(a.c.RunDue(t.Context(), a.run)), manager.ErrClosed)
	})
}

// RunDue ends although the job takes longer than to the next planned time.
func TestRunDueEnds(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		o := everyMinute()
		o.Missed = cron.RunAll
		a := open(c, "a", o)
		a.job = func(context.Context, cron.Tick) error { recipetest.Rest(90 * time.Second); return nil }
		recipetest.WantErr(t, "begin", a.c.Begin(t.Context()), nil)
		for _, due := range []int{2, 5, 9} { // the calls are at 2:00, 7:00 and 16:30
			recipetest.Later(2 * time.Minute)
			if n, err := a.c.RunDue(t.Context(), a.run); err != nil || n != due {
				t.Errorf("%d runs, want %d (%v)", n, due, err)
			}
		}
		if runs := a.all(); !runs[len(runs)-1].Planned.Equal(time.Date(2000, 1, 1, 0, 16, 0, 0, time.UTC)) {
			t.Errorf("%q", a.planned())
		}
	})
}
