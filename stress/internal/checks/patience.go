// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Patience is a check: each request ends, and no wait is longer than the processes ahead
// can take, apart from the time in which faults kept it waiting, which package scene
// knows.
type Patience struct {
	Check
	open   []*request // the oldest first; also some that have ended
	of     map[*scene.Hold]*request
	next   int64 // when to look again
	looked int64 // when it was looked last
	Oldest int64 // nothing that began before is judged any more, but for what was found
	cut    bool  // the history has no end
	tally  tally
	// How long requests that might have begun at any moment would have had no excuse, and of how long.
	free, sampled int64
}

// A request is a hold that is waited for.
type request struct {
	*scene.Hold
	before   []*scene.Hold // for a mutex: the holds of its process that are granted before it
	reported bool          // that it has waited too long
}

// memorable is for how long faults and holds are remembered beyond the oldest request that
// is open, since an event may be told late.
const memorable = int64(time.Minute)

// NewPatience returns the check at the beginning of a run.
func NewPatience() Patience {
	return Patience{Check: New(verdict.Patience), of: map[*scene.Hold]*request{}}
}

// Judges reports whether there is a bound for how long requests of the lock may take.
func (c *Patience) Judges(sc *scene.Scene, l *scene.Lock) bool {
	return sc.Header.Tenure >= 0 && !l.Once
}

// bound returns how long h may wait until that time.
//
// A process lets no further goroutine in after about two tenures if another process waits
// for the lock, and gives it up when the last of those that are inside leaves. Each process
// may be ahead once, in each mode.
func (c *Patience) bound(sc *scene.Scene, h *request, at int64) int64 {
	bound := sc.Header.SessionTimeout + scene.Slack
	for _, l := range h.Locks() {
		tenure := 2 * sc.Header.Tenure
		if sc.Header.Workload == "all" {
			// A wait for several locks keeps the first places that it has for up to 16 tenures,
			// as if it held the locks.
			tenure += 16 * sc.Header.Tenure
		}
		tenures := tenure * int64(max(sc.Header.Processes, 1)*l.Modes())
		switch {
		case h.Mode == history.Permit, sc.Header.Contender != "":
			// Each goroutine queues by itself, behind all others.
			bound += int64(max(sc.Header.Goroutines, 1)) * (l.Holds(h.Requested, at, h.Hold, true) + tenures)
		case h.Mode == history.Mutex:
			own, stays := h.queue(at)
			bound += own + stays*(l.Holds(h.Requested, at, h.Hold, false)+tenures)
		default:
			bound += l.Holds(h.Requested, at, h.Hold, true) + tenures
		}
	}
	return bound
}

// queue returns how long those goroutines of its process held the mutex until that time that
// were before h, and in how many stays of the process h comes to hold it.
//
// The goroutines of a process get a mutex in the order in which they asked, each once. So h
// waits for those that were before it, for as long as they did hold it. The process may have
// to give the mutex up in between, and queue again behind each other process, once for each
// stay in which it held the mutex. Each of those may then let several goroutines in, but only
// for two tenures, and the last of them may stay for as long as the longest.
func (h *request) queue(at int64) (own, stays int64) {
	stays = 1
	for i, o := range h.before {
		own += max(0, min(o.End(), at)-max(o.Granted, h.Requested))
		if i == 0 || o.Fence.Token != h.before[i-1].Fence.Token {
			stays++
		}
	}
	return own, stays
}

// precedes notes that h has been granted a mutex, for those goroutines of its process that
// wait: for those that asked later, or so short a time before that h may have been in the
// queue first.
func (c *Patience) precedes(h *scene.Hold) {
	for _, o := range c.open {
		if o.Phase == scene.Waiting && o.Lock == h.Lock && o.Process == h.Process && h.Requested <= o.Requested+scene.Reaction {
			o.before = append(o.before, h)
		}
	}
}

// Requested notes a request.
func (c *Patience) Requested(h *scene.Hold) {
	r := &request{Hold: h}
	c.open = append(c.open, r)
	c.of[h] = r
	if h.Mode != history.Mutex {
		return
	}
	for _, o := range h.Lock.Inside {
		if o.Process == h.Process {
			r.before = append(r.before, o)
		}
	}
}

