// SPDX-License-Identifier: Apache-2.0

package main

import "time"

var started = time.Now()

// systemTime returns the time on this process's monotonic clock, which goes on while the
// machine is suspended.
func systemTime() time.Duration { return time.Since(started) }
