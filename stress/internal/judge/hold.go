// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A phase is how far a hold is.
type phase int

const (
	waiting phase = iota
	inside
	releasing
	over
)

// A hold is an acquisition of a worker, from its request to the end of its release.
type hold struct {
	process *process
	worker  int
	op      uint64
	lock    *lockRecord
	mode    history.Mode
	fence   fence
	permits int
	session string
	phase   phase

	requested, granted int64
	asked              int64 // when its process first asked for what it has under the token
	ended              int64 // when it was released or told lost
	known              int64 // when the worker has last been told that it holds the lock
	outage             int64 // how long there had been outages when it was requested
	reported           bool  // that it has waited too long
	revoked            int64 // when the revocation began that the worker is to be told of
	possession         *possession
}

// begin returns a new hold, for the first event of it.
func (j *Judge) begin(p *process, e history.Event) *hold {
	l := j.lock(e.Lock, e.Mode)
	h := &hold{process: p, worker: e.Worker, op: e.Op, lock: l, mode: e.Mode}
	if h.mode == "" {
		h.mode = l.Mode
	}
	if h.mode == "" {
		h.mode = history.Exclusive
	}
	if old := p.holds[e.Op]; old != nil {
		j.drop(old)
	}
	p.holds[e.Op] = h
	l.open++
	p.count(waiting, 1)
	return h
}

// hold returns the hold that e is about, or nil if it is over.
func (j *Judge) hold(e history.Event) *hold { return j.process(e).holds[e.Op] }

// end returns when h ended, or a time that is not reached if it has not.
func (h *hold) end() int64 {
	if h.ended == 0 {
		return 1<<63 - 1
	}
	return h.ended
}

// String says which hold it is.
func (h *hold) String() string {
	s := fmt.Sprintf("process %d, worker %d", h.process.number, h.worker)
	if h.process.incarnation > 0 {
		s = fmt.Sprintf("process %d (start %d), worker %d", h.process.number, h.process.incarnation+1, h.worker)
	}
	if kind(h.mode) != exclusive {
		s += ", " + string(h.mode)
	}
	if h.fence.token != 0 {
		s += ", " + h.fence.String()
	}
	return s
}
