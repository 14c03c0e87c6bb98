// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/delay"
	"github.com/holdfast-go/holdfast/bench/internal/start"
)

// A place is where a scenario has its server. The zero place is the subject's own server.
type place struct {
	kind  string        // of the server
	delay time.Duration // between it and its clients, in each direction
}

var (
	far       = place{start.ZooKeeper, oneWay}
	farForced = place{start.ZooKeeperForced, oneWay} // whose server forces its log to disk
	near      = place{start.ZooKeeper, 0}            // the server of far, without a delay
	large     = place{start.ZooKeeperLarge, 0}       // whose server has memory for the bulk scenarios
	ensemble  = place{start.ZooKeeperEnsemble, 0}    // of three servers
)

// start starts the servers, relays and subjects that the scenarios need. It records what is
// not installed, and requires only ZooKeeper. What it has started even on error, stop stops.
func (s *suite) start(ctx context.Context) error {
	needed, kinds := make(map[string]bool), map[string]bool{start.ZooKeeper: true}
	for _, sc := range s.scenarios {
		kinds[sc.at.kind] = true
		for _, subject := range sc.subjects {
			needed[subject] = true
		}
	}
	for _, peer := range start.Peers() {
		kinds[peer.Server] = kinds[peer.Server] || needed[peer.Name]
	}
	addrs, missing := make(map[string]string), make(map[string]error)
	for _, kind := range []string{start.ZooKeeper, start.ZooKeeperForced, start.ZooKeeperLarge, start.ZooKeeperEnsemble, start.Etcd, start.Redis} {
		if !kinds[kind] {
			continue
		}
		server, err := start.Start(ctx, kind)
		switch {
		case err == nil:
			s.stops = append(s.stops, func() { _ = server.Stop() })
			addrs[kind], s.Versions[kind] = server.Addr, server.Version
		case errors.Is(err, start.ErrNotInstalled) && (kind == start.Etcd || kind == start.Redis):
			missing[kind] = err
		default:
			return err
		}
	}
	s.zooKeeper = addrs[start.ZooKeeper]
	if err := s.openPlaces(addrs); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for name := range builtIn {
		if needed[name] {
			if err := s.startProgram(ctx, name, s.zooKeeper, []string{self, "-subject", name}); err != nil {
				return err
			}
		}
	}
	for _, peer := range start.Peers() {
		if !needed[peer.Name] {
			continue
		}
		err := missing[peer.Server]
		var argv []string
		if err == nil {
			fmt.Fprintf(s.log, "building %s\n", peer.Name)
			argv, err = peer.Command(ctx, s.root)
		}
		if errors.Is(err, start.ErrNotInstalled) {
			s.Missing[peer.Name] = err.Error()
			continue
		}
		if err == nil {
			err = s.startProgram(ctx, peer.Name, addrs[peer.Server], argv)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// startProgram starts a subject.
func (s *suite) startProgram(ctx context.Context, name, server string, argv []string) error {
	p := newProgram(ctx, name, server, argv)
	if err := p.begin(); err != nil {
		return err
	}
	s.stops = append(s.stops, func() { _ = p.end() }) // its results have arrived
	s.programs[name], s.Versions[name] = p, p.version
	return nil
}

// openPlaces finds the addresses of the places that the scenarios need, and starts the
// relays for them.
func (s *suite) openPlaces(servers map[string]string) error {
	for _, sc := range s.scenarios {
		switch {
		case sc.at == place{} || s.places[sc.at] != "":
			continue
		case sc.at.delay == 0:
			s.places[sc.at] = servers[sc.at.kind]
			continue
		}
		relay, err := delay.Start(servers[sc.at.kind], sc.at.delay)
		if err != nil {
			return err
		}
		s.stops = append(s.stops, relay.Close)
		s.places[sc.at] = relay.Addr()
		fmt.Fprintf(s.log, "relay with %v in each direction, of which it takes %v itself\n", sc.at.delay, relay.Own().Round(time.Microsecond))
	}
	return nil
}

// stop stops what start has started, what came last first.
func (s *suite) stop() {
	for _, stop := range slices.Backward(s.stops) {
		stop()
	}
}
