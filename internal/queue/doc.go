// SPDX-License-Identifier: Apache-2.0

// Package queue says what the names in a lock's directory mean: which of them are
// contenders, in which order their turns come, which of those ahead a waiter has
// to watch, and what it knows once they are gone.
//
// It is pure: it does no I/O and starts no goroutine. A [Queue] reuses memory
// through a pool, so it belongs to one goroutine until [Queue.Free]; everything
// else here is a value.
package queue
