// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package child

import (
	"errors"
	"os"
)

// CanPause tells that this system has no SIGSTOP.
const CanPause = false

// Pause returns [errors.ErrUnsupported].
func Pause(*os.Process) error { return errors.ErrUnsupported }

// Resume does nothing, since no process is paused.
func Resume(*os.Process) error { return nil }
