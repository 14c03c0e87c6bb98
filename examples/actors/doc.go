// SPDX-License-Identifier: Apache-2.0

// Command actors runs entities, here accounts, in several processes. Each account lives
// in the process that holds its lock, which handles its messages from memory. A message
// may be sent to any process.
//
//	go run ./examples/actors                         on an embedded ZooKeeper server
//	go run ./examples/actors -servers host:2181      on yours
//
// It starts three processes and sends 2,000 messages to 300 accounts. Meanwhile it kills
// one process with kill -9, and stops another for longer than its session lasts. It fails
// if a message was handled by a process that was no longer the owner, was applied twice,
// or was lost although its sender was told otherwise.
//
// Copy host.go, which finds a message's owner, and actor.go, in which the owner handles
// it. message.go stands for your RPC, store.go for a database; main.go demonstrates them.
//
// The receiver checks that a message has reached the owner, and never the sender. What a
// sender knows about the holder can be outdated when the message arrives. So a stale
// answer of [manager.Lock.CachedHolder] costs a detour and does no harm:
//
//   - A process in which the actor does not live refuses the message. The sender asks
//     anew, by [manager.Lock.Holder].
//   - A process that was stopped believes to be the owner when it goes on. So it calls
//     [manager.Hold.Err] after the message has arrived. That compares the clock with the
//     lock's lease, and notices a loss before any timer has run.
//   - If it is stopped right after this check, it may answer a question from memory: the
//     answer was true when the message had arrived. But what it writes has the fencing
//     token of its grant, and the store refuses that once a new owner has loaded the entity.
//
// A sender that gets no answer does not know whether its message was handled. It sends it
// again, with the same ID, which the entity's state has if the message was applied.
package main
