// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// The reading is what has been read of the history and is not judged yet.
//
// Of some faults only the end tells what they did: which lock the deleted node belonged to,
// or that the process could not be stopped. And when the servers end the session of a process
// that is stopped, their logs tell a moment later. So the Judge reads on until such a fault is
// over before it judges its beginning and what follows. This costs little: a history that is
// being written cannot be read beyond the beginning of a stop before it is over, since the
// process that is stopped writes nothing.
type reading struct {
	events []history.Event       // in the order in which they were read
	ends   map[int]history.Event // of the faults among them, by number
	until  int64                 // the latest time of an event
	over   bool                  // no more is to come, or what comes is judged at once
}

// farthest is how far the Judge reads on at most. What a fault that lasts longer does is not
// known when what happened during it is judged.
const farthest = int64(time.Minute)

// Add judges the next event, and those before it that had to wait for it. Events come in the
// order of time, but those that a [history.Follower] yields late may be older.
func (j *Judge) Add(e history.Event) {
	r := &j.reading
	if e.At < r.until && e.Kind != history.Expired {
		j.scene.Late++
	}
	r.until = max(r.until, e.At)
	r.events = append(r.events, e)
	if e.Kind == history.FaultEnded {
		r.ends[e.Fault] = e
	}
	j.advance()
}

// advance judges what has been read, up to a fault of which the end is not known.
func (j *Judge) advance() {
	r := &j.reading
	n := 0
	for ; n < len(r.events) && !r.waits(r.events[n]); n++ {
		e := r.events[n]
		switch {
		case e.At >= j.from:
			j.event(e)
		default:
			j.before(e)
		}
		if e.Kind == history.FaultEnded {
			delete(r.ends, e.Fault)
		}
	}
	r.events = slices.Delete(r.events, 0, n)
}

// waits reports whether e is the beginning of a fault of which the end has to be read first.
func (r *reading) waits(e history.Event) bool {
	if e.Kind != history.FaultBegan || !scene.ToldAtEnd(e.Text) || r.over || r.until >= e.At+farthest {
		return false
	}
	_, ended := r.ends[e.Fault]
	return !ended
}

// expiry returns when a server first ended the session after that time, as far as it is known
// from what has been read. The server may have been deposed: then the session may have lasted
// longer.
func (r *reading) expiry(session string, after int64) (at int64, ok bool) {
	for _, e := range r.events {
		if e.Kind == history.Expired && e.Session == session && session != "" && e.At >= after && (!ok || e.At < at) {
			at, ok = e.At, true
		}
	}
	return at, ok
}
