// SPDX-License-Identifier: Apache-2.0

// Package wire has what the processes of the harness tell each other: the settings of a run, the
// messages and counts of a worker process, and the exit statuses. It also has the sabotages by
// which a test makes a worker misbehave.
package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/referee"
)

// The parent and its processes talk over pipes.
//
// The parent writes the settings to a process's standard input, as one line of
// JSON, and the line "go" once all processes are ready. After that, the line "stay 0" says
// that workers that are inside with one of a third of the locks are to stay there until the
// line "leave 0" comes: see pause/stays.go. End of input means stop: the parent ends a run by
// closing the pipe, and its death has the same effect.
//
// A process writes messages to its standard output, one line of JSON each:
// Ready once, then events, and Final at the end.

// The lines.
const (
	GoLine    = "go\n"
	StayLine  = "stay %d\n"
	LeaveLine = "leave %d\n"
)

// Thirds is how many parts of the locks there are, by the remainder of a lock's index.
const Thirds = 3

// DumpName is the pattern of the names of files with stacks, by process.
const DumpName = "holdfast-stress-process-%d-*.txt"

// ConnectTimeout is how long a process tries to connect to ZooKeeper.
const ConnectTimeout = 10 * time.Second

// Settings are sent to a process when it starts.
type Settings struct {
	Workload
	Process     int           `json:"process"`     // counting from 0; or history.Register
	Incarnation int           `json:"incarnation"` // how often the process has been started before
	Servers     []string      `json:"servers"`
	Root        string        `json:"root"`                     // of this run's nodes
	Dir         string        `json:"dir"`                      // of the referee's files, in which the process works
	ClockAhead  time.Duration `json:"clock_ahead_ns,omitempty"` // of the process's monotonic clock
	History     string        `json:"history,omitempty"`        // of the run; empty: it has none
	Sentinel    bool          `json:"sentinel,omitempty"`       // a helper closes the session of the process if it is killed
	Program     []string      `json:"program,omitempty"`        // of Contender, and its arguments
	Sabotage    Sabotage      `json:"sabotage,omitempty"`
}

// Message is sent by a process; one of its fields is set.
type Message struct {
	Ready     bool               `json:"ready,omitempty"`
	Progress  *Counts            `json:"progress,omitempty"` // totals since the start
	Violation *referee.Violation `json:"violation,omitempty"`
	Failure   *Failure           `json:"failure,omitempty"`
	Final     *Final             `json:"final,omitempty"`
}

// Failure is anything wrong that is not a violation: a stuck worker, or a result
// that the API does not allow.
type Failure struct {
	Text  string `json:"text"`
	Stack string `json:"stack,omitempty"` // of the worker, if it is stuck
	Dump  string `json:"dump,omitempty"`  // of all goroutines of the process
	Fatal bool   `json:"fatal,omitempty"` // continuing the run would show nothing
}

// Counts are events, of one process or of all of them.
type Counts struct {
	Grants  uint64 `json:"grants"`  // rounds that were granted the lock
	Rounds  uint64 `json:"rounds"`  // rounds that were started
	Entries uint64 `json:"entries"` // acquisitions that were granted

	// Read/write locks only.
	ReadGrants      uint64 `json:"read_grants"` // among Grants
	WriteGrants     uint64 `json:"write_grants"`
	ReadEntries     uint64 `json:"read_entries"` // among Entries
	WriteEntries    uint64 `json:"write_entries"`
	Downgrades      uint64 `json:"downgrades"`       // among ReadEntries: those under a write hold, released afterwards
	RefusedUpgrades uint64 `json:"refused_upgrades"` // requests for the write lock by a reader

	// The workload upgrade only.
	UpgradableGrants  uint64 `json:"upgradable_grants"`  // among Grants
	UpgradableEntries uint64 `json:"upgradable_entries"` // among Entries
	Upgrades          uint64 `json:"upgrades"`           // upgrades of these

	// The workload abandoned only.
	Panics       uint64 `json:"panics"`        // holders that panicked
	Abandoned    uint64 `json:"abandoned"`     // entries of holders that were told that the lock was abandoned
	FalseReports uint64 `json:"false_reports"` // grants that said so after a release in good order

	// The workload barrier only.
	BrokenRounds uint64 `json:"broken_rounds"` // members that were told that others had died

	// The workload all only.
	LockAlls       uint64 `json:"lock_alls"`           // calls of LockAll that were granted; each makes an entry for each lock
	LongestLockAll uint64 `json:"longest_lock_all_ns"` // longest time that one took, also if it was given up
	Nested         uint64 `json:"nested"`              // locks that were taken inside another
	RefusedParts   uint64 `json:"refused_parts"`       // calls of LockAll by a holder of one of the locks

	Reentries uint64 `json:"reentries"` // further handles of a holder
	Shares    uint64 `json:"shares"`    // holds shared with another goroutine

	RefusedShares uint64 `json:"refused_shares"` // mutexes only: requests for a second holder

	Refusals uint64 `json:"trylock_refusals"` // TryLocks while another process was ahead
	Timeouts uint64 `json:"timeouts"`         // waits that reached their deadline
	Cancels  uint64 `json:"cancels"`          // waits that were cancelled, or released while pending

	LostHolds uint64 `json:"lost_holds"` // holds lost before their release had finished

	LostRaces   uint64 `json:"lost_races"`   // compare-and-swaps that failed
	LongestRace uint64 `json:"longest_race"` // most failures in a row of one operation

	Violations uint64 `json:"violations"` // including those not reported in full
	Failures   uint64 `json:"failures"`   // likewise
}

// Add adds d's counts. Of what was longest the longer one stays.
func (c *Counts) Add(d Counts) {
	sums, more := reflect.ValueOf(c).Elem(), reflect.ValueOf(d)
	for field, sum := range sums.Fields() {
		n := more.FieldByIndex(field.Index).Uint()
		if strings.HasPrefix(field.Name, "Longest") {
			sum.SetUint(max(sum.Uint(), n))
		} else {
			sum.SetUint(sum.Uint() + n)
		}
	}
}

// Final is the last message of a process.
type Final struct {
	Counts  Counts          `json:"counts"`
	Held    []time.Duration `json:"held_ns"` // time for which the process had each lock
	Latency LatencyReport   `json:"latency"`
}

// MessageWriter writes messages. It is safe for concurrent use.
type MessageWriter struct {
	mu  sync.Mutex
	enc *json.Encoder // protected by mu
}

// NewMessageWriter returns one that writes to w.
func NewMessageWriter(w io.Writer) *MessageWriter { return &MessageWriter{enc: json.NewEncoder(w)} }

// Send writes m. It ignores errors: if the parent no longer reads, it has also
// closed our input, which stops this process.
func (w *MessageWriter) Send(m Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.enc.Encode(m)
}

// ReadMessages calls fn for each message in r until end of file.
func ReadMessages(r io.Reader, fn func(Message)) error {
	for dec := json.NewDecoder(r); ; {
		var m Message
		switch err := dec.Decode(&m); {
		case err == io.EOF:
			return nil
		case err != nil:
			// Drain r, so that the process does not block in a write.
			_, _ = io.Copy(io.Discard, r)
			return fmt.Errorf("it sent a malformed message: %w", err)
		}
		fn(m)
	}
}

// The exit statuses.
const (
	ExitOK      = 0
	ExitFailure = 1 // a violation, a leak, a stuck worker, a failed process
	ExitUsage   = 2
	ExitVoid    = 3 // too little happened to show anything
)
