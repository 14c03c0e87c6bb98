// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A scene is what is known of the run at the time that is judged: the processes, their locks
// and holds, and the faults. The judge brings it up to date with each event. The checks look
// at it, and keep what they remember themselves.
type scene struct {
	header    history.Header
	now       int64 // the latest time of an event
	stopping  bool  // the workers were told to stop
	partial   bool  // the history lacks its beginning: see Rest
	processes map[id]*process
	locks     map[string]*lockRecord
	faults    faults
	excuses   excuses

	prefixes []history.Lock // of the header, without their *
	resting  []resting      // passing locks that were not in use, the oldest first

	// expiry returns when a server first ended the session after that time, as far as the
	// history has been read.
	expiry func(session string, after int64) (at int64, ok bool)
	// forgets is called with a passing lock before the scene forgets it.
	forgets func(*lockRecord)
}

func newScene(h history.Header) *scene {
	sc := &scene{
		header:    h,
		processes: map[id]*process{},
		locks:     map[string]*lockRecord{},
		excuses:   excuses{cut: map[*process]int64{}},
		faults:    newFaults(),
		expiry:    func(string, int64) (int64, bool) { return 0, false },
		forgets:   func(*lockRecord) {},
	}
	for _, l := range h.Locks {
		if prefix, ok := cutStar(l.Name); ok {
			l.Name = prefix
			sc.prefixes = append(sc.prefixes, l)
			continue
		}
		sc.locks[l.Name] = &lockRecord{Lock: l}
	}
	return sc
}

// when says when at was, for texts.
func (sc *scene) when(at int64) string {
	return fmt.Sprintf("%.3f s", time.Duration(at-sc.header.Begin).Seconds())
}
