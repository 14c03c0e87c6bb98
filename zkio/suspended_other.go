// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package zkio

import "time"

// systemSuspended returns how much Go's monotonic clock has to be corrected for
// the time in which the machine was suspended: not at all. On Windows it is the
// interrupt time, which counts suspended time itself. On macOS it stands still
// meanwhile, and there is no way to the clock that does not (mach_continuous_time)
// without cgo or another module. On other systems it is what they make of it.
func systemSuspended() time.Duration { return 0 }
