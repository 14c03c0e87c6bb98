// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"slices"
	"time"
)

// Links are the relays of one client to each of its servers, so that what happens to them
// happens to that client alone. Its methods are safe for concurrent use.
type Links struct {
	relays []*Relay
}

// RunLinks starts a relay to each of the servers at addresses to. The caller closes them.
func RunLinks(to []string) (*Links, error) { return runLinks(to, RunRelay) }

// RunBareLinks is RunLinks for servers that are not ZooKeeper's: no answers can be swallowed.
func RunBareLinks(to []string) (*Links, error) {
	return runLinks(to, func(to string) (*Relay, error) {
		r, err := newRelay(to)
		if err == nil {
			r.serve()
		}
		return r, err
	})
}

func runLinks(to []string, run func(to string) (*Relay, error)) (*Links, error) {
	l := &Links{}
	for _, addr := range to {
		r, err := run(addr)
		if err != nil {
			l.Close()
			return nil, err
		}
		l.relays = append(l.relays, r)
	}
	return l, nil
}

// Addrs returns the relays' addresses in the order of the servers: those that the client
// connects to.
func (l *Links) Addrs() []string {
	addrs := make([]string, 0, len(l.relays))
	for _, r := range l.relays {
		addrs = append(addrs, r.Addr())
	}
	return addrs
}

// Relays returns the relays in the order of the servers.
func (l *Links) Relays() []*Relay { return slices.Clone(l.relays) }

// Close closes all relays.
func (l *Links) Close() {
	for _, r := range l.relays {
		r.Close()
	}
}

// Blackhole cuts all relays: the client reaches no server, and is told nothing.
func (l *Links) Blackhole() {
	for _, r := range l.relays {
		r.Cut()
	}
}

// BlackholeUsed cuts only the relays that have a connection now, so that the client can
// connect to another server.
func (l *Links) BlackholeUsed() {
	for _, r := range l.relays {
		if r.Connections() > 0 {
			r.Cut()
		}
	}
}

// Mend ends what Blackhole and BlackholeUsed have done.
func (l *Links) Mend() {
	for _, r := range l.relays {
		r.Mend()
	}
}

// Delay sets [Relay.Delay] of all relays.
func (l *Links) Delay(d time.Duration) {
	for _, r := range l.relays {
		r.Delay(d)
	}
}

// Throttle sets [Relay.Throttle] of all relays.
func (l *Links) Throttle(bytesPerSecond int) {
	for _, r := range l.relays {
		r.Throttle(bytesPerSecond)
	}
}

// Sever closes the client's connections, and returns how many there were.
func (l *Links) Sever() int {
	n := 0
	for _, r := range l.relays {
		n += r.Sever()
	}
	return n
}

// SwallowAnswer drops the answer to the next request, pings aside, that the client sends on
// the connection that it has now. The channel is closed when that has happened.
func (l *Links) SwallowAnswer() (dropped <-chan struct{}) {
	for _, r := range l.relays {
		if r.Connections() > 0 {
			return r.SwallowReply(AnyRequest)
		}
	}
	return nil // which is never closed
}

// StopSwallowing takes back what SwallowAnswer has ordered, if it has not happened.
func (l *Links) StopSwallowing() {
	for _, r := range l.relays {
		r.StopSwallowing()
	}
}
