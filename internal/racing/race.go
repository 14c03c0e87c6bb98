// SPDX-License-Identifier: Apache-2.0

//go:build race

package racing

// Detector reports whether the program is built with the race detector. Everything takes
// some ten times as long under it, and pools drop items at random.
const Detector = true
