// SPDX-License-Identifier: Apache-2.0

// Package zkio does all the I/O of the project: it is the only package of the
// library that talks to ZooKeeper. It is built on the client library
// github.com/go-zookeeper/zk, which keeps the connection of a session, and on a net.Conn
// of its own below that, which all requests take.
//
// A [Client] has one [Session] at a time, a pool of goroutines that run
// [Task] values, and a dispatcher that calls a [Listener] and any number of
// [Watcher] values. A [Node] is an ephemeral sequential node that is not
// forgotten when an answer is lost. A [Lease] says until when a session's nodes
// may be trusted to exist. [CloseSession] ends the session of another process, which is gone:
// it needs no Client.
//
// # Guarantees
//
//   - A request made in one session never takes effect in another.
//   - An error says whether the operation may have happened ([ClassOf]). In doubt
//     it may have.
//   - A lease ends before the ensemble can have ended the session, on three
//     conditions: clocks differ in speed by less than a twelfth; the session
//     timeout is at least two ticks of the servers, which is ZooKeeper's default
//     bound, or four behind an ObserverMaster (ZooKeeper 3.6 and later); and
//     every server has the same bounds for session timeouts. The wall clock plays
//     no part. Time in which the machine was suspended counts on Linux and
//     Windows ([Config.Suspended] tells the rest). A lease does not stop a process
//     that was paused from going on as if nothing had happened: that takes a
//     resource that compares [Node.Czxid].
//   - A watch event is not lost in a reconnect, and may be told more than once.
//     Every event is a reason to look again, nothing more.
//   - A request is answered within two thirds of the session timeout after it was
//     sent, or fails with its connection.
//   - No goroutine outlives [Client.Close].
//
// A server that is not ZooKeeper, or is older than 3.5, is asked only for what every server knows,
// and deletions that it tells of reach watchers as changes: see [Stats].
//
// # The path of a request
//
//	Session.Get, Multi, …      calls.go       a worker of the pool, or another goroutine
//	  └ readCall, opCall, …    requests.go    the encoded request; a read asks for a watch
//	                                          if a watcher is registered for its path
//	Session.exchange           exchange.go    waits for a connection, and then for the answers;
//	                           bundle.go      while tasks wait for a worker: together with others
//	  └ wire.send              wire.go        one packet, and a time before it leaves
//	        ⇅ the server
//	    wire.next              wire.go        on the goroutine that reads
//	     ├ answer.read         reply.go       what the answer says; malformed: cuts the connection
//	     ├ leaseTracker        leasetracker.go  a proof extends the lease
//	     ├ watches             watches.go     the watch that the server has now
//	     ├ dispatcher          dispatcher.go  an event, for the Watchers of its path
//	     └ call.arrived        exchange.go    wakes the goroutine that called
//	Session.result             exchange.go    the error for the caller
//
// A caller that has several requests sends them in one packet, and the server answers
// them in this order. The connection is cut if an answer is to another request than the
// oldest one. If the session is over by the time that the caller goes on, the result is
// thrown away.
//
// go-zookeeper dials, by our dialer, says when to ping, and has a goroutine that reads:
// see wire. It gets to see the answer to its connect request, and nothing after that.
//
// A connection that breaks is replaced, with the next server of the list, and
// the session resumed on it. The dial does the handshake, presents the
// credentials, and makes sure that the watches are set again before any other
// request is sent. If a server answers with another session than ours,
// go-zookeeper does not get to see it: the session is over, and its dialer
// connects no more.
//
// # Goroutines
//
//	client      run: one session after the other     joined by Close
//	            watch: pauses and the ends of leases  joined by Close
//	            the dispatcher: listener, watchers    joined by Close
//	            Config.Workers workers                joined by Close
//	session     go-zookeeper's: a main loop,          joined by run at the session's end
//	            a sender and a receiver
//	            the heartbeat                         joined by run at the session's end
//	            on a resumed connection, one that     joined by run at the session's end
//	            sets the watches
//	            on Close, one that asks the server    joined by run at the session's end
//	            to end the session
//
// Their number does not depend on how many tasks, nodes or watches there are.
// A timer moves the tasks of SubmitAfter to the workers' queues when they are due.
// User code runs on the dispatcher (which must not block) and on the workers, but for
// three functions that must not block either: Config.Dialer runs on go-zookeeper's main
// loop, and Config.Suspended and [Voidable] on any goroutine, perhaps under a mutex.
//
// # Locks
//
// Every mutex protects the fields that its comment names, for as long as it
// takes to look at them. None is held during I/O, while waiting, or while user
// code runs, but for Config.Suspended and [Voidable]. Where one is taken under another,
// it is in this order:
//
//	Session.mu      > pool.mu, dispatcher.mu, hosts.mu
//	laterWatches.mu > delays.mu > pool.mu
//	leaseTracker.mu > pulse.mu > dispatcher.mu
//
// # Memory
//
// In the terms of the Go memory model: Submit synchronizes before the task's
// Run; Watch before every PathChanged of that watcher; what a session did
// before it was over (its lapses included) before SessionOver is told.
package zkio
