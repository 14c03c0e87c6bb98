// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/cron"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// want checks the runs of a process.
func want(p *process, runs ...string) {
	p.t.Helper()
	if got := p.planned(); !slices.Equal(got, runs) {
		p.t.Errorf("%s has run %q, want %q", p.id, got, runs)
	}
}

// wantTold checks the events of a process.
func wantTold(p *process, events ...string) {
	p.t.Helper()
	if got := p.told(); !slices.Equal(got, events) {
		p.t.Errorf("%s was told %q, want %q", p.id, got, events)
	}
}

// atClaim has strike called right before the server handles p's first claim.
func atClaim(c *recipetest.Cluster, p *process, strike func()) {
	session := recipetest.SessionOf(p.m)
	planned := time.Now().Truncate(time.Minute).Add(time.Minute)
	var once sync.Once
	c.Srv.OnRequest(func(s int64, op zktest.Op, path string) {
		if s == session && op == zktest.OpMulti && strings.HasPrefix(path, "/holdfast/"+name+"/") && !time.Now().Before(planned) {
			once.Do(strike)
		}
	})
}

// nodeOf returns the node of p in the lock's queue.
func nodeOf(c *recipetest.Cluster, p *process) string {
	for _, n := range c.Srv.Children(lockDir) {
		if _, stat, ok := c.Srv.Get(lockDir + "/" + n); ok && stat.EphemeralOwner == recipetest.SessionOf(p.m) {
			return lockDir + "/" + n
		}
	}
	c.T.Errorf("%s has no node", p.id)
	return lockDir
}

// A process that loses the lock right before its claim has claimed nothing, and does not run the job:
// the next process does.
func TestF353_LostBeforeTheClaim(t *testing.T) {
	recipetest.Bubbles(t, map[string]func(c *recipetest.Cluster, p *process){
		"its session ends":    func(c *recipetest.Cluster, p *process) { c.Srv.ExpireSession(recipetest.SessionOf(p.m)) },
		"its node is deleted": func(c *recipetest.Cluster, p *process) { c.Remove(nodeOf(c, p)) },
	}, func(t *testing.T, c *recipetest.Cluster, lose func(c *recipetest.Cluster, p *process)) {
		a := open(c, "a", everyMinute()).start()
		untilRunner(c, a)
		b := open(c, "b", everyMinute()).start()
		recipetest.Later(10 * time.Second)
		atClaim(c, a, func() { lose(c, a) })
		recipetest.Later(time.Minute)
		want(a)
		want(b, "00:01:00")
		b.end()
		recipetest.Later(time.Minute)
		want(a, "00:02:00")
		a.end()
	})
}

// A claim that was under way when the process lost the lock is refused when it arrives, whether the
// next process has claimed the planned time or not.
func TestF353_LateClaim(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", everyMinute()).start()
		untilRunner(c, a)
		b := open(c, "b", cron.Options{Schedule: cron.Every(time.Hour)}).start() // it claims nothing meanwhile
		recipetest.Later(10 * time.Second)
		_, before, _ := c.Srv.Get(recordPath)
		atClaim(c, a, func() {
			c.Remove(nodeOf(c, a))
			<-time.After(time.Second)
		})
		recipetest.Later(time.Minute)
		if _, stat, _ := c.Srv.Get(recordPath); stat != before {
			t.Errorf("the record was written: %+v, and was %+v", stat, before)
		}
		want(a)
		a.end()
		b.end()
	})
}

