// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Agree is a check: no two servers of the ensemble show what cannot both be right. If they do,
// that is ZooKeeper's fault. It says nothing against the locks, and what is found afterwards
// does not either: then the run is void.
type Agree struct {
	Check
	contradictions int
	first          int64 // when the first was noticed
	Text           string
}

// Disagreed notes that two servers contradict each other.
func (c *Agree) Disagreed(sc *scene.Scene, e history.Event) {
	c.Judged++
	if c.contradictions++; c.contradictions == 1 {
		c.first, c.Text = e.At, "at "+sc.When(e.At)+", of "+e.Lock+": "+e.Text
	}
}

// Compared notes how often the harness has compared servers.
func (c *Agree) Compared(e history.Event) { c.Judged += e.Count }

// unseen is for how long servers may have contradicted each other before the harness notices.
const unseen = int64(10 * time.Second)

// Excuses reports whether servers contradicted each other before all that was found.
func (c *Agree) Excuses(findings []verdict.Finding) bool {
	return c.contradictions > 0 && !slices.ContainsFunc(findings, func(f verdict.Finding) bool { return f.At < c.first-unseen })
}

// Explain says what was noticed.
func (c *Agree) Explain(*scene.Scene) {
	c.Note = ""
	if c.contradictions > 0 {
		c.Note = "they do: " + figures.Times(c.contradictions) + ", first " + c.Text
	}
}
