// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package start

import "syscall"

// sysProcAttr: nothing here ends a server whose starter was killed.
func sysProcAttr() *syscall.SysProcAttr { return nil }
