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
	over     latest             // those of which Ended was read
	killed   latest             // those that the nemesis has killed
	sessions map[string]session // by their names
}

// latest has the latest incarnation of each process of which something is true. It is true of the
// earlier ones, too.
type latest map[int]int

func (all latest) has(l Life) bool {
	incarnation, ok := all[l.Process]
	return ok && l.Incarnation <= incarnation
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
	return lives{over: latest{}, killed: latest{}, sessions: map[string]session{}}
}

// ends notes that the history has told of the end of l.
func (ls lives) ends(l Life, at int64) {
	if !ls.over.has(l) {
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

// has notes that l has the session.
func (ls lives) has(l Life, name string, at int64) {
	s := session{Life: l}
	if ls.over.has(l) {
		s.ended = at
	}
	ls.sessions[name] = s
}

// loses notes that the session is over, as its process has noticed.
func (ls lives) loses(name string) { delete(ls.sessions, name) }
