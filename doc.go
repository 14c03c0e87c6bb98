// SPDX-License-Identifier: Apache-2.0

// Package holdfast is the root of a library for distributed locks on Apache
// ZooKeeper. It holds no code; import its subpackages:
//
//   - package manager is the API: a Manager hands out Locks, a Lock hands out
//     Holds;
//   - package zkio/zktest is an embedded ZooKeeper server, for development and
//     tests;
//   - packages state, futures and zkio are what manager is made of. They can be
//     used by themselves: futures are results that are settled once and awaited
//     by many.
//
// # Who owns a lock
//
// The process does, and all its goroutines share it: "exclusive" means
// exclusive among processes. While one process owns a lock, no other does, and
// any number of goroutines of the owner may be inside together. Who wants to
// exclude the goroutines of the same process too uses a [sync.Mutex] inside.
//
// # What no lock can do
//
// Nothing stops a process that was paused from taking its next step with a lock
// that it has lost meanwhile. Every grant carries a fencing token; a resource
// that refuses tokens lower than the highest it has seen is safe from that, and
// nothing else is.
package holdfast
