// SPDX-License-Identifier: Apache-2.0

package chronicle

import (
	"maps"
	"time"
)

// A Life is one incarnation of a process.
type Life struct{ Process, Incarnation int }

// lives are what the history has told lately of incarnations and their sessions. The
// chronicle's mutex protects them. They do not grow with the number of incarnations: an
// incarnation begins when the one before is over, so that the latest one tells of all.
type lives struct {
	over     map[int]int        // the latest incarnation of each process of which Ended was read
	killed   map[int]int        // the latest that the nemesis has killed; it has killed the earlier ones, too
	sessions map[string]session // by their names
}

// A session is one that a process has or had.
type session struct {
	Life
	ended int64 // when the process ended; or 0
}

// A session is remembered for so long after its process has ended. By then the servers have
// ended it, and deleted its nodes.
const remembered = int64(10 * time.Minute)

func newLives() lives {
	return lives{over: map[int]int{}, killed: map[int]int{}, sessions: map[string]session{}}
}

// ends notes that the history has told of the end of l.
func (ls lives) ends(l Life, at int64) {
	if !ls.isOver(l) {
		ls.over[l.Process] = l.Incarnation
	}
	for name, s := range ls.sessions {
		if s.Life == l && s.ended == 0 {
			s.ended = at
			ls.sessions[name] = s
		}
	}
	maps.DeleteFunc(ls.sessions, func(_ string, s session) bool { return s.ended != 0 && s.ended+remembered < at })
}

// isOver reports whether the history has told of the end of l, which may write on for a
// moment if it was killed.
func (ls lives) isOver(l Life) bool {
	latest, ok := ls.over[l.Process]
	return ok && l.Incarnation <= latest
}

// kills notes that the nemesis kills l.
func (ls lives) kills(l Life) { ls.killed[l.Process] = l.Incarnation }

// isKilled reports whether the nemesis has killed l.
func (ls lives) isKilled(l Life) bool {
	latest, ok := ls.killed[l.Process]
	return ok && l.Incarnation <= latest
}

// has notes that l has the session.
func (ls lives) has(l Life, name string, at int64) {
	s := session{Life: l}
	if ls.isOver(l) {
		s.ended = at
	}
	ls.sessions[name] = s
}

// loses notes that the session is over, as its process has noticed.
func (ls lives) loses(name string) { delete(ls.sessions, name) }

// of returns which incarnation has or had the session, unless its end was long ago.
func (ls lives) of(name string) (Life, bool) {
	s, ok := ls.sessions[name]
	return s.Life, ok
}
