// SPDX-License-Identifier: Apache-2.0

//go:build !race

// Package racing tells tests whether the race detector looks on.
package racing

// Detector reports whether the program is built with the race detector.
const Detector = false
