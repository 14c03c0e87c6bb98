// SPDX-License-Identifier: Apache-2.0

package realzk

import "syscall"

// sysProcAttr makes a server die with the thread that started it (see startJVM), in its
// own process group, which Ctrl-C does not reach.
func sysProcAttr(bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
