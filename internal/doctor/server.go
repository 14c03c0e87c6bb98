// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// patience bounds the wait for a server.
const patience = 5 * time.Second

// A server is what one server says about itself.
type server struct {
	addr string
	err  error             // why it does not serve
	srvr map[string]string // its answers; nil if it does not tell
	conf map[string]string
	mntr map[string]string
	// untold are the words that it does not answer, though it serves.
	untold []string
	// least and most are the bounds of its session timeouts; 0 if they are not known.
	least, most time.Duration
	// strangers says that it serves clients that have no certificate.
	strangers bool
}

// askAll asks all servers at the same time.
func askAll(ctx context.Context, cfg Config) []server {
	servers := make([]server, len(cfg.Servers))
	var wg sync.WaitGroup
	for i, addr := range cfg.Servers {
		wg.Go(func() { servers[i] = askServer(ctx, cfg, addr) })
	}
	wg.Wait()
	return servers
}

// askServer asks one server.
func askServer(ctx context.Context, cfg Config, addr string) server {
	s := server{addr: addr}
	for _, word := range []struct {
		name      string
		separator string
		answer    *map[string]string
	}{{"srvr", ": ", &s.srvr}, {"conf", "=", &s.conf}, {"mntr", "\t", &s.mntr}} {
		text, err := fourLetters(ctx, cfg, addr, word.name)
		switch {
		case err != nil:
			s.err = err
			return s
		case strings.Contains(text, "not currently serving requests"):
			s.err = errors.New("it is in no quorum")
			return s
		case text == "" && word.name == "srvr":
			s.err = errors.New("it closes the connection without an answer; is it a ZooKeeper server's port for clients?")
			return s
		case text == "" || strings.Contains(text, "not in the whitelist"):
			s.untold = append(s.untold, word.name)
		default:
			*word.answer = parse(text, word.separator)
		}
	}
	s.strangers = admitsStrangers(ctx, cfg, addr)
	s.least, s.most = milliseconds(s.conf["minSessionTimeout"]), milliseconds(s.conf["maxSessionTimeout"])
	if s.conf == nil {
		s.least, s.most = bounds(ctx, cfg, addr)
	}
	return s
}

// admitsStrangers reports whether a server, which serves this client, answers one without a
// certificate as well.
func admitsStrangers(ctx context.Context, cfg Config, addr string) bool {
	if cfg.TLS == nil || len(cfg.TLS.Certificates) == 0 && cfg.TLS.GetClientCertificate == nil {
		return true // this client is one
	}
	cfg.TLS = cfg.TLS.Clone()
	cfg.TLS.Certificates, cfg.TLS.GetClientCertificate = nil, nil
	text, err := fourLetters(ctx, cfg, addr, "srvr")
	return err == nil && text != ""
}

// parse takes an answer's lines apart.
func parse(text, separator string) map[string]string {
	answer := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, separator); ok {
			answer[key] = strings.TrimSpace(value)
		}
	}
	return answer
}

func milliseconds(s string) time.Duration {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0 // -1: not set, or not told
	}
	return time.Duration(n) * time.Millisecond
}

// version returns the server's version as it writes it, such as "3.8.0-5a02a05ed…".
func (s server) version() string {
	version, _, _ := strings.Cut(s.srvr["Zookeeper version"], ",")
	return version
}

func (s server) mode() string        { return s.srvr["Mode"] }
func (s server) tick() time.Duration { return milliseconds(s.conf["tickTime"]) }

// syncLimit returns the time for which a server may be cut off from its leader unnoticed,
// or 0 if it is not known or the server is alone.
func (s server) syncLimit() time.Duration {
	ticks, err := strconv.Atoi(s.conf["syncLimit"])
	if err != nil || s.mode() == "standalone" {
		return 0
	}
	return time.Duration(ticks) * s.tick()
}

// servesObservers reports whether observers follow this server although it is a follower:
// it is an ObserverMaster.
func (s server) servesObservers() bool {
	n, err := strconv.Atoi(s.mntr["zk_synced_observers"])
	return err == nil && n > 0 && s.mode() == "follower"
}

// fourLetters sends a four-letter word, and returns the answer.
func fourLetters(ctx context.Context, cfg Config, addr, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := cfg.Dialer(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends the calls below
	if cfg.TLS != nil {
		if conn, err = secured(ctx, conn, cfg.TLS, addr); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", fmt.Errorf("send %q: %w", word, err)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	if ctx.Err() != nil {
		return "", fmt.Errorf("no answer to %q in %v", word, patience)
	}
	if err != nil {
		return "", fmt.Errorf("read the answer to %q: %w", word, err)
	}
	return string(answer), nil
}

// secured makes a TLS connection of conn.
func secured(ctx context.Context, conn net.Conn, cfg *tls.Config, addr string) (net.Conn, error) {
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(addr) // Config.Servers has ports
	}
	secure := tls.Client(conn, cfg)
	err := secure.HandshakeContext(ctx)
	return secure, err
}

// What bounds asks for. A session that asks for less than a second would give the
// handshake less than a third of one.
const (
	shortest = time.Second
	longest  = 24 * time.Hour
)

// bounds finds the bounds of a server's session timeouts by two sessions, one that asks
// for a short timeout and one that asks for a long one. A bound that it does not find is 0.
func bounds(ctx context.Context, cfg Config, addr string) (least, most time.Duration) {
	granted := func(asked time.Duration) time.Duration {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		c, err := zkio.Open(ctx, zkio.Config{
			Servers: []string{addr}, SessionTimeout: asked, Dialer: cfg.Dialer, TLS: cfg.TLS,
			Workers: 9, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return 0
		}
		defer func() { _ = c.Close(ctx) }() // the server forgets a session of its own accord
		if timeout := c.Session().Timeout(); timeout != asked {
			return timeout
		}
		return 0 // the bound lies beyond
	}
	return granted(shortest), granted(longest)
}

// members are the servers that the ensemble itself knows.
type members struct {
	voters, observers int
	err               error // why they are not known
}

// readMembers reads the node in which ZooKeeper 3.5 and newer publish the ensemble's
// configuration.
func readMembers(s *zkio.Session) members {
	data, _, err := s.Get("/zookeeper/config")
	if err != nil {
		return members{err: err}
	}
	return parseMembers(string(data))
}

var member = regexp.MustCompile(`(?m)^server\.\d+=([^;\n]*)`)

// parseMembers parses lines such as "server.1=zk1:2888:3888:observer;2181".
func parseMembers(text string) (m members) {
	for _, found := range member.FindAllStringSubmatch(text, -1) {
		if strings.HasSuffix(strings.TrimSpace(found[1]), ":observer") {
			m.observers++
		} else {
			m.voters++
		}
	}
	return m
}
