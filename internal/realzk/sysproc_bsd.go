// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package realzk

import "syscall"

// sysProcAttr: nothing here ends a server whose starter died, so that of a test
// stays in the terminal's process group, where Ctrl-C ends both.
func sysProcAttr(ownGroup bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: ownGroup}
}