// A process that is stopped while its claim is under way gives the planned time back: the next one
// runs the job.
func TestF353_StoppedAtTheClaim(t *testing.T) {
	recipetest.Bubbles(t, map[string]struct {
		stop func(c *recipetest.Cluster, p *process)
		want error
	}{
		"context":  {func(_ *recipetest.Cluster, p *process) { p.stop() }, context.Canceled},
		"shutdown": {func(_ *recipetest.Cluster, p *process) { go func() { _ = p.m.Shutdown(context.Background()) }() }, manager.ErrClosed},
	}, func(t *testing.T, c *recipetest.Cluster, tt struct {
		stop func(c *recipetest.Cluster, p *process)
		want error
	}) {
		a := open(c, "a", everyMinute()).start()
		untilRunner(c, a)
		b := open(c, "b", everyMinute()).start()
		recipetest.Later(10 * time.Second)
		atClaim(c, a, func() { tt.stop(c, a); <-time.After(100 * time.Millisecond) })
		recipetest.Later(time.Minute)
		a.done.WantErr("run", tt.want)
		want(a)
		want(b, "00:01:00")
		wantTold(b)
		b.end()
	})
}

// Whichever request of a process is lost, or the answer to it, each planned time is begun once.
func TestF354_EveryRequestLost(t *testing.T) {
	faults := recipetest.Lost
	recipetest.EachRequest(t, faults, func(t *testing.T, v *recipetest.Victim) {
		o := cron.Options{Schedule: cron.Every(10 * time.Second), Missed: cron.RunAll}
		a := openWith(t, v.M, "a", o).start()
		recipetest.Later(25 * time.Second)
		v.Calm()
		recipetest.Later(30 * time.Second)
		a.end()
		var begun []string
		for _, r := range a.planned() {
			begun = append(begun, strings.TrimSuffix(r, " attempt 1"))
		}
		for _, e := range a.told() { // its lock was lost at that moment
			if planned, ok := strings.CutPrefix(e, "interrupted "); ok {
				begun = append(begun, strings.TrimSuffix(planned, " 1"))
			}
		}
		slices.Sort(begun)
		all := []string{"00:00:10", "00:00:20", "00:00:30", "00:00:40", "00:00:50"}
		if len(begun) < 2 || !slices.Equal(begun, all[5-len(begun):]) {
			t.Errorf("begun %q; events %q", begun, a.told())
		}
		if r := record(v.Cluster); r.State != cron.StateDone || r.Planned.Format("15:04:05") != "00:00:50" {
			t.Errorf("in the end the record is %+v", r)
		}
	})
}

// A process dies in the middle of a run. Its planned time counts as run, or is run again by the next
// process, up to the number of attempts.
func TestF355_DiesInTheMiddle(t *testing.T) {
	recipetest.Bubbles(t, map[string]struct {
		o            cron.Options
		b, d         []string
		toldB, toldD []string
	}{
		"at most once": {cron.Options{}, []string{"00:02:00"}, []string{"00:03:00"}, []string{"interrupted 00:01:00 1"}, []string{"interrupted 00:02:00 1"}},
		"two attempts": {cron.Options{Attempts: 2, Missed: cron.RunAll},
			[]string{"00:01:00 attempt 2"}, []string{"00:02:00", "00:03:00"},
			[]string{"interrupted 00:01:00 1"}, []string{"interrupted 00:01:00 2"}},
		"three attempts": {cron.Options{Attempts: 3, Missed: cron.RunAll},
			[]string{"00:01:00 attempt 2"}, []string{"00:01:00 attempt 3", "00:02:00", "00:03:00"},
			[]string{"interrupted 00:01:00 1"}, []string{"interrupted 00:01:00 2"}},
	}, func(t *testing.T, c *recipetest.Cluster, tt struct {
		o            cron.Options
		b, d         []string
		toldB, toldD []string
	}) {
		tt.o.Schedule = cron.Every(time.Minute)
		killed := make(chan struct{})
		dies := func(p *process) func(context.Context, cron.Tick) error {
			return func(context.Context, cron.Tick) error {
				c.Srv.ExpireSession(recipetest.SessionOf(p.m))
				<-killed // a process that is dead does nothing more
				return errJob
			}
		}
		a, b, d := open(c, "a", tt.o), open(c, "b", tt.o), open(c, "d", tt.o)
		a.job, b.job = dies(a), dies(b)
		untilRunner(c, a.start())
		b.start()
		recipetest.Later(time.Second)
		d.start()
		recipetest.Later(3 * time.Minute)
		want(a, "00:01:00")
		want(b, tt.b...)
		want(d, tt.d...)
		wantTold(b, tt.toldB...)
		wantTold(d, tt.toldD...)
		d.end()
		a.stop()
		b.stop()
		close(killed)
		a.done.WantErr("a", context.Canceled)
		b.done.WantErr("b", context.Canceled)
	})
}

