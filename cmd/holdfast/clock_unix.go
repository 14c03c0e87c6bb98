// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// systemTime returns the time on a clock that all processes of the machine share and
// that is never set. On macOS it stands still while the machine is suspended, as the
// clock of the leases does.
func systemTime() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		panic("holdfast: the system has no CLOCK_MONOTONIC: " + err.Error())
	}
	return time.Duration(at.Nano())
}
