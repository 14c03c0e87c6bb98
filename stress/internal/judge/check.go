// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"

	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A check counts what was judged in one way, and keeps what is wrong.
type check struct {
	verdict.Check
	findings []verdict.Finding
}

func newCheck(name string) check { return check{Check: verdict.Check{Name: name}} }

// find notes a finding. Its text is about the lock l, or about none if l is nil.
func (c *check) find(sc *scene.Scene, l *scene.Lock, at int64, format string, args ...any) {
	c.Found++
	if len(c.findings) == verdict.MaxFindings {
		return
	}
	f := verdict.Finding{Check: c.Name, At: at, Text: fmt.Sprintf(format, args...), Faults: sc.Faults.Near(at)}
	if l != nil {
		f.Lock = l.Name
	}
	c.findings = append(c.findings, f)
}

// look counts, at the end of a run, a check that is made by a look at what others have seen,
// if there was nothing to see.
func (c *check) look(sc *scene.Scene) {
	if sc.Stopping && c.Judged == 0 {
		c.Judged = 1
	}
}
