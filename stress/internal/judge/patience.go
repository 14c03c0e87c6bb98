// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// The check patience: each request ends, and no wait is longer than the processes ahead
// can take, apart from the time in which there were faults.
type patience struct {
	check
	open []*hold // requests, the oldest first; also some that have ended
	next int64   // when to look again
	cut  bool    // the history has no end
}

// slack is what a wait may take beside the holds of others, on a busy machine.
const slack = int64(5 * time.Second)

func (c *patience) init() {
	c.check = check{Check: Check{Name: "every wait ends in time"}, outcome: Failed}
}

// bound returns how long a request of the lock may take. It is 0 if that is not known.
//
// A process gives a lock that another one waits for up after about two tenures, or when
// the hold ends that lasts longest. Each process may be ahead once, with readers and with
// a writer. If the goroutines of a process exclude each other, each may need a turn of its
// own.
func (c *patience) bound(j *Judge, l *lockRecord, h *hold) int64 {
	if j.header.Tenure < 0 || l.Once {
		return 0
	}
	turn := max(2*j.header.Tenure, l.longest)
	for _, o := range l.inside {
		turn = max(turn, j.now-o.granted)
	}
	turns := int64(max(j.header.Processes, 1))
	switch {
	case kind(h.mode) == readWrite:
		turns *= 2
	case h.mode != history.Exclusive:
		turns *= int64(max(j.header.Goroutines, 1))
	}
	return turn*turns + j.header.SessionTimeout + slack
}

// requested notes a request.
func (c *patience) requested(h *hold) { c.open = append(c.open, h) }

// granted judges how long h has waited.
func (c *patience) granted(j *Judge, h *hold) {
	c.Judged++
	c.waited(j, h, h.granted, "was granted lock %q only")
}

// waited judges how long h has waited until that time.
func (c *patience) waited(j *Judge, h *hold, at int64, what string) {
	bound := c.bound(j, h.lock, h)
	wait := at - h.requested
	disturbed := j.faults.outage - h.outage
	if bound == 0 || h.reported || wait-disturbed <= bound {
		return
	}
	h.reported = true
	c.find(j, h.lock, at, "%v "+what+" after %v, from %s to %s, of which %v were disturbed by faults: more than the %v that the processes ahead can take",
		h, h.lock.Name, round(wait), j.when(h.requested), j.when(at), round(disturbed), round(bound))
}

func round(d int64) time.Duration { return time.Duration(d).Round(time.Millisecond) }

// pass judges the requests that are open, now and then.
func (c *patience) pass(j *Judge) {
	if j.now < c.next {
		return
	}
	c.next = j.now + int64(time.Second)
	c.open = slices.DeleteFunc(c.open, func(h *hold) bool { return h.phase != waiting })
	for _, h := range c.open {
		c.waited(j, h, j.now, "still waits for lock %q")
	}
}

// end judges the requests that never ended.
func (c *patience) end(j *Judge) {
	if !j.stopping {
		c.cut = true
		return
	}
	for _, h := range c.open {
		if h.phase == waiting {
			c.Judged++
			c.find(j, h.lock, j.now, "%v has waited for lock %q since %s, and the wait never ended", h, h.lock.Name, j.when(h.requested))
		}
	}
}

// explain says how much was not judged.
func (c *patience) explain(j *Judge) {
	ran := j.now - j.header.Begin
	c.Note = ""
	switch {
	case c.cut:
		c.Note = "the history ends before the workers were told to stop, so requests that are open then are not judged"
	case ran > 0 && j.faults.outage > ran/2 && j.header.Begin > 0:
		c.Note = fmt.Sprintf("faults, or what followed them, made for %.1f s of %.1f s that waits could take longer, which is not held against them", time.Duration(j.faults.outage).Seconds(), time.Duration(ran).Seconds())
	}
}
