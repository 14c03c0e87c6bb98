// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/oneline"
)

// A Config configures a Client. The zero value with Servers set works. Open
// checks it before it does anything else, and names every fault.
type Config struct {
	// Servers are the addresses of the ensemble's servers, as host:port or host.
	// There must be at least one. The port defaults to 2181.
	Servers []string

	// SessionTimeout is how long the servers keep the session, and its ephemeral
	// nodes, after they last heard from the client. Servers force it into their
	// own bounds, by default 2 and 20 ticks, which must be the same on all;
	// [Session.Timeout] tells. Below about 4 s a failover of the ensemble may
	// cost the session's leases. Defaults to 10 s.
	SessionTimeout time.Duration

	// Auth are the credentials to present on every connection, before any other
	// request. Defaults to none.
	Auth []Auth

	// TLS makes the client use TLS. ServerName defaults to the server's host
	// name. Defaults to nil, which is plain TCP.
	TLS *tls.Config

	// Dialer connects to a server; TLS, if configured, runs on top. It must
	// return when ctx ends. Defaults to TCP, with names resolved at each
	// attempt.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)

	// Workers is the number of goroutines that run tasks. Eight of them serve
	// Releases only, so it must be at least 9. While tasks wait for a worker, the
	// requests of those that run are put together. Defaults to 64.
	Workers int

	// LostMargin ends leases earlier by so much. It must be less than a quarter
	// of the session timeout. Defaults to 0.
	LostMargin time.Duration

	// MaxPathBytes limits the ephemeral nodes of a session: so many bytes their paths may
	// have in all, with four more for each, counting those that a [Node] has created. One
	// more is refused with ErrTooManyNodes, because an ensemble fails for good when a session
	// ends whose paths are more than its servers can read: twice their jute.maxbuffer, which
	// is 1 MiB by default. If that is another on your servers, set this to the same. Nodes that
	// are made by other means, and then told by Adopt, count and are not refused. Defaults to
	// 1 MiB; below 0 there is no limit.
	MaxPathBytes int

	// Logger gets a line when a session begins or ends, when the servers change the
	// session timeout, when no server can be reached, when a connection is lost (once
	// in five seconds at most) and comes back, and, at most once in a minute, when a
	// connection is closed because the server broke the protocol or did not answer, and when
	// a session comes near MaxPathBytes.
	// Defaults to slog.Default().
	Logger *slog.Logger

	// Listener is told what happens to sessions and leases. Defaults to none.
	Listener Listener

	// Established is told of each session as soon as the servers have granted it, and before
	// any request is made in it: so another process can close the session if this one is
	// killed. It is called with this Config on the goroutine that connects, so it must not
	// block. Defaults to none.
	Established func(Config, Ticket)

	// Suspended returns for how long the machine has been suspended in total
	// since some fixed moment, as far as Go's monotonic clock has not counted
	// that time. Leases count it as elapsed. Any goroutine calls it, for a
	// request or a look at a lease, if the last call was a millisecond or more
	// ago. It must not block or decrease.
	//
	// Defaults to the difference of CLOCK_BOOTTIME and CLOCK_MONOTONIC on Linux,
	// and to nothing elsewhere. On Windows Go's clock counts that time itself; on
	// macOS a program that can call mach_continuous_time can return the
	// difference here.
	Suspended func() time.Duration

	largestFrame int // maxFrame but in tests, which would need gigabytes for it
}

// An Auth is one set of credentials. Printing, logging or marshaling it, or a
// Config that has it, does not show its Data.
type Auth struct {
	Scheme string // "digest", …
	Data   []byte // "user:password" for digest
}

// String returns the scheme, and how long the data are.
func (a Auth) String() string { return fmt.Sprintf("%s (%d bytes)", a.Scheme, len(a.Data)) }

// Format prints a as String does, whatever the verb.
func (a Auth) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.String()) }

// MarshalText returns what String returns.
func (a Auth) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// LogValue returns what String returns.
func (a Auth) LogValue() slog.Value { return slog.StringValue(a.String()) }

const (
	defaultPort           = "2181"
	defaultSessionTimeout = 10 * time.Second
	defaultWorkers        = 64
	minSessionTimeout     = 10 * time.Millisecond
	maxSessionTimeout     = 24 * time.Hour
)

// resolve returns the Config with its defaults filled in and its servers in
// the form host:port, or an error that names every fault, and op as what failed.
func (cfg Config) resolve(op string) (Config, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if len(cfg.Servers) == 0 {
		fault("Servers is empty: name at least one server as host:port")
	}
	servers := make([]string, len(cfg.Servers))
	for i, s := range cfg.Servers {
		var err error
		if servers[i], err = ServerAddress(s); err != nil {
			fault("Servers[%d]: %w", i, err)
		}
	}
	cfg.Servers = servers

	switch t := cfg.SessionTimeout; {
	case t == 0:
		cfg.SessionTimeout = defaultSessionTimeout
	case t < minSessionTimeout || t > maxSessionTimeout:
		fault("SessionTimeout is %v: it must be between %v and %v, or 0 for %v", t, minSessionTimeout, maxSessionTimeout, defaultSessionTimeout)
	}
	if cfg.LostMargin < 0 || cfg.LostMargin >= cfg.SessionTimeout/4 {
		fault("LostMargin is %v: it must be at least 0 and less than a quarter of the session timeout of %v", cfg.LostMargin, cfg.SessionTimeout)
	}
	switch {
	case cfg.Workers == 0:
		cfg.Workers = defaultWorkers
	case cfg.Workers <= reservedWorkers:
		fault("Workers is %d: it must be at least %d, because %d workers serve releases only, or 0 for %d",
			cfg.Workers, reservedWorkers+1, reservedWorkers, defaultWorkers)
	}
	if cfg.MaxPathBytes == 0 {
		cfg.MaxPathBytes = defaultMaxPathBytes
	}
	for i, a := range cfg.Auth {
		if a.Scheme == "" {
			fault(`Auth[%d] has no scheme: name one, such as "digest"`, i)
		}
	}
	if cfg.largestFrame == 0 {
		cfg.largestFrame = maxFrame
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if len(faults) > 0 {
		return Config{}, &opError{op: op, kind: ErrBadArguments, why: oneline.Join(faults...)}
	}
	return cfg, nil
}

// ServerAddress returns a server's address in the form host:port, with
// ZooKeeper's port 2181 if it names none. An IPv6 address stands in brackets if
// a port follows. The error wraps ErrBadArguments.
func ServerAddress(s string) (string, error) {
	bad := func(why string) (string, error) {
		return "", &joined{fmt.Sprintf("%q is not the address of one server, host:port: %s", s, why), []error{ErrBadArguments}}
	}
	host, port := s, defaultPort
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	} else if inner, ok := strings.CutPrefix(s, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return bad("a bracket is not closed")
		}
	}
	switch {
	case host == "":
		return bad("it names no host")
	case strings.ContainsFunc(host, notInHosts):
		return bad("a host has no spaces, brackets, nor what separates the parts of a list or a URL")
	}
	if _, err := netip.ParseAddr(host); err != nil && strings.Contains(host, ":") {
		return bad("it has too many colons for a name and is no IPv6 address")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return bad("the port is not a number from 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

// notInHosts reports whether no host has r in its name or address.
func notInHosts(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`/\[]@;,?#`, r)
}

// A joined is an error with a text of its own that wraps others.
type joined struct {
	text string
	errs []error
}

func (j *joined) Error() string   { return j.text }
func (j *joined) Unwrap() []error { return j.errs }
