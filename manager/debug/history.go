// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// kept is how many records a ring keeps.
const kept = 200

// A record is what is kept of an event.
type record struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	Lock    string    `json:"lock,omitempty"`
	Kind    string    `json:"kind,omitempty"`
	Cause   string    `json:"cause,omitempty"`
	Error   string    `json:"error,omitempty"`
	From    string    `json:"from,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Session string    `json:"session,omitempty"`
	Token   uint64    `json:"token,omitempty"`
	Count   int       `json:"count"`
	Locks   []string  `json:"locks,omitempty"`
	Paused  seconds   `json:"paused_seconds,omitempty"`
	Outage  seconds   `json:"outage_seconds,omitempty"`
	Held    seconds   `json:"held_seconds,omitempty"`
	Waited  seconds   `json:"waited_seconds,omitempty"`
}

func recordOf(e manager.Event) record {
	r := record{
		Time:    e.Time,
		Event:   e.Kind.String(),
		Lock:    e.Lock,
		Cause:   e.Cause(),
		Session: sessionText(e.Session),
		Token:   e.Token,
		Count:   1,
		Paused:  seconds(e.Paused),
		Reason:  cut(e.Reason),
		Held:    seconds(e.Held),
	}
	if e.Err != nil {
		r.Error = cut(e.Err.Error())
	}
	if e.From != nil {
		r.From = e.From.String()
	}
	switch {
	case e.Lock != "":
		r.Kind = e.LockKind.String()
		r.Waited = seconds(e.Waited)
	default:
		r.Outage = seconds(e.Waited)
	}
	return r
}

// same reports whether r says of a lock what next says of another, at about the same time:
// the end of a lease or a session ends all locks that the process holds.
func (r *record) same(next *record) bool {
	return r.Lock != "" && next.Lock != "" && r.Event == next.Event && r.Cause == next.Cause &&
		r.Session == next.Session && r.From == next.From && r.Reason == next.Reason &&
		next.Time.Sub(r.Time) < together
}

const (
	// together is for how long records that say the same are put together.
	together = 5 * time.Second
	// namesKept is how many names of locks are kept of those.
	namesKept = 20
)

// add puts next, which says the same, to r.
func (r *record) add(next *record) {
	if r.Count == 1 {
		r.Locks = []string{r.Lock}
	}
	r.Count++
	if len(r.Locks) < namesKept {
		r.Locks = append(slices.Clip(r.Locks), next.Lock) // a report may have the slice
	}
}

// More returns how many locks the record is about whose names were not kept.
func (r record) More() int { return r.Count - max(len(r.Locks), 1) }

// A ring keeps the newest records.
type ring struct {
	mu      sync.Mutex // protects what follows
	records []record
	next    int // where the next one goes, once there are as many as are kept
}

func (r *ring) add(rec record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.records); n > 0 {
		if last := &r.records[(r.next+n-1)%n]; last.same(&rec) {
			last.add(&rec)
			return
		}
	}
	if len(r.records) < kept {
		r.records = append(r.records, rec)
		return
	}
	r.records[r.next] = rec
	r.next = (r.next + 1) % kept
}

func (r *ring) newestFirst() []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append([]record{}, r.records[r.next:]...) // not nil, which is null in JSON
	all = append(all, r.records[:r.next]...)
	slices.Reverse(all)
	return all
}
