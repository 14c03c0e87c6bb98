// SPDX-License-Identifier: Apache-2.0

// Package checks has the ways in which a history of the stress harness is judged. Each check is
// a type of its own, which is told what happens, looks at the scene, and remembers what it
// needs itself. It knows no other check, but Decided knows Linear.
package checks

import (
	"fmt"

	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A Check counts what was judged in one way, and keeps what is wrong.
type Check struct {
	verdict.Check
	Findings []verdict.Finding
}

// New returns a check of that name, which has judged nothing.
func New(name string) Check { return Check{Check: verdict.Check{Name: name}} }

// find notes a finding. Its text is about the lock l, or about none if l is nil.
func (c *Check) find(sc *scene.Scene, l *scene.Lock, at int64, format string, args ...any) {
	c.Found++
	if len(c.Findings) == verdict.MaxFindings {
		return
	}
	f := verdict.Finding{Check: c.Name, At: at, Text: fmt.Sprintf(format, args...), Faults: sc.Faults.Near(at)}
	if l != nil {
		f.Lock = l.Name
	}
	c.Findings = append(c.Findings, f)
}

// Look counts, at the end of a run, a check that is made by a look at what others have seen,
// if there was nothing to see.
func (c *Check) Look(sc *scene.Scene) {
	if sc.Stopping && c.Judged == 0 {
		c.Judged = 1
	}
}
