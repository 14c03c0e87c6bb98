// SPDX-License-Identifier: Apache-2.0

package racing

import (
	"os"
	"testing"
)

// whole says that no test makes do with a sample: make cover runs the tests so, which are
// sampled under the race detector.
var whole = os.Getenv("HOLDFAST_WHOLE") != ""

// Fewer returns how many of n repetitions of a test to make that differ in their seed alone:
// a tenth under the race detector, which takes most of the time, and sees in few of them what
// there is to see; a quarter with -short; else all.
func Fewer(n int) int {
	if whole {
		return n
	}
	if Detector {
		n /= 10
	}
	if testing.Short() {
		n /= 4
	}
	return max(n, 1)
}

// Some reports whether to take the nth of many cases of a test that differ in little: every
// seventh under the race detector, every fifth with -short, else each. Cases are made by loops
// inside loops. Since five and seven have no divisor in common with the number of turns of any of
// them, such a sample meets each value of each loop.
func Some(n int) bool {
	switch {
	case whole:
		return true
	case Detector:
		return n%7 == 0
	case testing.Short():
		return n%5 == 0
	}
	return true
}
