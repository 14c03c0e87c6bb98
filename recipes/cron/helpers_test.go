// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/cron"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
)

const (
	name       = "reports"
	lockDir    = "/holdfast/reports/lock"
	recordPath = "/holdfast/reports/record"
)

// A process has a Cron, runs it, and notes its runs and events.
type process struct {
	t  *testing.T
	id string
	m  *manager.Manager
	c  *cron.Cron

	offset atomic.Int64 // of its clock
	job    func(ctx context.Context, t cron.Tick) error

	mu     sync.Mutex // protects what follows
	ticks  []cron.Tick
	events []cron.Event

	stop func()
	done *recipetest.Pending[struct{}]
}

// open returns a process whose job takes no time. It is not running yet.
func open(c *recipetest.Cluster, id string, o cron.Options) *process {
	c.T.Helper()
	return openWith(c.T, c.Open(id), id, o)
}

func openWith(t *testing.T, m *manager.Manager, id string, o cron.Options) *process {
	t.Helper()
	p := &process{t: t, id: id, m: m}
	o.ID = id
	o.OnEvent = func(e cron.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, e)
	}
	o.Now = p.now
	var err error
	if p.c, err = cron.New(m, name, o); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) now() time.Time { return time.Now().Add(time.Duration(p.offset.Load())) }

// run notes a run.
func (p *process) run(ctx context.Context, t cron.Tick) error {
	p.mu.Lock()
	p.ticks = append(p.ticks, t)
	p.mu.Unlock()
	if of, ok := cron.TickOf(ctx); !ok || of != t {
		p.t.Errorf("the context's tick is %+v, want %+v", of, t)
	}
	if p.job == nil {
		return nil
	}
	return p.job(ctx, t)
}

// start begins to run; end ends that.
func (p *process) start() *process {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.done = recipetest.BeginErr(p.t, func() error { return p.c.Run(ctx, p.run) })
	return p
}

func (p *process) end() {
	p.t.Helper()
	p.stop()
	p.done.WantErr(p.id+" ends", context.Canceled)
}

// all returns the runs so far.
func (p *process) all() []cron.Tick {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]cron.Tick(nil), p.ticks...)
}

// planned returns the planned times of the runs so far, as the offset from the first full minute
// after begin, with the attempt if it is not the first.
func (p *process) planned() (all []string) {
	for _, t := range p.all() {
		text := t.Planned.Format("15:04:05")
		if t.Attempt != 1 {
			text += fmt.Sprintf(" attempt %d", t.Attempt)
		}
		if t.Missed != 0 {
			text += fmt.Sprintf(" missed %d", t.Missed)
		}
		all = append(all, text)
	}
	return all
}

// told returns the events so far.
func (p *process) told() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		const layout = "15:04:05"
		planned := e.Tick.Planned.Format(layout)
		all = append(all, map[cron.EventKind]string{
			cron.EventFailed:      fmt.Sprint("failed ", planned, " ", e.Err),
			cron.EventMissed:      fmt.Sprint("missed ", e.N, " ", e.From.Format(layout), " ", e.To.Format(layout)),
			cron.EventInterrupted: fmt.Sprint("interrupted ", planned, " ", e.Tick.Attempt),
			cron.EventAhead:       fmt.Sprint("ahead ", planned),
		}[e.Kind])
	}
	return all
}

// record returns the record on the embedded server.
func record(c *recipetest.Cluster) (r cron.Record) {
	c.T.Helper()
	data, _, ok := c.Srv.Get(recordPath)
	if !ok {
		return r
	}
	if err := json.Unmarshal(data, &r); err != nil {
		c.T.Errorf("the record %q: %v", data, err)
	}
	return r
}

// untilRunner waits until p is the one that runs the job.
func untilRunner(c *recipetest.Cluster, p *process) {
	c.T.Helper()
	c.Until(p.id+" runs the job", func() bool {
		h, err := p.c.Lock().Holder(context.Background())
		return err == nil && h != nil && h.Own
	})
	recipetest.Later(time.Second)
}

var errJob = errors.New("the report is wrong")
