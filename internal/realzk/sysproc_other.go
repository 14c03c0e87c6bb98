// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package realzk

import "syscall"

func sysProcAttr(bool) *syscall.SysProcAttr { return nil }
