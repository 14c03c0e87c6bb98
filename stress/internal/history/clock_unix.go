// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package history

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time of the machine's monotonic clock, which all processes share. No
// change of the date moves it. In a time namespace it can have another origin.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Now().UnixNano() // no system of those above refuses it
	}
	return t.Nano()
}
