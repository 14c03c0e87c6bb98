// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package parent

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Apart makes cmd start in its own process group, so that a Ctrl-C at the terminal
// reaches only the parent, which then tells its processes to stop.
func Apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// killGroup kills a process and the programs that it has started.
func killGroup(p *os.Process) error { return signalGroup(p, syscall.SIGKILL) }

// stopGroup stops them, and continueGroup continues them.
func stopGroup(p *os.Process) error     { return signalGroup(p, syscall.SIGSTOP) }
func continueGroup(p *os.Process) error { return signalGroup(p, syscall.SIGCONT) }

// signalGroup signals the process group of a process that Apart has prepared.
func signalGroup(p *os.Process, s syscall.Signal) error {
	if err := syscall.Kill(-p.Pid, s); errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	} else if err != nil {
		return os.NewSyscallError("kill", err)
	}
	return nil
}
