// SPDX-License-Identifier: Apache-2.0

// Package errand runs tasks on the workers of zkio's pool, one step of a task at a time.
//
//	wake ──► Runner ── submit ──► a queue of the pool ──► a worker ──► Step
//	           ▲                                                         │
//	           └───────── alarm ◄──────── WakeAfter, Retry ──────────────┘
//
// A [Runner] is the state of such a task: whether it waits in a queue of the pool, runs, or
// neither. An [Errand] is a Runner with its task and one deadline. A task that nothing
// wakes, and that is only run once more after each failure, needs neither: it has [Tries].
//
// Tasks do not know of each other, and the package knows nothing of locks.
package errand
