// SPDX-License-Identifier: Apache-2.0

package work

import (
	"strconv"
	"time"
)

// The kinds of work.
const (
	// Hello asks for the version, and for nothing else.
	Hello = "hello"

	// Contend: in each of Sessions sessions, Workers goroutines or threads take
	// the lock, hold it for HoldMicros, release it, and begin again. Worker i of a
	// session takes lock i modulo Locks.
	Contend = "contend"

	// Many: one session takes Locks different locks, all at once as far as the
	// subject can, and releases each as soon as it has it, until none is left, again
	// and again. Read is ignored; Made says that the locks' directories exist.
	Many = "many"

	// Footprint: what Locks locks of one session cost in memory: idle, held, and
	// waited for while another session holds them. The result is in Extra.
	Footprint = "footprint"

	// Reenter: one session, whose lock is held throughout. Workers goroutines or
	// threads take it once more and release that, again and again: where nobody
	// needs the network. A lock that only the thread that holds it can take again
	// is taken by each worker for itself, a lock each.
	Reenter = "reenter"
)

// A Job is one measurement.
type Job struct {
	Work     string `json:"work"`
	Server   string `json:"server"` // host:port of the subject's kind of server
	Dir      string `json:"dir"`    // where the locks lie, such as /bench/17; new for each job; may not exist yet
	Sessions int    `json:"sessions"`
	Workers  int    `json:"workers"`
	Locks    int    `json:"locks"`
	Read     bool   `json:"read"` // read locks in place of exclusive ones
	Made     bool   `json:"made"` // of Many: the locks' directories exist

	HoldMicros    int `json:"holdMicros"`
	WarmupMillis  int `json:"warmupMillis"`  // this long before it is counted
	MeasureMillis int `json:"measureMillis"` // this long while it is
}

// Lock returns the path of lock i.
func (j Job) Lock(i int) string { return j.Dir + "/lock-" + strconv.Itoa(i) }

// Hold returns how long a lock is held.
func (j Job) Hold() time.Duration { return time.Duration(j.HoldMicros) * time.Microsecond }

// MaxWaits is how many waits a result has at most.
const MaxWaits = 5000

// A Result is what a job came to.
type Result struct {
	Version     string `json:"version,omitempty"`     // of Hello
	Unsupported string `json:"unsupported,omitempty"` // why the subject cannot do the job
	Err         string `json:"err,omitempty"`         // why it failed

	Entries int64   `json:"entries"` // holds, or pairs, that ended while it was measured
	Seconds float64 `json:"seconds"` // how long that was

	// Waits are times from the call that asks for the lock to the hold, in
	// microseconds: of all entries, or of a sample of MaxWaits that is drawn
	// evenly. None where Reenter is measured.
	Waits []float64 `json:"waits,omitempty"`

	// Fewest and Most are the entries of the worker that had the fewest, and the
	// most, while it was measured; of Contend, where the subject can tell.
	Fewest int64 `json:"fewest,omitempty"`
	Most   int64 `json:"most,omitempty"`

	// Total is Entries and those before and after they were counted: what a count
	// of requests, which has no such stages, is to be divided by.
	Total int64 `json:"total,omitempty"`

	// Allocs is how often memory was allocated per pair; of Reenter, where the
	// subject can tell, else -1.
	Allocs float64 `json:"allocs"`

	// Lost is how many compare-and-swaps lost a race, per pair; of Reenter.
	Lost float64 `json:"lost,omitempty"`

	// Extra are figures of one kind of work or one subject alone.
	Extra map[string]float64 `json:"extra,omitempty"`
}
