// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"time"

	"golang.org/x/sys/unix"
)

// systemSuspended returns for how long the machine has been suspended since it
// was booted, or a little more: what passes between the readings of the two
// clocks. It returns 0 where the kernel does not tell (before 2.6.39).
//
// CLOCK_MONOTONIC is Go's monotonic clock, and stands still while the machine is
// suspended. Go's own reading of it would be cheaper, but is another clock under
// testing/synctest.
func systemSuspended() time.Duration {
	monotonic, ok := readClock(unix.CLOCK_MONOTONIC) // first, so that the difference is never too small
	boottime, known := readClock(unix.CLOCK_BOOTTIME)
	if !ok || !known {
		return 0
	}
	return boottime - monotonic
}

// readClock reads one of the kernel's clocks.
func readClock(id int32) (time.Duration, bool) {
	var at unix.Timespec
	err := unix.ClockGettime(id, &at)
	return time.Duration(at.Nano()), err == nil
}
