// SPDX-License-Identifier: Apache-2.0

// Package holdfast is the root of a library for distributed locks on Apache
// ZooKeeper. The owner of a lock is a process, and all goroutines of that process
// share it: "exclusive" means exclusive among processes. While one process owns a
// lock, no other process does, and any number of its goroutines may be inside at
// the same time. To exclude goroutines from each other as well, use a [sync.Mutex]
// inside the lock.
//
// The package has no code. Import its subpackages:
//
//   - package manager is the API: a Manager opens Locks, and a Lock grants Holds;
//   - package sentinel frees the locks of a process that was killed, at once;
//   - package zkio/zktest is an embedded ZooKeeper server for development and
//     tests;
//   - packages futures, state and zkio are the layers below manager.
//
// # Limits
//
// No lock can stop a process that was paused from taking its next step with a
// lock that it has lost meanwhile. Every grant carries a fencing token. A resource
// that refuses tokens lower than the highest it has seen is safe from such late
// writes; nothing weaker is.
package holdfast
