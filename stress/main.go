// SPDX-License-Identifier: Apache-2.0

// Command stress lets many processes contend for Holdfast's locks and judges
// from outside whether the locks hold.
//
//	go run ./stress                                  # the embedded server, for demonstration
//	go run ./stress -servers 127.0.0.1:2181 -duration 10m -processes 8
//
// It starts itself N times over as processes of their own, each with one
// Manager and M goroutines that contend for K locks: by Acquire and its future
// in the ways that a future can be awaited, by Lock, TryLock and Do, with
// deadlines and cancellations, reentering, and sharing their holds. What each
// goroutine does follows from the seed.
//
// What is judged:
//
//   - Between processes a lock excludes: whoever is inside has an flock on a file
//     that all processes share, and nobody else may want it at that time. See
//     referee.
//   - Fencing tokens rise: the file remembers the last one.
//   - With -read-ratio: the same for read/write locks, by flocks that readers
//     share, also where a process goes from write to read. Going from read to
//     write is refused.
//   - Every wait ends: a watchdog looks at every worker.
//   - Every answer is one that the API allows.
//   - At the end no node is left in ZooKeeper, no lock has a holder, and every
//     release has come to what it had to.
//
// # How it is built
//
// The parent (parent.go) reads the flags (options.go), finds ZooKeeper
// (cluster.go), starts the processes (process.go), shows how it goes
// (reporter.go), and writes the summary (summary.go). A child (child.go) runs the
// workers (worker.go), which follow their plans (plan.go) under the eyes of the
// referee (referee.go) and the watchdog (watchdog.go). They talk in JSON over
// pipes (message.go). To test the harness itself, a child can be made to do wrong
// (sabotage.go).
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if isChild() {
		// A parent that dies closes our pipes. We then want to stop properly,
		// not to be killed by a write to it.
		signal.Ignore(syscall.SIGPIPE)
		os.Exit(childMain(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(parentMain(os.Args[1:], os.Stdout, os.Stderr))
}
