// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// systemTime returns the time on a clock that all processes of the machine share, that
// is never set, and that goes on while the machine is suspended.
func systemTime() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		panic("holdfast: the kernel has no CLOCK_BOOTTIME: " + err.Error()) // Linux 2.6.39 has it
	}
	return time.Duration(at.Nano())
}
