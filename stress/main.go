// SPDX-License-Identifier: Apache-2.0

// Command stress makes many processes contend for Holdfast's locks and checks
// from outside whether the locks hold.
//
//	go run ./stress                                  # the embedded server, for demonstration
//	go run ./stress -servers 127.0.0.1:2181 -duration 10m -processes 8
//
// It runs itself as N child processes. Each has one Manager and M goroutines,
// the workers, which contend for K locks. Workers use Acquire and await its
// future in every way there is; they use Lock, TryLock and Do; they set
// deadlines, cancel, reenter, and share holds. The seed determines what each
// worker attempts.
//
// It checks that:
//
//   - Processes exclude each other. A worker that holds a lock takes an flock on
//     a file that all processes share, and no other process may hold that flock
//     then. See referee.
//   - Fencing tokens rise. The file records the last one.
//   - With -read-ratio, the same is true of read/write locks, whose readers share
//     the flocks, also when a holder downgrades from write to read. An upgrade
//     from read to write is refused.
//   - With -workload mutex, goroutines of one process exclude each other as well, and
//     pairs of token and turn rise.
//   - Every wait ends. A watchdog observes every worker.
//   - Every result is one that the API allows.
//   - At the end ZooKeeper has no node of the run left, no lock has a holder, and
//     every release has settled as expected.
//
// With -swallow the embedded server now and then leaves a request unanswered,
// and all of this must still be so.
//
// # How it is built
//
// The parent (parent.go) reads the flags (options.go, workload.go), connects to
// ZooKeeper (cluster.go), starts the processes (process.go), reports progress
// (reporter.go), and writes the summary (summary.go). A child (child.go) runs the
// workers (worker.go), which follow their plans (plan.go) and are checked by the
// referee (referee.go) and the watchdog (watchdog.go). Parent and children
// exchange JSON over pipes (message.go). To test the harness itself, a child can
// be made to misbehave (sabotage.go).
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if isChild() {
		// The pipes close if the parent dies. The child then stops properly
		// instead of being killed by its next write.
		signal.Ignore(syscall.SIGPIPE)
		os.Exit(childMain(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(parentMain(os.Args[1:], os.Stdout, os.Stderr))
}
