// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
)

// A virtual machine is paused, a laptop sleeps, a system without memory stalls: then every
// process stands still, sessions expire, and workers are late for no fault of the locks.
// So a goroutine of the parent looks at the clocks all the time, and notes when it was kept
// from that.

const (
	// The clocks are looked at so often.
	BeatEvery = 100 * time.Millisecond
	// Being late by less is usual on a busy machine.
	Standstill = time.Second
)

// A pulse notices that the machine stood still. One goroutine uses it.
type pulse struct {
	clock func() history.Anchor
	last  history.Anchor // of the latest beat
}

func newPulse(clock func() history.Anchor) *pulse { return &pulse{clock: clock, last: clock()} }

// beat looks at the clocks. It returns for how long the machine stood still since the last
// beat, and what to say of it; 0 if it did not. On many systems the monotonic clock stops
// while the machine is suspended, and only the date tells.
func (p *pulse) beat() (late time.Duration, what string) {
	now := p.clock()
	mono := time.Duration(now.Mono-p.last.Mono) - BeatEvery
	date := now.Wall.Sub(p.last.Wall) - BeatEvery
	p.last = now
	switch {
	case mono > Standstill:
		return mono, fmt.Sprintf("the machine stood still for %v", mono.Round(100*time.Millisecond))
	case date-max(mono, 0) > Standstill:
		return date, fmt.Sprintf("the machine slept for %v, or its date was changed", date.Round(100*time.Millisecond))
	}
	return 0, ""
}

// watch calls stood each time the machine has stood still, until ctx ends.
func (p *pulse) watch(ctx context.Context, stood func(late time.Duration, what string)) {
	for pause.For(ctx, BeatEvery, nil) {
		if late, what := p.beat(); late > 0 {
			stood(late, what)
		}
	}
}

// watchMachine notes when the machine stood still, until stop is called.
func (p *parent) watchMachine() (stop func()) {
	watching := newPulse(history.TakeAnchor)
	return pause.Beside(func(ctx context.Context) {
		watching.watch(ctx, func(late time.Duration, what string) {
			p.chronicle.Write(history.Event{Kind: history.StoodStill, Process: history.Harness, Lasted: late.Nanoseconds(), Text: what})
			p.reporter.Note("%s: what goes wrong now may be its doing", what)
		})
	})
}
