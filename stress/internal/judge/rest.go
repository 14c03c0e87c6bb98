// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
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
//
// The verdict of the run may not list all that the run had found. Whether what it does not
// list is also found in the rest cannot be told. So With takes as many findings of the rest,
// by the same check, to be the same: their number may come out too low, but a check that has
// found something never looks as if it had found nothing.
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
	fresh := uint64(0)
	for _, c := range rest.Checks {
		if c.Found == 0 && c.Name != Whole {
			continue
		}
		own := check(c.Name)
		if c.Name == Whole {
			own.Judged, own.Note = c.Judged, note
		}
		listed := v.listed(c.Name)
		unlisted := own.Found - min(own.Found, uint64(len(listed)))
		same := uint64(0)
		var others []Finding
		for _, f := range rest.listed(c.Name) {
			if slices.ContainsFunc(listed, f.like) {
				same++
			} else {
				others = append(others, f)
			}
		}
		n := c.Found - min(c.Found, same+unlisted)
		own.Found += n
		fresh += n
		v.Findings = append(v.Findings, others[:min(uint64(len(others)), n)]...)
	}
	v.Found += int(fresh)
	if worse := []Outcome{OK, Void, Failed, Violation}; fresh > 0 && slices.Index(worse, rest.Outcome) > slices.Index(worse, v.Outcome) {
		v.Outcome = rest.Outcome
	}
	j := New(history.Header{})
	j.whole.on = true
	slices.SortStableFunc(v.Findings, func(a, b Finding) int { return cmp.Compare(j.gravity(a), j.gravity(b)) })
	v.Findings = v.Findings[:min(len(v.Findings), most)]
	return v
}

// listed returns the findings of the check of that name that v lists.
func (v Verdict) listed(check string) (all []Finding) {
	for _, f := range v.Findings {
		if f.Check == check {
			all = append(all, f)
		}
	}
	return all
}

// like reports whether the findings are of the same.
func (f Finding) like(o Finding) bool { return f.Check == o.Check && f.Lock == o.Lock && f.At == o.At }

// After returns how long after the beginning of the run at was, for texts.
func After(h history.Header, at int64) time.Duration {
	return time.Duration(at - h.Begin).Round(time.Millisecond)
}

// RestNote says what a verdict on a history is worth from which events were removed.
func RestNote(h history.Header, t history.Trimmed, from int64) string {
	return fmt.Sprintf("%d files of events, until %v after the beginning, were removed during the run, which had judged them: what it found stands, and was not judged again; what came from %v on was", t.Segments, After(h, t.Until), After(h, from))
}
