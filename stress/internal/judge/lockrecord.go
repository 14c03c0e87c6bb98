// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A lockRecord is what is known of one lock.
type lockRecord struct {
	history.Lock
	passing bool    // it is one of many that are made during the run: it is forgotten some time
	open    int     // holds of it that are known, in any phase
	used    uint64  // how often it was not in use any more
	inside  []*hold // those that are inside, in the order of their grants
	leavers []*hold // those that are not, whose workers may not have left the referee yet

	// The last release in good order: by which process, and when.
	by   *process
	free int64

	past map[turn]*past // holds of it that have ended

	highest map[history.Mode]highest // the highest token that was granted, by mode
}

// A turn is what a process may have once before another one that waits: the lock, in a mode.
type turn struct {
	process int
	mode    history.Mode
}

func (h *hold) turn() turn { return turn{h.process.number, h.mode} }

// leaves notes that h is not inside any more.
func (l *lockRecord) leaves(h *hold) {
	l.leavers = slices.DeleteFunc(l.leavers, func(o *hold) bool {
		return o.phase == over && (o.process.over || o.ended+forgotten < h.ended)
	})
	l.leavers = append(l.leavers, h)
}

// forgotten is how long a lost hold is remembered whose release was not seen to end.
const forgotten = int64(time.Minute)

// gone notes that the worker of h has left the referee.
func (l *lockRecord) gone(h *hold) {
	l.leavers = slices.DeleteFunc(l.leavers, func(o *hold) bool { return o == h })
}

// left notes that h has ended. It forgets what ended before oldest.
func (l *lockRecord) left(h *hold, oldest int64) {
	if l.past == nil {
		l.past = map[turn]*past{}
	}
	p := l.past[h.turn()]
	if p == nil {
		p = &past{}
		l.past[h.turn()] = p
	}
	p.add(span{h.granted, h.ended}, oldest)
}

// holds returns how long the longest holds in each turn lasted together between those times,
// apart from h, and from the turns of its process if that is left out.
func (l *lockRecord) holds(from, to int64, h *hold, withOwn bool) (all int64) {
	counts := func(t turn) bool { return withOwn || t.process != h.process.number }
	for t, p := range l.past {
		if counts(t) {
			all += max(p.longest(from), l.present(t, from, to, h))
		}
	}
	for i, o := range l.inside {
		first := slices.IndexFunc(l.inside, func(p *hold) bool { return p.turn() == o.turn() }) == i
		if first && l.past[o.turn()] == nil && counts(o.turn()) {
			all += l.present(o.turn(), from, to, h)
		}
	}
	return all
}

// present returns how long the longest of those holds in that turn has lasted that are
// inside, apart from h.
func (l *lockRecord) present(t turn, from, to int64, h *hold) (most int64) {
	for _, o := range l.inside {
		if o != h && o.turn() == t {
			most = max(most, to-max(o.granted, from))
		}
	}
	return most
}

// modes returns in how many modes a process may have turns.
func (l *lockRecord) modes() int {
	if l.Mode != "" {
		return 1
	}
	return 3 // read, upgradable and write
}

// A highest token, and the process that it was granted to.
type highest struct {
	fence
	by    *process
	at    int64 // when
	asked int64 // when the process had asked for it
}

// asked returns when the process of h first asked for what it has under the token of h.
func (l *lockRecord) asked(h *hold) int64 {
	asked := h.requested
	for _, top := range l.highest {
		if top.by == h.process && top.fence == h.fence && h.fence.token != 0 {
			asked = min(asked, top.asked)
		}
	}
	for _, o := range l.inside {
		if o.process == h.process && o.fence == h.fence && h.fence.token != 0 {
			asked = min(asked, o.asked)
		}
	}
	return asked
}

// A fence is a fencing token: for a mutex, with the turn under it.
type fence struct{ token, turn uint64 }

func (f fence) compare(other fence) int {
	return cmp.Or(cmp.Compare(f.token, other.token), cmp.Compare(f.turn, other.turn))
}

func (f fence) String() string {
	if f.turn > 0 {
		return fmt.Sprintf("token %d turn %d", f.token, f.turn)
	}
	return fmt.Sprintf("token %d", f.token)
}

// cutStar cuts the * from the end of a name that has one.
func cutStar(name string) (string, bool) { return strings.CutSuffix(name, "*") }

// lock returns the lock of that name. If the header does not have it, its holds have the
// mode.
func (sc *scene) lock(name string, mode history.Mode) *lockRecord {
	if l := sc.locks[name]; l != nil {
		return l
	}
	l := &lockRecord{Lock: history.Lock{Name: name, Mode: mode}}
	if kind(mode) == readWrite {
		l.Mode = ""
	}
	for _, p := range sc.prefixes {
		if strings.HasPrefix(name, p.Name) {
			l.Lock, l.passing = p, true
			l.Name = name
			break
		}
	}
	sc.locks[name] = l
	return l
}

// A resting lock was not in use after it had been used so often.
type resting struct {
	lock *lockRecord
	used uint64
}

// manyResting is how many locks are remembered that are not in use.
const manyResting = 4096

// rest notes that l, which is passing, is not in use any more. It forgets the lock that
// has not been used for longest.
func (sc *scene) rest(l *lockRecord) {
	l.used++
	sc.resting = append(sc.resting, resting{l, l.used})
	if len(sc.resting) <= manyResting {
		return
	}
	r := sc.resting[0]
	sc.resting = slices.Delete(sc.resting, 0, 1)
	if r.lock.open == 0 && r.lock.used == r.used {
		sc.forgets(r.lock)
		delete(sc.locks, r.lock.Name)
	}
}

// A lockKind is what its modes have in common.
type lockKind int

const (
	exclusive lockKind = iota
	readWrite
	semaphore
)

// kind returns the kind of lock that has the mode.
func kind(m history.Mode) lockKind {
	switch m {
	case history.Read, history.Upgradable, history.WriteMode:
		return readWrite
	case history.Permit:
		return semaphore
	}
	return exclusive
}

// together reports whether two processes may hold a lock in these modes at once.
func together(a, b history.Mode) bool {
	return a == history.Read && (b == history.Read || b == history.Upgradable) ||
		a == history.Upgradable && b == history.Read
}

// excludes reports whether a process that holds a lock in that mode does so alone.
func excludes(m history.Mode) bool {
	return m == history.Exclusive || m == history.Mutex || m == history.WriteMode
}

// compatible reports whether a and b may be inside at once. For permits, which are
// counted, it does.
func compatible(a, b *hold) bool {
	switch {
	case a.mode == history.Permit && b.mode == history.Permit:
		return true
	case a.process == b.process:
		return a.mode != history.Mutex || b.mode != history.Mutex
	}
	return together(a.mode, b.mode)
}

// lockOf returns the lock that an event names, or nil if it names none.
func (sc *scene) lockOf(e history.Event) *lockRecord {
	if e.Lock == "" {
		return nil
	}
	return sc.lock(e.Lock, e.Mode)
}
