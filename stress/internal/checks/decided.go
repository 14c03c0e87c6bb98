// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// Decided is a check: Linear has come to an end in time for most windows, and for at
// least one of each lock. Otherwise its silence shows little.
type Decided struct{ Check }

// Lock judges a lock of which all windows have been tried.
func (c *Decided) Lock(sc *scene.Scene, all *Linear, l *scene.Lock) {
	n := all.lines[l]
	if n == nil || n.judged == 0 && n.unjudged == 0 {
		return
	}
	c.Judged++
	if n.judged == 0 {
		c.find(sc, l, sc.Now, "none of the windows of operations on lock %q is judged, of which there are %d: the checker of linearizability did not come to an end in time; let workers hold locks for longer, or use a faster machine", l.Name, n.unjudged)
	}
}

// End judges all locks that are known, and the windows together.
func (c *Decided) End(sc *scene.Scene, all *Linear) {
	for _, name := range slices.Sorted(maps.Keys(sc.Locks)) {
		c.Lock(sc, all, sc.Locks[name])
	}
	if all.unjudged > all.Judged {
		c.find(sc, nil, sc.Now, "%d windows of operations are not judged, and only %d are: the checker of linearizability did not come to an end in time; let workers hold locks for longer, or use a faster machine", all.unjudged, all.Judged)
	}
}
