// SPDX-License-Identifier: Apache-2.0

package judge

import "github.com/holdfast-go/holdfast/stress/internal/history"

// The check enough: so much has happened that the run shows something, as the harness says,
// which has counted.
type enough struct{ check }

// Enough is the name of the check whether enough has happened.
const Enough = "enough happens to show something"

func (c *enough) init() {
	c.check = check{Check: Check{Name: Enough}, outcome: Void}
}

// missed notes what has not happened.
func (c *enough) missed(j *Judge, e history.Event) {
	c.Judged++
	c.find(j, nil, e.At, "%s", e.Text)
}
