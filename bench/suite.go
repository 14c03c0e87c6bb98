// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// A suite is one run of the benchmarks.
type suite struct {
	programs map[string]*program
	missing  map[string]string // subjects that are not there, and why
	failed   []error           // jobs that came to nothing
	refused  map[string]string // by cell and subject: what the subject cannot do

	rounds          int
	warmup, measure int // milliseconds
	log             io.Writer

	jobs int // so far; each has a directory of its own
	got  *measured
}

// warmingUp is the round that is not counted.
const warmingUp = -1

// run does the rounds: in each, every cell, and in every cell all its subjects,
// one after the other, in an order that changes from round to round. So what
// happens to the machine meanwhile happens to all of them, and what is compared
// was measured within seconds.
func (s *suite) run(ctx context.Context, cells []cell) error {
	for round := warmingUp; round < s.rounds; round++ {
		for _, c := range cells {
			if c.setup && round == warmingUp || c.rounds > 0 && round >= c.rounds {
				continue
			}
			for i := range c.subjects {
				subject := c.subjects[(i+round+1)%len(c.subjects)]
				if err := ctx.Err(); err != nil {
					return err
				}
				s.measureOne(round, c, subject)
			}
		}
	}
	return nil
}

// measureOne has one subject do a cell's job once.
func (s *suite) measureOne(round int, c cell, subject string) {
	p := s.programs[subject]
	if p == nil || s.refused[c.id+" "+subject] != "" {
		return
	}
	j := s.job(c)
	if round == warmingUp {
		j.MeasureMillis /= 2
	}
	r, ok := s.do(p, c, j)
	if !ok || round == warmingUp {
		return
	}
	s.got.add(c.id, subject, r)
	what := fmt.Sprintf("%.4g/s", rate(r))
	if len(r.Extra) > 0 {
		what = fmt.Sprint(r.Extra)
	}
	fmt.Fprintf(s.log, "round %d of %d  %-36s %-16s %s\n", round+1, s.rounds, c.id, subject, what)
}

// job returns a cell's job, in a directory of its own.
func (s *suite) job(c cell) work.Job {
	s.jobs++
	j := c.job
	j.Dir = fmt.Sprintf("/bench/%d", s.jobs)
	j.WarmupMillis, j.MeasureMillis = s.warmup, s.measure
	if c.setup { // it takes some time until all have queued for the first time
		j.WarmupMillis, j.MeasureMillis = 15*s.warmup, 3*s.measure
	}
	return j
}

// do has a program do a job, and notes it if that came to nothing.
func (s *suite) do(p *program, c cell, j work.Job) (work.Result, bool) {
	r, err := p.do(j)
	switch {
	case err != nil:
		s.failed = append(s.failed, fmt.Errorf("%s: %w", c.id, err))
		fmt.Fprintf(s.log, "%-50s %-16s FAILED: %v\n", c.id, p.name, err)
		s.refused[c.id+" "+p.name] = "it failed"
		return r, false
	case r.Unsupported != "":
		s.refused[c.id+" "+p.name] = r.Unsupported
		fmt.Fprintf(s.log, "%-50s %-16s %s\n", c.id, p.name, r.Unsupported)
		return r, false
	}
	return r, true
}

// count counts requests per grant. What a session needs at its beginning and its
// end is left out by doing the job twice, for a shorter and for a longer time, and
// looking at the difference.
func (s *suite) count(ctx context.Context, cells []cell, zooKeeper string) error {
	for _, c := range cells {
		for _, subject := range c.subjects {
			if err := ctx.Err(); err != nil {
				return err
			}
			p := s.programs[subject]
			if p == nil {
				continue
			}
			if err := s.countOne(p, c, zooKeeper); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *suite) countOne(p *program, c cell, zooKeeper string) error {
	var grants [2]float64
	var seen [2]traffic
	for i, millis := range []int{s.measure / 2, 2 * s.measure} {
		t, err := tapped(zooKeeper)
		if err != nil {
			return err
		}
		j := s.job(c)
		j.Server, j.WarmupMillis, j.MeasureMillis = t.addr(), 0, millis
		r, ok := s.do(p, c, j)
		t.close()
		if !ok {
			return nil
		}
		grants[i], seen[i] = float64(max(r.Total, r.Entries)), t.counted()
	}
	n := grants[1] - grants[0]
	r := work.Result{Total: int64(n), Extra: map[string]float64{
		"writes":        (seen[1].Writes - seen[0].Writes) / n,
		"reads":         (seen[1].Reads - seen[0].Reads) / n,
		"notifications": (seen[1].Notifications - seen[0].Notifications) / n,
	}}
	s.got.add(c.id, p.name, r)
	fmt.Fprintf(s.log, "counted       %-36s %-16s %v\n", c.id, p.name, r.Extra)
	return nil
}

// only returns the cells with one of the given parts in their ids; all of them if
// there is none.
func only(cells []cell, parts []string) (kept []cell) {
	for _, c := range cells {
		if len(parts) == 0 {
			kept = append(kept, c)
			continue
		}
		for _, part := range parts {
			if strings.Contains(c.id, part) {
				kept = append(kept, c)
				break
			}
		}
	}
	return kept
}
