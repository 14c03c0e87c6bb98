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

func farID(at place, id string) string {
	if at == farForced {
		return "network/forceSync/" + id
	}
	return "network/" + id
}

func farHandOver(at place, sessions int) string { return farID(at, handOver(sessions)) }

func farLine(at place, waiting int) string {
	return farID(at, fmt.Sprintf("line/waiting=%d", waiting))
}

// The subjects that hand a lock over in the network scenarios.
var onNetwork = slices.Concat([]string{ours, oursUnlock}, onZooKeeper)

// network returns the scenarios with a delay between the clients and the server.
func network() []scenario {
	all := []scenario{
		{
			id: farTrip, at: far, what: "go-zookeeper asks whether a node exists, " + atTrip,
			job: contend(1, 1), subjects: []string{limitTrip},
		},
		{
			id: farSolo, at: far, what: "one session takes and releases a lock without contention, " + atTrip,
			job: contend(1, 1), subjects: slices.Concat([]string{limitBare, oursUnlock}, onZooKeeper),
		},
	}
	for _, p := range []struct {
		at                place
		where             string
		contenders, lines []int // lines are those that wait behind the holder
		subjects          []string
	}{
		{far, atTrip, contenders, []int{2, 9}, slices.Concat([]string{limitRelay}, onNetwork, []string{naive})},
		{farForced, atTrip + ", to a server that forces its log to disk", []int{8}, []int{9}, onNetwork},
	} {
		for _, n := range p.contenders {
			all = append(all, scenario{
				id: farHandOver(p.at, n), at: p.at, what: fmt.Sprintf("%d processes with one goroutine or thread each take and release one lock, %s", n, p.where),
				job: contend(n, 1), subjects: p.subjects,
			})
		}
		for _, n := range p.lines {
			all = append(all, scenario{
				id: farLine(p.at, n), at: p.at, what: fmt.Sprintf("from Unlock to the next grant, with %d in line that hold the lock once for 10 ms, %s", n, p.where),
				job:      work.Job{Work: work.Line, Sessions: n + 1, Workers: 1, Locks: 1, HoldMicros: 10_000, QueueMillis: 80},
				subjects: slices.Concat([]string{oursUnlock}, onZooKeeper),
			})
		}
	}
	for i := range all {
		all[i].cold = true
	}
	return all
}

// perTrip returns how many round-trip times passed from grant to grant.
func perTrip(r result) float64 { return r.Seconds / float64(r.Entries) / roundTrip.Seconds() }

// gapTrips returns the median of the times from Unlock to the next grant, in
// round-trip times.
func gapTrips(r result) float64 { return wait(.5)(r) / 1e6 / roundTrip.Seconds() }
