// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// The check register: the tokens of the writes that it accepted never fall, and each was
// granted. So no process that has lost a lock changes what the next holder has written.
type register struct {
	check
	refused  int
	unjudged uint64 // tokens that were forgotten
}

func (c *register) init() {
	c.check = newCheck(verdict.Register)
}

// memory is how many tokens of a lock are remembered that may still write.
const memory = 4096

// granted notes a token that may write to the register.
func (c *register) granted(l *lockRecord, f fence) {
	if f.token == 0 || f.compare(l.accepted) < 0 {
		return
	}
	i, known := slices.BinarySearchFunc(l.granted, f, fence.compare)
	if known {
		return
	}
	if len(l.granted) == memory {
		if i == 0 {
			return
		}
		l.forgotten = l.granted[0]
		l.granted = slices.Delete(l.granted, 0, 1)
		i--
	}
	l.granted = slices.Insert(l.granted, i, f)
}

// accepted judges a write that the register has accepted.
func (c *register) accepted(j *Judge, e history.Event) {
	l, f := j.lock(e.Lock, e.Mode), fence{e.Token, e.Turn}
	if kind(l.Mode) == semaphore {
		return // several hold it, and write in any order
	}
	c.Judged++
	if f.compare(l.accepted) < 0 {
		c.find(j, l, e.At, "the register accepted a write to %q with %v at %s, after one with %v", l.Name, f, j.when(e.At), l.accepted)
		return
	}
	i, known := slices.BinarySearchFunc(l.granted, f, fence.compare)
	switch {
	case known:
	case f.compare(l.forgotten) <= 0, j.partial && (len(l.granted) == 0 || f.compare(l.granted[0]) < 0):
		c.unjudged++
	default:
		c.find(j, l, e.At, "the register accepted a write to %q with %v at %s, which was granted to no process", l.Name, f, j.when(e.At))
	}
	l.accepted = f
	l.granted = slices.Delete(l.granted, 0, i)
}

// stale judges a write that the register has refused.
func (c *register) stale(j *Judge, e history.Event) {
	l, f := j.lock(e.Lock, e.Mode), fence{e.Token, e.Turn}
	c.refused++
	if j.partial && l.accepted == (fence{}) {
		c.unjudged++
		return
	}
	if kind(l.Mode) != semaphore && f.compare(l.accepted) >= 0 {
		c.find(j, l, e.At, "the register refused a write to %q with %v at %s, although it had accepted none with a higher one", l.Name, f, j.when(e.At))
	}
}

// answered judges the answer that a worker got to its write.
func (c *register) answered(j *Judge, e history.Event) {
	h := j.hold(e)
	if h == nil || h.phase != inside || e.OK || kind(h.mode) == semaphore || h.mode == history.Read || h.mode == history.Upgradable {
		return
	}
	c.Judged++
	if _, ok := j.excused(h, e.At); !ok {
		c.find(j, h.lock, e.At, "a write of %v to %q was refused at %s, although it held the lock since %s and was not told of a loss", h, h.lock.Name, j.when(e.At), j.when(h.granted))
	}
}

// explain says how much was not judged.
func (c *register) explain() {
	if c.unjudged > 0 {
		c.Note = fmt.Sprintf("of %d writes it is not known any more whether their tokens were granted", c.unjudged)
	}
}
