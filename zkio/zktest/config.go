// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"log/slog"
	"time"
)

// Config configures a Server. The zero value has the timing of a real server's
// default configuration.
type Config struct {
	// TickTime is the server's unit of time. Sessions expire at multiples of
	// it. The default is 2 s.
	TickTime time.Duration

	// MinSessionTimeout and MaxSessionTimeout bound the session timeouts that
	// clients get: the server moves what they ask for to the nearer bound.
	// The defaults are 2 and 20 ticks. A maximum below the minimum is raised
	// to it.
	MinSessionTimeout time.Duration
	MaxSessionTimeout time.Duration

	// BetweenEnds is how long the leader takes from the end of one session to that of the next
	// one that ends at the same tick. A real server takes some 20 microseconds with nothing else
	// to do. Until its turn comes, a session can be resumed, and make changes, and ends all the
	// same. The default is 0.
	BetweenEnds time.Duration

	// ContainerCheckInterval is how often the server deletes container nodes
	// that have lost their last child, and nodes whose time to live is over.
	// The default is 60 s.
	ContainerCheckInterval time.Duration

	// ExtendedTypes lets clients create nodes with a time to live, like a
	// real server's system property zookeeper.extendedTypesEnabled. Without
	// it such requests fail with "unimplemented". The server deletes such a
	// node at the first check (see ContainerCheckInterval) at which it has no
	// children and its data was last set longer ago than its time to live.
	ExtendedTypes bool

	// MaxBuffer is the size of the largest frame that a client may send, in
	// bytes, not counting the length field. A larger one ends the connection.
	// The default is ZooKeeper's jute.maxbuffer, 1 MB less one byte.
	MaxBuffer int

	// ID is the server's number, which is the high byte of its sessions' ids.
	// The default is 1. With ExtendedTypes, 255 is reserved and means 254.
	ID uint8

	// FourLetterWords lists the monitoring commands, such as "ruok", that the
	// server answers. Nil, the default, means all of them, since clients in
	// tests use them to wait for a server or to ask for its version. (A real
	// server answers only "srvr" unless its 4lw.commands.whitelist says
	// otherwise.) An empty list means none.
	FourLetterWords []string

	// SuperDigest is the digest identity of a super user, who may do
	// everything whatever the ACLs say: "user:" followed by the base64 of the
	// SHA-1 of "user:password", as in a real server's system property
	// zookeeper.DigestAuthenticationProvider.superDigest. Empty means none.
	SuperDigest string

	// Quirks have the server behave as one that only speaks ZooKeeper's protocol.
	Quirks Quirks

	// Logger gets a message when the server begins to listen, which says that
	// it is for development and tests, and a warning for each connection that
	// the server drops. The default is slog.Default().
	Logger *slog.Logger
}

// withDefaults returns c with every zero field filled in.
func (c Config) withDefaults() Config {
	if c.TickTime <= 0 {
		c.TickTime = 2 * time.Second
	}
	if c.MinSessionTimeout <= 0 {
		c.MinSessionTimeout = 2 * c.TickTime
	}
	if c.MaxSessionTimeout <= 0 {
		c.MaxSessionTimeout = 20 * c.TickTime
	}
	c.MaxSessionTimeout = max(c.MaxSessionTimeout, c.MinSessionTimeout)
	if c.ContainerCheckInterval <= 0 {
		c.ContainerCheckInterval = time.Minute
	}
	if c.MaxBuffer <= 0 {
		c.MaxBuffer = 0xfffff
	}
	if c.ID == 0 {
		c.ID = 1
	}
	if c.ExtendedTypes {
		c.ID = min(c.ID, 254)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