// However the clocks are set, each planned time is run once, and in order.
func TestF356_ClockSteps(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		o := everyMinute()
		o.Missed = cron.RunAll
		a := open(c, "a", o).start()
		untilRunner(c, a)
		set := func(p *process, to time.Duration) { p.offset.Store(int64(to)) }
		recipetest.Later(89 * time.Second)
		want(a, "00:01:00")
		set(a, -time.Minute)
		recipetest.Later(time.Minute) // it is 00:01:30 by a's clock
		want(a, "00:01:00")
		set(a, 2*time.Minute)
		recipetest.Later(2 * time.Second) // it is 00:04:32
		want(a, "00:01:00", "00:02:00", "00:03:00", "00:04:00")
		set(a, 0)
		recipetest.Later(2 * time.Minute) // it is 00:04:32 again
		wantTold(a, "ahead 00:04:00")
		want(a, "00:01:00", "00:02:00", "00:03:00", "00:04:00")
		b := open(c, "b", o)
		set(b, -3*time.Minute)
		b.start()
		recipetest.Later(time.Second)
		a.end()
		recipetest.Later(3 * time.Minute) // it is 00:04:33 by b's clock
		want(b)
		wantTold(b, "ahead 00:04:00")
		recipetest.Later(time.Minute)
		want(b, "00:05:00")
		b.end()
	})
}

// A process notices within a second that its clock was set forward, however far away the planned time
// was.
func TestF356_SetForward(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", cron.Options{Schedule: cron.Every(24 * time.Hour)}).start()
		recipetest.Later(time.Minute)
		a.offset.Store(int64(23*time.Hour + 59*time.Minute))
		recipetest.Later(1100 * time.Millisecond)
		if len(a.all()) != 1 {
			t.Errorf("%q", a.planned())
		}
		a.end()
	})
}

// Planned times that are past after an outage are run as the policy says.
func TestF357_Outage(t *testing.T) {
	recipetest.Bubbles(t, map[string]struct {
		o    cron.Options
		runs []string
		told []string
	}{
		"latest": {cron.Options{}, []string{"00:01:00", "00:05:00 missed 3", "00:06:00"}, []string{"missed 3 00:02:00 00:05:00"}},
		"all":    {cron.Options{Missed: cron.RunAll}, []string{"00:01:00", "00:02:00", "00:03:00", "00:04:00", "00:05:00", "00:06:00"}, nil},
		"skip":   {cron.Options{Missed: cron.Skip}, []string{"00:01:00", "00:05:00 missed 3", "00:06:00"}, []string{"missed 3 00:02:00 00:05:00"}},
		"skip after two minutes": {cron.Options{Missed: cron.Skip, Grace: 2 * time.Minute}, []string{"00:01:00", "00:04:00 missed 2", "00:05:00", "00:06:00"},
			[]string{"missed 2 00:02:00 00:04:00"}},
		"skip after a second": {cron.Options{Missed: cron.Skip, Grace: time.Second}, []string{"00:01:00", "00:06:00 missed 4"}, []string{"missed 4 00:02:00 00:06:00"}},
	}, func(t *testing.T, c *recipetest.Cluster, tt struct {
		o    cron.Options
		runs []string
		told []string
	}) {
		tt.o.Schedule = cron.Every(time.Minute)
		a := open(c, "a", tt.o).start()
		recipetest.Later(90 * time.Second)
		end := c.Silence(a.m)
		recipetest.Later(4 * time.Minute)
		end()
		recipetest.Later(time.Minute)
		a.end()
		want(a, tt.runs...)
		wantTold(a, tt.told...)
	})
}

