// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A Lock is what is known of one lock.
type Lock struct {
	history.Lock
	Passing bool    // it is one of many that are made during the run: it is forgotten some time
	open    int     // holds of it that are known, in any phase
	used    uint64  // how often it was not in use any more
	Inside  []*Hold // those that are inside, in the order of their grants
	Leavers []*Hold // those that are not, whose workers may not have left the referee yet

	// The last release in good order: by which process, and when.
	By   *Process
	Free int64

	Past map[Turn]*Past // holds of it that have ended

	Highest map[history.Mode]Highest // the highest token that was granted, by mode
}

// A Turn is what a process may have once before another one that waits: the lock, in a mode.
type Turn struct {
	Process int
	Mode    history.Mode
}

func (h *Hold) turn() Turn { return Turn{h.Process.Number, h.Mode} }

// leaves notes that h is not inside any more.
func (l *Lock) leaves(h *Hold) {
	l.Leavers = slices.DeleteFunc(l.Leavers, func(o *Hold) bool {
		return o.Phase == over && (o.Process.Over || o.Ended+forgotten < h.Ended)
	})
	l.Leavers = append(l.Leavers, h)
}

// forgotten is how long a lost hold is remembered whose release was not seen to end.
const forgotten = int64(time.Minute)

// Gone notes that the worker of h has left the referee.
func (l *Lock) Gone(h *Hold) {
	l.Leavers = slices.DeleteFunc(l.Leavers, func(o *Hold) bool { return o == h })
}

// Left notes that h has ended. It forgets what ended before oldest.
func (l *Lock) Left(h *Hold, oldest int64) {
	if l.Past == nil {
		l.Past = map[Turn]*Past{}
	}
	p := l.Past[h.turn()]
	if p == nil {
		p = &Past{}
		l.Past[h.turn()] = p
	}
	p.Add(Span{h.Granted, h.Ended}, oldest)
}

// Holds returns how long the longest holds in each turn lasted together between those times,
// apart from h, and from the turns of its process if that is left out.
func (l *Lock) Holds(from, to int64, h *Hold, withOwn bool) (all int64) {
	counts := func(t Turn) bool { return withOwn || t.Process != h.Process.Number }
	for t, p := range l.Past {
		if counts(t) {
			all += max(p.Longest(from), l.present(t, from, to, h))
		}
	}
	for i, o := range l.Inside {
		first := slices.IndexFunc(l.Inside, func(p *Hold) bool { return p.turn() == o.turn() }) == i
		if first && l.Past[o.turn()] == nil && counts(o.turn()) {
			all += l.present(o.turn(), from, to, h)
		}
	}
	return all
}

// present returns how long the longest of those holds in that turn has lasted that are
// inside, apart from h.
func (l *Lock) present(t Turn, from, to int64, h *Hold) (most int64) {
	for _, o := range l.Inside {
		if o != h && o.turn() == t {
			most = max(most, to-max(o.Granted, from))
		}
	}
	return most
}

// Modes returns in how many modes a process may have turns.
func (l *Lock) Modes() int {
	if l.Mode != "" {
		return 1
	}
	return 3 // read, upgradable and write
}

// A Highest token, and the process that it was granted to.
type Highest struct {
	history.Fence
	By    *Process
	At    int64 // when
	Asked int64 // when the process had asked for it
}

// asked returns when the process of h first asked for what it has under the token of h. Workers that
// wait for it wait for the same: one of them may be told later than h although it has asked before.
func (l *Lock) asked(h *Hold) int64 {
	asked := h.Requested
	for _, o := range h.Process.Holds {
		if o.Lock == l && o.Mode == h.Mode && o.Phase == Waiting && o.with == nil && h.with == nil {
			asked = min(asked, o.Requested)
		}
	}
	for _, top := range l.Highest {
		if top.By == h.Process && top.Fence == h.Fence && h.Fence.Token != 0 {
			asked = min(asked, top.Asked)
		}
	}
	for _, o := range l.Inside {
		if o.Process == h.Process && o.Fence == h.Fence && h.Fence.Token != 0 {
			asked = min(asked, o.Asked)
		}
	}
	return asked
}

// Lock returns the lock of that name. If the header does not have it, its holds have the
// mode.
func (sc *Scene) Lock(name string, mode history.Mode) *Lock {
	if l := sc.Locks[name]; l != nil {
		return l
	}
	l := &Lock{Lock: history.Lock{Name: name, Mode: mode}}
	switch mode {
	case history.Read, history.Upgradable, history.WriteMode:
		l.Mode = ""
	}
	for _, p := range sc.prefixes {
		if strings.HasPrefix(name, p.Name) {
			l.Lock, l.Passing = p, true
			l.Name = name
			break
		}
	}
	sc.Locks[name] = l
	return l
}

// A resting lock was not in use after it had been used so often.
type resting struct {
	lock *Lock
	used uint64
}

// ManyResting is how many locks are remembered that are not in use.
const ManyResting = 4096

// rest notes that l, which is passing, is not in use any more. It forgets the lock that
// has not been used for longest.
func (sc *Scene) rest(l *Lock) {
	l.used++
	sc.Resting = append(sc.Resting, resting{l, l.used})
	if len(sc.Resting) <= ManyResting {
		return
	}
	r := sc.Resting[0]
	sc.Resting = slices.Delete(sc.Resting, 0, 1)
	if r.lock.open == 0 && r.lock.used == r.used {
		sc.Forgets(r.lock)
		delete(sc.Locks, r.lock.Name)
	}
}

// Together reports whether two processes may hold a lock in these modes at once.
func Together(a, b history.Mode) bool {
	return a == history.Read && (b == history.Read || b == history.Upgradable) ||
		a == history.Upgradable && b == history.Read
}

// Compatible reports whether a and b may be inside at once. For permits, which are
// counted, it does.
func Compatible(a, b *Hold) bool {
	switch {
	case a.Mode == history.Permit && b.Mode == history.Permit:
		return true
	case a.Process == b.Process:
		return a.Mode != history.Mutex || b.Mode != history.Mutex
	}
	return Together(a.Mode, b.Mode)
}

// LockOf returns the lock that an event names, or nil if it names none.
func (sc *Scene) LockOf(e history.Event) *Lock {
	if e.Lock == "" {
		return nil
	}
	return sc.Lock(e.Lock, e.Mode)
}