// Granted notes that h has been granted, and judges how long it has waited.
func (c *Patience) Granted(sc *scene.Scene, h *scene.Hold) {
	c.judge(sc, h)
	delete(c.of, h)
	if h.Mode == history.Mutex {
		c.precedes(h)
	}
}

// judge judges how long h has waited, which has been granted.
func (c *Patience) judge(sc *scene.Scene, h *scene.Hold) {
	if !c.Judges(sc, h.Lock) {
		return
	}
	c.Judged++
	r := c.of[h]
	if r == nil || h.Granted == h.Requested {
		return // it was not asked for
	}
	excused, bound := sc.Excuses.Waiting(sc, h, h.Granted), c.bound(sc, r, h.Granted)
	c.tally.add(h.Granted-h.Requested, excused, bound)
	c.waited(sc, r, h.Granted, excused, bound, "was granted lock %q only")
}

// waited judges how long h has waited until that time.
func (c *Patience) waited(sc *scene.Scene, h *request, at, excused, bound int64, what string) {
	wait := at - h.Requested
	if h.reported || wait-excused <= bound {
		return
	}
	h.reported = true
	c.find(sc, h.Lock, at, "%v "+what+" after %v, from %s to %s, of which %v were disturbed by faults: more than the %v that the processes ahead can take",
		h, h.Lock.Name, round(wait), sc.When(h.Requested), sc.When(at), round(excused), round(bound))
}

func round(d int64) time.Duration { return time.Duration(d).Round(time.Millisecond) }

// Pass judges the requests that are open, now and then. What was asked of holders is judged
// from the time asked on, and no fault since then is forgotten.
func (c *Patience) Pass(sc *scene.Scene, asked int64) {
	if sc.Now < c.next {
		return
	}
	c.next = sc.Now + int64(time.Second)
	c.open = slices.DeleteFunc(c.open, func(r *request) bool {
		if r.Phase != scene.Waiting {
			delete(c.of, r.Hold)
		}
		return r.Phase != scene.Waiting
	})
	oldest := sc.Now
	for _, h := range c.open {
		if h.reported || !c.Judges(sc, h.Lock) {
			continue
		}
		oldest = min(oldest, h.Requested)
		if bound := c.bound(sc, h, sc.Now); sc.Now-h.Requested > bound {
			c.waited(sc, h, sc.Now, sc.Excuses.Waiting(sc, h.Hold, sc.Now), bound, "still waits for lock %q")
		}
	}
	c.Oldest = min(oldest, asked) - memorable
	sc.Excuses.Forget(sc, c.Oldest)
	c.sample(sc)
}

// sample looks what part of the requests that could be made now would have an excuse.
func (c *Patience) sample(sc *scene.Scene) {
	since := sc.Now - c.looked
	if c.looked == 0 {
		since = 0
	}
	c.looked = sc.Now
	if sc.Stopping {
		return
	}
	for _, l := range sc.Locks {
		if l.Passing || !c.Judges(sc, l) {
			continue
		}
		for _, p := range sc.Processes {
			if p.Over {
				continue
			}
			c.sampled += since
			if !sc.Excuses.Touches(sc, p, l) {
				c.free += since
			}
		}
	}
}

// End judges the requests that never ended.
func (c *Patience) End(sc *scene.Scene) {
	if !sc.Stopping {
		c.cut = true
		return
	}
	for _, h := range c.open {
		if h.Phase == scene.Waiting {
			c.Unanswered(sc, h.Hold)
		}
	}
}

// Unanswered notes that the worker's process, or the run, has ended before the wait.
func (c *Patience) Unanswered(sc *scene.Scene, h *scene.Hold) {
	c.Judged++
	c.find(sc, h.Lock, sc.Now, "%v has waited for lock %q since %s, and the wait never ended", h, h.Lock.Name, sc.When(h.Requested))
}

// Explain says how much was not judged.
func (c *Patience) Explain(sc *scene.Scene) {
	c.Note = c.tally.note(sc, "%s of %s waits had no excuse")
	if c.Note != "" && c.sampled > 0 {
		c.Note += fmt.Sprintf("; of the waits that might have begun at any moment, %.0f %% would have had no excuse", 100*float64(c.free)/float64(c.sampled))
	}
	if c.cut {
		c.Note = strings.TrimPrefix(c.Note+"; ", "; ") + "the history ends before the workers were told to stop, so requests that are open then are not judged"
	}
}
