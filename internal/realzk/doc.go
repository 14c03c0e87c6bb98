// SPDX-License-Identifier: Apache-2.0

// Package realzk starts real ZooKeeper servers, for tests and for the commands
// that need one beside the code they measure or torture.
//
// # In a test
//
//	zk := realzk.Start(t)          // this test's own server; gone when the test ends
//	zk := realzk.Shared(t)         // the test binary's one server; see WithShared
//	conn, err := net.Dial("tcp", zk.Addr())
//
// A server takes about half a second to start on an idle machine, and several
// on a busy one, so tests that neither stop nor pause theirs share one. Tests
// on a shared server keep apart by working below a path of their own.
//
// Where no ZooKeeper is installed, Start and Shared skip the test and say what
// to do; with CI=true in the environment they fail it instead, and with -short
// they skip it without looking. A skip is also recorded for `make test`, which
// names every test that did not run; see [NotRun].
//
// # In a command
//
// [Find] tells whether ZooKeeper is there and [Run] starts a server that lives
// until its context ends or it is stopped.
//
// # What a server is like
//
// It is an operating-system process of its own (a JVM) on 127.0.0.1, on a port
// outside the range from which the system takes ports for outgoing
// connections, so that nobody takes the port while the server is restarted. It
// keeps its data in a directory of its own. It does not force its log to disk:
// a killed *process* loses nothing by that, only a killed machine would. When
// the process that started it dies without cleaning up, the server dies too
// (on Linux; elsewhere it may stay behind after a crash).
//
// # Several that replicate each other
//
//	e := realzk.StartEnsemble(t, 3)
//	e.Isolate(e.Leader())
//
// A server is a [Process] made from a [Config]; an [Ensemble] is several of them
// whose configurations name each other, by the addresses of relays in the
// test's process that stop relaying when a server is to be isolated. That needs
// no rights and works on every system; nothing of it outlives the test.
package realzk
