// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// settle is how long after the last event that was removed the rest of a history is judged:
// by then, most of what began before is over.
const settle = int64(time.Minute)

// History judges a history that has been written, also whether it is whole.
func History(dir string) (*Judge, error) {
	return read(dir, func(j *Judge) { j.whole.On = true })
}

// Rest judges what is left of a history from which events were removed during the run, and
// whether it has its end. It also returns from when on it has judged. The verdict on the
// whole run is what the run had found, [verdict.Verdict.With] that on the rest.
func Rest(dir string) (j *Judge, from int64, err error) {
	trimmed, err := history.ReadTrimmed(dir)
	if err != nil {
		return nil, 0, err
	}
	from = trimmed.Until + settle
	j, err = read(dir, func(j *Judge) { j.whole.On, j.scene.Partial, j.from = true, true, from })
	return j, from, err
}

// read judges the history in dir, by a judge that prepare has prepared.
func read(dir string, prepare func(*Judge)) (*Judge, error) {
	h, err := history.ReadHeader(dir)
	if err != nil {
		return nil, err
	}
	j := New(h)
	prepare(j)
	for e, err := range history.All(dir) {
		if err != nil {
			return nil, err
		}
		j.Add(e)
	}
	return j, nil
}

// before notes an event from before the time that is judged: which processes and sessions
// there are, and which faults.
func (j *Judge) before(e history.Event) {
	switch e.Kind {
	case history.Started, history.Ended, history.FaultBegan, history.FaultEnded, history.StoodStill, history.Stopping:
		j.event(e)
	case history.Session:
		j.session(e)
		fallthrough
	case history.Alive, history.Request:
		if e.Process >= 0 {
			j.scene.Process(e).Wrote = true
		}
	}
}

// After returns how long after the beginning of the run at was, for texts.
func After(h history.Header, at int64) time.Duration {
	return time.Duration(at - h.Begin).Round(time.Millisecond)
}

// RestNote says what a verdict on a history is worth from which events were removed.
func RestNote(h history.Header, t history.Trimmed, from int64) string {
	return fmt.Sprintf("%d files of events, until %v after the beginning, were removed during the run, which had judged them: what it found stands, and was not judged again; what came from %v on was", t.Segments, After(h, t.Until), After(h, from))
}
