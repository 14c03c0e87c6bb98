// SPDX-License-Identifier: Apache-2.0

// Command stress makes many processes contend for Holdfast's locks and checks
// from outside whether the locks hold.
//
//	go run ./stress                                         # the embedded server, for demonstration
//	go run ./stress -ensemble 3 -report out -duration 10m   # a real ensemble, with faults of every kind
//	go run ./stress -servers zk1,zk2,zk3 -nemesis all       # your ensemble, with faults of our own processes
//	go run ./stress -ensemble 3 -contender curator          # the locks of another library
//	go run ./stress -check out                              # judge the history of a run again
//	go run ./stress -self-test                              # is every broken lock caught?
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
// # Faults, and a history
//
// With -ensemble, -nemesis or -report the processes write what they ask for and what they
// are told into a history, which is judged while the run goes on: see the packages
// stress/internal/history and judge. Workers pause for longer then, so that a few hundred
// of them get a lock each second. A register, which is a process of its own, accepts or
// refuses writes by their fencing tokens, as a fenced resource does; workers also write to
// it when they do not hold the lock any more.
//
// Faults come as the seed says: see stress/internal/nemesis. A process that was killed is
// replaced, under the same number. Before a fault hits a process, two processes are told to
// stay inside with some of the locks, so that it hits holders and waiters. The referee does
// not know of faults: what it sees goes into the history, whose judge knows which process was
// stopped, or had been told of a loss a moment before.
//
// # Other libraries' locks
//
// With -contender each worker process starts a program, whose clients wait for locks of another
// library, and whose answers the workers write into the history: see stress/internal/contender.
//
// # How it is built
//
// Each part is a package of its own, in stress/internal. The parent reads the options, opens
// the cluster, starts the worker processes, shows their progress, has the nemesis inject faults,
// and writes the summary. Parent and processes exchange JSON over pipes: see wire. The workers
// are checked by the referee, which knows from files of the operating system who is inside a lock
// or a barrier, and who was interrupted. The history is written by journals and by the chronicle. The judge
// reads it event by event, brings the scene up to date, which is what is known of the run, and
// has the checks look at it; what comes out is a verdict, of which the summary is a text and the
// report a page. The register is a process that accepts writes by fencing tokens. To test the
// harness itself, a worker can be made to misbehave: see [wire.Sabotage], and
// parent/selftest.go.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/stress/internal/parent"
	"github.com/holdfast-go/holdfast/stress/internal/worker"
)

func main() {
	sentinel.Main()
	if worker.IsChild() {
		// The pipes close if the parent dies. The child then stops properly
		// instead of being killed by its next write.
		signal.Ignore(syscall.SIGPIPE)
		os.Exit(worker.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(parent.Main(os.Args[1:], os.Stdout, os.Stderr))
}
