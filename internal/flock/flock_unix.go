// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package flock

import (
	"errors"
	"os"
	"syscall"
)

// Unsupported says why there are no file locks on this system, or is empty.
const Unsupported = ""

// Lock tries to take an exclusive or a shared flock on f. It reports false if
// another open file, that is, another process, has one that conflicts. An flock
// that f already has is released first, so there is a gap in a conversion, and
// after a refusal f has none.
func Lock(f *os.File, mode Mode) (bool, error) {
	how := syscall.LOCK_EX
	if mode == Shared {
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

// Unlock releases the flock on f.
func Unlock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
