// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
)

// A Workload says what a run does. The command line sets it, every process
// receives it, and the summary repeats it: its fields' names are part of the
// summary's format.
type Workload struct {
	Kind       string        `json:"workload"` // one of Workloads
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
	DefaultWorkload   = "default"   // exclusive locks, or read/write locks
	MutexWorkload     = "mutex"     // mutexes, which exclude the workers of one process, too
	AllWorkload       = "all"       // exclusive locks, several at once
	UpgradeWorkload   = "upgrade"   // read/write locks, with upgradable reads
	AbandonedWorkload = "abandoned" // exclusive locks that report interrupted holders
	BarrierWorkload   = "barrier"   // no locks, but double barriers

	ElectionWorkload  = "election"  // leaderships
	MembersWorkload   = "members"   // the one id of a group
	ShardsWorkload    = "shards"    // shards, which processes divide
	SemaphoreWorkload = "semaphore" // permits
	QueueWorkload     = "queue"     // elements of a queue

	MixedWorkload = "mixed" // exclusive locks, mutexes and read/write locks, and one of each recipe
)

// What recipes have to give.
const (
	ManyPermits = 3 // of each semaphore
	ManyShards  = 8 // of each set
	MostMembers = 4 // of a round of a barrier, if there are so many workers
)

// LingerWorkload is short for the default workload with locks that linger.
const LingerWorkload = "linger"

// Workloads are all that the command line has.
var Workloads = []string{
	DefaultWorkload, MutexWorkload, AllWorkload, UpgradeWorkload, AbandonedWorkload, BarrierWorkload,
	ElectionWorkload, MembersWorkload, ShardsWorkload, SemaphoreWorkload, QueueWorkload, MixedWorkload,
}

// RecipeWorkloads are those in which workers contend for what a recipe gives, in the order
// in which the workload mixed has them.
var RecipeWorkloads = []string{ElectionWorkload, MembersWorkload, ShardsWorkload, SemaphoreWorkload, QueueWorkload, BarrierWorkload}

// Venues returns how many things there are that workers contend for: the locks, and in the
// workload mixed one of each recipe besides.
func (w Workload) Venues() int {
	if w.Kind == MixedWorkload {
		return w.Locks + len(RecipeWorkloads)
	}
	return w.Locks
}

// KindOf returns the workload to which venue i belongs.
func (w Workload) KindOf(i int) string {
	switch {
	case w.Kind != MixedWorkload:
		return w.Kind
	case i >= w.Locks:
		return RecipeWorkloads[i-w.Locks]
	default:
		return []string{DefaultWorkload, MutexWorkload, UpgradeWorkload}[i%3]
	}
}

// ReadWriteAt reports whether venue i is a read/write lock.
func (w Workload) ReadWriteAt(i int) bool {
	return w.ReadWrite || w.Kind == MixedWorkload && w.KindOf(i) == UpgradeWorkload
}

// NameOf returns the name of venue i, and of its directory and file.
func (w Workload) NameOf(i int) string {
	if w.Kind == MixedWorkload && i >= w.Locks {
		return w.KindOf(i)
	}
	return lockName(i)
}

// lockName returns the name of lock i, and of its directory and file.
func lockName(i int) string { return fmt.Sprintf(lockFormat, i) }

const lockFormat = "lock-%d"

// Scale describes the contenders.
func (w Workload) Scale() string {
	lock := "lock"
	switch {
	case w.ReadWrite:
		lock = "read/write lock"
	case w.Kind == MutexWorkload:
		lock = "mutex"
	case w.Kind == MixedWorkload:
		return fmt.Sprintf("%s × %s, %s", figures.Count(w.Processes, "process"), figures.Count(w.Goroutines, "goroutine"), figures.Number(w.Locks)+" locks of three kinds, and one of each recipe")
	case w.Kind == MembersWorkload:
		lock = "group"
	case w.Kind == ShardsWorkload:
		return fmt.Sprintf("%s × %s, %s × %d shards", figures.Count(w.Processes, "process"), figures.Count(w.Goroutines, "goroutine"), figures.Number(w.Locks), ManyShards)
	case slices.Contains(RecipeWorkloads, w.Kind):
		lock = w.Kind
	}
	return fmt.Sprintf("%s × %s, %s", figures.Count(w.Processes, "process"), figures.Count(w.Goroutines, "goroutine"), figures.Count(w.Locks, lock))
}