// A run that takes longer than to the next planned times makes those late. Runs never overlap.
func TestF357_SlowRun(t *testing.T) {
	recipetest.Bubbles(t, map[string]struct {
		o    cron.Options
		runs []string
	}{
		"latest": {cron.Options{}, []string{"00:01:00", "00:03:00 missed 1", "00:05:00 missed 1"}},
		"all":    {cron.Options{Missed: cron.RunAll}, []string{"00:01:00", "00:02:00", "00:03:00"}},
	}, func(t *testing.T, c *recipetest.Cluster, tt struct {
		o    cron.Options
		runs []string
	}) {
		tt.o.Schedule = cron.Every(time.Minute)
		a := open(c, "a", tt.o)
		a.job = func(context.Context, cron.Tick) error { recipetest.Rest(140 * time.Second); return nil }
		a.start()
		recipetest.Later(400 * time.Second)
		want(a, tt.runs...)
		a.stop()
		recipetest.Later(3 * time.Minute)
		a.done.WantErr("run", context.Canceled)
	})
}

// Nothing is lost of what is planned after the first process has begun the schedule, even if it has run
// nothing yet.
func TestF357_FirstRunner(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", everyMinute()).start()
		recipetest.Later(50 * time.Second)
		if r := record(c); r.State != cron.StateNew || r.ID != "a" {
			t.Errorf("the record is %+v", r)
		}
		a.end()
		recipetest.Later(30 * time.Second)
		b := open(c, "b", everyMinute()).start()
		recipetest.Later(time.Second)
		want(b, "00:01:00")
		b.end()
	})
}

// A record that is damaged, changed or deleted has the outcome that the package documentation says.
func TestF358_Record(t *testing.T) {
	text := func(r cron.Record) string {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	planned := func(minute int) cron.Record {
		return cron.Record{Planned: time.Date(2000, 1, 1, 0, minute, 0, 0, time.UTC), State: cron.StateDone, Token: 1, Attempt: 1, ID: "operator"}
	}
	later := strings.TrimSuffix(text(planned(1)), "}") + `,"later":{"than":["this"]}}`
	for name, tt := range map[string]struct {
		change string // "": the record is deleted
		runs   []string
		err    error
	}{
		"not readable":            {"garbage", []string{"00:01:00"}, cron.ErrBadRecord},
		"empty":                   {"{}", []string{"00:01:00"}, cron.ErrBadRecord},
		"deleted":                 {"", []string{"00:01:00", "00:02:00", "00:03:00"}, nil},
		"set forward":             {text(planned(2)), []string{"00:01:00", "00:03:00"}, nil},
		"set back":                {text(planned(0)), []string{"00:01:00", "00:01:00", "00:02:00", "00:03:00"}, nil},
		"with fields of later on": {later, []string{"00:01:00", "00:02:00", "00:03:00"}, nil},
		"with a state of later on": {strings.Replace(text(planned(1)), "done", "paused", 1),
			[]string{"00:01:00", "00:02:00", "00:03:00"}, nil},
	} {
		for _, how := range []string{"while it waits", "in the middle of a run"} {
			t.Run(name+", "+how, func(t *testing.T) {
				recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
					o := everyMinute()
					o.Missed, o.Attempts = cron.RunAll, 2
					a := open(c, "a", o)
					change := sync.OnceFunc(func() {
						if tt.change == "" {
							c.Remove(recordPath)
						} else if err := c.Srv.Set(recordPath, []byte(tt.change)); err != nil {
							t.Error(err)
						}
					})
					a.job = func(context.Context, cron.Tick) error {
						if how == "in the middle of a run" {
							change()
						}
						return nil
					}
					a.start()
					recipetest.Later(90 * time.Second)
					change()
					recipetest.Later(100 * time.Second)
					want(a, tt.runs...)
					if tt.err == nil {
						a.end()
						return
					}
					a.done.WantErr("run", tt.err)
					b := open(c, "b", o).start()
					recipetest.Later(time.Second)
					b.done.WantErr("run", tt.err)
					if err := b.done.Err(); !strings.Contains(err.Error(), recordPath) {
						t.Errorf("the error does not say where: %v", err)
					}
					recipetest.WantErr(t, "last", recipetest.ErrOf(b.c.Last(t.Context())), tt.err)
					c.Remove(recordPath)
					d := open(c, "d", o).start() // it is 00:03:11
					recipetest.Later(time.Minute)
					want(d, "00:04:00")
					d.end()
				})
			})
		}
	}
}

