// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
)

// A workload says what a run does. The command line sets it, every process
// receives it, and the summary repeats it: its fields' names are part of the
// summary's format.
type workload struct {
	Workload   string        `json:"workload"` // one of workloads
	Seed       uint64        `json:"seed"`
	Processes  int           `json:"processes"`
	Goroutines int           `json:"goroutines"` // in each process
	Locks      int           `json:"locks"`
	Hold       time.Duration `json:"hold_ns"`    // mean time inside
	Think      time.Duration `json:"think_ns"`   // mean time between a worker's steps
	Greedy     bool          `json:"greedy"`     // workers never pause and never give up a wait
	Tenure     time.Duration `json:"tenure_ns"`  // as in manager.Config
	Linger     time.Duration `json:"linger_ns"`  // as in manager.Config
	ReadWrite  bool          `json:"read_write"` // read/write locks instead of exclusive ones
	ReadRatio  float64       `json:"read_ratio"` // share of the steps that read

	SessionTimeout time.Duration `json:"session_timeout_ns"`
	Patience       time.Duration `json:"patience_ns"` // a longer operation counts as stuck
	Swallow        time.Duration `json:"swallow_ns"`  // time between two answers that the embedded server swallows; 0: none
	Faulty         bool          `json:"faulty"`      // faults are injected that can cost locks
}

// What the workers contend for.
const (
	defaultWorkload   = "default"   // exclusive locks, or read/write locks
	mutexWorkload     = "mutex"     // mutexes, which exclude the workers of one process, too
	allWorkload       = "all"       // exclusive locks, several at once
	upgradeWorkload   = "upgrade"   // read/write locks, with upgradable reads
	abandonedWorkload = "abandoned" // exclusive locks that report interrupted holders
	barrierWorkload   = "barrier"   // no locks, but double barriers

	electionWorkload  = "election"  // leaderships
	membersWorkload   = "members"   // the one id of a group
	shardsWorkload    = "shards"    // shards, which processes divide
	semaphoreWorkload = "semaphore" // permits
	queueWorkload     = "queue"     // elements of a queue

	mixedWorkload = "mixed" // exclusive locks, mutexes and read/write locks, and one of each recipe
)

// What recipes have to give.
const (
	manyPermits = 3 // of each semaphore
	manyShards  = 8 // of each set
)

// lingerWorkload is short for the default workload with locks that linger.
const lingerWorkload = "linger"

var workloads = []string{
	defaultWorkload, mutexWorkload, allWorkload, upgradeWorkload, abandonedWorkload, barrierWorkload,
	electionWorkload, membersWorkload, shardsWorkload, semaphoreWorkload, queueWorkload, mixedWorkload,
}

// recipeWorkloads are those in which workers contend for what a recipe gives, in the order
// in which the workload mixed has them.
var recipeWorkloads = []string{electionWorkload, membersWorkload, shardsWorkload, semaphoreWorkload, queueWorkload, barrierWorkload}

// venues returns how many things there are that workers contend for: the locks, and in the
// workload mixed one of each recipe besides.
func (w workload) venues() int {
	if w.Workload == mixedWorkload {
		return w.Locks + len(recipeWorkloads)
	}
	return w.Locks
}

// kindOf returns the workload to which venue i belongs.
func (w workload) kindOf(i int) string {
	switch {
	case w.Workload != mixedWorkload:
		return w.Workload
	case i >= w.Locks:
		return recipeWorkloads[i-w.Locks]
	default:
		return []string{defaultWorkload, mutexWorkload, upgradeWorkload}[i%3]
	}
}

// readWrite reports whether venue i is a read/write lock.
func (w workload) readWrite(i int) bool {
	return w.ReadWrite || w.Workload == mixedWorkload && w.kindOf(i) == upgradeWorkload
}

// nameOf returns the name of venue i, and of its directory and file.
func (w workload) nameOf(i int) string {
	if w.Workload == mixedWorkload && i >= w.Locks {
		return w.kindOf(i)
	}
	return lockName(i)
}

// lockName returns the name of lock i, and of its directory and file.
func lockName(i int) string { return fmt.Sprintf(lockFormat, i) }

const lockFormat = "lock-%d"

// scale describes the contenders.
func (w workload) scale() string {
	lock := "lock"
	switch {
	case w.ReadWrite:
		lock = "read/write lock"
	case w.Workload == mutexWorkload:
		lock = "mutex"
	case w.Workload == mixedWorkload:
		return fmt.Sprintf("%s × %s, %s", figures.Count(w.Processes, "process"), figures.Count(w.Goroutines, "goroutine"), figures.Number(w.Locks)+" locks of three kinds, and one of each recipe")
	case w.Workload == membersWorkload:
		lock = "group"
	case w.Workload == shardsWorkload:
		return fmt.Sprintf("%s × %s, %s × %d shards", figures.Count(w.Processes, "process"), figures.Count(w.Goroutines, "goroutine"), figures.Number(w.Locks), manyShards)
	case slices.Contains(recipeWorkloads, w.Workload):
		lock = w.Workload
	}
	return fmt.Sprintf("%s × %s, %s", figures.Count(w.Processes, "process"), figures.Count(w.Goroutines, "goroutine"), figures.Count(w.Locks, lock))
}
