// SPDX-License-Identifier: Apache-2.0

package judge

import "github.com/holdfast-go/holdfast/stress/internal/history"

// The check left: no node is left in ZooKeeper at the end.
type left struct{ check }

func (c *left) init() {
	c.check = check{Check: Check{Name: "nothing is left behind"}, outcome: Failed}
}

// found judges a node that is left.
func (c *left) found(j *Judge, e history.Event) {
	c.Judged++
	var l *lockRecord
	if e.Lock != "" {
		l = j.lock(e.Lock, e.Mode)
	}
	c.find(j, l, e.At, "left in ZooKeeper at the end: %s", e.Text)
}

// end counts the look at what is left.
func (c *left) end(j *Judge) {
	if j.stopping && c.Judged == 0 {
		c.Judged = 1
	}
}

// The check failures: the workers saw nothing that the API does not allow.
type failures struct{ check }

func (c *failures) init() {
	c.check = check{Check: Check{Name: "workers see nothing that the API does not allow"}, outcome: Failed}
}

// failed judges a failure that a worker has seen.
func (c *failures) failed(j *Judge, e history.Event) {
	c.Judged++
	var l *lockRecord
	if e.Lock != "" {
		l = j.lock(e.Lock, e.Mode)
	}
	c.find(j, l, e.At, "process %d, worker %d, at %s: %s", e.Process, e.Worker, j.when(e.At), e.Text)
}
