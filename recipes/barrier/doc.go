// SPDX-License-Identifier: Apache-2.0

// Package barrier lets processes wait for each other. A [Gate] is shut and opened by any
// process, and others wait until it is open. At a [Double] barrier a given number of
// processes begin a piece of work together and end it together.
//
// # What a Gate promises
//
// [Gate.Wait] returns when the gate is open, or has been opened since ZooKeeper answered
// Wait's first request, even if it is shut again by then. A gate belongs to no process: it
// stays shut when the process that shut it ends.
//
// # What a Double barrier promises
//
//   - [Double.Enter] returns once as many processes as the barrier has members have
//     entered. These are the members of a round, which has a number. Numbers rise.
//   - [Stage.Leave] returns once each member of the round has left, or has died: its session
//     ended, or another client deleted its node.
//   - If members have died inside, all others are told so, and which, by a [BrokenError],
//     when the last of them has left. All members are told the same.
//   - A process that dies before the round begins does not count. The round waits for
//     another one.
//   - A member learns that it has lost its place ([Stage.Lost]) before ZooKeeper can let the
//     others know, unless another client has deleted its node.
//
// A caller that gives up while it waits to enter leaves no node. If the round has begun in
// that moment, it has entered and left. A caller that gives up while it waits for the others
// to leave has left. ZooKeeper hears of either after the caller has gone on. So end a process
// with [manager.Manager.Shutdown], which waits for that: if [manager.Manager.Close] ends the
// session before, the others are told that this member has died.
//
// # What it does not promise
//
// A round that has begun is not interrupted when a member dies: the others learn of it when
// all of them have left. Use package members to hear of deaths at once. As with any lock, a
// process that was paused may go on after it has lost its place: see package manager.
//
// [manager.Manager.Shutdown] fails the callers that wait, and does not wait for members that
// are inside, as it does for locks: they have died for the others, so leave before.
//
// # Cost
//
// Shut and Open cost one write each. Wait costs one write, which asks ZooKeeper's leader and
// changes nothing; if the gate is shut, it costs two reads more.
//
// To enter a Double barrier costs one write and four reads, and four reads more when the round
// begins. To leave costs one write, and up to four reads for each look at who is inside: one
// when it leaves, and one each time the member that this process watches has left. It watches
// one at a time, so the members of a round of N look about N·ln N times in all, and not N². A
// round costs two writes more, by which the last that enters begins it, and one of those that
// have left ends it. Inside, a process keeps its lease alive, as with a lock. While a call waits
// it looks again every 10 to 15 seconds.
//
// # Limits
//
// A round has at most [MaxMembers] members. The outcomes of the last 16 rounds are kept for
// members that were cut off: [Stage.Leave] returns [manager.ErrUnknownOutcome] to one that
// asks later. All members wait for the slowest one. If they need not begin and end together, use
// package shards or queue to share out work, and package semaphore to limit how many processes
// work at a time.
//
// # Nodes
//
// A gate is the persistent node <name>: shut if it is there. This is how Apache Curator's
// DistributedBarrier does it, which can share it. Curator's waiter misses a gate that is
// opened and shut again at once. Give nothing a name below that of a gate: beside a gate deploy,
// a lock or a gate deploy/eu needs the directory deploy, which shuts the first gate, and which Open
// cannot delete.
//
// A double barrier is <name>/members, which has a node in-<id> for each process that waits
// or is inside (ephemeral) and left-<id> for each that has left (persistent, until the round
// is ended or the next one begins); and <name>/round with the number of the round, its members,
// and the outcomes of the last rounds. To change the number of members delete <name>/round when
// no process uses the barrier. The double barriers of Curator and kazoo have another layout.
// They cannot tell a member that has left from one that has died.
//
// # Source
//
// The recipes are in ZooKeeper's documentation, "Barriers" and "Double Barriers". There, a
// process leaves by deleting its node, as death does, so Leave can return while a member is
// inside. Here, the transaction that deletes the node of a process that leaves also creates
// the one that says so, and a transaction on <name>/round begins a round for all members at
// the same moment.
package barrier
