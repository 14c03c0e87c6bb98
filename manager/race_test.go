// SPDX-License-Identifier: Apache-2.0

//go:build race

package manager

// raceEnabled reports whether the race detector is on. Everything takes longer
// under it, and pools drop items at random.
const raceEnabled = true
