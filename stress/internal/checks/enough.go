// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// Enough is a check: so much has happened that the run shows something, as the harness says,
// which has counted.
type Enough struct{ Check }

// Missed notes what has not happened.
func (c *Enough) Missed(sc *scene.Scene, e history.Event) {
	c.Judged++
	c.find(sc, nil, e.At, "%s", e.Text)
}
