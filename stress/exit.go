// SPDX-License-Identifier: Apache-2.0

package main

// The exit statuses.
const (
	exitOK      = 0
	exitFailure = 1 // a violation, a leak, a stuck worker, a failed process
	exitUsage   = 2
	exitVoid    = 3 // too little happened to show anything
)