// A record that was touched in the middle of a run, and says the same, does not have the planned time
// run again.
func TestF358_Touched(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		o := everyMinute()
		o.Attempts = 2
		a := open(c, "a", o)
		a.job = func(context.Context, cron.Tick) error {
			data, _, _ := c.Srv.Get(recordPath)
			return c.Srv.Set(recordPath, data)
		}
		a.start()
		recipetest.Later(150 * time.Second)
		want(a, "00:01:00", "00:02:00")
		if r := record(c); r.State != cron.StateDone {
			t.Errorf("the record is %+v", r)
		}
		a.end()
	})
}

// A process that goes on writes a record again that was deleted, as it was, so that no time is repeated even
// if its clock was set back. Where another process goes on, the schedule begins anew.
func TestF358_DeletedWhileTheClockIsBehind(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", everyMinute()).start()
		recipetest.Later(130 * time.Second)
		a.offset.Store(int64(-100 * time.Second))
		c.Remove(recordPath)
		recipetest.Later(2 * time.Minute) // it is 00:02:30 by a's clock
		want(a, "00:01:00", "00:02:00")
		recipetest.Later(time.Minute)
		want(a, "00:01:00", "00:02:00", "00:03:00")
		c.Remove(recordPath)
		a.end()
		b := open(c, "b", everyMinute()).start() // it is 00:05:10 by b's clock
		recipetest.Later(time.Minute)
		want(b, "00:06:00")
		b.end()
	})
}

// The record is deleted, and another process, whose clock is behind, begins the schedule. The one that has
// the lock repeats no planned time, and writes the record again as it was.
func TestF358_DeletedAndBegun(t *testing.T) {
	recipetest.Bubbles(t, map[string]struct {
		inRun  bool
		behind time.Duration // of its clock meanwhile
	}{"while it waits": {}, "in the middle of a run": {inRun: true}, "while its clock is behind": {behind: 140 * time.Second}}, func(t *testing.T, c *recipetest.Cluster, tt struct {
		inRun  bool
		behind time.Duration
	}) {
		o := everyMinute()
		o.Missed, o.Attempts = cron.RunAll, 2
		a, b := open(c, "a", o), open(c, "b", o)
		b.offset.Store(int64(-2 * time.Minute))
		replace := sync.OnceFunc(func() {
			c.Remove(recordPath)
			recipetest.WantErr(t, "begin", b.c.Begin(t.Context()), nil)
		})
		a.job = func(_ context.Context, tick cron.Tick) error {
			if tt.inRun && tick.Planned.Minute() == 3 {
				replace()
			}
			return nil
		}
		a.start()
		recipetest.Later(200 * time.Second)
		a.offset.Store(int64(-tt.behind))
		replace()
		recipetest.Later(90 * time.Second)
		a.offset.Store(0)
		recipetest.Later(2 * time.Second)
		want(a, "00:01:00", "00:02:00", "00:03:00", "00:04:00")
		if r := record(c); r.State != cron.StateDone || r.ID != "a" || r.Planned.Minute() != 4 {
			t.Errorf("the record is %+v", r)
		}
		a.end()
	})
}

