// SPDX-License-Identifier: Apache-2.0

// Package semaphore limits how many permits processes have at a time: connections to a
// database, jobs of a kind, licences. A caller acquires one or several permits of a
// [Semaphore], works while it has them, and releases them.
//
// # What it promises
//
//   - At each grant no more permits are in use than the semaphore has, in all processes
//     together. ZooKeeper itself counts, in the transaction that decides.
//   - A caller gets all its permits at once. Two callers that want three of four permits
//     each cannot block each other, as they can where permits are acquired one by one.
//   - Those who wait are served in order. One that wants many permits is not overtaken by
//     those that want few: while it is first, permits that come free are kept for it.
//   - A process that dies while it is first holds up the others once, and not for long. If
//     permits are free that it does not take, those behind it go ahead after about a fifth of
//     the session timeout, and not only when its session is over. Until then they take each
//     permit that comes free within about a thirtieth of it.
//   - The permits of a process that dies come free when its ZooKeeper session ends.
//     [Permits.Lost], [Permits.Err] and [Permits.Context] tell a living process that it has
//     lost its permits before another process can have them, within the bounds that package
//     manager states.
//   - A caller that gives up leaves no node behind, even if an answer got lost.
//   - A process with another number in its configuration is refused.
//
// # What it does not promise
//
// No lock service can stop a process that was paused from acting on permits that it has lost
// meanwhile. So for a moment there can be more work under way than there are permits: use a
// semaphore to limit load, and a lock of package manager, with its tokens, to protect data.
//
// [manager.Manager.Shutdown] fails the callers that wait, and does not wait for permits that
// are held, as it does for locks: release them before.
//
// After [Semaphore.Resize] to a lower number, and if other clients create nodes without
// counting, more permits can be in use than there are. New ones are granted when few enough
// are.
//
// Processes take their turns one by one, but the goroutines of one process that wait already
// may be served before the next process, for up to [manager.Config].Tenure. TryLock does not
// line up. If the first in line is alive, and takes longer than a sixteenth of the session timeout
// to begin or to end its turn, it can be taken for dead. Then it is overtaken until it moves.
// Those that overtake it do so in no order.
//
// Permits that the first has taken hold of before it died stay in use until its session is over,
// also those that it waited for.
//
// # Cost and limits
//
// Permits that are free cost four writes for each call of Lock and Release, however many they
// are: line up, take the permits, leave the line, release. One that has to wait costs one
// write and four reads more, and two reads for each change of the permits in use while it is
// first. Each process behind it looks at every eighth of the session timeout whether the first
// waits for permits, which costs two reads. If it has nothing to wait for, a look costs three, and
// the next one follows after a sixteenth of the timeout, and each one after a thirty-second while
// the first is taken for dead. TryLock and Release cost three reads and two writes,
// and a TryLock in vain three reads. While several goroutines of a process wait, they share the
// place in line and the looks. Grants go one after the other, each at the cost of about three
// writes in turn, which bounds their rate.
//
// A semaphore has up to [MaxPermits] permits. Who waits first lists the nodes of all permits
// in use at each change, and the nodes of one call are made in one transaction, which must
// stay below ZooKeeper's limit of 1 MiB. A pending request has a goroutine.
//
// For one permit use a lock: it has fencing tokens, and costs two writes. To limit the
// goroutines of one process use golang.org/x/sync/semaphore. If permits are worth less than
// their requests, share them among the processes in larger parts, or let a service that all
// calls pass through count them.
//
// # Nodes
//
// Below the semaphore's directory are
//
//	permits                       the number of permits: four bytes, big-endian
//	locks/                        the line: a lock
//	leases/                       its data change whenever a process takes permits in turn
//	leases/_c_<guid>-lease-<n>    ephemeral, one for each permit in use
//
// They are those of Apache Curator's InterProcessSemaphoreV2, with the number as a
// SharedCount. Services that use either share a semaphore:
//
//	SharedCount permits = new SharedCount(client, "/holdfast/db/permits", 8);
//	permits.start();
//	new InterProcessSemaphoreV2(client, "/holdfast/db", permits);
//
// Curator's own faults stay Curator's: a process that acquires its permits one by one can
// wait for ever for one that does so, too; it is not told of a loss; and a number that is
// given to the constructor is checked by neither side. kazoo's Semaphore has other nodes.
//
// Change the number by Resize. A process notices that the number was changed by the version
// of the node's data, which begins anew if the node is deleted and made again: stop the
// processes that use the semaphore before that.
//
// The algorithm is that of the shared semaphore in ZooKeeper's recipes as Curator has it: a
// lock around "create a node, and wait until there are no more nodes than permits". Here one
// transaction, guarded by the lock, creates the nodes of a call and counts.
package semaphore
