// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"math/rand/v2"
	"time"
)

// Backoff returns how long to wait before trying something again that has failed
// n+1 times: first, doubled n times, but not more than most. A random part of up
// to half of it is left out, so that many who have failed together do not come
// back together. first must be at least 2 ns.
func Backoff(n int, first, most time.Duration) time.Duration {
	d := most
	if n = max(n, 0); n < 63 && first <= most>>n {
		d = first << n
	}
	return d - rand.N(d/2)
}