// A job that fails does not end the schedule.
func TestF359_JobFails(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		o := everyMinute()
		o.Attempts = 3 // that is for runs which were interrupted
		a := open(c, "a", o)
		a.job = func(context.Context, cron.Tick) error { return errJob }
		a.start()
		recipetest.Later(130 * time.Second)
		want(a, "00:01:00", "00:02:00")
		wantTold(a, "failed 00:01:00 the report is wrong", "failed 00:02:00 the report is wrong")
		a.end()
	})
}

// A job that says that it was interrupted is run again, up to the number of attempts.
func TestF359_JobIsInterrupted(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		o := everyMinute()
		o.Attempts = 2
		a := open(c, "a", o)
		a.job = func(context.Context, cron.Tick) error { return fmt.Errorf("half a report: %w", cron.ErrInterrupted) }
		a.start()
		recipetest.Later(130 * time.Second)
		want(a, "00:01:00", "00:01:00 attempt 2", "00:02:00", "00:02:00 attempt 2")
		a.end()
	})
}

// A job that panics lets the panic go on, and the lock is free for the next process.
func TestF359_JobPanics(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		o := everyMinute()
		o.Attempts = 2
		a, b := open(c, "a", o), open(c, "b", o)
		a.job = func(context.Context, cron.Tick) error { panic("the report is missing") }
		panics := recipetest.BeginErr(t, func() (err error) {
			defer func() { err = fmt.Errorf("%v", recover()) }()
			return a.c.Run(context.Background(), a.run)
		})
		untilRunner(c, a)
		b.start()
		recipetest.Later(time.Minute)
		if err := panics.Err(); err.Error() != "the report is missing" {
			t.Error(err)
		}
		want(b, "00:01:00 attempt 2")
		b.end()
		recipetest.WantErr(t, "again", recipetest.ErrOf(a.c.RunDue(t.Context(), b.run)), nil)
	})
}

// A job that ignores the loss of its lock delays its own process, and no other. Its process does not
// queue again before it has returned.
func TestF359_JobOutlivesItsLock(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", everyMinute()), open(c, "b", everyMinute())
		var cause error
		first := true
		a.job = func(ctx context.Context, tick cron.Tick) error {
			if !first {
				return nil
			}
			first = false
			c.Srv.ExpireSession(recipetest.SessionOf(a.m))
			recipetest.Rest(150 * time.Second)
			cause = context.Cause(ctx)
			recipetest.WantErr(t, "the hold", tick.Hold.Err(), manager.ErrLost)
			return errors.New("too late")
		}
		untilRunner(c, a.start())
		b.start()
		recipetest.Later(2 * time.Minute)
		want(b, "00:02:00")
		if n := len(c.Srv.Children(lockDir)); n != 1 {
			t.Errorf("%d processes have the lock or queue, while the job of one runs on", n)
		}
		b.end()
		recipetest.Later(2 * time.Minute)
		recipetest.WantErr(t, "the cause", cause, manager.ErrLost)
		want(a, "00:01:00", "00:03:00", "00:04:00")
		wantTold(a, "failed 00:01:00 too late")
		a.end()
	})
}

