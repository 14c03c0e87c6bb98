// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package main

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
)

// unsupported says why the harness cannot run on this system, or is empty.
const unsupported = "it needs flock(2), which " + runtime.GOOS + " does not have: run it on Linux, macOS or a BSD (on Windows, in WSL)"

func flock(*os.File, flockMode) (bool, error) { return false, errors.ErrUnsupported }
func funlock(*os.File) error                  { return errors.ErrUnsupported }
func apart(*exec.Cmd)                         {}
