// SPDX-License-Identifier: Apache-2.0

package zkio

import "time"

// A connState is what a session knows about its connection. It is a value: its
// methods do no I/O, read no clock, and return the state after an event.
type connState struct {
	// wire is the connection, whose handshake is done; nil if there is none.
	wire *wire
	// dialing says that go-zookeeper's main loop has no connection: its sender
	// and receiver have ended.
	dialing bool
	// downSince is when the last connection was lost.
	downSince time.Duration
	// attempts counts the attempts to connect since the last connection.
	attempts int
	// refusing says that servers have been closing connections unanswered since
	// refusedSince.
	refusing     bool
	refusedSince time.Duration
}

// inVain reports whether every server was tried in vain since the last
// connection, and the next attempt has begun.
func (c connState) inVain(servers int) bool { return c.attempts > servers }

// attempting is the state when another attempt begins.
func (c connState) attempting() connState {
	c.attempts++
	return c
}

// up is the state when w is connected.
func (c connState) up(w *wire) connState {
	return connState{wire: w, downSince: c.downSince}
}

// down is the state when the connection is lost.
func (c connState) down(now time.Duration) connState {
	c.wire, c.downSince = nil, now
	return c
}

// refused is the state when a server has closed a connection in the handshake.
// It reports whether they have been doing so for longer than limit.
//
// A server that has seen less than the client, because its data was restored
// from a backup, say, closes the connection without a word, for ever. So does
// one that is not ready, so it is given time.
func (c connState) refused(now, limit time.Duration) (next connState, forTooLong bool) {
	if !c.refusing {
		c.refusing, c.refusedSince = true, now
	}
	return c, now-c.refusedSince > limit
}
