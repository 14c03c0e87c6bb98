// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// Tokens is a check: of two grants that exclude each other, the later one has the higher
// token. The tokens are in the order of the queue, so this is fairness, too: no process is
// granted a lock before one that queued earlier. Under one token, only goroutines of one
// process hold a lock; those of a mutex have rising turns.
type Tokens struct {
	Check
	unjudged uint64 // told after a stop, so that it may not be valid any more
}

// Granted judges the token of h. A token 0 means that the lock has none.
func (c *Tokens) Granted(sc *scene.Scene, h *scene.Hold) {
	if h.Fence.Token == 0 || h.Mode == history.Permit {
		return
	}
	l := h.Lock
	if l.Highest == nil {
		l.Highest = map[history.Mode]scene.Highest{}
	}
	for _, mode := range modes {
		top, ok := l.Highest[mode]
		if !ok || scene.Together(mode, h.Mode) {
			continue
		}
		switch x := h.Fence.Compare(top.Fence); {
		case x > 0:
		case x == 0 && top.By == h.Process && h.Mode != history.Mutex:
		case x == 0:
			c.find(sc, l, h.Granted, "%v was granted to process %d at %s and again at %s, to %v, on lock %q", top.Fence, top.By.Number, sc.When(top.At), sc.When(h.Granted), h, l.Name)
		case h.Granted < top.At: // this comes late: the other one was told later
		case sc.Unaware(h, top.At, h.Granted):
			c.unjudged++
			return
		default:
			c.find(sc, l, h.Granted, "lock %q was granted at %s to %v, after process %d had been granted it with %v at %s", l.Name, sc.When(h.Granted), h, top.By.Number, top.Fence, sc.When(top.At))
		}
	}
	c.Judged++
	if top, ok := l.Highest[h.Mode]; !ok || h.Fence.Compare(top.Fence) > 0 {
		l.Highest[h.Mode] = scene.Highest{Fence: h.Fence, By: h.Process, At: h.Granted, Asked: h.Asked}
	}
}

var modes = []history.Mode{history.Exclusive, history.Mutex, history.Read, history.Upgradable, history.WriteMode}

// Explain says how much was not judged.
func (c *Tokens) Explain(*scene.Scene) {
	c.explain(c.unjudged, "grants that are not judged: %d; they were told after a stop or the deletion of a node, and may have been over by then", c.unjudged)
}
