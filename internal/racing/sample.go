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

// Some reports whether to take the nth of many cases of a test that differ in little: of as many
// as Stride says one. Cases are made by loops inside loops. Since five and seven have no divisor
// in common with the number of turns of any of them, such a sample meets each value of each loop.
func Some(n int) bool { return n%Stride() == 0 }

// Stride returns how many steps lead from a case that Some takes to the next one: seven under the
// race detector, five with -short, else one.
func Stride() int {
	switch {
	case whole:
		return 1
	case Detector:
		return 7
	case testing.Short():
		return 5
	}
	return 1
}
