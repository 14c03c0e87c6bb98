// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// The delaying relay: see package delay.
const (
	oneWay    = time.Millisecond
	roundTrip = 2 * oneWay
	atTrip    = "at a round-trip time of 2 ms"
)

// The ids of the network scenarios. A place other than far is part of them.
const (
	farTrip = "network/round-trip"
	farSolo = "network/uncontended"
)

func farID(place, id string) string {
	if place == farForced {
		return "network/forceSync/" + id
	}
	return "network/" + id
}

func farHandOver(place string, sessions int) string { return farID(place, handOver(sessions)) }

func farLine(place string, waiting int) string {
	return farID(place, fmt.Sprintf("line/waiting=%d", waiting))
}

// lines has the numbers of contenders that wait behind the holder.
var lines = []int{2, 9}

// The numbers of contenders that are also measured with a server that forces its log
// to disk.
const (
	forcedContenders = 8
	forcedLine       = 9
)

// network returns the scenarios with a delay between the clients and the server.
func network() (all []scenario) {
	add := func(sc scenario) {
		sc.cold = true
		if sc.at == "" {
			sc.at = far
		}
		all = append(all, sc)
	}
	where := func(place string) string {
		if place == farForced {
			return atTrip + ", to a server that forces its log to disk"
		}
		return atTrip
	}
	addHandOver := func(place string, n int, subjects ...string) {
		add(scenario{
			id: farHandOver(place, n), at: place, what: fmt.Sprintf("%d processes with one goroutine or thread each take and release one lock, %s", n, where(place)),
			job:      work.Job{Work: work.Contend, Sessions: n, Workers: 1, Locks: 1},
			subjects: subjects,
		})
	}
	addLine := func(place string, n int) {
		add(scenario{
			id: farLine(place, n), at: place, what: fmt.Sprintf("from Unlock to the next grant, with %d in line that hold the lock once for 10 ms, %s", n, where(place)),
			job:      work.Job{Work: work.Line, Sessions: n + 1, Workers: 1, Locks: 1, HoldMicros: 10_000, QueueMillis: 80},
			subjects: slices.Concat([]string{oursUnlock}, onZooKeeper),
		})
	}
	add(scenario{
		id: farTrip, what: "go-zookeeper asks whether a node exists, " + where(far),
		job:      work.Job{Work: work.Contend, Sessions: 1, Workers: 1, Locks: 1},
		subjects: []string{limitTrip},
	})
	add(scenario{
		id: farSolo, what: "one session takes and releases a lock without contention, " + where(far),
		job:      work.Job{Work: work.Contend, Sessions: 1, Workers: 1, Locks: 1},
		subjects: slices.Concat([]string{limitBare, oursUnlock}, onZooKeeper),
	})
	ourOwn := []string{ours, oursUnlock}
	for _, n := range contenders {
		addHandOver(far, n, slices.Concat([]string{limitRelay}, ourOwn, onZooKeeper, []string{naive})...)
	}
	for _, n := range lines {
		addLine(far, n)
	}
	addHandOver(farForced, forcedContenders, slices.Concat(ourOwn, onZooKeeper)...)
	addLine(farForced, forcedLine)
	return all
}

// perTrip returns how many round-trip times passed from grant to grant.
func perTrip(r result) float64 { return r.Seconds / float64(r.Entries) / roundTrip.Seconds() }

// gapTrips returns the median of the times from Unlock to the next grant, in
// round-trip times.
func gapTrips(r result) float64 { return wait(.5)(r) / 1e6 / roundTrip.Seconds() }

// networkTargets adds the targets of the network scenarios.
func (m *measured) networkTargets(t *targets) {
	t.add("one read at RTT 2 ms", "bound", "round trips", false, 0, m.values(farTrip, limitTrip, perTrip))
	for _, n := range contenders {
		trips, ahead := 1.55, 1.5 // round trips, and times the best peer's rate
		if n == 2 {
			trips, ahead = 1.75, 0
		}
		m.farHandOvers(t, far, n, trips, ahead)
	}
	for _, n := range lines {
		m.farLines(t, far, n, 1.8, 0.65)
	}
	const pair = "Lock + Unlock, uncontended, at RTT 2 ms"
	t.costOf(m, pair, farSolo, oursUnlock, limitBare, 1.05)
	t.costOf(m, pair, farSolo, oursUnlock, m.best(farSolo, onZooKeeper), 0.7)
	m.farHandOvers(t, farForced, forcedContenders, 0, 0)
	m.farLines(t, farForced, forcedLine, 0, 0)
}

// farHandOvers adds the targets of hand-overs between n processes: a bound in round
// trips, and a multiple of the best peer's rate.
func (m *measured) farHandOvers(t *targets, place string, n int, trips, ahead float64) {
	id := farHandOver(place, n)
	for _, by := range []struct{ subject, name string }{{ours, "Release"}, {oursUnlock, "Unlock"}} {
		what := fmt.Sprintf("hand-over between %d processes at RTT 2 ms%s, %s", n, disk(place), by.name)
		t.add(what, "bound", "round trips", false, trips, m.values(id, by.subject, perTrip))
		best := m.best(id, onZooKeeper)
		t.add(what, orBest(best), "× the rate", true, ahead, m.ratios(id, by.subject, id, best))
	}
}

// farLines adds the targets of the time from Unlock to the next grant with n in line: a
// bound in round trips, and a fraction of the best peer's time.
func (m *measured) farLines(t *targets, place string, n int, trips, fraction float64) {
	id := farLine(place, n)
	what := fmt.Sprintf("from Unlock to the next grant at RTT 2 ms%s, %d in line", disk(place), n)
	gaps := m.values(id, oursUnlock, gapTrips)
	t.add(what, "bound", "round trips", false, trips, slices.Clone(gaps))
	best := m.least(id, onZooKeeper, gapTrips)
	t.add(what, orBest(best), "× the time", false, fraction, quotients(gaps, m.values(id, best, gapTrips)))
}

func disk(place string) string {
	if place == farForced {
		return " and a log forced to disk"
	}
	return ""
}

// orBest names a subject that was not measured.
func orBest(subject string) string {
	if subject == "" {
		return "best ZooKeeper peer"
	}
	return subject
}
