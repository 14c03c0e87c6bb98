// SPDX-License-Identifier: Apache-2.0

//go:build unix

package realzk

import (
	"runtime"
	"syscall"
)

// sysProcAttr puts a server into its own process group, which Ctrl-C does not reach, if its
// starter stops it, or the system does: see package child. Other systems do not end a
// server whose parent died, so a test's server stays in the terminal's process group, where
// Ctrl-C kills both.
func sysProcAttr(ownGroup bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: ownGroup || runtime.GOOS == "linux"}
}
