// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-go/holdfast/bench/internal/delay"
	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// A suite is one run of the benchmarks.
type suite struct {
	programs map[string]*program
	places   map[string]string // addresses
	relays   []*delay.Relay    // of places
	missing  map[string]string // subjects that are not installed, and why
	failed   []error           // of jobs
	refused  map[string]string // by scenario and subject: why the subject cannot do it

	rounds          int
	warmup, measure int // milliseconds
	log             io.Writer

	jobs int // so far; each has its own directory
	got  *measured
}

// warmingUp is the round whose results are dropped.
const warmingUp = -1

// run runs the rounds. In each round it runs every scenario, and in each scenario
// all subjects, one after the other, in an order that rotates from round to round.
// So whatever else happens on the machine affects all subjects, and figures that
// are compared were measured within seconds of each other.
func (s *suite) run(ctx context.Context, scenarios []scenario) error {
	for round := warmingUp; round < s.rounds; round++ {
		for _, sc := range scenarios {
			if (sc.setup || sc.cold) && round == warmingUp || sc.rounds > 0 && round >= sc.rounds {
				continue
			}
			for i := range sc.subjects {
				subject := sc.subjects[(i+round+1)%len(sc.subjects)]
				if err := ctx.Err(); err != nil {
					return err
				}
				s.measureOne(ctx, round, sc, subject)
			}
		}
	}
	return nil
}

// measureOne has a subject do a scenario's job once.
func (s *suite) measureOne(ctx context.Context, round int, sc scenario, subject string) {
	p := s.programs[subject]
	if p == nil || s.refused[sc.id+" "+subject] != "" {
		return
	}
	j := s.job(sc)
	if round == warmingUp {
		j.MeasureMillis /= 2
	}
	if sc.before != nil {
		after, err := sc.before(ctx, j)
		if err != nil {
			s.failed = append(s.failed, fmt.Errorf("%s: %w", sc.id, err))
			return
		}
		defer after()
	}
	r, ok := s.do(p, sc, j)
	for tries := 1; ok && round != warmingUp && r.Entries == 0 && r.Extra == nil; tries++ {
		// Something else kept the machine busy throughout.
		if tries == 3 {
			s.failed = append(s.failed, fmt.Errorf("%s: %s took no lock while it was measured, %d times", sc.id, subject, tries))
			return
		}
		r, ok = s.do(p, sc, s.job(sc))
	}
	if !ok || round == warmingUp {
		return
	}
	s.got.add(sc.id, subject, r)
	what := fmt.Sprintf("%.4g/s", rate(r))
	if len(r.Extra) > 0 {
		what = fmt.Sprint(r.Extra)
	}
	fmt.Fprintf(s.log, "round %d of %d  %-36s %-16s %s\n", round+1, s.rounds, sc.id, subject, what)
}

// job returns a scenario's job, with a new directory.
func (s *suite) job(sc scenario) work.Job {
	s.jobs++
	j := sc.job
	j.Server = s.places[sc.at]
	j.Dir = fmt.Sprintf("/bench/%d", s.jobs)
	if j.MeasureMillis > 0 { // the scenario knows how long
		return j
	}
	j.WarmupMillis, j.MeasureMillis = s.warmup, s.measure
	if sc.short {
		j.WarmupMillis, j.MeasureMillis = s.warmup/2, s.measure/2
	}
	if sc.setup { // it takes some time until all have queued
		j.WarmupMillis, j.MeasureMillis = 15*s.warmup, 3*s.measure
	}
	return j
}

// do has a program do a job, and records a failure.
func (s *suite) do(p *program, sc scenario, j work.Job) (work.Result, bool) {
	r, err := p.do(j)
	switch {
	case err != nil:
		s.failed = append(s.failed, fmt.Errorf("%s: %w", sc.id, err))
		fmt.Fprintf(s.log, "%-50s %-16s FAILED: %v\n", sc.id, p.name, err)
		s.refused[sc.id+" "+p.name] = "it failed"
		return r, false
	case r.Unsupported != "":
		s.refused[sc.id+" "+p.name] = r.Unsupported
		fmt.Fprintf(s.log, "%-50s %-16s %s\n", sc.id, p.name, r.Unsupported)
		return r, false
	}
	return r, true
}

// count counts requests per grant. It does each job twice, for a shorter and for a
// longer time, and takes the difference, which excludes the requests with which
// sessions begin and end.
func (s *suite) count(ctx context.Context, scenarios []scenario, zooKeeper string) error {
	for _, sc := range scenarios {
		for _, subject := range sc.subjects {
			if err := ctx.Err(); err != nil {
				return err
			}
			p := s.programs[subject]
			if p == nil {
				continue
			}
			if err := s.countOne(p, sc, zooKeeper); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *suite) countOne(p *program, sc scenario, zooKeeper string) error {
	var grants [2]float64
	var seen [2]map[string]float64
	for i, millis := range []int{s.measure / 3, 3 * s.measure / 2} {
		t, err := tapped(zooKeeper)
		if err != nil {
			return err
		}
		j := s.job(sc)
		j.Server, j.WarmupMillis, j.MeasureMillis = t.addr(), 0, millis
		r, ok := s.do(p, sc, j)
		t.close()
		if !ok {
			return nil
		}
		grants[i], seen[i] = float64(max(r.Total, r.Entries)), t.counted()
	}
	n := grants[1] - grants[0]
	r := work.Result{Total: int64(n), Extra: make(map[string]float64)}
	for what := range seen[0] {
		r.Extra[what] = (seen[1][what] - seen[0][what]) / n
	}
	s.got.add(sc.id, p.name, r)
	fmt.Fprintf(s.log, "counted       %-36s %-16s %v\n", sc.id, p.name, r.Extra)
	return nil
}

// only returns the scenarios with one of the parts in their ids, or all of them if
// there are no parts.
func only(scenarios []scenario, parts []string) (kept []scenario) {
	for _, sc := range scenarios {
		if len(parts) == 0 {
			kept = append(kept, sc)
			continue
		}
		for _, part := range parts {
			if strings.Contains(sc.id, part) {
				kept = append(kept, sc)
				break
			}
		}
	}
	return kept
}
