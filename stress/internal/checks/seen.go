// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// Seen is a check of what others have seen, who have judged it. What they tell is wrong:
//
//   - that a node is left in ZooKeeper at the end,
//   - that a worker saw what the API does not allow, or the harness anything else that is wrong,
//   - that too little has happened for the run to show something.
type Seen struct{ Check }

// See notes what they tell.
func (c *Seen) See(sc *scene.Scene, e history.Event) {
	c.Judged++
	text := e.Text
	switch {
	case e.Kind == history.Left:
		text = "left in ZooKeeper at the end: " + text
	case e.Kind == history.Failure && e.Process < 0:
		text = fmt.Sprintf("the harness, at %s: %s", sc.When(e.At), text)
	case e.Kind == history.Failure:
		text = fmt.Sprintf("process %d, at %s: %s", e.Process, sc.When(e.At), text)
	}
	c.find(sc, sc.LockOf(e), e.At, "%s", text)
}

// End counts the look at what others have seen, if there was nothing to see.
func (c *Seen) End(sc *scene.Scene) {
	if sc.Stopping && c.Judged == 0 {
		c.Judged = 1
	}
}
