// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// settle is how long after the last event that was removed the rest of a history is judged:
// by then, most of what began before is over.
const settle = int64(time.Minute)

// Rest judges what is left of a history from which events were removed during the run, and
// whether it has its end. It also returns from when on it has judged. The verdict on the
// whole run is what the run had found, [Verdict.With] that on the rest.
func Rest(dir string) (j *Judge, from int64, err error) {
	h, err := history.ReadHeader(dir)
	if err != nil {
		return nil, 0, err
	}
	trimmed, err := history.ReadTrimmed(dir)
	if err != nil {
		return nil, 0, err
	}
	j = New(h)
	j.whole.on, j.partial = true, true
	from = trimmed.Until + settle
	j.from = from
	for e, err := range history.All(dir) {
		if err != nil {
			return nil, 0, err
		}
		j.Add(e)
	}
	return j, from, nil
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
			j.process(e).wrote = true
		}
	}
}

// With returns the verdict of a run with what judging the rest of its history has found
// besides. What was judged of the rest stays as the run had counted it, so that nothing
// counts twice.
func (v Verdict) With(rest Verdict, note string) Verdict {
	v.Findings, v.Checks = slices.Clone(v.Findings), slices.Clone(v.Checks)
	check := func(name string) *Check {
		i := slices.IndexFunc(v.Checks, func(c Check) bool { return c.Name == name })
		if i < 0 {
			i = len(v.Checks)
			v.Checks = append(v.Checks, Check{Name: name})
		}
		return &v.Checks[i]
	}
	found := false
	for _, f := range rest.Findings {
		if slices.ContainsFunc(v.Findings, func(o Finding) bool { return o.Check == f.Check && o.Lock == f.Lock && o.At == f.At }) {
			continue
		}
		found = true
		v.Found++
		check(f.Check).Found++
		v.Findings = append(v.Findings, f)
	}
	for _, c := range rest.Checks {
		if c.Name == Whole {
			whole := check(Whole)
			whole.Judged, whole.Note = c.Judged, note
		}
	}
	if worse := []Outcome{OK, Void, Failed, Violation}; found && slices.Index(worse, rest.Outcome) > slices.Index(worse, v.Outcome) {
		v.Outcome = rest.Outcome
	}
	v.Findings = v.Findings[:min(len(v.Findings), most)]
	return v
}

// After returns how long after the beginning of the run at was, for texts.
func After(h history.Header, at int64) time.Duration {
	return time.Duration(at - h.Begin).Round(time.Millisecond)
}

// RestNote says what a verdict on a history is worth from which events were removed.
func RestNote(h history.Header, t history.Trimmed, from int64) string {
	return fmt.Sprintf("%d files of events, until %v after the beginning, were removed during the run, which had judged them: what it found stands, and was not judged again; what came from %v on was", t.Segments, After(h, t.Until), After(h, from))
}
