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
//   - An element that was taken Options.MaxAttempts times, without being acked, is buried:
//     it goes to the directory dead/, where people can look at it.
//
// # What it does not promise
//
// An element may be handled twice: a process may die, or lose its session, between the work
// and the ack. [Queue.Poll] acks first, so its elements may be handled less than once.
//
// Elements are taken in the order of the offers if one process consumes, with one worker. If
// several do, an element may be passed by some of those behind it: each consumer has a share
// of the first elements, 16 times as many as there are consumers.
//
// There are no priorities, delays or topics. For more than about a thousand elements a
// second, or for large ones, use a message broker: ZooKeeper keeps all of them in memory,
// and writes each to the disks of most of its servers.
//
// # Cost
//
// Taking an element is one transaction and one read in the same packet, and acking it one
// transaction. A consumer lists the queue once a second, or when its share is used up.
// The elements that goroutines of a process offer at the same time share a transaction, with
// one read.
//
// Consumers without work stand in a line, a lock, and only the first of them watches the
// queue. An offer wakes that one. It claims the element and lets the next one look. Each of
// them lists the elements and the consumers, so that costs four or five lists, however many
// wait. Of a hundred elements or less a list also asks for each whether it is taken.
//
// # Limits
//
// Offer refuses, with [ErrFull], what would make the queue longer than Options.MaxLength.
// The limit is soft: each producer may exceed it by a transaction. It is there because a
// list of the elements must fit into one answer; at 62,000 the clients in Java lose their
// connection. So 50,000 is the most. Elements have 64 KiB by default, and a call of Offer at
// most 1,000 elements and 512 KiB together.
//
// ZooKeeper numbers the elements, and has 2³¹ numbers. When a producer finds the queue empty
// with half of them used, it has them begin anew. If they run out before, Offer says
// [ErrSequenceExhausted] until the queue is empty.
//
// If an administrator deletes a claim while its process works, that process learns of it, and
// another can take the element at once: maybe a moment before.
//
// # Nodes
//
//	<name>/items/qn-<number>         an element
//	<name>/items/qn-<number>/claim   ephemeral: a process has taken it
//	<name>/dead/qn-<number>          a buried element
//	<name>/consumers/<guid>          ephemeral: a process consumes, or did so a moment ago
//	<name>/producers/<guid>          ephemeral: a process has offered something; it stays
//	                                 until the session ends
//	<name>/idle/                     a lock: the line of consumers without work
//
// A claim is a child of the element, so ZooKeeper itself refuses to delete an element that
// is taken: for consumers by ZooKeeper's DistributedQueue and Curator's SimpleDistributedQueue,
// which delete what they take, too. Elements of such producers are taken here, if they are
// put into <name>/items, which must exist. Curator's DistributedQueue and kazoo's queues have
// other layouts.
//
// The queue follows ZooKeeper's recipe. The claims, the shares and the line are its own.
package queue
