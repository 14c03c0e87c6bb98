// SPDX-License-Identifier: Apache-2.0

// Package flock locks files between processes, by flock(2). A lock belongs to an open file,
// and ends with it: so that of a process that is killed ends with the process.
package flock

// A Mode is a way to have a file locked.
type Mode int

// A file is locked by one process exclusively, or shared by several, or not at all.
const (
	None Mode = iota
	Shared
	Exclusive
)
