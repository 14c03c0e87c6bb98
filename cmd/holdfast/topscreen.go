// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/inspect"
	"github.com/holdfast-go/holdfast/zkio"
)

// A topScreen is what top shows: a table of locks, or the queue of the one that is open.
// One goroutine uses it.
type topScreen struct {
	screen  tcell.Screen
	color   bool
	servers string
	root    string
	prefix  string
	client  *zkio.Client // for its session and its outages; nil in tests

	view   *inspect.View // what the last look has shown; nil before the first
	took   time.Duration // that look
	seen   map[string]topSeen
	rows   []topRow // those that the filter lets pass, in order
	sort   topSort
	filter string
	typing bool // the user is typing the filter
	err    error

	selected string // the name of the lock that is selected; "": the first
	list     scroll

	opened string         // the name of the lock whose queue is shown; "": none
	queue  *inspect.Queue // nil before it was read
	inside scroll         // of the queue
}

// A topRow is a line of the table.
type topRow struct {
	lock *inspect.Lock
	topSeen
}

// topSeen is what top has found out about a lock by looking at it more than once.
type topSeen struct {
	holder string    // the path of the holder's node
	since  time.Time // since when it has been held
	before bool      // the holder was there before top was, so it may be held for less long
	gone   int64     // see inspect.Lock
	at     time.Time // when the last look ended
	rate   float64   // how often a second a contender has left
}

// waitsSince returns when the first waiter began to wait; the zero Time if none waits.
func (r *topRow) waitsSince() time.Time {
	if r.lock.Next == nil {
		return time.Time{}
	}
	return r.lock.Next.Since
}

// A topSort is what the table is sorted by.
type topSort int

const (
	byLongest topSort = iota
	byWaiting
	byHeld
	byRate
	byName
	topSorts // how many there are
)

// compare is negative if a is to be above b.
func (s topSort) compare(a, b *topRow) int {
	switch s {
	case byLongest:
		return compareSince(a.waitsSince(), b.waitsSince())
	case byWaiting:
		return cmp.Compare(b.lock.Waiting, a.lock.Waiting)
	case byHeld:
		return compareSince(a.since, b.since)
	case byRate:
		return cmp.Compare(b.rate, a.rate)
	}
	return 0
}

// compareSince puts the earlier time first, and one that is not known last.
func compareSince(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return -a.Compare(b)
	}
	return a.Compare(b)
}

// hopeless reports whether no later look can succeed after one that has failed with err.
func hopeless(err error) bool {
	return errors.Is(err, manager.ErrBadName) || errors.Is(err, zkio.ErrClosed)
}

// take shows the news.
func (t *topScreen) take(n topNews) {
	t.err = n.err
	switch {
	case n.view != nil:
		t.took = n.took
		t.learn(n.view, n.at)
		t.view = n.view
		t.order()
	case n.queue != nil && n.queue.Name == t.opened:
		t.queue = n.queue
	}
}

// learn compares the locks with those of the look before.
func (t *topScreen) learn(v *inspect.View, at time.Time) {
	seen := make(map[string]topSeen, len(v.Locks))
	for i := range v.Locks {
		l := &v.Locks[i]
		now := topSeen{gone: l.Gone, at: at}
		old, known := t.seen[l.Name]
		if l.Holder != nil {
			now.holder = l.Holder.Path
			switch {
			case known && old.holder == now.holder:
				now.since, now.before = old.since, old.before
			case t.view != nil:
				now.since = at // it has changed hands since the last look
			default:
				now.since, now.before = l.Holder.Since, true
			}
		}
		if seconds := at.Sub(old.at).Seconds(); known && seconds > 0 && now.gone > old.gone {
			now.rate = float64(now.gone-old.gone) / seconds
		}
		seen[l.Name] = now
	}
	t.seen = seen
}

// order makes the rows anew.
func (t *topScreen) order() {
	t.rows = t.rows[:0]
	if t.view == nil {
		return
	}
	filter := strings.ToLower(t.filter)
	for i := range t.view.Locks {
		l := &t.view.Locks[i]
		if filter == "" || strings.Contains(strings.ToLower(l.Name), filter) ||
			l.Holder != nil && strings.Contains(strings.ToLower(whoLong(l.Holder)), filter) {
			t.rows = append(t.rows, topRow{l, t.seen[l.Name]})
		}
	}
	slices.SortStableFunc(t.rows, func(a, b topRow) int { return t.sort.compare(&a, &b) }) // the view is sorted by name
}

