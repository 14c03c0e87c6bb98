// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadClock(t *testing.T) {
	monotonic, ok := readClock(unix.CLOCK_MONOTONIC)
	boottime, known := readClock(unix.CLOCK_BOOTTIME)
	if !ok || !known || monotonic <= 0 || boottime < monotonic {
		t.Errorf("the clocks say %v, %v and %v, %v", monotonic, ok, boottime, known)
	}
	if _, ok := readClock(999); ok {
		t.Error("a clock that there is not was read")
	}
}
