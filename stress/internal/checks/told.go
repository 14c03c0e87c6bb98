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

// Told is a check: a process whose session the leader has ended was told before that it had
// lost its locks, unless it was stopped or dead. One that was stopped when the leader ended
// the session is told a moment after it goes on.
type Told struct {
	Check
	Losses   int            // of processes' holds; several goroutines may have shared one
	fates    [manyFates]int // of those
	Late     int            // told late, or never
	Never    int            // of those
	margin   []time.Duration
	sessions map[string]*session
	order    []string // of sessions, the oldest first
}

// A session is one that has held a lock.
type session struct {
	process *scene.Process
	alive   int64 // when a worker was told last that it holds a lock
	until   int64 // when the last hold was released that was not lost
	ended   int64 // when the leader ended it, as far as is known; or 0
	late    bool  // a hold was found that was not lost, and lasted longer
	lost    []loss
}

// A loss is a hold of a process that was lost.
type loss struct {
	lock  *scene.Lock
	fence history.Fence
	at    int64 // when the last of its goroutines was told
	fate  fate
	late  bool // it was found
}

// A fate says whether a loss is judged, or why not.
type fate int

const (
	unheard   fate = iota // of the end of its session
	weighed               // it is judged
	unaware               // its process was stopped
	unrelated             // to the end of the session, which came much later or not at all
	doubted               // a server tells of the end that may have been deposed
	manyFates
)

const (
	// resolution is that of the times in ZooKeeper's log.
	resolution = int64(time.Millisecond)
	// manySessions is how many sessions are remembered, and manyMargins how many margins.
	manySessions = 4096
	manyMargins  = 1 << 16
)

// NewTold returns the check at the beginning of a run.
func NewTold() Told {
	return Told{Check: New(verdict.Told), sessions: map[string]*session{}}
}

// session returns what is known of that session. It returns nil if that has no name.
func (c *Told) session(p *scene.Process, name string) *session {
	s := c.sessions[name]
	if s == nil && name != "" {
		s = &session{process: p}
		c.sessions[name] = s
		if c.order = append(c.order, name); len(c.order) > manySessions {
			delete(c.sessions, c.order[0])
			c.order = slices.Delete(c.order, 0, 1)
		}
	}
	return s
}

// Alive notes that the worker was told at that time that it holds h.
func (c *Told) Alive(h *scene.Hold, at int64) {
	if s := c.session(h.Process, h.Session); s != nil {
		s.alive = max(s.alive, at)
	}
}

// Inside notes that a hold of that session was still valid to its holder at that time.
func (c *Told) Inside(sc *scene.Scene, p *scene.Process, name string, at int64) {
	if s := c.session(p, name); s != nil {
		s.until = max(s.until, at)
		c.outlived(sc, s, name)
	}
}

// Lost notes that the worker has been told at that time that h is lost.
func (c *Told) Lost(sc *scene.Scene, h *scene.Hold, at int64) {
	s := c.session(h.Process, h.Session)
	if s == nil {
		c.Losses++
		c.fates[unheard]++
		return
	}
	i := slices.IndexFunc(s.lost, func(l loss) bool { return l.lock == h.Lock && l.fence == h.Fence })
	if i < 0 {
		i = len(s.lost)
		s.lost = append(s.lost, loss{lock: h.Lock, fence: h.Fence})
		c.Losses++
		c.fates[unheard]++
	}
	s.lost[i].at = max(s.lost[i].at, at)
	if s.ended != 0 {
		c.weigh(sc, s, &s.lost[i], h.Session)
	}
}

// settle notes the fate of a loss. What has been judged stays so.
func (c *Told) settle(l *loss, f fate) {
	if l.fate == weighed {
		return
	}
	c.fates[l.fate]--
	l.fate = f
	c.fates[f]++
}