// at returns the index of the row that is selected; 0 if it is not there.
func (t *topScreen) at() int {
	return max(0, slices.IndexFunc(t.rows, func(r topRow) bool { return r.lock.Name == t.selected }))
}

// key does what a key asks for, and reports whether that is to quit.
func (t *topScreen) key(ev *tcell.EventKey) (quit bool) {
	switch {
	case ev.Key() == tcell.KeyCtrlC:
		return true
	case t.typing:
		t.typed(ev)
	case ev.Key() == tcell.KeyRune && ev.Rune() == 'q':
		return true
	case t.opened != "":
		t.queueKey(ev)
	default:
		t.listKey(ev)
	}
	return false
}

// typed changes the filter.
func (t *topScreen) typed(ev *tcell.EventKey) {
	switch ev.Key() {
	case tcell.KeyEnter:
		t.typing = false
	case tcell.KeyEscape:
		t.typing, t.filter = false, ""
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		if r := []rune(t.filter); len(r) > 0 {
			t.filter = string(r[:len(r)-1])
		}
	case tcell.KeyRune:
		t.filter += string(ev.Rune())
	default:
		return
	}
	t.selected = ""
	t.order()
}

// listKey handles a key in the table of locks.
func (t *topScreen) listKey(ev *tcell.EventKey) {
	if to, ok := t.list.key(ev, t.at(), len(t.rows)); ok {
		if len(t.rows) > 0 {
			t.selected = t.rows[to].lock.Name
		}
		return
	}
	switch {
	case ev.Key() == tcell.KeyEnter && len(t.rows) > 0:
		t.opened = t.rows[t.at()].lock.Name
		t.selected, t.queue, t.inside = t.opened, nil, scroll{}
	case ev.Key() == tcell.KeyEscape:
		t.filter = ""
	case ev.Key() != tcell.KeyRune:
	case ev.Rune() == '/':
		t.typing = true
	case ev.Rune() == 's':
		t.sort = (t.sort + 1) % topSorts
	case ev.Rune() == 'S':
		t.sort = (t.sort + topSorts - 1) % topSorts
	}
	t.order()
}

// queueKey handles a key in the queue of a lock.
func (t *topScreen) queueKey(ev *tcell.EventKey) {
	switch ev.Key() {
	case tcell.KeyEscape, tcell.KeyBackspace, tcell.KeyBackspace2, tcell.KeyLeft:
		t.opened, t.queue = "", nil
		return
	}
	if t.queue != nil {
		if to, ok := t.inside.key(ev, t.inside.at, len(t.queue.Contenders)); ok {
			t.inside.at = to
		}
	}
}

// A scroll is which part of a long list is shown.
type scroll struct {
	at     int // the line that is selected; used by the queue only
	top    int // the first line that is shown
	height int // how many lines are shown
}

// key returns the line that a key moves to, from line at of n, and whether it is such a
// key.
func (s *scroll) key(ev *tcell.EventKey, at, n int) (to int, ok bool) {
	page := max(1, s.height-1)
	switch key, r := ev.Key(), ev.Rune(); {
	case key == tcell.KeyUp || key == tcell.KeyRune && r == 'k':
		at--
	case key == tcell.KeyDown || key == tcell.KeyRune && r == 'j':
		at++
	case key == tcell.KeyPgUp:
		at -= page
	case key == tcell.KeyPgDn || key == tcell.KeyRune && r == ' ':
		at += page
	case key == tcell.KeyHome || key == tcell.KeyRune && r == 'g':
		at = 0
	case key == tcell.KeyEnd || key == tcell.KeyRune && r == 'G':
		at = n - 1
	default:
		return at, false
	}
	return max(0, min(at, n-1)), true
}

// show moves the part that is shown so that line at of n is in it.
func (s *scroll) show(at, n, height int) {
	s.height = height
	s.top = max(0, min(s.top, n-height))
	s.top = min(max(s.top, at-height+1), at)
}
