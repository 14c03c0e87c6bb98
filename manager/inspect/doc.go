// SPDX-License-Identifier: Apache-2.0

// Package inspect reads what ZooKeeper says about locks, and about the recipes that are built
// on them: which there are, which processes hold them or wait for them, and how that changes.
// It is for tools that people operate locks with. A program that uses locks has the methods of package manager.
//
// A [Reader] takes no part in what it reads. It creates no node, and needs no right but
// that to read; what it may not read, it reports. [Reader.Delete] is the exception, for
// the lock that an administrator has to free by hand.
//
//	client, err := zkio.Open(ctx, zkio.Config{Servers: servers})
//	…
//	r, err := inspect.NewReader(client, "/holdfast")
//	…
//	view, err := r.Survey("jobs").Look(ctx) // all locks below jobs
//	queue, err := r.Queue(ctx, "jobs/nightly", -1)
//	roster, found, err := r.Recipe(ctx, "scheduler", -1) // an election, say
//
// All answers describe the server that was asked, which lags behind ZooKeeper's leader,
// usually by milliseconds. What a node says about its process is that process's own word,
// and any client that may create nodes can write anything there: quote it.
package inspect
