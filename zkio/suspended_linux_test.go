// SPDX-License-Identifier: Apache-2.0

package zkio

import "testing"

func TestReadClock(t *testing.T) {
	monotonic, ok := readClock(clockMonotonic)
	boottime, known := readClock(clockBoottime)
	if !ok || !known || monotonic <= 0 || boottime < monotonic {
		t.Errorf("the clocks say %v, %v and %v, %v", monotonic, ok, boottime, known)
	}
	if _, ok := readClock(999); ok {
		t.Error("a clock that there is not was read")
	}
}
