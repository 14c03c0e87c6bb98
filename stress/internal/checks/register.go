// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Register is a check: the tokens of the writes that it accepted never fall, and each was
// granted. So no process that has lost a lock changes what the next holder has written.
type Register struct {
	Check
	Refused  int
	unjudged uint64 // tokens that were forgotten
	books    map[*scene.Lock]*book
}

// A book has the tokens of a lock that matter to its register.
type book struct {
	granted   []history.Fence // in order: those that may still write to the register
	forgotten history.Fence   // the highest that granted has had to forget
	accepted  history.Fence   // the highest that the register has accepted
}

func (c *Register) of(l *scene.Lock) *book {
	b := c.books[l]
	if b == nil {
		b = &book{}
		c.books[l] = b
	}
	return b
}

// NewRegister returns the check at the beginning of a run.
func NewRegister() Register {
	return Register{Check: New(verdict.Register), books: map[*scene.Lock]*book{}}
}

// Memory is how many tokens of a lock are remembered that may still write.
const Memory = 4096

// Granted notes a token that may write to the register.
func (c *Register) Granted(l *scene.Lock, f history.Fence) {
	b := c.of(l)
	if f.Token == 0 || f.Compare(b.accepted) < 0 {
		return
	}
	i, known := slices.BinarySearchFunc(b.granted, f, history.Fence.Compare)
	if known {
		return
	}
	if len(b.granted) == Memory {
		if i == 0 {
			return
		}
		b.forgotten = b.granted[0]
		b.granted = slices.Delete(b.granted, 0, 1)
		i--
	}
	b.granted = slices.Insert(b.granted, i, f)
}

// Accepted judges a write that the register has accepted.
func (c *Register) Accepted(sc *scene.Scene, e history.Event) {
	l, f := sc.Lock(e.Lock, e.Mode), e.Fence()
	if l.Mode == history.Permit {
		return // several hold it, and write in any order
	}
	b := c.of(l)
	c.Judged++
	if f.Compare(b.accepted) < 0 {
		c.find(sc, l, e.At, "the register accepted a write to %q with %v at %s, after one with %v", l.Name, f, sc.When(e.At), b.accepted)
		return
	}
	i, known := slices.BinarySearchFunc(b.granted, f, history.Fence.Compare)
	switch {
	case known:
	case f.Compare(b.forgotten) <= 0, sc.Partial && (len(b.granted) == 0 || f.Compare(b.granted[0]) < 0):
		c.unjudged++
	default:
		c.find(sc, l, e.At, "the register accepted a write to %q with %v at %s, which was granted to no process", l.Name, f, sc.When(e.At))
	}
	b.accepted = f
	b.granted = slices.Delete(b.granted, 0, i)
}

// Stale judges a write that the register has refused.
func (c *Register) Stale(sc *scene.Scene, e history.Event) {
	l, f := sc.Lock(e.Lock, e.Mode), e.Fence()
	b := c.of(l)
	c.Refused++
	if sc.Partial && b.accepted == (history.Fence{}) {
		c.unjudged++
		return
	}
	if l.Mode != history.Permit && f.Compare(b.accepted) >= 0 {
		c.find(sc, l, e.At, "the register refused a write to %q with %v at %s, although it had accepted none with a higher one", l.Name, f, sc.When(e.At))
	}
}

// Answered judges the answer that a worker got to its write.
func (c *Register) Answered(sc *scene.Scene, e history.Event) {
	h := sc.Hold(e)
	if h == nil || h.Phase != scene.Inside || e.OK || h.Mode == history.Permit || h.Mode == history.Read || h.Mode == history.Upgradable {
		return
	}
	c.Judged++
	if _, ok := sc.Excused(h, e.At); !ok {
		c.find(sc, h.Lock, e.At, "a write of %v to %q was refused at %s, although it held the lock since %s and was not told of a loss", h, h.Lock.Name, sc.When(e.At), sc.When(h.Granted))
	}
}

// Explain says how much was not judged.
func (c *Register) Explain(*scene.Scene) {
	c.explain(c.unjudged, "of %d writes it is not known any more whether their tokens were granted", c.unjudged)
}

// Forgets notes that the scene forgets the lock.
func (c *Register) Forgets(l *scene.Lock) { delete(c.books, l) }
