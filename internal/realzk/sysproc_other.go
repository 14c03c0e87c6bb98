// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package realzk

import (
	"errors"
	"syscall"
)

// canPause tells that this system has no SIGSTOP.
const canPause = false

func sysProcAttr(bool) *syscall.SysProcAttr { return nil }

func (j *jvm) pause() error  { return errors.ErrUnsupported }
func (j *jvm) resume() error { return nil }
