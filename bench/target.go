// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
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
	workers = 64
)

// targets is a list of targets.
type targets []target

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

// higher is the unit of a target whose goal is a lower bound.
const higher = "× the rate"

// targets returns all targets with their measured values.
func (m *measured) targets() (all targets) {
	// add adds a target with the values of all rounds, in any order.
	add := func(what, against, unit string, goal float64, values []float64) {
		r := target{Name: what, Against: against, Unit: unit, AtLeast: unit == higher, Goal: goal}
		if against == "" { // none of the peers was measured
			r.Against = "best ZooKeeper peer"
		}
		if len(values) == 0 {
			r.Missing = "not measured in this run"
		} else {
			r.Value = over(values)
		}
		all = append(all, r)
	}
	// bound adds a figure of a subject in a scenario, which is compared with a bound.
	bound := func(what, unit string, goal float64, scenario, subject string, of func(result) float64) {
		add(what, "bound", unit, goal, m.values(scenario, subject, of))
	}
	// rates and costs compare a subject of Holdfast's with another in a scenario.
	rates := func(what, scenario, us, subject string, goal float64) {
		add(what, subject, higher, goal, m.ratios(scenario, us, scenario, subject))
	}
	costs := func(what, scenario, us, subject string, goal float64) {
		add(what, subject, "× the cost", goal, m.ratios(scenario, subject, scenario, us))
	}
	best := func(scenario string) string { return m.best(scenario, onZooKeeper) }

	const fewStrays = 0.05 // allocations per pair, of other goroutines of the program
	one, cores := reenter(1), reenter(runtime.NumCPU())
	const pair = "Acquire + Release, lock held, one goroutine"
	costs(pair, one, ours, limitCAS, 3)
	costs(pair, one, ours, limitRWMutex, 1.5)
	costs(pair, one, ours, curator, 1)
	bound(pair, "allocations", fewStrays, one, ours, allocs)
	costs("Acquire + Release, lock held, all cores", cores, ours, limitBusy, 1.5)
	rates("Acquire + Release, lock held, all cores", cores, ours, limitRWMutex, 0)
	bound("Lock + Release, lock held, one goroutine", "ns", 80, one, oursLock, nanos)
	bound("Lock + Release, lock held, one goroutine", "allocations", 0, one, oursLock, allocs)
	costs("Do, lock held, one goroutine", one, oursDo, limitContext, 1.3)
	bound("Do, lock held, one goroutine", "allocations", 2+fewStrays, one, oursDo, allocs)
	costs("Do, with Done, lock held, one goroutine", one, oursDone, limitDone, 2.5)
	bound("Do, with Done, lock held, one goroutine", "allocations", 6+fewStrays, one, oursDone, allocs)
	errGoal := 40.0
	if clock := m.values(one, limitClock, nanos); len(clock) > 0 {
		errGoal = max(errGoal, 2*over(clock).Median)
	}
	add("Hold.Err, one goroutine", "40 ns, or 2 × time.Now", "ns", errGoal, m.values(one, oursErr, nanos))

	rates("read lock, 32 goroutines of one process", readers, ours, curator, 1000)
	costs("Lock + Unlock, uncontended", solo, oursUnlock, limitBare, 1.1)
	costs("Lock + Unlock, uncontended", solo, oursUnlock, best(solo), 0.9)
	costs("Lock + Release, uncontended", solo, ours, limitBare, 0)
	rates("Lock + Unlock, lingering, no other process", solo, oursLinger, best(solo), 1000)
	bound("Mutex, Lock + Release, lingering, no other process", "ns", 300, solo, oursIdle, nanos)
	rates("Mutex, 32 goroutines of one process", excluding, oursMutex, curator, 100)
	costs("Mutex, 32 goroutines of one process", excluding, oursMutex, limitMutex, 2)
	rates("LockAll of three locks, uncontended", together(1), ours, curator, 1)
	rates("LockAll of three locks, 4 processes", together(4), ours, curator, 1)
	for _, n := range contenders {
		what := fmt.Sprintf("hand-over between %d processes", n)
		rates(what, handOver(n), ours, best(handOver(n)), 1.2)
		rates(what, handOver(n), ours, limitRelay, 1)
	}
	for _, n := range consumers {
		goal := map[int]float64{16: 5}[n]
		rates(fmt.Sprintf("elements taken from a queue by %d processes", n), drained(n), ours, m.best(drained(n), []string{curator, kazoo}), goal)
	}

	bound("one read at RTT 2 ms", "round trips", 0, farTrip, limitTrip, perTrip)
	// Bounds in round trips, and multiples of the best peer's rate or time.
	farHandOvers := func(at place, disk string, n int, trips, ahead float64) {
		id := farHandOver(at, n)
		for _, by := range []struct{ subject, name string }{{ours, "Release"}, {oursUnlock, "Unlock"}} {
			what := fmt.Sprintf("hand-over between %d processes at RTT 2 ms%s, %s", n, disk, by.name)
			bound(what, "round trips", trips, id, by.subject, perTrip)
			rates(what, id, by.subject, best(id), ahead)
		}
	}
	farLines := func(at place, disk string, n int, trips, fraction float64) {
		id := farLine(at, n)
		what := fmt.Sprintf("from Unlock to the next grant at RTT 2 ms%s, %d in line", disk, n)
		bound(what, "round trips", trips, id, oursUnlock, gapTrips)
		peer := m.least(id, onZooKeeper, gapTrips)
		add(what, peer, "× the time", fraction, quotients(m.values(id, oursUnlock, gapTrips), m.values(id, peer, gapTrips)))
	}
	farHandOvers(far, "", 2, 1.75, 0)
	farHandOvers(far, "", 8, 1.55, 1.5)
	farHandOvers(far, "", 32, 1.55, 1.5)
	farLines(far, "", 2, 1.8, 0.65)
	farLines(far, "", 9, 1.8, 0.65)
	costs("Lock + Unlock, uncontended, at RTT 2 ms", farSolo, oursUnlock, limitBare, 1.05)
	costs("Lock + Unlock, uncontended, at RTT 2 ms", farSolo, oursUnlock, best(farSolo), 0.7)
	farHandOvers(farForced, " and a log forced to disk", 8, 0, 0)
	farLines(farForced, " and a log forced to disk", 9, 0, 0)

	if m.Scenarios[watchHolder(observers)] != nil { // which a whole run leaves out
		for _, q := range []struct {
			name     string
			of, goal float64
		}{{"median", .5, 2}, {"99th percentile", .99, 0}} {
			millis := waitMillis(q.of)
			alone, watched := watchHolder(0), watchHolder(observers)
			what := fmt.Sprintf("from Unlock to the next grant, %d in line, %s", watchedLine, q.name)
			bound(what, "ms", 0, alone, oursUnlock, millis)
			what += fmt.Sprintf(", while %d sessions watch", observers)
			bound(what, "ms", 0, watched, oursUnlock, millis)
			add(what, "none that watch", "× the time", q.goal, quotients(m.values(watched, oursUnlock, millis), m.values(alone, oursUnlock, millis)))
		}
	}

	for _, d := range deaths { // which a whole run leaves out, too
		if m.Scenarios[d.id()] == nil {
			continue
		}
		what := fmt.Sprintf("%s, which holds %s, to the next grant of all", d.title(), figures.Count(d.locks, "lock"))
		for _, q := range []struct {
			name     string
			of, goal float64
		}{{"median", .5, 0}, {"99th percentile", .99, d.goal}} {
			bound(fmt.Sprintf("%s, %s: %s", what, q.name, d.subject), "ms", q.goal, d.id(), d.subject, waitMillis(q.of))
		}
	}

	rates("8 processes × 16 goroutines, entries (shared by a process, or not)", shared, ours, curator, 20)
	add("8 processes × 16 goroutines, p99 of the wait", "7 tenures", "ms", 7*float64(tenure.Milliseconds()),
		m.values(shared, ours, waitMillis(.99)))
	// A lock that lists the queue at each grant has to read a longer list.
	depthGoal, deep := 1.3, "with 10 sessions"
	if lists := m.values(requests(100), ours, extra("lists")); len(lists) > 0 {
		n := over(lists).Median
		if n > .5 {
			depthGoal = 2
		}
		deep += fmt.Sprintf("; %.1f lists per grant", n)
	}
	add("hand-over with 1,000 sessions in the queue", deep, "× the cost", depthGoal, m.ratios(queue(10), ours, queue(1000), ours))
	add("relay with 1,000 sessions in the queue", "with 10 sessions", "× the cost", 0, m.ratios(queue(10), limitRelay, queue(1000), limitRelay))
	for _, n := range tappedContenders {
		what := fmt.Sprintf("requests per grant, %d processes", n)
		bound(what, "writes", 2, requests(n), ours, tenths("writes"))
		bound(what, "reads", 3, requests(n), ours, tenths("reads"))
	}
	rates("10,000 locks of one process", many(10_000), ours, limitBare, 0.8)
	add("10,000 locks of one process", "Workers + 16", "goroutines", workers+16, m.values(many(10_000), ours, extra("goroutines")))
	rates("10,000 locks of one process, directories missing", manyUnmade, ours, limitBare, 0)

	for _, f := range []struct {
		what, scenario, figure, against, unit string
		goal                                  float64
	}{
		{"held: take all", bulkOwn, takeAllSeconds, "bound", "s", 10},
		{"held: at rest", bulkOwn, restProcessor, "bound", "% of a processor", 5},
		{"held: at rest", bulkOwn, restRequests, "bound", "requests/s", 50},
		{"held: reconnect, to the grant of a lock that no process wants", bulkOwn, reconnectMillis, "-", "ms", 0},
		{"held: release all", bulkOwn, releaseAllSeconds, "bound", "s", 5},
		{"queued: queue all", bulkExpire, queueAllSeconds, "bound", "s", 25},
		{"queued: session expires, a lock that no process wants, asked for at once", bulkExpire, atOnceMillis, "bound", "ms", 100},
		{"queued: session expires, a lock that no process wants, asked for after 5 s", bulkExpire, laterMillis, "bound", "ms", 50},
		{"queued: session expires, all queued again", bulkExpire, queuedAgain, "bound", "s", 20},
	} {
		add("a process with 100,000 locks, "+f.what, f.against, f.unit, f.goal, m.values(f.scenario, oursAlone, extra(f.figure)))
	}
	bound("memory of a lock, idle", "bytes", 250, footprint, ours, extra("idle"))
	bound("memory of a lock, held", "bytes", 900, footprint, ours, extra("held"))
	bound("memory of a lock, queued", "bytes", 1100, footprint, ours, extra("queued"))
	return all
}
