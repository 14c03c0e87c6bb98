// SPDX-License-Identifier: Apache-2.0

// Package zktest is a ZooKeeper server within the process, for development and
// tests.
//
// It speaks the client protocol of ZooKeeper 3.8, so that any client works on it:
// sessions that expire by the clock; ephemeral, sequential and container nodes,
// and nodes with a time to live; versions and zxids; one-shot, persistent and
// recursive watches; multi and multiRead; digest ACLs and a super user; the
// four-letter words. Clients connect by TCP ([Server.Listen], [Server.Serve]) or
// in memory ([Server.Dial]).
//
// A [Server] is alone, or one of an [Ensemble], whose servers can be cut off from each other, be
// slow, paused or stopped, and elect leaders. All of it is in memory, and nothing survives its
// Close. It is not for production. See [Server.Stop] for an interruption.
//
// # Virtual time
//
// Created inside a testing/synctest bubble and reached by [Server.Dial], the
// server runs in virtual time: a test of an hour's outage takes milliseconds.
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
// All of the client's goroutines must end within the bubble too: close the client
// and wait for it before the test ends.
//
// # What a real server cannot do
//
// A test can look at nodes, sessions and watches ([Server.Nodes],
// [Server.Sessions], [Server.Watches]), act exactly between two requests
// ([Server.OnRequest]), and make the server misbehave ([Server.Faults]):
//
//   - lose a request or its answer, with or without the connection, delay an
//     answer, or answer with an error: [Faults.DropRequest], [Faults.DropReply],
//     [Faults.SwallowRequest], [Faults.SwallowReply], [Faults.DelayReply],
//     [Faults.FailRequest], [Faults.FailReply];
//   - close connections, silence them, refuse new ones: [Faults.Cut],
//     [Faults.CutAll], [Faults.Blackhole] and its variants, [Faults.Refuse];
//   - end a session: [Server.ExpireSession];
//   - be away for a time or restart, in a new epoch but with all data:
//     [Server.Stop], [Server.Start], [Server.Restart];
//   - answer some clients like a follower that lags behind: [Faults.Lag];
//   - execute requests of several sessions, or deliver answers, in an order that
//     the test chooses: [Faults.BlockRequests], [Faults.BlockReplies].
//
// A fault stays in effect until it is removed; [Faults.Clear] removes all. Faults
// count how often they have acted, individually and by kind ([Faults.Hits]), so
// that a test can tell whether it has tested anything.
//
// # Seeded simulations
//
// In virtual time, a program of several clients and this server can run through
// random faults under a seed. None of the faults blocks the caller, and those that
// affect several connections do so in the order in which the connections were
// created. A step of such a simulation chooses a fault or a session by the seed,
// acts, and lets the bubble come to rest with synctest.Wait.
//
//	var blocks []*zktest.Block // srv.Faults().BlockRequests of each session
//	// …
//	b := blocks[rnd.IntN(len(blocks))]
//	b.Let(1) // execute that session's next request, if there is one
//	synctest.Wait()
//
// A Lag with a bound of a few transactions, or one advanced at random by
// [Lag.Advance], adds stale reads and late watches.
//
// # Fidelity
//
// The answers of a real ZooKeeper 3.8 to some 2,500 requests are kept
// with the tests of this package, and both servers are held to them.
// `make test-kazoo` runs the test suite of kazoo, ZooKeeper's Python client, on
// both: no result differs.
//
// Where a real server's options change its behavior, [Config] has the option or
// this server has the default. One default differs: all four-letter words are
// answered (see Config.FourLetterWords). Not supported are quotas,
// reconfiguration, read-only mode and SASL; requests for reconfiguration and SASL
// get the answer of a real server that has neither. Four-letter words about
// latencies, traffic of single connections and the file system answer zeros.
//
// # Concurrency
//
// All methods may be called by any goroutine. Changes made by methods of [Server]
// and [Faults] are in effect when the method returns. Transactions are totally
// ordered by their zxids. A client is notified of a change that it watches before
// it can see the change, and gets answers in the order of its requests.
package zktest
