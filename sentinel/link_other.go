// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sentinel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A self cannot be had here, so no Sentinel is made, and nothing below is called.
type self struct{}

func newSelf() (*self, error) {
	return nil, fmt.Errorf("not on %s, but only on Linux, where the kernel tells for certain that a process has ended: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (*self) fds() []int           { return nil }
func (*self) keep(*exec.Cmd) error { return errors.ErrUnsupported }
func (*self) close()               {}

type link struct{}

func newLink(string) (*link, error)                   { return nil, errors.ErrUnsupported }
func programName() string                             { return "" }
func (*link) send(message, ...int) error              { return errors.ErrUnsupported }
func (*link) sendWithin(time.Duration, message) error { return errors.ErrUnsupported }
func (*link) wait(func()) error                       { return errors.ErrUnsupported }
func (*link) fail(error)                              {}
func (*link) end()                                    {}
func (*link) leave()                                  {}

// Serve returns an error that wraps [errors.ErrUnsupported].
func Serve(_ context.Context, l *net.UnixListener, _ func(*zkio.Config) error, _ io.Writer) error {
	_ = l.Close()
	_, err := newSelf()
	return fmt.Errorf("sentinel: serve: %w", err)
}

func helperMain(func(*zkio.Config) error) int { return 2 }
