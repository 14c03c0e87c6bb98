// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	robfig "github.com/robfig/cron/v3"

	adapter "github.com/holdfast-go/holdfast/adapters/cron"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/cron"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

var quiet = slog.New(slog.DiscardHandler)

// bubble runs test in virtual time with a server.
func bubble(t *testing.T, test func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(zktest.Config{Logger: quiet})
		t.Cleanup(func() { _ = srv.Close() })
		test(t, srv)
	})
}

// A log is a robfig Logger that keeps the lines.
type log struct {
	mu    sync.Mutex // protects lines
	lines []string
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *log) Info(msg string, _ ...any)             { l.add(msg) }
func (l *log) Error(err error, msg string, _ ...any) { l.add(msg + ": " + err.Error()) }

func (l *log) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool { return strings.Contains(line, text) })
}

func open(t *testing.T, srv *zktest.Server) *manager.Manager {
	t.Helper()
	m, err := manager.Open(t.Context(), manager.Config{Servers: []string{"zk"}, Dialer: srv.Dial, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// A process has a robfig Cron of its own.
type process struct {
	m    *manager.Manager
	c    *robfig.Cron
	once *adapter.Once
	log  log
}

// start starts a process whose job is made by job.
func start(t *testing.T, srv *zktest.Server, spec string, o cron.Options, job func(p *process) robfig.Job) *process {
	t.Helper()
	p := &process{m: open(t, srv), c: robfig.New(robfig.WithLocation(time.UTC), robfig.WithChain(robfig.Recover(robfig.DiscardLogger)))}
	schedule, err := robfig.ParseStandard(spec)
	if err != nil {
		t.Fatal(err)
	}
	o.Location = p.c.Location()
	if p.once, err = adapter.New(t.Context(), p.m, "reports", schedule, &p.log, o); err != nil {
		t.Fatal(err)
	}
	p.c.Schedule(schedule, job(p))
	p.c.Start()
	t.Cleanup(func() { <-p.c.Stop().Done() })
	return p
}

// runs counts the runs by planned time.
type runs struct {
	mu      sync.Mutex // protects what follows
	planned map[time.Time]int
	tokens  []uint64
}

func (r *runs) note(t cron.Tick) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.planned[t.Planned]++
	r.tokens = append(r.tokens, t.Token)
}

func (r *runs) check(t *testing.T, want int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for planned, n := range r.planned {
		if n != 1 || planned.Second() != 0 {
			t.Errorf("%d runs are planned for %v", n, planned)
		}
	}
	if len(r.planned) != want || !slices.IsSorted(r.tokens) {
		t.Errorf("%d planned times were run, want %d; tokens %v", len(r.planned), want, r.tokens)
	}
}

// Three processes fire at each minute, and one of them runs the job, even if one dies.
func TestOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		r := runs{planned: make(map[time.Time]int)}
		var all []*process
		for range 3 {
			all = append(all, start(t, srv, "* * * * *", cron.Options{Missed: cron.RunAll}, func(p *process) robfig.Job {
				return p.once.Job(func(_ context.Context, tick cron.Tick) error { r.note(tick); return nil })
			}))
		}
		time.Sleep(10*time.Minute + time.Second)
		r.check(t, 10)
		_ = all[0].m.Close()
		time.Sleep(10 * time.Minute)
		r.check(t, 20)
		if !all[0].log.has("skip") { // it still fires
			t.Errorf("the one that is closed logs %q", all[0].log.lines)
		}
		last, err := all[1].once.Cron().Last(t.Context())
		if err != nil || last.State != cron.StateDone || last.Planned.Minute() != 20 {
			t.Errorf("%+v, %v", last, err)
		}
	})
}

// A job without a context is wrapped, in a chain. A run that takes longer than to the next firing makes those
// firings do nothing, and what they were for is run afterwards.
func TestWrap(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		var mu sync.Mutex // protects what follows
		inside, ran := 0, 0
		job := robfig.FuncJob(func() {
			mu.Lock()
			inside++
			ran++
			if inside > 1 {
				t.Error("two runs at a time")
			}
			mu.Unlock()
			time.Sleep(90 * time.Second)
			mu.Lock()
			inside--
			mu.Unlock()
		})
		var all []*process
		for range 3 {
			all = append(all, start(t, srv, "* * * * *", cron.Options{Missed: cron.RunAll}, func(p *process) robfig.Job {
				return robfig.NewChain(p.once.Wrap).Then(job)
			}))
		}
		time.Sleep(10*time.Minute + 50*time.Second)
		mu.Lock()
		if ran != 6 { // at 1:00, at 3:00 for 2:00 and 3:00, and, at 6:00 or 7:00, for what is due then
			t.Errorf("%d runs", ran)
		}
		mu.Unlock()
		for _, p := range all {
			p.c.Stop()
		}
		for _, p := range all {
			if !p.log.has("skip") {
				t.Errorf("no firing did nothing: %q", p.log.lines)
			}
		}
	})
}

