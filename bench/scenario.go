// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// The names of the subjects.
const (
	ours       = "holdfast"        // with Release, which does not wait for the server
	oursUnlock = "holdfast-unlock" // with Unlock, which waits, as all the others do
	oursAlone  = "holdfast-alone"  // a process for the bulk scenarios only
	limitCAS   = "cas"
	limitBare  = "bare"
	limitRelay = "relay"
	limitTrip  = "round-trip"

	oursMutex    = "holdfast-mutex"    // a Mutex, with Release
	oursLinger   = "holdfast-linger"   // with Unlock and Config.Linger
	oursSentinel = "holdfast-sentinel" // with Config.Sentinel

	oursIdle = "holdfast-idle" // a Mutex, with Config.Linger

	// These enter a lock that the process holds.
	oursLock = "holdfast-lock" // Lock and Release
	oursDo   = "holdfast-do"   // Do
	oursDone = "holdfast-done" // Do, of a function that asks for the Done channel of its context
	oursErr  = "holdfast-err"  // Hold.Err, of one that is held throughout

	limitBusy      = "cas-busy"     // compare-and-swaps with others between, on a word of the goroutine's own
	limitContext   = "context"      // context.WithCancelCause and WithValue, cancelled
	limitDone      = "context-done" // the same, asked for its Done channel
	limitRWMutex   = "rwmutex"
	limitMutex     = "mutex"
	limitSemaphore = "semaphore"
	limitClock     = "time.Now"

	gozk    = "go-zookeeper"
	curator = "curator"
	kazoo   = "kazoo"
	etcd    = "etcd"
	redsync = "redsync"
	naive   = "naive"
)

// onZooKeeper has the peers that use ZooKeeper, except the naive lock.
var onZooKeeper = []string{gozk, curator, kazoo}

// A scenario is a job that several subjects do in turn.
type scenario struct {
	id       string
	what     string
	job      work.Job
	subjects []string
	rounds   int  // number of rounds, if not 0
	short    bool // of microseconds, not of milliseconds: it is measured for half the time
	setup    bool // takes long to set up: it gets a longer warm-up, and no warm-up round
	cold     bool // gets no warm-up round
	at       place
	// before, if not nil, prepares the job and returns a function that tidies up.
	before func(context.Context, work.Job) (after func(), err error)
	// by, if not nil, measures a subject otherwise than by one job, and records if that failed.
	by func(context.Context, *suite, *program, scenario) (r work.Result, ok bool)
}

// The ids of the scenarios that targets and figures refer to.
const (
	solo       = "uncontended"
	readers    = "readers"
	shared     = "shared"
	excluding  = "mutex"
	manyUnmade = "many/locks=10000/directories=missing"
	footprint  = "footprint"
)

func reenter(workers int) string { return fmt.Sprintf("retained/goroutines=%d", workers) }

func handOver(sessions int) string { return fmt.Sprintf("hand-over/sessions=%d", sessions) }

func queue(sessions int) string { return fmt.Sprintf("queue/sessions=%d", sessions) }

func together(sessions int) string { return fmt.Sprintf("lock-all/sessions=%d", sessions) }

func many(locks int) string { return fmt.Sprintf("many/locks=%d", locks) }

func requests(sessions int) string { return fmt.Sprintf("requests/sessions=%d", sessions) }

// The numbers of contenders.
var (
	contenders = []int{2, 8, 32}
	depths     = []int{10, 100, 1000}
	crowds     = []int{1, 2, 8, 64, 1024} // goroutines on one word
	manyLocks  = []int{100, 1000, 10_000}

	tappedContenders = []int{2, 8, 32, 100}
)

// contend returns the job of taking and releasing one lock.
func contend(sessions, workers int) work.Job {
	return work.Job{Work: work.Contend, Sessions: sessions, Workers: workers, Locks: 1}
}

