// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"sync"
	"time"
)

const (
	// longPause is the shortest pause of this process that is told, for sessions of the
	// usual timeouts. The delays of an ordinary schedule are far below: beside 12 busy
	// processes on 2 processors, none of 160 looks in 40 s was later than 13 ms.
	longPause = time.Second
	// looksInPause is how many looks there are in the shortest pause that is told. A pause
	// is known to a fraction of that.
	looksInPause = 4
)

// A pulse notices that this process has not run for a while: that it was stopped by a
// signal or a debugger, that its machine was suspended, or that it got no processor. What
// follows from that looks like a fault of the servers: answers are late, connections time
// out, leases and the session end.
//
// A goroutine of the client's looks at the clock several times a second. If a look comes
// too late, the process did not run. When it goes on, any goroutine can be the first that
// runs, and find a deadline passed. So all who ask about pauses look as well: the first of
// them notices the pause, before it draws its conclusion.
//
// A look that is late tells how long the process did not run at least: from when the look
// was due. It may have stopped up to an interval earlier.
type pulse struct {
	now      func() time.Duration // the client's clock
	least    time.Duration        // the shortest pause that counts
	interval time.Duration        // between two looks
	paused   func(time.Duration)  // told of each pause; must not block

	mu    sync.Mutex    // protects what follows; nothing else but paused is done under it
	due   time.Duration // when the next look is due
	began time.Duration // of the last pause
	ended time.Duration // … likewise; 0 if there was none
	count uint64
	total time.Duration
	over  bool // there are no looks any more that could be late
}

// newPulse returns the pulse of a client whose sessions have that timeout. A lease lasts
// for at least a third of it without another answer, less the margin: a pause that is
// shorter than that ends no lease by itself.
func newPulse(now func() time.Duration, timeout time.Duration, paused func(time.Duration)) *pulse {
	p := &pulse{now: now, least: min(longPause, timeout/3), paused: paused}
	p.interval = p.least / looksInPause
	p.due = now() + p.interval
	return p
}

// lookLocked looks whether the process has paused until now, and returns the time.
func (p *pulse) lookLocked() time.Duration {
	now := p.now() // under mu: the looks are in the order of their times
	if late := now - p.due; late >= p.least && !p.over {
		p.began, p.ended = p.due, now
		p.count++
		p.total += late
		p.paused(late)
	}
	p.due = now + p.interval
	return now
}

// since returns for how long this process did not run in a pause that explains what it
// missed since then: a third of that time or more. Else it returns 0.
func (p *pulse) since(then time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.lookLocked()
	if p.ended <= then || 3*(p.ended-max(p.began, then)) < now-then {
		return 0
	}
	return p.ended - p.began
}

// last returns how many pauses there were, and how long the last of them was.
func (p *pulse) last() (count uint64, lasted time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookLocked()
	return p.count, p.ended - p.began
}

// stop ends the looks.
func (p *pulse) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}

// stats returns how many pauses there were, and how long they lasted together.
func (p *pulse) stats() (count uint64, total time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookLocked()
	return p.count, p.total
}

// watch looks at the clock until ctx ends, so that pauses and the end of each lease are
// noticed in time, even if no caller asks.
//
// A timer stands still while the machine is suspended. So it looks several times a second,
// and not only when the lease's end is due.
func (c *Client) watch(ctx context.Context) {
	defer c.pulse.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var told uint64
	for {
		if n, last := c.pulse.last(); n > told {
			told = n
			c.logPause(last)
		}
		next := c.pulse.interval
		if s := c.Session(); s != nil {
			if left := s.Lease().Remaining(); left > 0 {
				next = min(next, left)
			}
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-c.leaseBegan:
		case <-ctx.Done():
			return
		}
	}
}

// logPause logs that this process has not run.
func (c *Client) logPause(lasted time.Duration) {
	omitted, ok := c.pauses.allow(c.clock.now())
	if !ok {
		return
	}
	args := []any{"for", roundly(lasted)}
	if s := c.Session(); s != nil {
		args = append(args, "session", sessionID(s))
	}
	if omitted > 0 {
		args = append(args, "not logged since the last", omitted)
	}
	c.cfg.Logger.Warn("this process did not run for a while: it was stopped or suspended, or got no processor", args...)
}

// A pausedError is the end of a wait that this process has not lived through.
type pausedError time.Duration

func (e pausedError) Error() string {
	return "this process did not run for " + roundly(time.Duration(e)).String()
}
