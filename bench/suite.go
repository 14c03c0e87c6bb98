// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/bench/internal/start"
	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// A suite is one run of the benchmarks, which fills its report.
type suite struct {
	*report

	root     string // of Holdfast's repository
	programs map[string]*program
	servers  map[string]string // addresses, by kind
	places   map[place]string  // addresses
	stops    []func()          // stop what has been started

	warmup, measure int // milliseconds
	log             io.Writer

	jobs int // so far; each has its own directory
}

// fail records that a job failed, and returns false.
func (s *suite) fail(sc scenario, err error) bool {
	s.Failed = append(s.Failed, fmt.Sprintf("%s: %v", sc.id, err))
	return false
}

// warmingUp is the round whose results are dropped.
const warmingUp = -1

// run runs the rounds. In each round it runs every scenario, and in each scenario
// all subjects, one after the other, in an order that rotates from round to round.
// So whatever else happens on the machine affects all subjects, and figures that
// are compared were measured within seconds of each other.
func (s *suite) run(ctx context.Context) error {
	for round := warmingUp; round < s.Rounds; round++ {
		for _, sc := range s.scenarios {
			if (sc.setup || sc.cold) && round == warmingUp || sc.rounds > 0 && round >= sc.rounds {
				continue
			}
			for i := range sc.subjects {
				if err := ctx.Err(); err != nil {
					return err
				}
				s.measureOne(ctx, round, sc, sc.subjects[(i+round+1)%len(sc.subjects)])
			}
		}
	}
	return nil
}

// measureOne measures a subject in a scenario once.
func (s *suite) measureOne(ctx context.Context, round int, sc scenario, subject string) {
	p := s.programs[subject]
	if p == nil || s.Refused[sc.id+" "+subject] != "" {
		return
	}
	var r work.Result
	var ok bool
	if sc.by != nil {
		r, ok = sc.by(ctx, s, p, sc)
	} else {
		r, ok = s.byOneJob(ctx, round, p, sc)
	}
	if !ok || round == warmingUp {
		return
	}
	s.add(sc.id, subject, r)
	what := fmt.Sprintf("%.4g/s", rate(r))
	if len(r.Extra) > 0 {
		what = fmt.Sprint(r.Extra)
	}
	fmt.Fprintf(s.log, "round %d of %d  %-36s %-16s %s\n", round+1, s.Rounds, sc.id, subject, what)
}

// byOneJob has a program do a scenario's job once.
func (s *suite) byOneJob(ctx context.Context, round int, p *program, sc scenario) (work.Result, bool) {
	j := s.job(sc)
	if round == warmingUp {
		j.MeasureMillis /= 2
	}
	if sc.before != nil {
		after, err := sc.before(ctx, j)
		if err != nil {
			return work.Result{}, s.fail(sc, err)
		}
		defer after()
	}
	r, ok := s.do(p, sc, j)
	for tries := 1; ok && round != warmingUp && r.Entries == 0 && r.Extra == nil; tries++ {
		// Something else kept the machine busy throughout.
		if tries == 3 {
			return r, s.fail(sc, fmt.Errorf("%s took no lock while it was measured, %d times", p.name, tries))
		}
		r, ok = s.do(p, sc, s.job(sc))
	}
	return r, ok
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
		fmt.Fprintf(s.log, "%-50s %-16s FAILED: %v\n", sc.id, p.name, err)
		s.Refused[sc.id+" "+p.name] = "it failed"
		return r, s.fail(sc, err)
	case r.Unsupported != "":
		s.Refused[sc.id+" "+p.name] = r.Unsupported
		fmt.Fprintf(s.log, "%-50s %-16s %s\n", sc.id, p.name, r.Unsupported)
		return r, false
	}
	return r, true
}

// byCounting counts a subject's requests per grant. It does the job twice, for a shorter
// and for a longer time, and takes the difference, which excludes the requests with which
// sessions begin and end.
func byCounting(_ context.Context, s *suite, p *program, sc scenario) (r work.Result, ok bool) {
	var grants [2]float64
	var seen [2]map[string]float64
	for i, millis := range []int{s.measure / 3, 3 * s.measure / 2} {
		t, err := tapped(s.servers[start.ZooKeeper])
		if err != nil {
			return r, s.fail(sc, err)
		}
		j := s.job(sc)
		j.Server, j.WarmupMillis, j.MeasureMillis = t.addr(), 0, millis
		r, ok := s.do(p, sc, j)
		t.close()
		if !ok {
			return r, false
		}
		grants[i], seen[i] = float64(max(r.Total, r.Entries)), t.counted()
	}
	n := grants[1] - grants[0]
	r = work.Result{Total: int64(n), Extra: make(map[string]float64)}
	for what := range seen[0] {
		r.Extra[what] = (seen[1][what] - seen[0][what]) / n
	}
	return r, true
}

// only returns the scenarios with one of the parts in their ids.
func only(scenarios []scenario, parts []string) []scenario {
	return slices.DeleteFunc(scenarios, func(sc scenario) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(sc.id, part) })
	})
}
