// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// The check tokens: of two grants that exclude each other, the later one has the higher
// token. The tokens are in the order of the queue, so this is fairness, too: no process is
// granted a lock before one that queued earlier. Under one token, only goroutines of one
// process hold a lock; those of a mutex have rising turns.
type tokens struct {
	check
	unjudged uint64 // told after a stop, so that it may not be valid any more
}

func (c *tokens) init() {
	c.check = newCheck(verdict.Tokens)
}

// granted judges the token of h. A token 0 means that the lock has none.
func (c *tokens) granted(sc *scene, h *hold) {
	if h.fence.token == 0 || kind(h.mode) == semaphore {
		return
	}
	l := h.lock
	if l.highest == nil {
		l.highest = map[history.Mode]highest{}
	}
	for _, mode := range modes {
		top, ok := l.highest[mode]
		if !ok || together(mode, h.mode) {
			continue
		}
		switch x := h.fence.compare(top.fence); {
		case x > 0:
		case x == 0 && top.by == h.process && h.mode != history.Mutex:
		case x == 0:
			c.find(sc, l, h.granted, "%v was granted to process %d at %s and again at %s, to %v, on lock %q", top.fence, top.by.number, sc.when(top.at), sc.when(h.granted), h, l.Name)
		case h.granted < top.at: // this comes late: the other one was told later
		case sc.unaware(h, top.at, h.granted):
			c.unjudged++
			return
		default:
			c.find(sc, l, h.granted, "lock %q was granted at %s to %v, after process %d had been granted it with %v at %s", l.Name, sc.when(h.granted), h, top.by.number, top.fence, sc.when(top.at))
		}
	}
	c.Judged++
	if top, ok := l.highest[h.mode]; !ok || h.fence.compare(top.fence) > 0 {
		l.highest[h.mode] = highest{h.fence, h.process, h.granted, h.asked}
	}
}

var modes = []history.Mode{history.Exclusive, history.Mutex, history.Read, history.Upgradable, history.WriteMode}

// explain says how much was not judged.
func (c *tokens) explain() {
	if c.unjudged > 0 {
		c.Note = fmt.Sprintf("grants that are not judged: %d; they were told after a stop or the deletion of a node, and may have been over by then", c.unjudged)
	}
}
