// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Overlap is a check: no two processes are inside at once in modes that exclude each other.
// A process is inside from when it was told of the grant until it releases the lock, is
// told of its loss, or ends.
//
// A process that is stopped cannot know what it loses meanwhile. It is excused from when
// it was stopped until a moment after it continues. Then the overlap must be over.
type Overlap struct {
	Check
	Paused    int
	pending   []overlapping               // excused for now, or not known to be true
	conflicts map[*scene.Lock]overlapping // that were found last
}

// An overlapping pair: b has been told that it is inside while a was.
type overlapping struct {
	a, b *scene.Hold
	late bool  // the grant of b was told late: its end may be earlier than the grant of a
	by   int64 // if late: when it is true
}

// NewOverlap returns the check at the beginning of a run.
func NewOverlap() Overlap {
	return Overlap{Check: New(verdict.Overlap), conflicts: map[*scene.Lock]overlapping{}}
}

// Granted judges that h comes inside.
func (c *Overlap) Granted(sc *scene.Scene, h *scene.Hold) {
	c.Judged++
	for _, o := range h.Lock.Inside {
		if !scene.Compatible(o, h) {
			c.meet(sc, overlapping{a: o, b: h}, h.Granted)
		}
	}
	if h.Mode == history.Permit {
		c.permits(sc, h)
	}
}

// Changed judges that h, which is inside, has got another mode.
func (c *Overlap) Changed(sc *scene.Scene, h *scene.Hold, before history.Mode, at int64) {
	c.Judged++
	for _, o := range h.Lock.Inside {
		if o != h && !scene.Compatible(o, h) && (o.Process == h.Process || scene.Together(o.Mode, before)) {
			c.meet(sc, overlapping{a: o, b: h}, at)
		}
	}
}

// meet judges a pair that is inside at that time.
func (c *Overlap) meet(sc *scene.Scene, p overlapping, at int64) {
	if at < sc.Now {
		p.late, p.by = true, sc.Now+scene.Reaction
		c.pending = append(c.pending, p)
		return
	}
	if !p.excused(sc, at) {
		c.wrong(sc, p, at)
		return
	}
	if !p.like(c.conflicts[p.a.Lock]) {
		c.Paused++
	}
	c.conflicts[p.a.Lock] = p
	c.pending = append(c.pending, p)
}

// like reports whether q is between the same grants, of the same processes.
func (p overlapping) like(q overlapping) bool {
	return q.a != nil && p.a.Process == q.a.Process && p.b.Process == q.b.Process && p.a.Fence == q.a.Fence && p.b.Fence == q.b.Fence
}

// excused reports whether the one of the pair that does not hold the lock any more could
// not know. The other one has no need of an excuse: it holds the lock.
func (p overlapping) excused(sc *scene.Scene, at int64) bool {
	if p.a.Mode == history.Permit {
		_, ok := sc.Excused(p.a, at)
		return ok
	}
	switch x := p.order(sc); {
	case x < 0:
		return sc.Unaware(p.a, p.b.Since, at)
	case x > 0:
		return sc.Unaware(p.b, p.a.Since, at)
	}
	return false
}

// order returns a negative number if the lock is b's, a positive one if it is a's, and 0 if
// a correct lock gives no such pair. Tokens tell, which rise in the order of the queue, for
// readers and writers alike. But an upgraded hold keeps the token of its upgradable read,
// which says nothing of its order among readers; and members of a group, say, have no
// tokens. Then times tell: the lock is that one's which was given it later.
func (p overlapping) order(sc *scene.Scene) int {
	if p.a.Fence.Token != 0 && p.b.Fence.Token != 0 && !besideUpgrade(p.a, p.b) && !besideUpgrade(p.b, p.a) {
		return p.a.Fence.Compare(p.b.Fence)
	}
	if x := cmp.Compare(sc.Sure(p.a, p.a.Since), sc.Sure(p.b, p.b.Since)); x != 0 { // one that was stopped is told later
		return x
	}
	return cmp.Compare(p.a.Since, p.b.Since)
}

