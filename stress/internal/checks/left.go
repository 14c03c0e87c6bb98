// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// Left is a check: no node is left in ZooKeeper at the end.
type Left struct{ Check }

// See judges a node that is left.
func (c *Left) See(sc *scene.Scene, e history.Event) {
	c.Judged++
	c.find(sc, sc.LockOf(e), e.At, "left in ZooKeeper at the end: %s", e.Text)
}

// Failures is a check: the workers saw nothing that the API does not allow, and the harness
// nothing else that is wrong.
type Failures struct{ Check }

// Failed judges a failure that a worker or the harness has seen.
func (c *Failures) Failed(sc *scene.Scene, e history.Event) {
	c.Judged++
	who := fmt.Sprintf("process %d", e.Process)
	if e.Process < 0 {
		who = "the harness"
	}
	c.find(sc, sc.LockOf(e), e.At, "%s, at %s: %s", who, sc.When(e.At), e.Text)
}
