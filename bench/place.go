// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/delay"
	"github.com/holdfast-go/holdfast/bench/internal/start"
)

// A place is where a scenario has its server, if that is not the subject's own.
type place struct {
	kind  string        // of the server
	delay time.Duration // between it and its clients, in each direction
}

// The names of the places.
const (
	far       = "far"
	farForced = "far-forced" // with a server that forces its log to disk
	near      = "near"       // the same, without a delay
	large     = "large"      // with a server that has memory for the bulk scenarios
)

var placeOf = map[string]place{
	far:       {start.ZooKeeper, oneWay},
	farForced: {start.ZooKeeperForced, oneWay},
	near:      {start.ZooKeeper, 0},
	large:     {start.ZooKeeperLarge, 0},
}

// openPlaces finds the addresses of the places that the scenarios need, and starts the
// relays for them, which closePlaces closes.
func (s *suite) openPlaces(scenarios []scenario, servers map[string]*start.Server) error {
	s.places = make(map[string]string)
	for _, sc := range scenarios {
		at, ok := placeOf[sc.at]
		switch {
		case !ok || s.places[sc.at] != "":
			continue
		case at.delay == 0:
			s.places[sc.at] = servers[at.kind].Addr()
			continue
		}
		relay, err := delay.Start(servers[at.kind].Addr(), at.delay)
		if err != nil {
			return err
		}
		s.relays = append(s.relays, relay)
		s.places[sc.at] = relay.Addr()
		fmt.Fprintf(s.log, "relay with %v in each direction, of which it takes %v itself\n", at.delay, relay.Own().Round(time.Microsecond))
	}
	return nil
}

func (s *suite) closePlaces() {
	for _, relay := range s.relays {
		relay.Close()
	}
}
