// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/holdfast-go/holdfast/manager/inspect"
)

type topCmd struct {
	Prefix   string        `arg:"" optional:"" help:"Only this lock, and those whose names continue it after a slash."`
	Interval time.Duration `default:"1s" placeholder:"D" help:"The time between two looks."`
	Rate     int           `default:"5000" placeholder:"N" help:"Send this many reads a second at most, after the first look. A look takes one for each lock, and one or two more for each that has changed hands."`
}

// Help is shown by holdfast top --help.
func (*topCmd) Help() string {
	return `Shows the busy locks in a table that refreshes itself: how many processes wait for each, how long the first of them has waited, for how long the lock has been held and by which process, and how often it changes hands. The lock whose waiter has waited for the longest is on top. It creates no node.

Keys: up, down, page up, page down, home, end to move; enter to see a lock's queue; esc to go back; s and S to sort by the next or the previous column; / to filter by a part of a lock's name or of its holder's, esc to end that; q or Ctrl-C to quit.

LONGEST and the age of a queue's contenders are since the process queued. HELD is since top saw the lock change hands. Of a holder that was there before, top knows only when it queued: ≤ says so.

Examples:
  holdfast top
  holdfast top --interval 5s jobs`
}

// Run shows the table until the user quits.
func (c *topCmd) Run(a *app) error {
	switch {
	case c.Interval <= 0 || c.Rate <= 0:
		return usagef("--interval and --rate must be positive")
	case a.JSON || !isTerminal(a.stdin) || !isTerminal(a.stdout):
		return usagef("top draws on a terminal; for facts, see holdfast ls --json and holdfast watch --json")
	}
	prefix := strings.TrimSuffix(c.Prefix, "/")
	silent := *a
	silent.stderr = io.Discard // a log line would spoil the screen; the second line tells of an outage
	s, err := silent.source(prefix)
	if err != nil {
		return err
	}
	defer s.close()
	screen, err := tcell.NewScreen()
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return failed("draw on this terminal", "", err)
	}
	defer screen.Fini()
	t := &topScreen{screen: screen, color: a.color(), servers: a.Servers, root: s.root, prefix: prefix, client: s.client}
	return c.show(a.ctx, t, &topReads{source: s, survey: s.Survey(prefix), interval: c.Interval, rate: c.Rate})
}

// show draws what the reads show, and what the user asks for, until the user quits, ctx
// ends, or the reads fail for good.
func (c *topCmd) show(ctx context.Context, t *topScreen, reads *topReads) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	news := make(chan topNews)
	opened := make(chan string, 1)
	running.Go(func() { reads.list(ctx, news) })
	running.Go(func() { reads.queue(ctx, opened, news) })

	events := make(chan tcell.Event)
	running.Go(func() { t.screen.ChannelEvents(events, ctx.Done()) })
	second := time.NewTicker(time.Second) // ages grow
	defer second.Stop()
	for {
		t.draw(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
		case n := <-news:
			if n.err != nil && hopeless(n.err) {
				return failed("list the locks", t.prefix, n.err)
			}
			t.take(n)
		case ev, ok := <-events:
			if !ok {
				return nil // the terminal is gone
			}
			switch ev := ev.(type) {
			case *tcell.EventResize:
				t.screen.Sync()
			case *tcell.EventKey:
				was := t.opened
				if t.key(ev) {
					return nil
				}
				if t.opened != was {
					select {
					case <-opened: // not taken yet
					default:
					}
					opened <- t.opened
				}
			}
		}
	}
}

// topNews is what a look has shown: all locks, or the queue of the one that is open.
type topNews struct {
	at    time.Time
	took  time.Duration
	view  *inspect.View
	queue *inspect.Queue
	err   error
}

// topReads looks at the locks again and again.
type topReads struct {
	*source
	survey   *inspect.Survey
	interval time.Duration
	rate     int
}

// list tells of all locks, once in an interval, until ctx ends.
func (r *topReads) list(ctx context.Context, news chan<- topNews) {
	for pause := time.Duration(0); wait(ctx, pause); {
		began := time.Now()
		v, err := r.survey.Look(ctx)
		n := topNews{at: time.Now(), took: time.Since(began), err: err}
		if err == nil {
			n.view = &v
			r.survey.Rate = r.rate // the first look is as fast as that of ls
		}
		tell(ctx, news, n)
		pause = max(r.interval-n.took, r.interval/4)
	}
}

// topContenders is how many contenders of an open lock are read.
const topContenders = 1000

// queue tells of the queue of the lock that is open, until ctx ends. opened has the name of
// that lock; it is empty if none is open any more.
func (r *topReads) queue(ctx context.Context, opened <-chan string, news chan<- topNews) {
	tick := time.NewTicker(r.interval)
	defer tick.Stop()
	name := ""
	for {
		select {
		case name = <-opened:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if name == "" {
			continue
		}
		q, err := r.Queue(ctx, name, topContenders)
		n := topNews{at: time.Now(), err: err}
		if err == nil {
			n.queue = &q
		}
		tell(ctx, news, n)
	}
}

// wait waits for d, and reports false as soon as ctx ends.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func tell(ctx context.Context, news chan<- topNews, n topNews) {
	select {
	case news <- n:
	case <-ctx.Done():
	}
}
