// SPDX-License-Identifier: Apache-2.0

package history

import "time"

// An Anchor is a moment by both clocks. With it, times in a server's log, which are by
// the wall clock, become times of the history. It is good for as long as the date is not
// changed, so take a new one now and then during a long run.
type Anchor struct {
	Mono int64
	Wall time.Time
}

// TakeAnchor returns the present moment.
func TakeAnchor() Anchor {
	// The wall clock is read between two looks at the other one. If the process was
	// not running for a while in between, the distance is large: try again.
	var best Anchor
	least := int64(-1)
	for range 5 {
		before := Now()
		wall := time.Now().Round(0) // without Go's own monotonic reading
		distance := Now() - before
		if least < 0 || distance < least {
			best, least = Anchor{Mono: before + distance/2, Wall: wall}, distance
		}
	}
	return best
}

// At returns the time of the history that is t of the wall clock.
func (a Anchor) At(t time.Time) int64 { return a.Mono + int64(t.Sub(a.Wall)) }
