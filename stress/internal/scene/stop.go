// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"slices"
	"time"
)

// Reaction is how long a process that was stopped may take to notice once it continues.
const Reaction = int64(time.Second)

// Slack is what a wait may take beside the holds of others, on a busy machine.
const Slack = int64(5 * time.Second)

// clocks is how much earlier than a server's log says the session may have ended: the log has
// the time of another clock, which may be adjusted meanwhile.
const clocks = int64(100 * time.Millisecond)

// stops are the times in which a process was stopped, the latest last.
type stops []Stop

// A Stop is a time in which a process was stopped.
type Stop struct {
	began, ended int64  // ended is 0 while it lasts
	session      string // that the process had, as far as is known
	over         int64  // when the servers can have ended that session, at the earliest
}

// Stop returns what it means for p that f stops it.
//
// While a process is stopped it loses its locks with its session, and not before: the servers
// count from when they last heard of it. If their logs tell when they ended the session, that
// is when. If not, a client whose connection is in order sends something every third of the
// session timeout, and a busy machine may delay that by as long as a process may take to
// react. If the connection was not in order, they may not have heard of the process for so
// long that its session ends at any time.
func (sc *Scene) Stop(p *Process, f *Fault) Stop {
	s := Stop{began: f.At, session: p.Session, over: f.At}
	if at, ok := sc.Expiry(p.Session, f.At); ok {
		s.over = max(f.At, at-clocks)
	} else if !sc.Excuses.disconnects(sc, p, f.At) {
		s.over = max(f.At, f.At+sc.Header.SessionTimeout*2/3-Reaction)
	}
	return s
}

// loses returns when the stop can have cost h, at the earliest. What an earlier session held
// may have been lost when the process was stopped, a moment before its worker was told.
func (s Stop) loses(h *Hold) int64 {
	if s.session != "" && h.Session != s.session {
		return s.began
	}
	return s.over
}

func (s *stops) Began(n Stop) {
	if len(*s) == 16 {
		*s = append((*s)[:0], (*s)[1:]...)
	}
	*s = append(*s, n)
}

func (s stops) Ended(at int64) {
	for i := range s {
		if s[i].ended == 0 {
			s[i].ended = at
		}
	}
}

// hides reports whether the process cannot know at that time what it has lost of what it had
// asked for by then, since it is stopped or has had no time to react. What the process asked
// for after the stop it was told later: that has no excuse.
func (s Stop) hides(asked, at int64) bool {
	return s.began <= at && (s.ended == 0 || at <= s.ended+Reaction && asked <= s.ended)
}

// hiding returns the stops for which the process cannot know at that time what it has lost: the
// last one, and those before it after which it had no time to react.
func (s stops) hiding(asked, at int64) stops {
	end := len(s)
	for end > 0 && !s[end-1].hides(asked, at) {
		end--
	}
	begin := end
	for begin > 0 && s[begin-1].hides(asked, at) {
		begin--
		at = s[begin].began
	}
	return s[begin:end]
}

// recent reports whether the process is stopped at that time, or was a moment before.
func (s stops) recent(at int64) bool {
	return slices.ContainsFunc(s, func(s Stop) bool { return s.began <= at && (s.ended == 0 || at <= s.ended+lingering) })
}

// Covers reports whether the process was stopped at the time from, or could not yet have
// reacted, and whether that was still so at the other time.
func (s stops) Covers(from, to int64) bool {
	for _, s := range s {
		switch {
		case s.began > from || s.ended != 0 && from > s.ended+Reaction:
		case s.ended == 0:
			return true
		default:
			from = max(from, s.ended+Reaction)
			if to <= from {
				return true
			}
		}
	}
	return false
}

// lingering is how long a process may have its file locks after it was told of a loss, or goes
// on after it was stopped.
const lingering = int64(3 * time.Second)

// Lingers reports whether the process of h may have a file lock for it at that time although
// it has lost the lock. One that was killed has none.
func (h *Hold) Lingers(sc *Scene, at int64) bool {
	if h.Process.Over {
		return false
	}
	if _, ok := sc.Excused(h, at); ok || h.Process.Stops.recent(at) {
		return true
	}
	return h.Phase == over && !h.released && at <= h.Ended+lingering
}

// Absent reports whether the process of that number may have lost its place at the barrier l
// by that time without knowing it.
func (sc *Scene) Absent(number int, l *Lock, at int64) bool {
	for _, p := range sc.Processes {
		if p.Number == number && p.Stops.recent(at) {
			return true
		}
	}
	return slices.ContainsFunc(sc.Faults.Recent, func(f *Fault) bool {
		return f.deletes() && f.Process == number && f.Lock == l.Name && f.At <= at && (f.Until == 0 || at <= f.Until+lingering)
	})
}