// besideUpgrade reports whether a is an upgraded hold, and b a reader's.
func besideUpgrade(a, b *scene.Hold) bool { return a.Upgraded && b.Mode == history.Read }

// wrong notes a finding, unless it was found of the same grants already.
func (c *Overlap) wrong(sc *scene.Scene, p overlapping, at int64) {
	if l := p.a.Lock; !p.like(c.conflicts[l]) {
		c.conflicts[l] = p
		c.find(sc, l, at, "lock %q was held twice at %s: by %v, since %s, and by %v, since %s", l.Name, sc.When(at), p.a, sc.When(p.a.Granted), p.b, sc.When(p.b.Granted))
	}
}

// permits judges that the permits in use are no more than there are.
func (c *Overlap) permits(sc *scene.Scene, h *scene.Hold) {
	l := h.Lock
	if l.Capacity == 0 {
		return
	}
	used, excused := h.Permits, 0
	if _, ok := sc.Excused(h, h.Granted); ok { // it is told late, and may have lost them
		excused += h.Permits
		c.pending = append(c.pending, overlapping{a: h, b: h})
	}
	for _, o := range l.Inside {
		used += o.Permits
		if _, ok := sc.Excused(o, h.Granted); ok {
			excused += o.Permits
			c.pending = append(c.pending, overlapping{a: o, b: h})
		}
	}
	switch {
	case used-excused > l.Capacity:
		c.find(sc, l, h.Granted, "%d permits of %q were in use at %s, of %d: the last was granted to %v", used, l.Name, sc.When(h.Granted), l.Capacity, h)
	case used > l.Capacity:
		c.Paused++
	}
}

// Pass judges the pairs whose time to react is over.
func (c *Overlap) Pass(sc *scene.Scene) {
	if len(c.pending) == 0 {
		return
	}
	due := c.pending
	c.pending = nil
	for _, p := range due {
		switch {
		case p.late && sc.Now < p.by:
			c.pending = append(c.pending, p)
		case p.late:
			c.settle(sc, p)
		case p.excused(sc, sc.Now):
			c.pending = append(c.pending, p)
		case p.a.Mode == history.Permit:
			c.still(sc, p)
		default:
			c.find(sc, p.a.Lock, sc.Now, "lock %q is still held twice at %s: by %v, since %s, and by %v, since %s; the one that was stopped, or whose node was deleted, should have learned by now that it has lost the lock", p.a.Lock.Name, sc.When(sc.Now), p.a, sc.When(p.a.Granted), p.b, sc.When(p.b.Granted))
			c.conflicts[p.a.Lock] = p
		}
	}
}

// still judges the permits that are in use although a process has had time to notice that
// it has lost its own.
func (c *Overlap) still(sc *scene.Scene, p overlapping) {
	l, used := p.a.Lock, 0
	for _, o := range l.Inside {
		used += o.Permits
	}
	if used > l.Capacity {
		c.find(sc, l, sc.Now, "%d permits of %q are still in use at %s, of %d: %v should have learned by now that it has lost its own", used, l.Name, sc.When(sc.Now), l.Capacity, p.a)
	}
}

// Explain says what may have been overlooked.
func (c *Overlap) Explain(sc *scene.Scene) {
	c.explain(sc.Late, "%d events were written long after they happened, by processes that were stopped or starved; holds that were over by then were not compared with theirs", sc.Late)
}

// Left notes that h is inside no more.
func (c *Overlap) Left(sc *scene.Scene, h *scene.Hold) {
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
func (c *Overlap) settle(sc *scene.Scene, p overlapping) {
	from, to := max(p.a.Granted, p.b.Granted), min(p.a.End(), p.b.End())
	if from >= to {
		return
	}
	if p.excused(sc, from) {
		c.Paused++
	} else {
		c.wrong(sc, p, from)
	}
}

// Forgets notes that the scene forgets the lock.
func (c *Overlap) Forgets(l *scene.Lock) { delete(c.conflicts, l) }