// The answer to a claim is lost, and another client changes the record before the process has found out:
// what the record says counts, and the job does not run.
func TestF354_ChangedBeforeItIsFound(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", everyMinute()).start()
		untilRunner(c, a)
		claims := 0
		planned := time.Now().Truncate(time.Minute).Add(time.Minute)
		recipetest.Later(time.Until(planned) - time.Millisecond)
		lost := c.Srv.Faults().DropReply(zktest.Match{Session: recipetest.SessionOf(a.m), Op: zktest.OpMulti, Times: 1})
		c.Srv.OnRequest(func(_ int64, op zktest.Op, _ string) {
			if op != zktest.OpMulti {
				return
			}
			if claims++; claims == 2 {
				r := cron.Record{Planned: planned.Add(time.Minute), State: cron.StateDone, ID: "operator"}
				text, err := json.Marshal(r)
				if err == nil {
					err = c.Srv.Set(recordPath, text)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		recipetest.Later(150 * time.Second)
		if lost.Hits() != 1 || claims < 2 {
			t.Errorf("%d answers were lost, of %d claims", lost.Hits(), claims)
		}
		want(a, "00:03:00")
		a.end()
	})
}

// If no write's outcome becomes known, the process goes on asking, with pauses. Once it is told to stop, it
// gives up within about a session timeout, and says so, whichever write that is.
func TestF354_OutcomeStaysUnknown(t *testing.T) {
	recipetest.Bubbles(t, map[string]struct {
		stop func(p *process)
		want error
		done bool // the claim succeeds, and the note that the job is done does not
	}{
		"context":               {func(p *process) { p.stop() }, context.Canceled, false},
		"shutdown":              {func(p *process) { go func() { _ = p.m.Shutdown(context.Background()) }() }, manager.ErrClosed, false},
		"context, job is done":  {func(p *process) { p.stop() }, context.Canceled, true},
		"shutdown, job is done": {func(p *process) { go func() { _ = p.m.Shutdown(context.Background()) }() }, manager.ErrClosed, true},
	}, func(t *testing.T, c *recipetest.Cluster, tt struct {
		stop func(p *process)
		want error
		done bool
	}) {
		var f *zktest.Fault
		a := open(c, "a", everyMinute())
		fail := func() {
			f = c.Srv.Faults().FailRequest(zktest.Match{Session: recipetest.SessionOf(a.m), Op: zktest.OpMulti, Path: recordPath, Times: zktest.Every}, zktest.CodeRuntimeInconsistency)
		}
		a.job = func(context.Context, cron.Tick) error { fail(); return nil }
		untilRunner(c, a.start())
		if !tt.done {
			fail()
		}
		recipetest.Later(80 * time.Second)
		tries := f.Hits()
		if a.done.Over() || tries < 10 || tries > 40 {
			t.Errorf("over: %t, after %d requests in 20 s", a.done.Over(), tries)
		}
		tt.stop(a)
		<-time.After(a.m.Access().Session().Timeout() / 2)
		if a.done.Over() {
			t.Error("it gave up at once")
		}
		<-time.After(a.m.Access().Session().Timeout()/2 + 3*time.Second)
		if !a.done.Over() {
			t.Error("it goes on")
			f.Remove()
		}
		a.done.WantErr("run", tt.want)
		a.done.WantErr("run", manager.ErrUnknownOutcome)
		f.Remove()
		if n := len(c.Srv.Children(lockDir)); n != 0 {
			t.Errorf("%d nodes are left in the queue", n)
		}
	})
}

// A process that has been told to stop in the middle of a run asks again, too, whether the run was noted.
func TestF354_OutcomeUnknownAfterTheEnd(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", everyMinute())
		a.job = func(context.Context, cron.Tick) error {
			a.stop()
			c.Srv.Faults().FailRequest(zktest.Match{Session: recipetest.SessionOf(a.m), Op: zktest.OpMulti, Path: recordPath, Times: 1}, zktest.CodeRuntimeInconsistency)
			return nil
		}
		a.start()
		recipetest.Later(61 * time.Second)
		a.done.WantErr("run", context.Canceled)
		if r := record(c); r.State != cron.StateDone {
			t.Errorf("the record is %+v", r)
		}
	})
}

