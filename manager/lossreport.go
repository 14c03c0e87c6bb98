// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// A lossReport logs the losses of locks, and remembers the last of them. The end of a
// lease or a session ends all locks that the process holds, so if many are lost within a
// moment, they make one line.
type lossReport struct {
	mu      sync.Mutex // protects what follows; nothing else is done under it
	pending []lostLock // lost and not logged yet: the first of them
	more    int        // and how many besides

	past []lostLock      // the last losses: a ring
	next int             // the index in past of the next one
	last map[lockKey]int // the index in past of a lock's last loss
}

// A lostLock is the loss of one lock.
type lostLock struct {
	lockKey
	Loss
}

// A lockKey identifies a lock of a manager.
type lockKey struct {
	path string
	kind queue.Kind
}

func (l *line) key() lockKey { return lockKey{l.path, l.kind} }

const (
	// lossMoment is how long a report waits for further losses before it logs them.
	lossMoment = 100 * time.Millisecond
	// lossLines is how many losses of a moment have a line each.
	lossLines = 10
	// lossesKept is how many losses a manager remembers.
	lossesKept = 1000
)

// note notes that l was lost. It does not block, and logs on a goroutine of the
// manager's.
func (r *lossReport) note(l *Lock, loss Loss) {
	lost := lostLock{l.key(), loss}
	r.mu.Lock()
	r.keepLocked(lost)
	first := len(r.pending) == 0
	if len(r.pending) < lossLines {
		r.pending = append(r.pending, lost)
	} else {
		r.more++
	}
	r.mu.Unlock()
	if m := l.m; first {
		m.spawn(func() {
			m.pause(lossMoment) // or until Close
			r.log(m)
		})
	}
}

// keepLocked remembers the loss, in the place of the oldest.
func (r *lossReport) keepLocked(lost lostLock) {
	if r.last == nil {
		r.last = make(map[lockKey]int)
	}
	if len(r.past) < lossesKept {
		r.past = append(r.past, lost)
	} else {
		if oldest := r.past[r.next].lockKey; r.last[oldest] == r.next {
			delete(r.last, oldest)
		}
		r.past[r.next] = lost
	}
	r.last[lost.lockKey] = r.next
	r.next = (r.next + 1) % lossesKept
}

// lastOf returns the last loss of l; nil if there was none, or it was too long ago.
func (r *lossReport) lastOf(l *Lock) *Loss {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.last[l.key()]
	if !ok {
		return nil
	}
	loss := r.past[i].Loss
	return &loss
}

// log logs what was lost: each lock, or how many if they are too many.
func (r *lossReport) log(m *Manager) {
	r.mu.Lock()
	all, more := r.pending, r.more
	r.pending, r.more = nil, 0
	r.mu.Unlock()
	how := func(lost lostLock) (args []any) {
		err := lost.Err.(*Error) //nolint:errorlint // it is made by us and not wrapped
		args = []any{
			"session", fmt.Sprintf("%#x", uint64(lost.Session)), "node", lost.Node, "token", lost.Token,
			"held", lost.Held.Round(time.Millisecond), "cause", err.Err,
		}
		if err.Outage != nil {
			args = append(args, "outage", err.Outage)
		}
		return args
	}
	if more > 0 {
		args := []any{"locks", len(all) + more, "first", m.nameOf(all[0].path)}
		m.cfg.Logger.Warn("holdfast: lost locks; their holders have been told", append(args, how(all[0])...)...)
		return
	}
	for _, lost := range all {
		args := []any{"lock", m.nameOf(lost.path), "kind", lost.kind.String()}
		m.cfg.Logger.Warn("holdfast: lost a lock; its holders have been told", append(args, how(lost)...)...)
	}
}

// A Loss is the end of a lock that this process owned, and holders had, by force.
type Loss struct {
	Time    time.Time
	Held    time.Duration // from the grant to the loss
	Err     error         // an [*Error], which says why
	Session int64         // the id of the session in which it was held
	Node    string        // the path of the node by which it was held
	Token   uint64        // the fencing token under which it was held
}
