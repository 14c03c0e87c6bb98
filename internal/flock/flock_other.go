// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package flock

import (
	"errors"
	"os"
	"runtime"
)

// Unsupported says why there are no file locks on this system, or is empty.
const Unsupported = "it needs flock(2), which " + runtime.GOOS + " does not have: run it on Linux, macOS or a BSD (on Windows, in WSL)"

// Lock fails.
func Lock(*os.File, Mode) (bool, error) { return false, errors.ErrUnsupported }

// Unlock fails.
func Unlock(*os.File) error { return errors.ErrUnsupported }
