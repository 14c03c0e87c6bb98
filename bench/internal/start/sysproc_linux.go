// SPDX-License-Identifier: Apache-2.0

package start

import "syscall"

// sysProcAttr makes a server die with the thread that started it, so that a killed
// process leaves no server behind.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
