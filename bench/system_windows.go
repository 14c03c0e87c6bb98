// SPDX-License-Identifier: Apache-2.0

package main

import (
	"syscall"
	"time"
)

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var began, ended, kernel, user syscall.Filetime
	self, err := syscall.GetCurrentProcess()
	if err == nil {
		err = syscall.GetProcessTimes(self, &began, &ended, &kernel, &user)
	}
	if err != nil {
		panic(err) // it fails only for wrong arguments
	}
	ticks := func(t syscall.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) } // 100 ns each
	return time.Duration(100 * (ticks(kernel) + ticks(user)))
}

// ownGroup asks for nothing special: Windows has no process groups.
func ownGroup() *syscall.SysProcAttr { return nil }
