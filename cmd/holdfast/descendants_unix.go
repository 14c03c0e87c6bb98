// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import "syscall"

// reported is what a guard is told of its children, besides their ends. Package syscall takes a
// stop by SIGSTOP for a continuation here.
const reported = syscall.WUNTRACED

// adoptOrphans does nothing, and reports so: only Linux can do that.
func adoptOrphans() bool { return false }

// programAttr has the program start in a process group of its own, in the foreground of
// the terminal tty if need be.
func programAttr(foreground bool, tty int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: foreground, Ctty: tty}
}

// leftRunning names no process: only Linux tells which there are.
func leftRunning() []string { return nil }

// signalDescendants does nothing: a process that has left its group is not found.
func signalDescendants(syscall.Signal) {}
