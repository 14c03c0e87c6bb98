// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package parent

import (
	"errors"
	"os"
	"os/exec"
)

func Apart(*exec.Cmd) {}

func killGroup(p *os.Process) error   { return p.Kill() }
func stopGroup(*os.Process) error     { return errors.ErrUnsupported }
func continueGroup(*os.Process) error { return nil }
