// SPDX-License-Identifier: Apache-2.0

// Package zktest is a ZooKeeper server within the process, for development and
// tests.
//
// It speaks the client protocol of ZooKeeper 3.8, so that an unmodified client
// works on it: sessions that expire by the clock, ephemeral, sequential and
// container nodes, versions and zxids, one-shot watches, multi, digest ACLs.
// Clients reach it over TCP ([Server.Listen]) or over in-memory connections
// ([Server.Dial]). With the latter, and made inside a testing/synctest bubble,
// it runs in virtual time: a test of an hour's outage takes milliseconds.
//
// What a test cannot do with a real server it can do here: look at sessions
// and watches ([Server.Sessions], [Server.Watches]), act exactly between two
// requests ([Server.OnRequest]), lose a reply, cut, silence or refuse
// connections ([Server.Faults]), end a session ([Server.ExpireSession]).
//
// It is one server, in memory, without a quorum, and nothing survives its
// Close: not for production. Beyond what is said above it does not know
// persistent watches, removal of watches, quotas, nodes with a time to live,
// reconfiguration, read-only mode, and SASL; requests for those get the answer
// that a real server gives to what it does not know. Of the four-letter
// commands it knows ruok, srvr and mntr.
package zktest
