// SPDX-License-Identifier: Apache-2.0

package wire

// The exit statuses.
const (
	ExitOK      = 0
	ExitFailure = 1 // a violation, a leak, a stuck worker, a failed process
	ExitUsage   = 2
	ExitVoid    = 3 // too little happened to show anything
)
