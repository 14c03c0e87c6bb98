// SPDX-License-Identifier: Apache-2.0

package errand

import (
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// Tries counts failures in a row, up to a number that matters no more.
type Tries uint8

// More counts one more, and returns how many there are.
func (n *Tries) More() int {
	*n = min(*n, 254) + 1
	return int(*n)
}

const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// Wait counts one more, and returns how long to wait before the next try.
func (n *Tries) Wait() time.Duration { return zkio.Backoff(n.More()-1, firstRetry, lastRetry) }

// Again has pool run t once more after a while, by way of queue q. It reports false if the
// pool is closed.
func (n *Tries) Again(pool Pool, q zkio.Queue, t zkio.Task) bool {
	return pool.SubmitAfter(n.Wait(), q, t)
}
