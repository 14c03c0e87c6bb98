// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// An acquisition is what became of one request for a lock. The timeline draws it as a
// thin bar while the worker waited, a bar while it held the lock, and a thin bar while it
// released it.
type acquisition struct {
	process int // index in the collector's processes
	worker  int
	lock    int // index in the collector's locks
	mode    mode
	last    mode // if a Changed has given the hold another one
	outcome outcome
	text    int // why it was lost or refused, in the collector's texts; 0: nothing is known

	// Nanoseconds of the machine's clock, in this order. A stage that did not take place
	// has no length.
	requested, granted, ended, settled int64

	token, turn uint64
}

// An outcome says how an acquisition has ended. page.js has the same list.
type outcome int

const (
	released outcome = iota
	lost
	refused
	diedHolding // with its process
	diedWaiting
	stillHolding // when the history ended
	stillWaiting
)

// A mode is a history.Mode. page.js has the same list.
type mode int

var modes = []history.Mode{"", history.Exclusive, history.Mutex, history.Read, history.Upgradable, history.WriteMode, history.Permit}

func modeOf(m history.Mode) mode { return mode(max(0, slices.Index(modes, m))) }
