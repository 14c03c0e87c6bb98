// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package child

import "os"

// CanFind tells that this system does not name the children of other processes.
const CanFind = false

// Named returns nil.
func Named(int, string) *os.Process { return nil }
