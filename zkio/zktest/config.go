// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"log/slog"
	"time"
)

// Config configures a Server. The zero value is a server with the timing of a
// real one's default configuration.
type Config struct {
	// TickTime is the server's unit of time: sessions expire on multiples of
	// it. Defaults to 2 s.
	TickTime time.Duration

	// MinSessionTimeout and MaxSessionTimeout bound the session timeout that
	// a client may ask for; a request outside is moved to the nearer bound.
	// They default to 2 and to 20 ticks. A maximum below the minimum is
	// raised to it.
	MinSessionTimeout time.Duration
	MaxSessionTimeout time.Duration

	// ContainerCheckInterval is the time between two looks for container
	// nodes that have had children and are empty, and for nodes whose time
	// to live is over; those are deleted. Defaults to 60 s.
	ContainerCheckInterval time.Duration

	// ExtendedTypes lets clients make nodes with a time to live, as the
	// system property zookeeper.extendedTypesEnabled does with a real
	// server; without it, as there, they are told "unimplemented". Such a
	// node goes at the first check (see ContainerCheckInterval) at which it
	// has no children and its data has not been set for longer than that
	// time.
	ExtendedTypes bool

	// MaxBuffer is the largest frame that a client may send, in bytes
	// without the length field; a larger one ends its connection. Defaults
	// to 1 MB less one byte, which is ZooKeeper's jute.maxbuffer.
	MaxBuffer int

	// ID is the server's number, the high byte of the ids of its sessions.
	// Defaults to 1. With ExtendedTypes 255 means something else in that
	// place, and is taken for 254.
	ID uint8

	// FourLetterWords lists the monitoring commands that clients may send,
	// such as "ruok". By default all are answered. A real server answers
	// only "srvr" unless its 4lw.commands.whitelist names others; an empty
	// list that is not nil allows none.
	FourLetterWords []string

	// SuperDigest, if not empty, is the digest identity of a super user, to
	// whom no ACL applies: "user:" and the base64 of the SHA-1 of
	// "user:password", like the system property
	// zookeeper.DigestAuthenticationProvider.superDigest.
	SuperDigest string

	// Logger receives what a server has to say: when it listens, that it is
	// meant for development and tests; and as warnings, which connections it
	// drops and why. Defaults to slog.Default().
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
