// SPDX-License-Identifier: Apache-2.0

//go:build race

package manager

// raceEnabled says that the race detector is on, under which everything takes
// longer and pools forget at random.
const raceEnabled = true
