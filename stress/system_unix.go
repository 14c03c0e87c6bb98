// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// unsupported says why the harness cannot run on this system; empty: it can.
const unsupported = ""

// flock takes an flock on f without waiting, an exclusive or a shared one. It
// reports false if another open file, which is to say another process, has one
// that conflicts. If f has an flock of the other sort, that one is given up
// first, with a gap in between, and is gone if the new one is refused.
func flock(f *os.File, sort flockSort) (bool, error) {
	how := syscall.LOCK_EX
	if sort == shared {
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

// funlock gives the flock back.
func funlock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// apart makes cmd start in a process group of its own, so that a Ctrl-C at the
// terminal reaches only us. We tell our processes ourselves when to stop.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
