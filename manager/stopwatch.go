// SPDX-License-Identifier: Apache-2.0

package manager

import "time"

// A stopwatch is a manager's clock.
type stopwatch struct{ start time.Time }

// now is the manager's clock: nanoseconds since Open, monotonic, never 0.
func (w stopwatch) now() int64 { return int64(time.Since(w.start)) + 1 }

// clock is what now returned, or would have, at the time at.
func (w stopwatch) clock(at time.Time) int64 { return int64(at.Sub(w.start)) + 1 }
