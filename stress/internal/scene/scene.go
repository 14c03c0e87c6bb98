// SPDX-License-Identifier: Apache-2.0

// Package scene keeps what is known of a run of the stress harness at the time that is judged:
// the processes, their locks and holds, and the faults that excuse them. It judges nothing.
package scene

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A Scene is what is known of a run at one time. The judge brings it up to date with each
// event. The checks look at it, and keep what they remember themselves.
type Scene struct {
	Header    history.Header
	Now       int64  // the latest time of an event
	Stopping  bool   // the workers were told to stop
	Partial   bool   // the history lacks its beginning
	Late      uint64 // events that came out of order
	Processes map[ID]*Process
	Locks     map[string]*Lock
	Faults    faults
	Excuses   excuses

	prefixes []history.Lock // of the header, without their *
	Resting  []resting      // passing locks that were not in use, the oldest first

	// Expiry returns when a server first ended the session after that time, as far as the
	// history has been read.
	Expiry func(session string, after int64) (at int64, ok bool)
	// Forgets is called with a passing lock before the scene forgets it.
	Forgets func(*Lock)
}

// New returns the scene at the beginning of a run.
func New(h history.Header) *Scene {
	sc := &Scene{
		Header:    h,
		Processes: map[ID]*Process{},
		Locks:     map[string]*Lock{},
		Excuses:   excuses{cut: map[*Process]int64{}},
		Faults:    faults{Older: map[string]*verdict.Fault{}},
		Expiry:    func(string, int64) (int64, bool) { return 0, false },
		Forgets:   func(*Lock) {},
	}
	for _, l := range h.Locks {
		if prefix, ok := strings.CutSuffix(l.Name, "*"); ok {
			l.Name = prefix
			sc.prefixes = append(sc.prefixes, l)
			continue
		}
		sc.Locks[l.Name] = &Lock{Lock: l}
	}
	return sc
}

// When says when at was, for texts.
func (sc *Scene) When(at int64) string {
	return fmt.Sprintf("%.3f s", time.Duration(at-sc.Header.Begin).Seconds())
}
