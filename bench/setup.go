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
	zooKeeper, err := s.server(ctx, start.ZooKeeper) // of the subjects that are built in
	if err != nil {
		return err
	}
	needed := make(map[string]bool)
	for _, sc := range s.scenarios {
		if err := s.open(ctx, sc.at); err != nil {
			return err
		}
		for _, subject := range sc.subjects {
			needed[subject] = true
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for name := range builtIn {
		if needed[name] {
			if err := s.startProgram(ctx, name, zooKeeper, []string{self, "-subject", name}); err != nil {
				return err
			}
		}
	}
	for _, peer := range start.Peers() {
		if !needed[peer.Name] {
			continue
		}
		err := s.startPeer(ctx, peer)
		if errors.Is(err, start.ErrNotInstalled) {
			s.Missing[peer.Name] = err.Error()
		} else if err != nil {
			return err
		}
	}
	return nil
}

// server returns the address of a kind of server, which it starts if it has not.
func (s *suite) server(ctx context.Context, kind string) (string, error) {
	if s.servers[kind] == "" {
		server, err := start.Start(ctx, kind)
		if err != nil {
			return "", err
		}
		s.stops = append(s.stops, func() { _ = server.Stop() })
		s.servers[kind], s.Versions[kind] = server.Addr, server.Version
	}
	return s.servers[kind], nil
}

// open finds the address of a place, and starts its relay if it has one.
func (s *suite) open(ctx context.Context, at place) error {
	if at == (place{}) || s.places[at] != "" {
		return nil
	}
	server, err := s.server(ctx, at.kind)
	if err != nil {
		return err
	}
	if at.delay == 0 {
		s.places[at] = server
		return nil
	}
	relay, err := delay.Start(server, at.delay)
	if err != nil {
		return err
	}
	s.stops = append(s.stops, relay.Close)
	s.places[at] = relay.Addr()
	fmt.Fprintf(s.log, "relay with %v in each direction, of which it takes %v itself\n", at.delay, relay.Own().Round(time.Microsecond))
	return nil
}

// startPeer starts a peer, and its server.
func (s *suite) startPeer(ctx context.Context, peer start.Peer) error {
	server, err := s.server(ctx, peer.Server)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.log, "building %s\n", peer.Name)
	argv, err := peer.Command(ctx, s.root)
	if err != nil {
		return err
	}
	return s.startProgram(ctx, peer.Name, server, argv)
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

// stop stops what start has started, what came last first.
func (s *suite) stop() {
	for _, stop := range slices.Backward(s.stops) {
		stop()
	}
}
