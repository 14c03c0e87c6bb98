// SPDX-License-Identifier: Apache-2.0

package work

import (
	"strconv"
	"time"
)

// The kinds of work.
const (
	// Hello asks for the version.
	Hello = "hello"

	// Contend: in each of Sessions sessions, Workers goroutines or threads
	// repeatedly take a lock, hold it for HoldMicros, and release it. Worker i of a
	// session takes lock i modulo Locks. If Together is more than 0, each takes that
	// many locks at once, and has all of them or none.
	Contend = "contend"

	// Line: one session takes a lock. The others ask for it once, and QueueMillis are
	// enough for all of them to queue. Then each holds the lock for HoldMicros and
	// releases it. Waits has the times from a call of Unlock to the next grant, and
	// Seconds is their sum. This is repeated until the time is over, at least once,
	// after a first time that is not measured.
	Line = "line"

	// Drain: one session puts Elements elements of 100 bytes into a queue. Then each of
	// Sessions sessions takes one after the other, and removes it, until all are taken.
	// Seconds is how long that takes, from the first take on.
	Drain = "drain"

	// Many: one session takes Locks locks, as concurrently as the subject can, and
	// releases each as soon as it has it. Read is ignored; Made tells that the
	// locks' directories exist.
	Many = "many"

	// Footprint: the memory that Locks locks of one session take while idle, while
	// held, and while queued for behind another session. The result is in Extra.
	Footprint = "footprint"

	// Own: one session, in a process of its own, takes Locks locks, whose directories
	// exist. It rests for WarmupMillis, and then for MeasureMillis, in which its cost
	// is measured. Then its connection is cut, and at last it releases the locks. The
	// results are in Extra.
	Own = "own"

	// Expire: one session, in a process of its own, queues for Locks locks that another
	// holds, and then the server ends the session. It asks for a lock that is free at
	// once, and for another MeasureMillis later. The results are in Extra.
	Expire = "expire"

	// Keep: one session takes Locks locks, and keeps them until its process ends.
	Keep = "keep"

	// Succeed: one session asks for the Locks locks that process Kill keeps, and
	// QueueMillis are enough for it to queue for all of them. It ends that process, as Death
	// says. Waits has the time from that to the moment at which it has the last lock.
	Succeed = "succeed"

	// Reenter: one session holds the lock throughout, and Workers goroutines or
	// threads repeatedly take and release it again, without the network. If only
	// the thread that holds a lock can reenter it, each worker has its own lock.
	Reenter = "reenter"
)

// The ways in which a process ends that keeps locks.
const (
	ByKill  = "SIGKILL"
	ByGroup = "group" // SIGKILL of its process group
	ByPanic = "panic"
	ByExit  = "exit"
	ByOOM   = "OOM" // it uses up the memory that it may have, and the kernel kills it
)

// A Job is one measurement.
type Job struct {
	Work     string `json:"work"`
	Server   string `json:"server"` // host:port of the subject's kind of server
	Dir      string `json:"dir"`    // of the locks, such as /bench/17; new for each job, and may not exist
	Sessions int    `json:"sessions"`
	Workers  int    `json:"workers"`
	Locks    int    `json:"locks"`
	Together int    `json:"together"` // locks that are taken at once, or 0
	Read     bool   `json:"read"`     // read locks instead of exclusive ones
	Made     bool   `json:"made"`     // for Many: the locks' directories exist

	Elements int `json:"elements"` // for Drain

	Kill  int    `json:"kill"`  // for Succeed: a process
	Death string `json:"death"` // for Succeed

	HoldMicros    int `json:"holdMicros"`
	QueueMillis   int `json:"queueMillis"`   // for Line and Succeed
	WarmupMillis  int `json:"warmupMillis"`  // time before the measurement
	MeasureMillis int `json:"measureMillis"` // time of the measurement
}

// Grace bounds the time after the measurement until the last worker has finished.
const Grace = time.Minute

// Length returns how long the job takes.
func (j Job) Length() time.Duration {
	return time.Duration(j.WarmupMillis+j.MeasureMillis) * time.Millisecond
}

// Limit returns how long the job may take, with what comes before and after the
// measurement. It includes some time for each lock and each element, which only counts if
// there are thousands.
func (j Job) Limit() time.Duration {
	return j.Length() + Grace + time.Duration(j.Locks)*4*time.Millisecond + time.Duration(j.Elements)*20*time.Millisecond
}

// Lock returns the path of lock i.
func (j Job) Lock(i int) string { return j.Dir + "/lock-" + strconv.Itoa(i) }

// Paths returns the paths of the first n locks.
func (j Job) Paths(n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = j.Lock(i)
	}
	return paths
}

// Hold returns the time for which a lock is held.
func (j Job) Hold() time.Duration { return time.Duration(j.HoldMicros) * time.Microsecond }

// MaxWaits is the greatest number of waits in a result.
const MaxWaits = 5000

// A Result is the answer to a job.
type Result struct {
	Version     string `json:"version,omitempty"`     // for Hello
	Unsupported string `json:"unsupported,omitempty"` // why the subject cannot do the job
	Err         string `json:"err,omitempty"`         // why it failed

	Entries int64   `json:"entries"` // holds or pairs that ended during the measurement
	Seconds float64 `json:"seconds"` // duration of the measurement

	// Waits are the times from request to grant in microseconds, of all entries or
	// of an even sample of MaxWaits. Reenter has none. See also Line.
	Waits []float64 `json:"waits,omitempty"`

	// Fewest and Most are the entries of the workers with the fewest and the most,
	// for Contend, if the subject can tell.
	Fewest int64 `json:"fewest,omitempty"`
	Most   int64 `json:"most,omitempty"`

	// Total includes entries before and after the measurement. A count of requests,
	// which includes them as well, is divided by Total.
	Total int64 `json:"total,omitempty"`

	// Allocs is the number of allocations per pair, for Reenter, or -1 if the
	// subject cannot tell.
	Allocs float64 `json:"allocs"`

	// Lost is the number of failed compare-and-swaps per pair, for Reenter.
	Lost float64 `json:"lost,omitempty"`

	// Extra has figures specific to a kind of work or a subject.
	Extra map[string]float64 `json:"extra,omitempty"`
}
