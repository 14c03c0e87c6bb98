// SPDX-License-Identifier: Apache-2.0

// Command actors runs entities, here accounts, in several processes. Each account lives
// in one process at a time, which handles its messages from memory: the one that holds
// the account's lock. A message may be sent to any process.
//
//	go run ./examples/actors                         on an embedded ZooKeeper server
//	go run ./examples/actors -servers host:2181      on yours
//
// The program starts three processes and sends 20,000 messages to 5,000 accounts. It
// kills one process with kill -9 and stops another for 12 seconds meanwhile. In the end
// it compares what the senders were told with what is stored. It fails if a message was
// handled by a process that was no longer the owner, was applied twice, or was lost
// although its sender was told otherwise.
//
// # What to copy
//
// host.go, actor.go and message.go are an actor host. store.go stands for a database,
// and driver.go and judge.go are the demonstration.
//
// # The way of a message
//
// [Host.Send] takes a message and finds the owner of its entity:
//
//   - If the entity's actor lives in this process, that handles it.
//   - Otherwise [manager.Lock.CachedHolder] names the process that holds the entity's lock,
//     from memory most of the time. The Endpoint of that [manager.Contender] is what the
//     other process has set in its [manager.Config]. The message is forwarded there.
//   - If there is no holder, this process takes the lock by TryLock, loads the entity
//     and handles the message.
//   - If the holder does not answer, this process waits in the lock's queue. It gets the
//     entity when the holder's session has ended. If the holder lives after all, and is
//     only slow or cannot be reached from here, it learns from [manager.Hold.Contended]
//     that another process waits, and hands the entity over.
//
// An actor gives its lock up when another process waits for it or asks for it by
// [manager.Lock.Revoke], and when it had no message for a while. It ends at once when the
// lock is lost.
//
// # Who checks that a message has reached the owner
//
// The receiver does, and never the sender. What a sender knows about the holder can be
// outdated when the message arrives, however new it was: the message takes time, and so
// does the news of a change. So a stale answer of CachedHolder costs a detour and does
// no harm:
//
//   - A process in which the actor does not live refuses the message (421). The process
//     that forwarded it then asks for the holder anew, by Holder, and sends it there.
//   - A process that believes to be the owner calls [manager.Hold.Err] after the message
//     has arrived and before it handles it. Err compares the clock with the lock's lease.
//     So a process that was stopped in the meantime notices that the lock may belong to
//     another by now, before any timer has run.
//   - A process that is stopped right after this check believes in its lock when it goes
//     on. It can do two things then. It can write: but each write carries the fencing
//     token of its grant, and the store refuses a token lower than the highest that it
//     has seen. A new owner shows its token when it loads the entity, so from that moment
//     on no former owner can write. And it can answer a question from memory: that answer
//     was true when the message had arrived.
//
// # What a sender is told
//
// A reply says that the message was handled, once. Otherwise there is an error, and the
// sender sends the message again, with the same ID, to the same process or another:
//
//   - 503: it was not handled. Its owner has died, for example, and ZooKeeper waits for
//     the end of its session.
//   - 504, or no answer at all: it may have been handled. The entity's state includes the
//     IDs of the messages that it has applied, so it is not applied again.
package main
