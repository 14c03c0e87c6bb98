// SPDX-License-Identifier: Apache-2.0

// Package zkio does all the input and output of the project: it is the only
// package that talks to ZooKeeper. It is built on the client library
// github.com/go-zookeeper/zk, and on a connection of its own below that, which
// gives what the library lacks.
//
// A [Client] has one [Session] after the other, a pool of goroutines that runs
// [Task] values, and a dispatcher that tells a [Listener] and any number of
// [Watcher] values what happened. A [Node] is an ephemeral sequential node that
// is not lost track of when an answer is. A [Lease] says until when a session's
// nodes may be trusted to be there.
//
// # What can be relied on
//
//   - Nothing that was asked for in one session takes effect in another.
//   - An error says whether the operation may have happened ([ClassOf]). Only
//     what surely did not happen is called so.
//   - A lease ends before the ensemble can have ended the session, if clocks
//     differ in speed by less than a twelfth, and if the servers' tick is at most
//     half the session timeout, which is ZooKeeper's default bound. The wall
//     clock plays no part; time in which the machine was suspended counts on
//     Linux and Windows ([Config.Suspended] tells the rest). It does not
//     keep a process that was paused from going on as if nothing had happened:
//     that is what [Node.Czxid], compared by the resource, is for.
//   - A watch event is not lost in a reconnect, and may be told more than once.
//     Every event is a reason to look again, nothing more.
//   - No goroutine outlives [Client.Close].
//
// # The path of a request
//
// A call of a [Session], mostly made by a task on one of the pool's workers,
// waits until there is a connection and calls go-zookeeper, which queues the
// request and writes it as one packet. Below, the wire, a net.Conn that our
// dialer returned, sets the packet's watch bit if somebody is registered for its
// path, notes when it is sent, and sends it. The reply comes through the wire
// again, which takes it apart before go-zookeeper does: it extends the lease if
// the reply proves something, notes the watch that was set, counts; and it cuts
// the connection at what is malformed. Then go-zookeeper wakes the caller. If
// the session is over by now the result is thrown away.
//
// A connection that breaks is replaced, with the next server of the list, and
// the session resumed on it. The wire does the handshake by a deadline, presents
// the credentials, and sets the watches again before any other request is sent.
// If the answer names another session than ours, go-zookeeper does not get to
// see it: the session is over, and its dialer connects no more. Requests that
// are waiting in go-zookeeper fail with it.
//
// # Goroutines
//
//	client      run: one session after the other     joined by Close
//	            the dispatcher: listener, watchers    joined by Close
//	            Config.Workers workers                joined by Close
//	session     go-zookeeper's: a main loop,          joined by run at the session's end
//	            a sender and a receiver
//	            the heartbeat                         joined by run at the session's end
//	            the timer of the lease                joined by run at the session's end
//	            on a resumed connection, one that     joined by run at the session's end
//	            sets the watches
//
// Their number does not depend on how many tasks, nodes or watches there are.
// A timer moves the tasks of SubmitAfter to the workers' queues when they are due.
// User code runs on the dispatcher (which must not block) and on the workers.
//
// # Locks
//
// Every mutex protects the fields that its comment names, for as long as it
// takes to look at them: none is held during I/O, while waiting, or while user
// code runs, but for [Voidable], which is asked under delays.mu. Where one is taken under another, it is in this order:
//
//	Session.mu > pool.mu
//	delays.mu  > pool.mu
//	leaseTracker.mu > dispatcher.mu
//
// # Memory
//
// In the terms of the Go memory model: Submit synchronizes before the task's
// Run; Watch before every PathChanged of that watcher; what a session did
// before it was over (its lapses included) before SessionOver is told.
package zkio
