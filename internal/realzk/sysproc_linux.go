// SPDX-License-Identifier: Apache-2.0

package realzk

import "syscall"

// sysProcAttr: a server dies with the thread that started it (see startJVM),
// so it may always have a process group of its own, which Ctrl-C does not reach.
func sysProcAttr(bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
