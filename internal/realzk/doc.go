// SPDX-License-Identifier: Apache-2.0

// Package realzk starts real ZooKeeper servers for tests and commands.
//
// # In a test
//
//	zk := realzk.Start(t)          // a server for this test; its end stops the server
//	zk := realzk.Shared(t)         // a server that the package's tests share; see WithShared
//	conn, err := net.Dial("tcp", zk.Addr())
//
// A server takes half a second to start on an idle machine, and several seconds on a
// busy one, so tests that neither stop nor pause it share one. Each test then works
// below its own path.
//
// If no ZooKeeper is installed, Start and Shared skip the test and say what to
// install; with CI=true in the environment they fail it. With -short they skip it in
// any case. Skips are recorded for `make test`, which lists them; see [NotRun].
//
// # In a command
//
// [Find] finds ZooKeeper on this machine, and [Run] starts a server that runs until
// its context ends or [Process.Stop] is called. [RunEnsemble] does the same with several
// servers. [Links] are the connections of one client, to which faults can happen.
//
// # Servers
//
// A server is an operating-system process (a JVM) that listens on 127.0.0.1, on a
// port outside the range of ephemeral ports, so that no other process takes it while
// the server is restarted. Its data is in its own directory. It does not force its
// log to disk; killing the process loses nothing by that, only a crash of the machine
// does.
//
// On Linux the server dies with the process that started it, however that ends: see package
// child. What it leaves in a temporary directory is removed by the next start of a
// server: see package scratch.
//
// # Ensembles
//
//	e := realzk.StartEnsemble(t, 3)
//	e.Isolate(e.Leader())
//
// An [Ensemble] is several servers that replicate each other, for a test, and a [Cluster]
// is the same for a command. Their configurations
// refer to each other by the addresses of relays in the process that started them, which
// isolate a server by relaying nothing. This needs no privileges, works on every system,
// and leaves nothing behind.
package realzk