// Whichever request of Begin is lost, or the answer to it, the schedule begins once, and nothing is lost of
// what is planned after it.
func TestF354_BeginIsLost(t *testing.T) {
	recipetest.Bubbles(t, recipetest.Lost, func(t *testing.T, c *recipetest.Cluster, lose recipetest.Fault) {
		a := open(c, "a", everyMinute())
		v := &recipetest.Victim{Cluster: c, M: a.m}
		f := lose(v, zktest.Match{Session: recipetest.SessionOf(a.m), Op: zktest.OpCreate, Times: 1})
		begun := time.Now()
		recipetest.WantErr(t, "begin", a.c.Begin(t.Context()), nil)
		if r := record(c); f.Hits() == 0 || r.State != cron.StateNew || r.Planned.Before(begun) || time.Since(r.Planned) > time.Minute {
			t.Errorf("%d hits, and the record is %+v", f.Hits(), r)
		}
	})
}

// A clock was ahead by a year when the job was run: nothing is planned for a year then. An operator has the
// schedule begin anew.
func TestF356_BeginsAnew(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const year = 365 * 24 * time.Hour
		a := open(c, "a", everyMinute())
		a.offset.Store(int64(year))
		a.start()
		recipetest.Later(61 * time.Second)
		a.offset.Store(0)
		recipetest.Later(time.Hour)
		wantTold(a, "ahead 00:01:00")
		want(a, "00:01:00")
		c.Remove(recordPath)
		operator := open(c, "operator", everyMinute())
		recipetest.WantErr(t, "revoke", operator.c.Lock().Revoke(t.Context(), "begin anew"), nil)
		recipetest.Later(time.Minute)
		if runs := a.all(); len(runs) != 2 || time.Since(runs[1].Planned) > time.Minute {
			t.Errorf("%v", runs)
		}
		a.end()
	})
}

// A record that is far in the future and is set back by another client counts within seconds. One that is
// deleted then stays away, however late the lock is revoked after that.
func TestF356_SetBackWhileAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	revoke := func(c *recipetest.Cluster) {
		recipetest.Later(time.Minute)
		recipetest.WantErr(c.T, "revoke", open(c, "operator", everyMinute()).c.Lock().Revoke(c.T.Context(), "begin anew"), nil)
	}
	recipetest.Bubbles(t, map[string]struct {
		mend func(c *recipetest.Cluster)
		err  error
	}{
		"set back": {func(c *recipetest.Cluster) {
			data, err := json.Marshal(cron.Record{Planned: time.Now().UTC(), State: cron.StateDone, ID: "operator"})
			if err == nil {
				err = c.Srv.Set(recordPath, data)
			}
			recipetest.WantErr(c.T, "set", err, nil)
		}, nil},
		"garbage": {func(c *recipetest.Cluster) {
			recipetest.WantErr(c.T, "set", c.Srv.Set(recordPath, []byte("garbage")), nil)
		}, cron.ErrBadRecord},
		"deleted": {func(c *recipetest.Cluster) { c.Remove(recordPath); revoke(c) }, nil},
		"deleted and begun": {func(c *recipetest.Cluster) {
			c.Remove(recordPath)
			recipetest.WantErr(c.T, "begin", open(c, "b", everyMinute()).c.Begin(c.T.Context()), nil)
			revoke(c)
		}, nil},
	}, func(t *testing.T, c *recipetest.Cluster, tt struct {
		mend func(c *recipetest.Cluster)
		err  error
	}) {
		a := open(c, "a", everyMinute())
		a.offset.Store(int64(year))
		a.start()
		recipetest.Later(61 * time.Second)
		a.offset.Store(0)
		reads := c.Count(func() { recipetest.Later(10 * time.Minute) })
		if n := reads[zktest.OpGetData]; n < 50 || n > 70 {
			t.Errorf("the record was read %d times in ten minutes", n)
		}
		want(a, "00:01:00")
		tt.mend(c)
		recipetest.Later(100 * time.Second)
		if tt.err != nil {
			a.done.WantErr("run", tt.err)
			return
		}
		if runs := a.all(); len(runs) < 2 || time.Since(runs[len(runs)-1].Planned) > time.Minute {
			t.Errorf("%v", runs)
		}
		wantTold(a, "ahead 00:01:00")
		a.end()
	})
}
