// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// The check patience: each request ends, and no wait is longer than the processes ahead
// can take, apart from the time in which faults kept it waiting: see excuses.
type patience struct {
	check
	open   []*request // the oldest first; also some that have ended
	of     map[*hold]*request
	next   int64 // when to look again
	looked int64 // when it was looked last
	oldest int64 // nothing that began before is judged any more, but for what was found
	cut    bool  // the history has no end
	tally  tally
	free   share
}

// A request is a hold that is waited for.
type request struct {
	*hold
	before   []*hold // for a mutex: the holds of its process that are granted before it
	reported bool    // that it has waited too long
}

// memorable is for how long faults and holds are remembered beyond the oldest request that
// is open, since an event may be told late.
const memorable = int64(time.Minute)

func (c *patience) init() {
	c.check, c.of = newCheck(verdict.Patience), map[*hold]*request{}
}

// judges reports whether there is a bound for how long requests of the lock may take.
func (c *patience) judges(sc *scene, l *lockRecord) bool { return sc.header.Tenure >= 0 && !l.Once }

// bound returns how long h may wait until that time.
//
// A process lets no further goroutine in after about two tenures if another process waits
// for the lock, and gives it up when the last of those that are inside leaves. Each process
// may be ahead once, in each mode.
func (c *patience) bound(sc *scene, h *request, at int64) int64 {
	bound := sc.header.SessionTimeout + slack
	for _, l := range h.locks() {
		tenure := 2 * sc.header.Tenure
		if sc.header.Workload == "all" {
			// A wait for several locks keeps the first places that it has for up to 16 tenures,
			// as if it held the locks.
			tenure += 16 * sc.header.Tenure
		}
		tenures := tenure * int64(max(sc.header.Processes, 1)*l.modes())
		switch h.mode {
		case history.Mutex:
			own, stays := h.queue(at)
			bound += own + stays*(l.holds(h.requested, at, h.hold, false)+tenures)
		case history.Permit:
			// Each goroutine queues by itself, behind all others.
			bound += int64(max(sc.header.Goroutines, 1)) * (l.holds(h.requested, at, h.hold, true) + tenures)
		default:
			bound += l.holds(h.requested, at, h.hold, true) + tenures
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
		own += max(0, min(o.end(), at)-max(o.granted, h.requested))
		if i == 0 || o.fence.token != h.before[i-1].fence.token {
			stays++
		}
	}
	return own, stays
}

// precedes notes that h has been granted a mutex, for those goroutines of its process that
// wait: for those that asked later, or so short a time before that h may have been in the
// queue first.
func (c *patience) precedes(h *hold) {
	for _, o := range c.open {
		if o.phase == waiting && o.lock == h.lock && o.process == h.process && h.requested <= o.requested+reaction {
			o.before = append(o.before, h)
		}
	}
}

// requested notes a request.
func (c *patience) requested(h *hold) {
	r := &request{hold: h}
	c.open = append(c.open, r)
	c.of[h] = r
	if h.mode != history.Mutex {
		return
	}
	for _, o := range h.lock.inside {
		if o.process == h.process {
			r.before = append(r.before, o)
		}
	}
}

// granted notes that h has been granted, and judges how long it has waited.
func (c *patience) granted(sc *scene, h *hold) {
	c.judge(sc, h)
	delete(c.of, h)
	if h.mode == history.Mutex {
		c.precedes(h)
	}
}

// judge judges how long h has waited, which has been granted.
func (c *patience) judge(sc *scene, h *hold) {
	if !c.judges(sc, h.lock) {
		return
	}
	c.Judged++
	r := c.of[h]
	if r == nil || h.granted == h.requested {
		return // it was not asked for
	}
	excused, bound := sc.excuses.waiting(sc, h, h.granted), c.bound(sc, r, h.granted)
	c.tally.add(h.granted-h.requested, excused, bound)
	c.waited(sc, r, h.granted, excused, bound, "was granted lock %q only")
}

// waited judges how long h has waited until that time.
func (c *patience) waited(sc *scene, h *request, at, excused, bound int64, what string) {
	wait := at - h.requested
	if h.reported || wait-excused <= bound {
		return
	}
	h.reported = true
	c.find(sc, h.lock, at, "%v "+what+" after %v, from %s to %s, of which %v were disturbed by faults: more than the %v that the processes ahead can take",
		h, h.lock.Name, round(wait), sc.when(h.requested), sc.when(at), round(excused), round(bound))
}

func round(d int64) time.Duration { return time.Duration(d).Round(time.Millisecond) }

// pass judges the requests that are open, now and then. What was asked of holders is judged
// from the time asked on, and no fault since then is forgotten.
func (c *patience) pass(sc *scene, asked int64) {
	if sc.now < c.next {
		return
	}
	c.next = sc.now + int64(time.Second)
	c.open = slices.DeleteFunc(c.open, func(r *request) bool {
		if r.phase != waiting {
			delete(c.of, r.hold)
		}
		return r.phase != waiting
	})
	oldest := sc.now
	for _, h := range c.open {
		if h.reported || !c.judges(sc, h.lock) {
			continue
		}
		oldest = min(oldest, h.requested)
		if bound := c.bound(sc, h, sc.now); sc.now-h.requested > bound {
			c.waited(sc, h, sc.now, sc.excuses.waiting(sc, h.hold, sc.now), bound, "still waits for lock %q")
		}
	}
	c.oldest = min(oldest, asked) - memorable
	sc.excuses.forget(sc, c.oldest)
	c.sample(sc)
}

// sample looks what part of the requests that could be made now would have an excuse.
func (c *patience) sample(sc *scene) {
	since := sc.now - c.looked
	if c.looked == 0 {
		since = 0
	}
	c.looked = sc.now
	if sc.stopping {
		return
	}
	for _, l := range sc.locks {
		if l.passing || !c.judges(sc, l) {
			continue
		}
		for _, p := range sc.processes {
			if !p.over {
				c.free.add(since, !sc.excuses.touches(sc, p, l))
			}
		}
	}
}

// end judges the requests that never ended.
func (c *patience) end(sc *scene) {
	if !sc.stopping {
		c.cut = true
		return
	}
	for _, h := range c.open {
		if h.phase == waiting {
			c.unanswered(sc, h.hold)
		}
	}
}

// unanswered notes that the worker's process, or the run, has ended before the wait.
func (c *patience) unanswered(sc *scene, h *hold) {
	c.Judged++
	c.find(sc, h.lock, sc.now, "%v has waited for lock %q since %s, and the wait never ended", h, h.lock.Name, sc.when(h.requested))
}

// explain says how much was not judged.
func (c *patience) explain(sc *scene) {
	c.Note = c.tally.note(sc, "%s of %s waits had no excuse")
	if c.Note != "" && c.free.all > 0 {
		c.Note += fmt.Sprintf("; of the waits that might have begun at any moment, %.0f %% would have had no excuse", c.free.percent())
	}
	if c.cut {
		c.Note = strings.TrimPrefix(c.Note+"; ", "; ") + "the history ends before the workers were told to stop, so requests that are open then are not judged"
	}
}
