// SPDX-License-Identifier: Apache-2.0

// Package zktest is a ZooKeeper server within the process, for development and
// tests.
//
// It speaks the client protocol of ZooKeeper 3.8, so that an unmodified client
// works on it: sessions that expire by the clock, ephemeral, sequential and
// container nodes, nodes with a time to live, versions and zxids, one-shot watches, multi, digest ACLs.
// It is held to the answers of a real server, which are kept with its tests.
// Clients reach it over TCP ([Server.Listen]) or over in-memory connections
// ([Server.Dial]).
//
// It is one server, in memory, without a quorum, and nothing survives its
// Close (see [Server.Stop] for an interruption): not for production.
//
// # Virtual time
//
// Made inside a testing/synctest bubble, and reached by [Server.Dial], it runs
// in virtual time: a test of an hour's outage takes milliseconds.
//
//	func TestExpiry(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			srv := zktest.NewServer(zktest.Config{TickTime: time.Second})
//			defer srv.Close()
//			conn, stop := connect(srv) // with srv.Dial as the client's dialer
//			defer stop()
//			conn.Create("/here", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
//
//			partition := srv.Faults().BlackholeAll()
//			defer partition.Remove()
//			time.Sleep(12 * time.Second)
//			if srv.Exists("/here") {
//				t.Error("the session did not expire")
//			}
//		})
//	}
//
// All of the client's goroutines must end within the bubble too: close it, and
// wait for it, before the test ends.
//
// # What a real server cannot do
//
// A test can look at nodes, sessions and watches ([Server.Nodes],
// [Server.Sessions], [Server.Watches]), act exactly between two requests
// ([Server.OnRequest]), and make the server misbehave ([Server.Faults]):
//
//   - lose a request or an answer, with or without the connection, or delay an
//     answer: [Faults.DropRequest], [Faults.DropReply], [Faults.SwallowRequest],
//     [Faults.SwallowReply], [Faults.DelayReply];
//   - close connections, let nothing pass on them, refuse new ones:
//     [Faults.Cut], [Faults.CutAll], [Faults.Blackhole] and its kin,
//     [Faults.Refuse];
//   - end a session: [Server.ExpireSession];
//   - be away for a time, or restart, with everything that it knows, in a new
//     epoch: [Server.Stop], [Server.Start], [Server.Restart];
//   - answer some clients as a follower does that lags behind the others:
//     [Faults.Lag], [Faults.LagServer];
//   - execute the requests of several sessions, or deliver the answers, in an
//     order that the test chooses: [Faults.BlockRequests], [Faults.BlockReplies].
//
// What is set up is in force until it is removed, or [Faults.Clear] removes
// everything. Faults count how often they have acted, one by one and by their
// kind ([Faults.Hits]), so that a test can tell that it has tested something.
//
// # Seeded simulations
//
// In virtual time a program of several clients and this server can run through
// random faults under a seed. None of these hooks blocks, and what they do to
// several connections they do in the order of the connections' making. A step of
// such a simulation is: choose a fault or a session by the seed, act, and let
// the bubble come to rest with synctest.Wait.
//
//	var blocks []*zktest.Block // srv.Faults().BlockRequests of each session
//	// …
//	b := blocks[rnd.IntN(len(blocks))]
//	b.Let(1) // that session's next request is executed, if there is one
//	synctest.Wait()
//
// A Lag with a bound of a few transactions, or advanced at random by
// [Lag.Advance], gives stale reads and late watches at every such step; clients
// that get several addresses, one of them with a [Faults.LagServer], meet a
// server that refuses them because they have seen more than it did.
//
// # What it does not know
//
// Persistent watches and the removal of watches, quotas, reconfiguration,
// read-only mode, SASL. Requests for those get the answer that a real server gives
// to what it does not know: unimplemented, and the end of the connection. Of the
// four-letter commands it knows ruok, srvr and mntr.
//
// # Concurrency
//
// Every method may be called by any goroutine. What a method of [Server] or
// [Faults] changes is in force when it returns. Transactions are totally
// ordered, by their zxid; a client is told of a change that it watches before
// it can see it, and gets its answers in the order of its requests.
package zktest
