// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package start

import "syscall"

// sysProcAttr sets nothing: this system cannot kill a server with its parent.
func sysProcAttr() *syscall.SysProcAttr { return nil }
