// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sentinel

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/holdfast-go/holdfast/zkio"
)

// A self cannot be had here, so no Sentinel is made, and nothing below is called.
type self struct{}

func newSelf() (*self, error) {
	return nil, fmt.Errorf("not on %s, but only on Linux, where the kernel tells for certain that a process has ended: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (*self) fds() []int     { return nil }
func (*self) keep(*exec.Cmd) {}
func (*self) close()         {}

type link struct{}

func newLink(string) (*link, error)      { return nil, errors.ErrUnsupported }
func programName() string                { return "" }
func (*link) send(message, ...int) error { return errors.ErrUnsupported }
func (*link) wait(func()) error          { return errors.ErrUnsupported }
func (*link) fail(error)                 {}
func (*link) end()                       {}
func (*link) leave()                     {}

func helperMain(func(*zkio.Config) error) int { return 2 }