// scenarios returns the scenarios that are measured by time.
func scenarios() []scenario {
	locks := []string{ours, gozk, curator, kazoo, etcd, redsync, naive}
	all := []scenario{
		{
			id: solo, what: "one session takes and releases a lock without contention",
			job: contend(1, 1), subjects: slices.Concat([]string{limitBare, oursUnlock, oursLinger, oursIdle}, locks),
		},
		{
			id: excluding, what: "32 goroutines or threads of one process take and release a lock that excludes them from each other",
			job: contend(1, 32), subjects: []string{oursMutex, limitMutex, gozk, curator, kazoo, etcd},
		},
		{
			id: readers, what: "32 goroutines or threads of one process take and release the read lock",
			job:      work.Job{Work: work.Contend, Sessions: 1, Workers: 32, Locks: 1, Read: true},
			subjects: []string{ours, curator, kazoo},
		},
		{
			id: shared, what: "8 processes of 16 goroutines or threads each take and release one exclusive lock",
			job: contend(8, 16), subjects: []string{ours, gozk, curator, etcd},
		},
	}
	// each adds a scenario for each number.
	each := func(numbers []int, of func(n int) scenario) {
		for _, n := range numbers {
			all = append(all, of(n))
		}
	}
	crowd := slices.Clone(crowds)
	if !slices.Contains(crowd, runtime.NumCPU()) {
		crowd = append(crowd, runtime.NumCPU())
	}
	each(crowd, func(n int) scenario {
		subjects := []string{ours, limitCAS}
		if n == 1 || n == runtime.NumCPU() {
			subjects = append(subjects, oursLock, oursDo, oursDone, oursErr, limitBusy, limitContext, limitDone,
				limitRWMutex, limitMutex, limitSemaphore, limitClock)
		}
		if n == 1 {
			subjects = append(subjects, curator)
		}
		return scenario{
			id: reenter(n), what: fmt.Sprintf("%d goroutines take and release a lock that their process holds", n),
			job: work.Job{Work: work.Reenter, Workers: n, Locks: 1}, subjects: subjects, short: true,
		}
	})
	each(contenders, func(n int) scenario {
		return scenario{
			id: handOver(n), what: fmt.Sprintf("%d processes with one goroutine or thread each take and release one lock", n),
			job: contend(n, 1), subjects: append([]string{limitRelay}, locks...),
		}
	})
	each([]int{1, 4}, func(n int) scenario {
		return scenario{
			id: together(n), what: fmt.Sprintf("%d processes with one goroutine or thread each take three locks at once, and release them", n),
			job:      work.Job{Work: work.Contend, Sessions: n, Workers: 1, Locks: 3, Together: 3},
			subjects: []string{ours, curator},
		}
	})
	each(depths, func(n int) scenario {
		return scenario{
			id: queue(n), what: fmt.Sprintf("%d sessions queue for one lock", n),
			job: contend(n, 1), subjects: []string{ours, limitRelay}, rounds: 3, setup: n > 100,
		}
	})
	each(manyLocks, func(n int) scenario {
		return scenario{
			id: many(n), what: fmt.Sprintf("one process takes and releases %d locks concurrently; their directories exist", n),
			job: work.Job{Work: work.Many, Locks: n, Made: true}, subjects: []string{ours, limitBare}, rounds: 3, setup: true,
		}
	})
	return append(all, scenario{
		id: manyUnmade, what: "one process takes and releases 10,000 locks concurrently; their directories do not exist",
		job: work.Job{Work: work.Many, Locks: 10_000}, subjects: []string{ours, limitBare}, rounds: 1, setup: true,
	}, scenario{
		id: footprint, what: "memory of 10,000 locks: idle, held, and queued for",
		job: work.Job{Work: work.Footprint, Locks: 10_000}, subjects: []string{ours}, rounds: 1, setup: true,
	})
}

// counted returns the scenarios whose requests are counted, by a tap. They run once
// and are not timed.
func counted() (all []scenario) {
	for _, n := range tappedContenders {
		all = append(all, scenario{
			id: requests(n), what: fmt.Sprintf("requests per grant when %d processes take and release one lock", n),
			job: contend(n, 1), subjects: slices.Concat([]string{limitRelay, ours}, onZooKeeper, []string{naive}),
			rounds: 1, cold: true, by: byCounting,
		})
	}
	return all
}
