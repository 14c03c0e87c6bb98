// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// An id identifies a worker process.
type id struct{ number, incarnation int }

// A process is a worker process.
type process struct {
	id
	holds   map[uint64]*hold // by their ops
	counts  [over]int        // of them, by phases
	session string           // the present one
	since   int64            // when that began
	grips   map[*lockRecord]*grip
	stops   stops
	began   int64 // when it was started, as far as the history tells
	wrote   bool  // something
	over    bool
	end     int64 // when it ended
	atEnd   [over]int
	had     []string // names of the locks that it held at its end
}

// died notes that the process held l when it ended.
func (p *process) died(l *lockRecord) {
	if !slices.Contains(p.had, l.Name) {
		p.had = append(p.had, l.Name)
	}
}

// process returns the process that e is about.
func (j *Judge) process(e history.Event) *process {
	i := id{e.Process, e.Incarnation}
	p := j.processes[i]
	if p == nil {
		p = &process{id: i, holds: map[uint64]*hold{}, grips: map[*lockRecord]*grip{}}
		j.processes[i] = p
		j.forget()
	}
	return p
}

// forget forgets processes that ended long ago, if there are many.
func (j *Judge) forget() {
	const many = 1000
	if len(j.processes) < many || len(j.processes)%100 != 0 {
		return
	}
	for i, p := range j.processes {
		if p.over && p.end < j.now-int64(10*time.Minute) {
			delete(j.processes, i)
		}
	}
}

// count notes that the number of holds in that phase changes.
func (p *process) count(ph phase, by int) { p.counts[ph] += by }

// reaction is how long a process that was stopped may take to notice once it continues.
const reaction = int64(time.Second)

// stops are the times in which a process was stopped, the latest last.
type stops []stop

type stop struct{ began, ended int64 } // ended is 0 while it lasts

func (s *stops) began(at int64) {
	if len(*s) == 16 {
		*s = append((*s)[:0], (*s)[1:]...)
	}
	*s = append(*s, stop{began: at})
}

func (s stops) ended(at int64) {
	for i := range s {
		if s[i].ended == 0 {
			s[i].ended = at
		}
	}
}

// excuse reports whether the process was stopped at that time, or has had no time to
// react, so that it cannot know what it has lost of what it asked for at the time asked. It
// also returns when it was stopped. What the process asked for later it was told later: that
// has no excuse.
func (s stops) excuse(asked, at int64) (since int64, ok bool) {
	for _, s := range s {
		if s.began <= at && (s.ended == 0 || at <= s.ended+reaction && asked <= s.ended) {
			return s.began, true
		}
	}
	return 0, false
}

// covers reports whether the process was stopped at the time from, or could not yet have
// reacted, and whether that was still so at the other time.
func (s stops) covers(from, to int64) bool {
	for _, s := range s {
		switch {
		case s.began > from || s.ended != 0 && from > s.ended+reaction:
		case s.ended == 0:
			return true
		default:
			from = max(from, s.ended+reaction)
			if to <= from {
				return true
			}
		}
	}
	return false
}

// held returns the holds of the process that are inside, in the order of their requests.
func (p *process) held() (all []*hold) {
	for _, h := range p.holds {
		if h.phase == inside {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *hold) int { return cmp.Compare(a.op, b.op) })
	return all
}
