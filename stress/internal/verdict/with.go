// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"
)

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
	if fresh > 0 {
		v.Outcome = Worse(v.Outcome, rest.Outcome)
	}
	slices.SortStableFunc(v.Findings, func(a, b Finding) int { return cmp.Compare(a.Gravity(), b.Gravity()) })
	v.Findings = v.Findings[:min(len(v.Findings), MaxFindings)]
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
