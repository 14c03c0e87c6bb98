// SPDX-License-Identifier: Apache-2.0

// Package election elects one of several processes, and tells all of them which it is.
//
// The leadership is a lock of package manager, and everything that its documentation
// promises and does not promise holds for it: [Leadership.Lost] closes before another
// process can be elected; tokens rise from term to term; a process that was paused may act
// as a leader for a moment after it has ceased to be one, so resources must compare tokens,
// or data in ZooKeeper be written by [Leadership.Guard]. The goroutines of a process share
// its leadership.
//
// Besides, a leader has a record, which says who it is and what it proclaims. It is
// written under the lock before the process learns that it leads. [Election.Observe] tells
// any process of the leaders and of what they proclaim, and tells when there is none. An
// observer takes a record only for the leader's if it has the token of the process that is
// first in the queue, so the record of a leader that has died is never taken for that of the
// next.
//
// # How to use it
//
//   - [Election.Run] runs a function whenever this process leads, and stops it by its
//     context when it leads no longer.
//   - [Election.Campaign] waits until this process leads. [Leadership.Resign] ends that.
//   - [Election.Stand] is Campaign for programs that do not want to block: it returns a
//     Leadership that is pending.
//   - [Election.Observe] follows the leaders of all processes.
//   - [Election.OnEvent] is told of each phase that this process goes through, for logs and
//     for programs that come from ZooKeeper's LeaderElectionSupport.
//
// # Costs and limits
//
// A candidate costs what a waiter for a lock costs: one node, two requests and a watch on
// the candidate ahead. When a leader goes, one candidate wakes. Its term costs one write
// more than the lock. An observer sends four small reads for each new leader, in three
// packets, and one for each Proclaim. An observer looks at most every 50 ms for a new
// leader, so it misses terms that are shorter.
//
// If a leader dies, ZooKeeper notices after the session timeout, and rounds that up to its
// next tick: the new leader is there within the session timeout, plus tickTime, plus half a
// second.
//
// An ID has up to 1 KiB, and the data of a record up to 64 KiB. Each observer reads them at
// every change, so large data that change often are better kept elsewhere, with the
// address in the record.
//
// Use a [manager.Lock] if no process needs to know who leads, and one election for
// each part of the work if one process is not enough.
//
// # Nodes
//
//	<name>/lock      the lock's queue
//	<name>/leader    the record: {"token": 4294967302, "id": "4711@db7", "data": "<base64>"}
//
// The record stays when the last candidate has gone.
//
// Apache Curator's LeaderSelector, with the path of <name>/lock, stands in the same
// election, and so does its LeaderLatch if all of our candidates set Options.Latch. They
// write no record, and observers learn of them what their nodes say: their ids, or nothing.
// ZooKeeper's LeaderElectionSupport has another layout and cannot take part.
//
// Kazoo's Election takes part if its lock is told of other names:
//
//	e = Election(client, "/holdfast/<name>/lock", "me")
//	e.lock = client.Lock(e.lock.path, "me", extra_lock_patterns=["-lock-"])
//
// It fails when the server removes the empty directory of the lock, so create <name>/lock
// for it, as a persistent node.
//
// The lock is ZooKeeper's own recipe for leader election: candidates line up by sequential
// ephemeral nodes, and each watches the one ahead.
package election
