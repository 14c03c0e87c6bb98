// SPDX-License-Identifier: Apache-2.0

package racing

import "testing"

// Fewer returns how many of n repetitions of a test to make that differ in their seed alone:
// a tenth under the race detector, which takes most of the time, and sees in few of them what
// there is to see; a quarter with -short; else all.
func Fewer(n int) int {
	if Detector {
		n /= 10
	}
	if testing.Short() {
		n /= 4
	}
	return max(n, 1)
}
