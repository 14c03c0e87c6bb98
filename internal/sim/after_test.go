// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// after is time.After, without a timer if d is 0. A goroutine that receives from the
// channel of a timer that is due runs that timer itself, and the race detector of Go 1.26
// can crash when two goroutines of a bubble do so at once: golang/go#78156.
func after(d time.Duration) <-chan time.Time {
	if d > 0 {
		return time.After(d)
	}
	c := make(chan time.Time, 1)
	c <- time.Now()
	return c
}
