// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import "syscall"

// adoptOrphans does nothing: only Linux can do that.
func adoptOrphans() {}

// programAttr has the program start in a process group of its own, in the foreground if
// need be.
func programAttr(foreground bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: foreground, Ctty: 0}
}

// signalDescendants does nothing: a process that has left its group is not found.
func signalDescendants(syscall.Signal) {}