// Failures and panics are told, and the schedule goes on.
func TestFails(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		var n atomic.Int32
		p := start(t, srv, "* * * * *", cron.Options{}, func(p *process) robfig.Job {
			return p.once.Job(func(_ context.Context, tick cron.Tick) error {
				i := n.Add(1)
				if i == 2 {
					panic("no paper")
				}
				return fmt.Errorf("run %d fails", i)
			})
		})
		time.Sleep(3*time.Minute + time.Second)
		if n.Load() != 3 || !p.log.has("run 3 fails") || !p.log.has("was interrupted") {
			t.Errorf("%d runs, and the log is %q", n.Load(), p.log.lines)
		}
		if err := srv.Set("/holdfast/reports/record", []byte("garbage")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n.Load() != 3 || !p.log.has("not run: ") {
			t.Errorf("%d runs, and the log is %q", n.Load(), p.log.lines)
		}
	})
}

func TestNew(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := open(t, srv)
		every := cron.Every(time.Minute)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for what, tt := range map[string]struct {
			ctx      context.Context
			schedule robfig.Schedule
			o        cron.Options
			want     error
		}{
			"no schedule":   {t.Context(), nil, cron.Options{}, manager.ErrBadConfig},
			"two schedules": {t.Context(), every, cron.Options{Schedule: every}, manager.ErrBadConfig},
			"ctx has ended": {ended, every, cron.Options{}, context.Canceled},
			"all is well":   {t.Context(), every, cron.Options{}, nil},
		} {
			if _, err := adapter.New(tt.ctx, m, "reports", tt.schedule, nil, tt.o); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", what, err, tt.want)
			}
		}
	})
}

// A job that has begun is not said to be "not run".
func TestLostDuringTheRun(t *testing.T) {
	for name, end := range map[string]func(srv *zktest.Server, m *manager.Manager){
		"lost":   func(srv *zktest.Server, m *manager.Manager) { srv.ExpireSession(m.Access().Session().ID()) },
		"closed": func(_ *zktest.Server, m *manager.Manager) { _ = m.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				p := start(t, srv, "* * * * *", cron.Options{}, func(p *process) robfig.Job {
					return p.once.Job(func(ctx context.Context, _ cron.Tick) error {
						end(srv, p.m)
						<-ctx.Done()
						return nil
					})
				})
				time.Sleep(time.Minute + time.Second)
				if !p.log.has("the lock was lost after the run began") || p.log.has("not run") || p.log.has("skip") {
					t.Errorf("the log is %q", p.log.lines)
				}
			})
		})
	}
}

// The order that the documentation says ends in an outage, too, and waits for the run under way.
func TestStop(t *testing.T) {
	for _, outage := range []bool{false, true} {
		t.Run(fmt.Sprint("outage ", outage), func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				var ended atomic.Bool
				p := start(t, srv, "* * * * *", cron.Options{}, func(p *process) robfig.Job {
					return p.once.Job(func(ctx context.Context, _ cron.Tick) error {
						select {
						case <-time.After(30 * time.Second):
							ended.Store(true)
						case <-ctx.Done():
						}
						return ctx.Err()
					})
				})
				if outage {
					srv.Stop()
				}
				time.Sleep(time.Minute + time.Second)
				stopped := p.c.Stop()
				synctest.Wait()
				if stopped.Err() != nil {
					t.Error("no firing was under way")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				if err := p.m.Shutdown(ctx); err != nil && !outage {
					t.Error(err)
				}
				synctest.Wait()
				if stopped.Err() == nil || ended.Load() == outage {
					t.Errorf("stopped: %v; the run has ended: %v", stopped.Err(), ended.Load())
				}
			})
		})
	}
}
