// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"time"
)

// A row is something that the benchmarks are to show: a figure of ours beside
// that of somebody else, or beside a bound.
type row struct {
	Row     string  `json:"row"`
	Against string  `json:"against"`
	Unit    string  `json:"unit"` // what Value is: "×" of the other's, or a unit
	Value   spread  `json:"value"`
	AtLeast bool    `json:"atLeast"` // the goal is a least value, not a most
	Goal    float64 `json:"goal"`    // 0: there is none, the figure is for information
	Missing string  `json:"missing,omitempty"`
}

// met says whether the median meets the goal.
func (r row) met() string {
	switch {
	case r.Missing != "":
		return "not measured"
	case r.Goal == 0:
		return ""
	case r.AtLeast && r.Value.Median >= r.Goal, !r.AtLeast && r.Value.Median <= r.Goal:
		return "yes"
	}
	return "NO"
}

// tenure and workers are the defaults of manager.Config.
const (
	tenure  = 100 * time.Millisecond
	workers = 32
)

// rows returns what it has come to.
func (m *measured) rows() (rows []row) {
	add := func(what, against, unit string, atLeast bool, goal float64, values []float64) {
		r := row{Row: what, Against: against, Unit: unit, AtLeast: atLeast, Goal: goal}
		if len(values) == 0 {
			r.Missing = "not measured in this run"
		} else {
			r.Value = over(values)
		}
		rows = append(rows, r)
	}
	inverse := func(values []float64) []float64 {
		for i, v := range values {
			values[i] = 1 / v
		}
		return values
	}
	// rate and cost compare ours, in a cell, with somebody's rate or cost there.
	rateOf := func(what, cell, subject string, goal float64) {
		add(what, subject, "× the rate", true, goal, m.ratios(cell, ours, cell, subject))
	}
	costOf := func(what, cell, us, subject string, goal float64) {
		add(what, subject, "× the cost", false, goal, inverse(m.ratios(cell, us, cell, subject)))
	}
	best := func(cell string) string {
		if s := m.best(cell, onZooKeeper); s != "" {
			return s
		}
		return "the best ZooKeeper peer"
	}

	one := reenter(1)
	const pair = "Acquire + Release, lock owned, one goroutine"
	costOf(pair, one, ours, limitCAS, 3)
	costOf(pair, one, ours, curator, 1)
	add(pair, "a bound", "allocations", false, 0.001, m.values(one, ours, allocs))
	rateOf("the same from all cores", reenter(runtime.NumCPU()), limitCAS, 0.25)
	rateOf("read lock, 32 goroutines of one process", readers, curator, 1000)
	costOf("Lock + Unlock, uncontended", solo, oursUnlock, limitBare, 1.1)
	costOf("Lock + Unlock, uncontended", solo, oursUnlock, best(solo), 0.9)
	costOf("Lock + Release, uncontended", solo, ours, limitBare, 0)
	for _, n := range contenders {
		what := fmt.Sprintf("hand-over between %d processes", n)
		rateOf(what, handOver(n), best(handOver(n)), 1.2)
		rateOf(what, handOver(n), limitRelay, 0.9)
	}
	const crowd = "8 processes × 16 goroutines, entries (sharing against exclusion)"
	rateOf(crowd, shared, curator, 20)
	add(crowd+": p99 of the wait", "7 tenures", "ms", false, 7*float64(tenure.Milliseconds()), m.values(shared, ours, func(r result) float64 { return wait(.99)(r) / 1000 }))
	add("hand-over with 1000 sessions in the queue", "with 10", "× the cost", false, 1.3, inverse(m.ratios(queue(1000), ours, queue(10), ours)))
	add("the same, of the bare relay", "with 10", "× the cost", false, 0, inverse(m.ratios(queue(1000), limitRelay, queue(10), limitRelay)))
	for _, c := range counted() {
		what := fmt.Sprintf("requests per grant, %d processes", c.job.Sessions)
		add(what, "a bound", "writes", false, 2, m.values(c.id, ours, tenths("writes")))
		add(what, "a bound", "reads", false, 3, m.values(c.id, ours, tenths("reads")))
	}
	manyOf := func(what, cell string, goal float64) {
		add(what, limitBare, "× the rate", true, goal, m.ratios(cell, ours, cell, limitBare))
	}
	manyOf("10,000 different locks of one process", many(10_000), 0.8)
	add("10,000 different locks of one process", "Workers + 16", "goroutines", false, workers+16, m.values(many(10_000), ours, extra("goroutines")))
	manyOf("the same, directories missing", manyUnmade, 0)
	for _, f := range []struct {
		state string
		goal  float64
	}{{"idle", 250}, {"held", 1024}, {"queued", 1024}} {
		add("memory of a lock, "+f.state, "a bound", "bytes", false, f.goal, m.values(footprint, ours, extra(f.state)))
	}
	return rows
}
