// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// The check enough: so much has happened that the run shows something, as the harness says,
// which has counted.
type enough struct{ check }

func (c *enough) init() {
	c.check = newCheck(verdict.Enough)
}

// missed notes what has not happened.
func (c *enough) missed(sc *scene.Scene, e history.Event) {
	c.Judged++
	c.find(sc, nil, e.At, "%s", e.Text)
}
