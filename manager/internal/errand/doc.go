// SPDX-License-Identifier: Apache-2.0

// Package errand runs tasks on the workers of zkio's pool, one step of a task at a time.
//
//	wake ──► Runner ── submit ──► a queue of the pool ──► a worker ──► Step
//
// A [Runner] is the state of such a task: whether it waits in a queue of the pool, runs, or
// neither. Tasks do not know of each other, and the package knows nothing of locks.
package errand
