// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Parent and processes talk over pipes.
//
// The parent writes the settings, as one line of JSON, to the process's
// standard input, and later the line "go", when all processes are ready. The
// end of the input means stop: that is how the parent ends a run, and what
// happens by itself if the parent dies.
//
// The process writes messages, one line of JSON each, to its standard output:
// Ready once, then what happens, and Final at last.

// goLine starts the workers.
const goLine = "go\n"

// settings are what a process is told.
type settings struct {
	Process        int           `json:"process"` // counting from 0
	Servers        []string      `json:"servers"`
	Root           string        `json:"root"`
	Dir            string        `json:"dir"` // of the referee's files
	Seed           uint64        `json:"seed"`
	Goroutines     int           `json:"goroutines"`
	Locks          int           `json:"locks"`
	Hold           time.Duration `json:"hold"`  // mean time inside
	Think          time.Duration `json:"think"` // mean time between steps
	Greedy         bool          `json:"greedy"`
	Tenure         time.Duration `json:"tenure"` // as in manager.Config
	ReadWrite      bool          `json:"read_write"`
	ReadRatio      float64       `json:"read_ratio"`
	SessionTimeout time.Duration `json:"session_timeout"`
	Patience       time.Duration `json:"patience"`
	Sabotage       sabotage      `json:"sabotage,omitempty"`
}

// message is what a process tells; one of its fields is set.
type message struct {
	Ready     bool       `json:"ready,omitempty"`
	Progress  *counts    `json:"progress,omitempty"` // since the start
	Violation *violation `json:"violation,omitempty"`
	Failure   *failure   `json:"failure,omitempty"`
	Final     *final     `json:"final,omitempty"`
}

// failure is something else that must not be: a worker that is stuck, an
// operation that answered what it may not answer.
type failure struct {
	Text  string `json:"text"`
	Stack string `json:"stack,omitempty"` // of the worker, if it is stuck
	Dump  string `json:"dump,omitempty"`  // of all goroutines of the process
	// Fatal: the run is pointless from here on.
	Fatal bool `json:"fatal,omitempty"`
}

// counts are what the workers of one process, or of all, did.
type counts struct {
	Grants  uint64 `json:"grants"`  // rounds that got the lock
	Rounds  uint64 `json:"rounds"`  // rounds that were started
	Entries uint64 `json:"entries"` // acquisitions that were granted: newcomers who got in

	// Of read/write locks; 0 of exclusive ones.
	ReadGrants      uint64 `json:"read_grants"` // among Grants
	WriteGrants     uint64 `json:"write_grants"`
	ReadEntries     uint64 `json:"read_entries"` // among Entries
	WriteEntries    uint64 `json:"write_entries"`
	Downgrades      uint64 `json:"downgrades"`       // among ReadEntries: those under a write hold, which was then released
	RefusedUpgrades uint64 `json:"refused_upgrades"` // asking for write while holding read, as it must be

	Reentries uint64 `json:"reentries"` // further handles of somebody inside
	Shares    uint64 `json:"shares"`    // holds given to another goroutine

	Refusals uint64 `json:"trylock_refusals"` // TryLocks that found another process ahead
	Timeouts uint64 `json:"timeouts"`         // waits that ended by their deadline
	Cancels  uint64 `json:"cancels"`          // waits that were cancelled, or given up by a Release

	LostHolds uint64 `json:"lost_holds"` // holds that were lost before their release was done

	LostRaces   uint64 `json:"lost_races"`   // compare-and-swaps that failed because another's came first
	LongestRace uint64 `json:"longest_race"` // the most in a row that one operation lost

	Violations uint64 `json:"violations"` // all, also those beyond what is reported in full
	Failures   uint64 `json:"failures"`   // likewise
}

// add adds d's counts.
func (c *counts) add(d counts) {
	c.Grants += d.Grants
	c.Rounds += d.Rounds
	c.Entries += d.Entries
	c.ReadGrants += d.ReadGrants
	c.WriteGrants += d.WriteGrants
	c.ReadEntries += d.ReadEntries
	c.WriteEntries += d.WriteEntries
	c.Downgrades += d.Downgrades
	c.RefusedUpgrades += d.RefusedUpgrades
	c.Reentries += d.Reentries
	c.Shares += d.Shares
	c.Refusals += d.Refusals
	c.Timeouts += d.Timeouts
	c.Cancels += d.Cancels
	c.LostHolds += d.LostHolds
	c.LostRaces += d.LostRaces
	c.LongestRace = max(c.LongestRace, d.LongestRace)
	c.Violations += d.Violations
	c.Failures += d.Failures
}

// final is a process's last message.
type final struct {
	Counts  counts          `json:"counts"`
	Held    []time.Duration `json:"held_ns"` // for how long the process had each of the locks
	Latency latencyReport   `json:"latency"`
}

// messageWriter writes messages. Any number of goroutines may use it.
type messageWriter struct {
	mu  sync.Mutex
	enc *json.Encoder // protected by mu
}

func newMessageWriter(w io.Writer) *messageWriter { return &messageWriter{enc: json.NewEncoder(w)} }

// send writes m. A parent that no longer listens is no error: it is gone, or
// has given us up, and our input ends too.
func (w *messageWriter) send(m message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.enc.Encode(m)
}

// readMessages calls fn for each message that r has, until it ends.
func readMessages(r io.Reader, fn func(message)) error {
	for dec := json.NewDecoder(r); ; {
		var m message
		switch err := dec.Decode(&m); {
		case err == io.EOF:
			return nil
		case err != nil:
			// Drain it, so that the process is not stuck in a write.
			_, _ = io.Copy(io.Discard, r)
			return fmt.Errorf("a message that makes no sense: %w", err)
		}
		fn(m)
	}
}
