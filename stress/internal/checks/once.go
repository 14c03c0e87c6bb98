// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"hash/maphash"

	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Once is a check: what may be released in good order only once, such as an element of a
// queue that is done, is not granted again.
type Once struct {
	Check
	seed maphash.Seed
	done map[uint64]bool      // hashes of the names of passing locks
	kept map[*scene.Lock]bool // other locks
	ring []uint64             // the same, the oldest at next once it is full
	next int
	lost uint64 // names that were forgotten to make room
}

// manyDone is how many names are remembered.
const manyDone = 1 << 20

// NewOnce returns the check at the beginning of a run.
func NewOnce() Once {
	return Once{
		Check: New(verdict.Once),
		seed:  maphash.MakeSeed(),
		done:  map[uint64]bool{},
		kept:  map[*scene.Lock]bool{},
	}
}

// Granted judges that h is granted.
func (c *Once) Granted(sc *scene.Scene, h *scene.Hold) {
	if !h.Lock.Once {
		return
	}
	c.Judged++
	if c.kept[h.Lock] || h.Lock.Passing && c.done[maphash.String(c.seed, h.Lock.Name)] {
		c.find(sc, h.Lock, h.Granted, "%q was granted at %s to %v, although it had been released in good order", h.Lock.Name, sc.When(h.Granted), h)
	}
}

// Settled notes how the release of h has ended.
func (c *Once) Settled(h *scene.Hold, good bool) {
	if !h.Lock.Once || !good || h.Phase != scene.Releasing {
		return
	}
	if !h.Lock.Passing {
		c.kept[h.Lock] = true
		return
	}
	name := maphash.String(c.seed, h.Lock.Name)
	if c.done[name] {
		return
	}
	if len(c.ring) < manyDone {
		c.ring = append(c.ring, name)
	} else {
		delete(c.done, c.ring[c.next])
		c.lost++
		c.ring[c.next] = name
		c.next = (c.next + 1) % manyDone
	}
	c.done[name] = true
}

// Explain says what may have been overlooked.
func (c *Once) Explain(*scene.Scene) {
	c.explain(c.lost, "the names of %d that were done are forgotten, each after %d others: a later grant of one of them would not be noticed", c.lost, manyDone)
}
