// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// The check overlap: no two processes are inside at once in modes that exclude each other.
// A process is inside from when it was told of the grant until it releases the lock, is
// told of its loss, or ends.
//
// A process that is stopped cannot know what it loses meanwhile. It is excused from when
// it was stopped until a moment after it continues. Then the overlap must be over.
type overlap struct {
	check
	paused    int
	pending   []overlapping               // excused for now, or not known to be true
	conflicts map[*lockRecord]overlapping // that were found last
}

// An overlapping pair: b has been told that it is inside while a was.
type overlapping struct {
	a, b *hold
	late bool  // the grant of b was told late: its end may be earlier than the grant of a
	by   int64 // if late: when it is true
}

func (c *overlap) init() {
	c.check = newCheck(verdict.Overlap)
	c.conflicts = map[*lockRecord]overlapping{}
}

// granted judges that h comes inside.
func (c *overlap) granted(sc *scene, h *hold) {
	c.Judged++
	for _, o := range h.lock.inside {
		if !compatible(o, h) {
			c.meet(sc, overlapping{a: o, b: h}, h.granted)
		}
	}
	if h.mode == history.Permit {
		c.permits(sc, h)
	}
}

// changed judges that h, which is inside, has got another mode.
func (c *overlap) changed(sc *scene, h *hold, before history.Mode, at int64) {
	c.Judged++
	for _, o := range h.lock.inside {
		if o != h && !compatible(o, h) && (o.process == h.process || together(o.mode, before)) {
			c.meet(sc, overlapping{a: o, b: h}, at)
		}
	}
}

// meet judges a pair that is inside at that time.
func (c *overlap) meet(sc *scene, p overlapping, at int64) {
	if at < sc.now {
		p.late, p.by = true, sc.now+reaction
		c.pending = append(c.pending, p)
		return
	}
	if !p.excused(sc, at) {
		c.wrong(sc, p, at)
		return
	}
	if !p.like(c.conflicts[p.a.lock]) {
		c.paused++
	}
	c.conflicts[p.a.lock] = p
	c.pending = append(c.pending, p)
}

// like reports whether q is between the same grants, of the same processes.
func (p overlapping) like(q overlapping) bool {
	return q.a != nil && p.a.process == q.a.process && p.b.process == q.b.process && p.a.fence == q.a.fence && p.b.fence == q.b.fence
}

// excused reports whether the one of the pair that does not hold the lock any more could
// not know. The other one has no need of an excuse: it holds the lock.
func (p overlapping) excused(sc *scene, at int64) bool {
	if p.a.mode == history.Permit {
		_, ok := sc.excused(p.a, at)
		return ok
	}
	switch x := p.order(sc); {
	case x < 0:
		return sc.unaware(p.a, p.b.since, at)
	case x > 0:
		return sc.unaware(p.b, p.a.since, at)
	}
	return false
}

// order returns a negative number if the lock is b's, a positive one if it is a's, and 0 if
// a correct lock gives no such pair. Tokens tell, which rise in the order of the queue, for
// readers and writers alike. But an upgraded hold keeps the token of its upgradable read,
// which says nothing of its order among readers; and members of a group, say, have no
// tokens. Then times tell: the lock is that one's which was given it later.
func (p overlapping) order(sc *scene) int {
	if p.a.fence.token != 0 && p.b.fence.token != 0 && !besideUpgrade(p.a, p.b) && !besideUpgrade(p.b, p.a) {
		return p.a.fence.compare(p.b.fence)
	}
	if x := cmp.Compare(sc.given(p.a), sc.given(p.b)); x != 0 {
		return x
	}
	return cmp.Compare(p.a.since, p.b.since)
}

// besideUpgrade reports whether a is an upgraded hold, and b a reader's.
func besideUpgrade(a, b *hold) bool { return a.upgraded && b.mode == history.Read }

// wrong notes a finding, unless it was found of the same grants already.
func (c *overlap) wrong(sc *scene, p overlapping, at int64) {
	if l := p.a.lock; !p.like(c.conflicts[l]) {
		c.conflicts[l] = p
		c.find(sc, l, at, "lock %q was held twice at %s: by %v, since %s, and by %v, since %s", l.Name, sc.when(at), p.a, sc.when(p.a.granted), p.b, sc.when(p.b.granted))
	}
}

// permits judges that the permits in use are no more than there are.
func (c *overlap) permits(sc *scene, h *hold) {
	l := h.lock
	if l.Capacity == 0 {
		return
	}
	used, excused := h.permits, 0
	if _, ok := sc.excused(h, h.granted); ok { // it is told late, and may have lost them
		excused += h.permits
		c.pending = append(c.pending, overlapping{a: h, b: h})
	}
	for _, o := range l.inside {
		used += o.permits
		if _, ok := sc.excused(o, h.granted); ok {
			excused += o.permits
			c.pending = append(c.pending, overlapping{a: o, b: h})
		}
	}
	switch {
	case used-excused > l.Capacity:
		c.find(sc, l, h.granted, "%d permits of %q were in use at %s, of %d: the last was granted to %v", used, l.Name, sc.when(h.granted), l.Capacity, h)
	case used > l.Capacity:
		c.paused++
	}
}

// pass judges the pairs whose time to react is over.
func (c *overlap) pass(sc *scene) {
	if len(c.pending) == 0 {
		return
	}
	due := c.pending
	c.pending = nil
	for _, p := range due {
		switch {
		case p.late && sc.now < p.by:
			c.pending = append(c.pending, p)
		case p.late:
			c.settle(sc, p)
		case p.excused(sc, sc.now):
			c.pending = append(c.pending, p)
		case p.a.mode == history.Permit:
			c.still(sc, p)
		default:
			c.find(sc, p.a.lock, sc.now, "lock %q is still held twice at %s: by %v, since %s, and by %v, since %s; the one that was stopped, or whose node was deleted, should have learned by now that it has lost the lock", p.a.lock.Name, sc.when(sc.now), p.a, sc.when(p.a.granted), p.b, sc.when(p.b.granted))
			c.conflicts[p.a.lock] = p
		}
	}
}

// still judges the permits that are in use although a process has had time to notice that
// it has lost its own.
func (c *overlap) still(sc *scene, p overlapping) {
	l, used := p.a.lock, 0
	for _, o := range l.inside {
		used += o.permits
	}
	if used > l.Capacity {
		c.find(sc, l, sc.now, "%d permits of %q are still in use at %s, of %d: %v should have learned by now that it has lost its own", used, l.Name, sc.when(sc.now), l.Capacity, p.a)
	}
}

// explain says what may have been overlooked.
func (c *overlap) explain(late uint64) {
	if late > 0 {
		c.Note = fmt.Sprintf("%d events were written long after they happened, by processes that were stopped or starved; holds that were over by then were not compared with theirs", late)
	}
}

// left notes that h is inside no more.
func (c *overlap) left(sc *scene, h *hold) {
	c.pending = slices.DeleteFunc(c.pending, func(p overlapping) bool {
		if p.a != h && p.b != h {
			return false
		}
		if p.late {
			c.settle(sc, p)
		}
		return true
	})
}

// settle judges a pair of which a grant was told late.
func (c *overlap) settle(sc *scene, p overlapping) {
	from, to := max(p.a.granted, p.b.granted), min(p.a.end(), p.b.end())
	if from >= to {
		return
	}
	if p.excused(sc, from) {
		c.paused++
	} else {
		c.wrong(sc, p, from)
	}
}
