// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package realzk

import "syscall"

// sysProcAttr leaves a test's server in the terminal's process group, where Ctrl-C
// kills both: this system does not kill a process whose parent died.
func sysProcAttr(ownGroup bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: ownGroup}
}
