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

// explain says in the note how much was not judged, if anything.
func (c *Check) explain(n uint64, format string, args ...any) {
	if n > 0 {
		c.Note = fmt.Sprintf(format, args...)
	}
}

// Base returns what the check has counted and found.
func (c *Check) Base() *Check { return c }

// Many checks have nothing to do at the end, to explain, or to forget.

// End judges what is left at the end of a run.
func (c *Check) End(*scene.Scene) {}

// Explain says in the note what was not judged, and why.
func (c *Check) Explain(*scene.Scene) {}

// Forgets notes that the scene forgets the lock.
func (c *Check) Forgets(*scene.Lock) {}
