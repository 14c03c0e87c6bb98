// SPDX-License-Identifier: Apache-2.0

// Package queue is a queue in ZooKeeper: processes put elements into it, and each element
// is handled by one process, at least once, although processes die.
//
//	q, err := queue.New(m, "mails", queue.Options{})
//	err = q.Offer(ctx, mail)
//	err = q.Run(ctx, 4, func(ctx context.Context, e *queue.Element) error {
//		return send(ctx, e.Data())
//	})
//
// # What it promises
//
//   - An element that [Queue.Offer] has put into the queue stays there until it is acked,
//     or buried. No answer that gets lost makes a second one of it.
//   - A process that has taken an element has it alone. It learns from [Element.Lost] and
//     [Element.Context] that it has lost the element before another process can take it.
//     As with locks, a process that was paused may act too late: hand [Element.Token] to
//     what can refuse old tokens.
//   - If a process dies, its elements are taken again, in their old places, once ZooKeeper
//     has ended its session.
//   - After a successful [Element.Ack] the element is never taken again.
//   - An element that was taken Options.MaxAttempts times, without being acked, is buried: it
//     goes to the directory dead/. [Queue.Dead] lists what is there, [Queue.Requeue] puts an
//     element into the queue again, and [Queue.Drop] deletes it; so does holdfast queue. An
//     attempt counts when Take has returned the element.
//   - An element that [Element.ReturnAfter] has given back is not taken before its time, whatever
//     becomes of the process. The clock is that of ZooKeeper's leader; no two machines' clocks are
//     compared, unless another server becomes the leader. A waiting consumer takes the element
//     within a moment after its time, and one with work within a second.
//   - Elements stand still for no longer than half the session timeout if a process is there that
//     could take them, whichever others have died. What a dead one had taken is free when ZooKeeper
//     has ended its session.
//
// # What it does not promise
//
// An element may be handled twice: a process may die, or lose its session, between the work
// and the ack. [Queue.Poll] acks first, so its elements may be handled less than once.
//
// Elements are taken in the order of the offers if one process consumes, with one worker. If
// several do, an element may be passed by some of those behind it: each consumer has a share
// of the first elements, 32 for each consumer, or twice as many as it can take at a time.
//
// There are no priorities or topics. For more than about a thousand elements a
// second, or for large ones, use a message broker: ZooKeeper keeps all of them in memory,
// and writes each to the disks of most of its servers.
//
// # Cost
//
// Taking an element is one transaction and one read in the same packet, and acking it one
// transaction. A consumer lists the elements, the consumers and what is delayed when its share is
// used up, or once a second. With elements for all, that makes three to six requests for each
// element: six where 8 processes with 50 goroutines each share a few thousand. A return with a
// delay is a read and a transaction, and one more when the time has come.
// The elements that goroutines of a process offer at the same time share a transaction, with
// one read.
//
// Consumers without work stand in a line, a lock, and the first two of them watch the queue. An
// offer wakes both. The first claims the element, and the next one comes in its place; the second
// looks a quarter of a second later, since the first may be dead. That costs about eleven lists for an
// element, however many wait. While other consumers ack elements, the first in line looks at most
// every 100 ms. The others look three times in a session timeout, with three requests.
//
// # Limits
//
// Offer refuses, with [ErrFull], what would make the queue longer than Options.MaxLength.
// The limit is soft: each producer may exceed it by a transaction. It is there because a
// list of the elements must fit into one answer; at 62,000 the clients in Java lose their
// connection. So 50,000 is the most, those that are delayed included. Elements have 64 KiB by
// default, and a call of Offer at most 1,000 elements and 512 KiB together. With the paths and
// ACLs of their nodes they must be no more than 900 KiB, which a long name makes fewer.
//
// ZooKeeper numbers the elements, and has 2³¹ numbers. When a producer finds the queue empty
// with half of them used, it has them begin anew. If they run out before, Offer says
// [ErrSequenceExhausted] until the queue is empty.
//
// If an administrator deletes a claim while its process works, that process learns of it, and
// another can take the element at once: maybe a moment before. In that moment both have it, and
// what the first settles is settled: then the second loses the element, or is told that it has
// settled it itself.
//
// # Nodes
//
//	<name>/items/qn-<number>         an element
//	<name>/items/qn-<number>/claim   ephemeral: a process has taken it
//	<name>/delayed/<due>-qn-<number> the element is delayed, and has a persistent claim meanwhile
//	<name>/dead/qn-<number>          a buried element
//	<name>/consumers/<guid>          ephemeral: a process consumes, or did so a moment ago
//	<name>/producers/<guid>          ephemeral: a process has offered something; it stays
//	                                 until the session ends
//	<name>/idle/                     a lock: the line of consumers without work
//
// What other clients put below an element goes with it. Each change of an element's data has one
// attempt less count. To end a delay by hand, delete the entry in delayed/, or the claim.
//
// A claim is a child of the element, so ZooKeeper itself refuses to delete an element that
// is taken: for consumers by ZooKeeper's DistributedQueue and Curator's SimpleDistributedQueue,
// which delete what they take, too. Elements of such producers are taken here, if they are
// put into <name>/items, which must exist. Curator's DistributedQueue and kazoo's queues have
// other layouts.
//
// The queue follows ZooKeeper's recipe. The claims, the shares and the line are its own.
package queue
