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
		r.Kind = kindText(e.LockKind, e.Mutex)
		r.Waited = seconds(e.Waited)
	default:
		r.Outage = seconds(e.Waited)
	}
	return r
}

// A ring keeps the newest records.
type ring struct {
	mu      sync.Mutex // protects what follows
	records []record
	next    int // where the next one goes, once there are as many as are kept
}

func (r *ring) add(rec record) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
	all := slices.Concat(r.records[r.next:], r.records[:r.next])
	slices.Reverse(all)
	return all
}
