// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// The subjects, by the names under which they are started.
const (
	ours       = "holdfast"        // Release: does not wait for the server
	oursUnlock = "holdfast-unlock" // Unlock: waits, as all the others do
	limitCAS   = "cas"
	limitBare  = "bare"
	limitRelay = "relay"
	gozk       = "go-zookeeper"
	curator    = "curator"
	kazoo      = "kazoo"
	etcd       = "etcd"
	redsync    = "redsync"
	naive      = "naive"
)

// onZooKeeper are the peers whose locks lie in the same service; the naive lock
// is there as a warning.
var onZooKeeper = []string{gozk, curator, kazoo}

// A cell is one job that subjects do in turns.
type cell struct {
	id       string
	what     string
	job      work.Job
	subjects []string
	rounds   int  // as many as the others if 0
	setup    bool // much has to be set up: a long warm-up, and no round to warm up
}

// The ids of the cells that rows and figures refer to.
const (
	solo       = "uncontended"
	readers    = "readers"
	shared     = "shared"
	manyUnmade = "many/locks=10000/directories=missing"
	footprint  = "footprint"
)

func reenter(workers int) string { return fmt.Sprintf("retained/goroutines=%d", workers) }

func handOver(sessions int) string { return fmt.Sprintf("hand-over/sessions=%d", sessions) }

func queue(sessions int) string { return fmt.Sprintf("queue/sessions=%d", sessions) }

func many(locks int) string { return fmt.Sprintf("many/locks=%d", locks) }

func requests(sessions int) string { return fmt.Sprintf("requests/sessions=%d", sessions) }

// How many contend where that is varied.
var (
	contenders = []int{2, 8, 32}
	depths     = []int{10, 100, 1000}
	crowds     = []int{1, 2, 8, 64, 1024} // goroutines on one word
	manyLocks  = []int{100, 1000, 10_000}

	tappedContenders = []int{2, 8, 32, 100}
)

// cells returns what is measured.
func cells() []cell {
	everybody := []string{ours, gozk, curator, kazoo, etcd, redsync, naive}
	all := []cell{
		{
			id: solo, what: "one session takes and releases a lock that nobody else wants",
			job:      work.Job{Work: work.Contend, Sessions: 1, Workers: 1, Locks: 1},
			subjects: slices.Concat([]string{limitBare, oursUnlock}, everybody),
		},
		{
			id: readers, what: "32 goroutines or threads of one process take and release the read lock",
			job:      work.Job{Work: work.Contend, Sessions: 1, Workers: 32, Locks: 1, Read: true},
			subjects: []string{ours, curator, kazoo},
		},
		{
			id: shared, what: "8 processes of 16 goroutines or threads that all want one exclusive lock",
			job:      work.Job{Work: work.Contend, Sessions: 8, Workers: 16, Locks: 1},
			subjects: []string{ours, gozk, curator, etcd},
		},
	}
	crowd := slices.Clone(crowds)
	if !slices.Contains(crowd, runtime.NumCPU()) {
		crowd = append(crowd, runtime.NumCPU())
	}
	for _, n := range crowd {
		c := cell{
			id: reenter(n), what: fmt.Sprintf("%d goroutines take and release what their process owns", n),
			job:      work.Job{Work: work.Reenter, Workers: n, Locks: 1},
			subjects: []string{ours, limitCAS},
		}
		if n == 1 {
			c.subjects = append(c.subjects, curator)
		}
		all = append(all, c)
	}
	for _, n := range contenders {
		all = append(all, cell{
			id: handOver(n), what: fmt.Sprintf("%d processes, one goroutine or thread each, hand one lock round", n),
			job:      work.Job{Work: work.Contend, Sessions: n, Workers: 1, Locks: 1},
			subjects: append([]string{limitRelay}, everybody...),
		})
	}
	for _, n := range depths {
		all = append(all, cell{
			id: queue(n), what: fmt.Sprintf("%d sessions are in the queue of one lock", n),
			job:      work.Job{Work: work.Contend, Sessions: n, Workers: 1, Locks: 1},
			subjects: []string{ours, limitRelay}, rounds: 3, setup: n > 100,
		})
	}
	for _, n := range manyLocks {
		all = append(all, cell{
			id: many(n), what: fmt.Sprintf("one process takes and releases %d different locks at once, whose directories exist", n),
			job:      work.Job{Work: work.Many, Locks: n, Made: true},
			subjects: []string{ours, limitBare}, rounds: 3, setup: true,
		})
	}
	all = append(all, cell{
		id: manyUnmade, what: "the same with 10,000 locks whose directories do not exist",
		job:      work.Job{Work: work.Many, Locks: 10_000},
		subjects: []string{ours, limitBare}, rounds: 3, setup: true,
	})
	return append(all, cell{
		id: footprint, what: "the memory of 10,000 locks: idle, held, and waited for",
		job:      work.Job{Work: work.Footprint, Locks: 10_000},
		subjects: []string{ours}, rounds: 1, setup: true,
	})
}

// counted returns the cells whose requests are counted. They are run once, by way
// of a tap, and not timed.
func counted() (all []cell) {
	for _, n := range tappedContenders {
		all = append(all, cell{
			id: requests(n), what: fmt.Sprintf("the requests that %d processes need to hand one lock round", n),
			job:      work.Job{Work: work.Contend, Sessions: n, Workers: 1, Locks: 1},
			subjects: slices.Concat([]string{limitRelay, ours}, onZooKeeper, []string{naive}),
		})
	}
	return all
}
