// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package child

import (
	"errors"
	"fmt"
	"os/exec"
	"time"
)

func tie(*exec.Cmd) {}

// onMainThread is of no interest: no process depends on the thread that started it.
func onMainThread() bool { return false }

func setClock(time.Duration) error {
	return fmt.Errorf("child: only Linux has time namespaces: %w", errors.ErrUnsupported)
}
