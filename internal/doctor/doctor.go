// SPDX-License-Identifier: Apache-2.0

// Package doctor examines a ZooKeeper ensemble for use with Holdfast.
//
// [Examine] collects facts: what each server answers to four-letter words, what a
// session is granted, what is below the root, and how long requests take. The checks are
// functions of these facts alone, so a test can show them any ensemble.
package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A Config says what to examine.
type Config struct {
	// Servers are the addresses of the servers, as host:port.
	Servers []string
	// Chroot is the path that must exist above the root; "" if there is none.
	Chroot string
	// Root is the path below which the locks are, chroot included.
	Root string
	// Session is a session with the ensemble. Without one, only the servers are
	// examined.
	Session *zkio.Session
	// SessionTimeout is the session timeout that processes ask for.
	SessionTimeout time.Duration
	// Credentials says that the session has presented some. Then locks are meant to be
	// out of the reach of other clients.
	Credentials bool
	// Watch is for how long the clocks are watched, and requests timed.
	Watch time.Duration
	// Dialer connects to a server. It defaults to that of package net.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is used on top of connections, unless it is nil.
	TLS *tls.Config
}

// A Finding is what one check has to say about the ensemble, a server or a directory.
// Its fields' names in JSON are stable.
type Finding struct {
	Check  string `json:"check"`            // the check's id, which is stable
	Level  Level  `json:"level"`            // how bad it is
	Where  string `json:"where,omitempty"`  // servers' addresses, or a path
	Found  string `json:"found"`            // what there is
	Why    string `json:"why,omitempty"`    // why it matters; none for OK
	Change string `json:"change,omitempty"` // what to do about it; none for OK
}

// A Level says how bad a finding is.
type Level int

// The levels.
const (
	OK   Level = iota // as it should be
	Note              // worth knowing; nothing has to change
	Warn              // locks can be lost or broken in some circumstances
	Fail              // Holdfast does not work, or what it promises does not hold
)

// String returns "ok", "note", "warn" or "fail".
func (l Level) String() string { return [...]string{"ok", "note", "warn", "fail"}[l] }

// MarshalText returns what String returns.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Worst returns the worst level among the findings.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		worst = max(worst, f.Level)
	}
	return worst
}

// Examine examines an ensemble. It blocks for Config.Watch and the time of some hundred
// requests, or until ctx ends; then it reports what it has seen. It changes nothing but
// for a node of its own, called _doctor_ and a number, which it deletes.
func Examine(ctx context.Context, cfg Config) []Finding {
	if cfg.Dialer == nil {
		cfg.Dialer = new(net.Dialer).DialContext
	}
	f := &facts{asked: cfg.SessionTimeout, credentials: cfg.Credentials, named: len(cfg.Servers), root: cfg.Root}
	f.servers = askAll(ctx, cfg)
	if s := cfg.Session; s != nil {
		f.granted = s.Timeout()
		f.members = readMembers(s)
		f.chroot = cfg.Chroot
		if there, err := s.There(cmp.Or(cfg.Chroot, "/")); err == nil {
			f.noChroot = !there
		}
		f.tree = walk(ctx, s, cfg.Root)
		f.trial = try(ctx, s, cfg)
	}
	return diagnose(f)
}

// diagnose runs all checks.
func diagnose(f *facts) []Finding {
	var all []Finding
	for _, c := range checks {
		if c.ofSession && f.granted == 0 {
			continue
		}
		for _, finding := range merged(c.examine(f)) {
			finding.Check = c.id
			all = append(all, finding)
		}
	}
	return all
}

// merged makes one finding of those that differ only in where they were made.
func merged(findings []Finding) (out []Finding) {
	for _, f := range findings {
		i := slices.IndexFunc(out, func(g Finding) bool { g.Where = f.Where; return g == f })
		if i < 0 {
			out = append(out, f)
		} else {
			out[i].Where += ", " + f.Where
		}
	}
	return out
}

// facts are what the checks look at.
type facts struct {
	chroot      string // see Config.Chroot
	noChroot    bool   // there is none, although there should be
	root        string
	asked       time.Duration // the session timeout that was asked for
	granted     time.Duration // and the one that was granted; 0 without a session
	credentials bool          // see Config.Credentials
	named       int           // how many servers the caller named
	servers     []server
	members     members
	tree        tree
	trial       trial
}

// serving returns the servers that serve.
func (f *facts) serving() (serving []server) {
	for _, s := range f.servers {
		if s.err == nil {
			serving = append(serving, s)
		}
	}
	return serving
}

// tick returns the longest tickTime of the servers that tell theirs, or 0.
func (f *facts) tick() (tick time.Duration) {
	for _, s := range f.servers {
		tick = max(tick, s.tick())
	}
	return tick
}
