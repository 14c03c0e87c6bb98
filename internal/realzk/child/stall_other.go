// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package child

import "errors"

// CanStall tells that this system cannot stop one thread of a process.
const CanStall = false

// Stall returns [errors.ErrUnsupported].
func Stall(int, string) (resume func() error, err error) { return nil, errors.ErrUnsupported }
