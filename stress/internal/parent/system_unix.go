// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package parent

import (
	"os/exec"
	"syscall"
)

// Apart makes cmd start in its own process group, so that a Ctrl-C at the terminal
// reaches only the parent, which then tells its processes to stop.
func Apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
