// SPDX-License-Identifier: Apache-2.0

// Package zktest is a ZooKeeper server within the process, for development and
// tests.
//
// It speaks the client protocol of ZooKeeper 3.8, so that an unmodified client
// works on it: sessions that expire by the clock, ephemeral, sequential and
// container nodes, versions and zxids, one-shot watches, multi, digest ACLs.
// It is held to the answers of a real server, which are kept with its tests.
// Clients reach it over TCP ([Server.Listen]) or over in-memory connections
// ([Server.Dial]).
//
// It is one server, in memory, without a quorum, and nothing survives its
// Close: not for production.
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
// ([Server.OnRequest]), lose a request or a reply, delay it, cut, silence or
// refuse connections ([Server.Faults]), and end a session
// ([Server.ExpireSession]). Faults count how often they have acted, so that a
// test can tell that it has tested something.
//
// # What it does not know
//
// Persistent watches and the removal of watches, quotas, nodes with a time to
// live, reconfiguration, read-only mode, SASL. Requests for those get the
// answer that a real server gives to what it does not know: unimplemented, and
// the end of the connection. Of the four-letter commands it knows ruok, srvr
// and mntr.
//
// # Concurrency
//
// Every method may be called by any goroutine. What a method of [Server] or
// [Faults] changes is in force when it returns. Transactions are totally
// ordered, by their zxid; a client is told of a change that it watches before
// it can see it, and gets its answers in the order of its requests.
package zktest
