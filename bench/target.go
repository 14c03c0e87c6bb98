// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"time"
)

// A target compares a figure of Holdfast's with another subject's, or with a bound.
type target struct {
	Name    string  `json:"name"`
	Against string  `json:"against"`
	Unit    string  `json:"unit"` // of Value; with "×" it is a ratio
	Value   spread  `json:"value"`
	AtLeast bool    `json:"atLeast"` // the goal is a lower bound, not an upper one
	Goal    float64 `json:"goal"`    // 0: none
	Missing string  `json:"missing,omitempty"`
}

// met tells whether the median meets the goal.
func (r target) met() string {
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

// Defaults of manager.Config.
const (
	tenure  = 100 * time.Millisecond
	workers = 32
)

// targets is a list of targets.
type targets []target

// add adds a target with the values of all rounds, in any order.
func (t *targets) add(what, against, unit string, atLeast bool, goal float64, values []float64) {
	r := target{Name: what, Against: against, Unit: unit, AtLeast: atLeast, Goal: goal}
	if len(values) == 0 {
		r.Missing = "not measured in this run"
	} else {
		r.Value = over(values)
	}
	*t = append(*t, r)
}

// tally counts the targets with a goal.
func (t targets) tally() (met, missed, missing int) {
	for _, r := range t {
		switch {
		case r.Goal == 0:
		case r.Missing != "":
			missing++
		case r.met() == "yes":
			met++
		default:
			missed++
		}
	}
	return met, missed, missing
}

// costOf compares one of Holdfast's subjects with another in a scenario.
func (t *targets) costOf(m *measured, what, scenario, us, subject string, goal float64) {
	t.add(what, orBest(subject), "× the cost", false, goal, m.ratios(scenario, subject, scenario, us))
}

// targets returns all targets with their measured values.
func (m *measured) targets() (all targets) {
	add := all.add
	inverse := func(values []float64) []float64 {
		for i, v := range values {
			values[i] = 1 / v
		}
		return values
	}
	// rateOf and costOf compare Holdfast with another subject in a scenario.
	rateOf := func(what, scenario, subject string, goal float64) {
		add(what, subject, "× the rate", true, goal, m.ratios(scenario, ours, scenario, subject))
	}
	costOf := func(what, scenario, us, subject string, goal float64) {
		all.costOf(m, what, scenario, us, subject, goal)
	}
	best := func(scenario string) string { return orBest(m.best(scenario, onZooKeeper)) }

	one, cores := reenter(1), reenter(runtime.NumCPU())
	const pair = "Acquire + Release, lock held, one goroutine"
	costOf(pair, one, ours, limitCAS, 3)
	costOf(pair, one, ours, limitRWMutex, 1.5)
	costOf(pair, one, ours, curator, 1)
	add(pair, "bound", "allocations", false, 0.001, m.values(one, ours, allocs))
	rateOf("Acquire + Release, lock held, all cores", cores, limitCAS, 0.35)
	rateOf("Acquire + Release, lock held, all cores", cores, limitRWMutex, 0)
	add("Lock + Release, lock held, one goroutine", "bound", "ns", false, 80, m.values(one, oursLock, nanos))
	add("Lock + Release, lock held, one goroutine", "bound", "allocations", false, 0, m.values(one, oursLock, allocs))
	add("Do, lock held, one goroutine", "bound", "ns", false, 0, m.values(one, oursDo, nanos))
	add("Do, lock held, one goroutine", "bound", "allocations", false, 0, m.values(one, oursDo, allocs))
	errGoal := 40.0
	if clock := m.values(one, limitClock, nanos); len(clock) > 0 {
		errGoal = max(errGoal, 2*over(clock).Median)
	}
	add("Hold.Err, one goroutine", "40 ns, or 2 × time.Now", "ns", false, errGoal, m.values(one, oursErr, nanos))
	rateOf("read lock, 32 goroutines of one process", readers, curator, 1000)
	costOf("Lock + Unlock, uncontended", solo, oursUnlock, limitBare, 1.1)
	costOf("Lock + Unlock, uncontended", solo, oursUnlock, best(solo), 0.9)
	costOf("Lock + Release, uncontended", solo, ours, limitBare, 0)
	lingers := best(solo)
	add("Lock + Unlock, lingering, no other process", lingers, "× the rate", true, 1000, m.ratios(solo, oursLinger, solo, lingers))
	const local = "Mutex, 32 goroutines of one process"
	add(local, curator, "× the rate", true, 100, m.ratios(excluding, oursMutex, excluding, curator))
	costOf(local, excluding, oursMutex, limitMutex, 2)
	rateOf("LockAll of three locks, uncontended", together(1), curator, 1)
	rateOf("LockAll of three locks, 4 processes", together(4), curator, 1)
	for _, n := range contenders {
		what := fmt.Sprintf("hand-over between %d processes", n)
		rateOf(what, handOver(n), best(handOver(n)), 1.2)
		rateOf(what, handOver(n), limitRelay, 1)
	}
	m.queueTargets(&all)
	m.networkTargets(&all)
	m.watchTargets(&all)
	const crowd = "8 processes × 16 goroutines, entries (shared by a process, or not)"
	rateOf(crowd, shared, curator, 20)
	add("8 processes × 16 goroutines, p99 of the wait", "7 tenures", "ms", false, 7*float64(tenure.Milliseconds()), m.values(shared, ours, func(r result) float64 { return wait(.99)(r) / 1000 }))
	// A lock that lists the queue at each grant has to read a longer list.
	depthGoal, deep := 1.3, "with 10 sessions"
	if lists := m.values(requests(100), ours, extra("lists")); len(lists) > 0 {
		n := over(lists).Median
		if n > .5 {
			depthGoal = 2
		}
		deep += fmt.Sprintf("; %.1f lists per grant", n)
	}
	add("hand-over with 1,000 sessions in the queue", deep, "× the cost", false, depthGoal, inverse(m.ratios(queue(1000), ours, queue(10), ours)))
	add("relay with 1,000 sessions in the queue", "with 10 sessions", "× the cost", false, 0, inverse(m.ratios(queue(1000), limitRelay, queue(10), limitRelay)))
	for _, sc := range counted() {
		what := fmt.Sprintf("requests per grant, %d processes", sc.job.Sessions)
		add(what, "bound", "writes", false, 2, m.values(sc.id, ours, tenths("writes")))
		add(what, "bound", "reads", false, 3, m.values(sc.id, ours, tenths("reads")))
	}
	manyOf := func(what, scenario string, goal float64) {
		add(what, limitBare, "× the rate", true, goal, m.ratios(scenario, ours, scenario, limitBare))
	}
	manyOf("10,000 locks of one process", many(10_000), 0.8)
	add("10,000 locks of one process", "Workers + 16", "goroutines", false, workers+16, m.values(many(10_000), ours, extra("goroutines")))
	manyOf("10,000 locks of one process, directories missing", manyUnmade, 0)
	m.bulkTargets(&all)
	for _, f := range []struct {
		state string
		goal  float64
	}{{"idle", 250}, {"held", 900}, {"queued", 1100}} {
		add("memory of a lock, "+f.state, "bound", "bytes", false, f.goal, m.values(footprint, ours, extra(f.state)))
	}
	return all
}
