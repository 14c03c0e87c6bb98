// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// unsupported says why the harness cannot run on this system, or is empty.
const unsupported = ""

// flock tries to take an exclusive or a shared flock on f. It reports false if
// another open file, that is, another process, has one that conflicts. An flock
// that f already has is released first, so there is a gap in a conversion, and
// after a refusal f has none.
func flock(f *os.File, mode flockMode) (bool, error) {
	how := syscall.LOCK_EX
	if mode == shared {
		how = syscall.LOCK_SH
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

// funlock releases the flock on f.
func funlock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// apart makes cmd start in its own process group, so that a Ctrl-C at the terminal
// reaches only the parent, which then tells its processes to stop.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
