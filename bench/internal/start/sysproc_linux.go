// SPDX-License-Identifier: Apache-2.0

package start

import "syscall"

// sysProcAttr has a server end with the thread that started it: whoever is killed
// leaves none behind.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
