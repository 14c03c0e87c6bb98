// SPDX-License-Identifier: Apache-2.0

package judge

import "fmt"

// most is how many findings are kept, of each check and in a verdict.
const most = 100

// A check counts what was judged in one way, and keeps what is wrong.
type check struct {
	Check
	outcome  Outcome // of a run in which it finds something
	findings []Finding
}

// find notes a finding. Its text is about the lock l, or about none if l is nil.
func (c *check) find(j *Judge, l *lockRecord, at int64, format string, args ...any) {
	c.Found++
	if len(c.findings) == most {
		return
	}
	f := Finding{Check: c.Name, At: at, Text: fmt.Sprintf(format, args...), Faults: j.faults.near(at)}
	if l != nil {
		f.Lock = l.Name
	}
	c.findings = append(c.findings, f)
}

// look counts, at the end of a run, a check that is made by a look at what others have seen,
// if there was nothing to see.
func (c *check) look(j *Judge) {
	if j.stopping && c.Judged == 0 {
		c.Judged = 1
	}
}
