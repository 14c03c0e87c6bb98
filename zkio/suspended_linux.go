// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"syscall"
	"time"
	"unsafe"
)

// The numbers of Linux's clocks: one stands still while the machine is
// suspended, and is Go's monotonic clock; the other goes on.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// systemSuspended returns for how long the machine has been suspended since it
// was booted, or a little more: what passes between the readings of the two
// clocks. It returns 0 where the kernel does not tell (before 2.6.39).
//
// Go's own reading of the monotonic clock would be cheaper. It is of the same
// clock, but not under testing/synctest.
func systemSuspended() time.Duration {
	monotonic, ok := readClock(clockMonotonic) // first, so that the difference is never too small
	boottime, known := readClock(clockBoottime)
	if !ok || !known {
		return 0
	}
	return boottime - monotonic
}

// systemUptime returns the time since the machine was booted, suspensions
// included; 0 where the kernel does not tell.
func systemUptime() time.Duration {
	boottime, _ := readClock(clockBoottime)
	return boottime
}

// readClock reads one of the kernel's clocks. It does not block, so the
// scheduler need not be told.
func readClock(number uintptr) (time.Duration, bool) {
	var at syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, number, uintptr(unsafe.Pointer(&at)), 0)
	return time.Duration(at.Nano()), errno == 0
}