// Expired judges the session that the leader has ended.
func (c *Told) Expired(sc *scene.Scene, e history.Event) {
	s := c.sessions[e.Session]
	if s == nil || s.process.Over && s.process.End <= e.At && len(s.lost) == 0 {
		return
	}
	if e.Text == history.Deposed {
		for i := range s.lost {
			c.settle(&s.lost[i], doubted)
		}
		return
	}
	s.ended = e.At
	for i := range s.lost {
		c.weigh(sc, s, &s.lost[i], e.Session)
	}
	c.outlived(sc, s, e.Session)
	if sc.Now > e.At+scene.Reaction { // else the loss may have been told, and not be read yet
		c.untold(sc, s, e.Session)
	}
}

// weigh judges whether a loss was told before the leader ended the session.
func (c *Told) weigh(sc *scene.Scene, s *session, l *loss, name string) {
	margin := s.ended - l.at
	switch {
	case l.at < s.alive || margin > 2*sc.Header.SessionTimeout:
		c.settle(l, unrelated)
		return
	case margin <= -resolution && s.process.Stops.Covers(s.ended, l.at):
		c.settle(l, unaware)
		return
	}
	if l.fate != weighed { // else another of its goroutines was told before
		c.settle(l, weighed)
		c.Judged++
		if len(c.margin) < manyMargins {
			c.margin = append(c.margin, time.Duration(margin))
		}
	}
	if margin <= -resolution && !l.late {
		l.late = true
		c.Late++
		c.find(sc, l.lock, l.at, "process %d was told at %s that it had lost %q (%v), but the leader ended its session %s at %s, %v before", s.process.Number, sc.When(l.at), l.lock.Name, l.fence, name, sc.When(s.ended), time.Duration(-margin).Round(time.Microsecond))
	}
}

// outlived judges that no hold that was not lost has lasted longer than its session.
func (c *Told) outlived(sc *scene.Scene, s *session, name string) {
	if s.ended == 0 || s.late || s.until <= s.ended+resolution || s.process.Stops.Covers(s.ended, s.until) {
		return
	}
	s.late = true
	c.Late++
	c.Never++
	c.find(sc, nil, s.until, "process %d still held a lock at %s, and was not told that the leader had ended its session %s at %s", s.process.Number, sc.When(s.until), name, sc.When(s.ended))
}

// untold judges that no hold lasts longer than its session.
func (c *Told) untold(sc *scene.Scene, s *session, name string) {
	if s.late || s.process.Stops.Covers(s.ended, sc.Now) {
		return
	}
	for _, h := range s.process.Held() {
		if h.Session == name && h.Granted <= s.ended {
			s.late = true
			c.Judged++
			c.Late++
			c.Never++
			c.find(sc, h.Lock, s.ended, "%v was not told that it has lost %q: the leader ended its session %s at %s", h, h.Lock.Name, name, sc.When(s.ended))
			return
		}
	}
}

// End judges the holds that have no end.
func (c *Told) End(sc *scene.Scene) {
	for _, name := range c.order {
		if s := c.sessions[name]; s.ended != 0 && s.ended+scene.Reaction < sc.Now {
			c.untold(sc, s, name)
		}
	}
}

// Margins returns the least margin and the median in milliseconds, and how many there
// are.
func (c *Told) Margins() (least, median float64, n int) {
	if n = len(c.margin); n == 0 {
		return 0, 0, 0
	}
	sorted := slices.Sorted(slices.Values(c.margin))
	return verdict.Milliseconds(sorted[0]), verdict.Milliseconds(sorted[n/2]), n
}

// Explain says how many losses are not judged, and why.
func (c *Told) Explain(*scene.Scene) {
	c.Note = ""
	if c.Losses == c.fates[weighed] {
		return
	}
	var others []string
	for f, why := range map[fate]string{
		unheard:   "of sessions that expired according to no server's log",
		unaware:   "of processes that were stopped",
		unrelated: "while the session lived on, or long before it expired",
		doubted:   "of sessions that expired according to a server only that may have been deposed",
	} {
		if c.fates[f] > 0 {
			others = append(others, fmt.Sprintf("%d %s", c.fates[f], why))
		}
	}
	slices.Sort(others)
	c.Note = fmt.Sprintf("lost holds that are judged: %d of %d; the others were lost: %s", c.fates[weighed], c.Losses, strings.Join(others, ", "))
}

// LossesJudged returns how many losses of holds are judged.
func (c *Told) LossesJudged() int { return c.fates[weighed] }
