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

	Contender      string        `json:"contender,omitempty"` // whose locks they are; empty: Holdfast's
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

// A Venue is something that workers contend for: a lock, or what a recipe gives.
type Venue struct {
	Name      string // of it, and of its directory and file
	Kind      string // the workload to which it belongs
	ReadWrite bool   // it is a read/write lock
	Recipe    bool   // it belongs to a recipe
}

// Venues returns what workers contend for: the locks, and in the workload mixed one of each
// recipe besides.
func (w Workload) Venues() []Venue {
	all := make([]Venue, 0, w.Locks+len(RecipeWorkloads))
	kinds := []string{w.Kind}
	if w.Kind == MixedWorkload {
		kinds = []string{DefaultWorkload, MutexWorkload, UpgradeWorkload}
	}
	for i := range w.Locks {
		kind := kinds[i%len(kinds)]
		all = append(all, Venue{
			Name: fmt.Sprintf("lock-%d", i), Kind: kind, Recipe: slices.Contains(RecipeWorkloads, kind),
			ReadWrite: w.ReadWrite || w.Kind == MixedWorkload && kind == UpgradeWorkload,
		})
	}
	if w.Kind == MixedWorkload {
		for _, kind := range RecipeWorkloads {
			all = append(all, Venue{Name: kind, Kind: kind, Recipe: true})
		}
	}
	return all
}

// Queue returns the path below the root of the directory in which processes queue for it as
// for a lock; "" if there is none.
func (v Venue) Queue() string {
	switch {
	case v.Kind == ElectionWorkload:
		return v.Name + "/lock"
	case v.Recipe:
		return ""
	}
	return v.Name
}

// Scale describes the contenders.
func (w Workload) Scale() string {
	locks := figures.Count(w.Locks, "lock")
	switch {
	case w.ReadWrite:
		locks = figures.Count(w.Locks, "read/write lock")
	case w.Kind == MutexWorkload:
		locks = figures.Count(w.Locks, "mutex")
	case w.Kind == MixedWorkload:
		locks = figures.Number(w.Locks) + " locks of three kinds, and one of each recipe"
	case w.Kind == MembersWorkload:
		locks = figures.Count(w.Locks, "group")
	case w.Kind == ShardsWorkload:
		locks = fmt.Sprintf("%s × %d shards", figures.Number(w.Locks), ManyShards)
	case slices.Contains(RecipeWorkloads, w.Kind):
		locks = figures.Count(w.Locks, w.Kind)
	}
	return fmt.Sprintf("%s × %s, %s", figures.Count(w.Processes, "process"), figures.Count(w.Goroutines, "goroutine"), locks)
}
