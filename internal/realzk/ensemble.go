// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// An Ensemble is several ZooKeeper servers that replicate each other, for one test.
// Its methods block, fail the test on error, and must be called by the test's
// goroutine.
//
// Its servers can be paused, killed and restarted like any [Server]. The connections
// between them, but not those of clients, go through relays, which [Ensemble.Isolate]
// cuts.
type Ensemble struct {
	tb       testing.TB
	servers  []*Server // server i has the number i+1
	relays   map[pair][2]*Relay
	isolated map[*Server]bool
	ports    [][ports]int // of the members, reserved
}

// A pair is the numbers of a member and of one that it connects to, through one relay
// to its quorum port and one to its election port.
type pair struct{ from, to int }

// ensembleLimit is the time in ticks for which members wait for each other: when a
// leader starts, and when a leader or a follower receives nothing.
const ensembleLimit = 20

// StartEnsemble starts an ensemble of n servers for this test and returns when a
// leader and its followers serve. The end of the test kills them and, if it failed,
// logs the end of each server's log.
//
// The options apply to each server; Dir is the parent of their directories. A leader
// and a follower that receive nothing from each other disconnect after 20 ticks, 10 s
// by default; ConfigLine("syncLimit=…") changes that.
//
// Without ZooKeeper, and with -short, StartEnsemble skips the test; see the package
// documentation.
func StartEnsemble(tb testing.TB, n int, opts ...Option) *Ensemble {
	tb.Helper()
	Require(tb)
	cfg := newConfig(opts)
	if cfg.Dir == "" {
		cfg.Dir = tb.TempDir()
	}
	began := time.Now()
	var e *Ensemble
	var err error
	// As in run, another process may have taken a port.
	for range 3 {
		if e, err = startEnsemble(tb.Context(), cfg, n); err == nil || !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	e.tb = tb
	tb.Cleanup(func() {
		if err := e.end(); err != nil {
			tb.Error(err)
		}
		if tb.Failed() {
			for _, s := range e.servers {
				tb.Logf("the log of server %d, ZooKeeper at %s, ends with:\n%s", s.p.cfg.id, s.Addr(), logSince(s.p.LogFile(), 0, 100))
			}
		}
	})
	for _, s := range e.servers {
		s.tb = tb
	}
	leader := e.Leader()
	tb.Logf("an ensemble of %d servers started in %v; server %d leads", n, time.Since(began).Round(time.Millisecond), leader.p.cfg.id)
	return e
}

// startEnsemble starts n servers below cfg.Dir. If it fails, it leaves nothing behind.
func startEnsemble(ctx context.Context, cfg Config, n int) (*Ensemble, error) {
	e := &Ensemble{relays: make(map[pair][2]*Relay), isolated: make(map[*Server]bool)}
	own, err := memberPorts(n)
	e.ports = own
	if err != nil {
		return nil, errors.Join(err, e.end())
	}
	lines, err := e.connect(own)
	if err != nil {
		return nil, errors.Join(err, e.end())
	}
	// Servers need each other, so a failure ends the others' wait.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	processes, errs := make([]*Process, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := cfg
			c.id, c.Port = i+1, own[i][clientPort]
			c.Dir = filepath.Join(cfg.Dir, strconv.Itoa(c.id))
			c.Lines = append(slices.Clip(lines[i]), cfg.Lines...)
			for _, opt := range cfg.members[c.id] {
				opt(&c)
			}
			if processes[i], errs[i] = run(ctx, c); errs[i] != nil {
				cancel(fmt.Errorf("server %d did not start", c.id))
			}
		})
	}
	wg.Wait()
	for _, p := range processes {
		if p != nil {
			e.servers = append(e.servers, &Server{p: p})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, e.end())
	}
	return e, nil
}

// The ports on which a member listens.
const (
	quorumPort   = iota // as the leader, for its followers
	electionPort        // for all others, to elect a leader
	clientPort
	ports
)

// memberPorts returns free ports for n members, which it has reserved, even if it fails.
func memberPorts(n int) ([][ports]int, error) {
	own := make([][ports]int, n)
	for i := range own {
		for j := range own[i] {
			var err error
			if own[i][j], err = freePort(); err != nil {
				return own, err
			}
		}
	}
	return own, nil
}

// connect creates the relays to members with these ports, and returns the lines of
// each one's configuration that list all members.
func (e *Ensemble) connect(own [][ports]int) ([][]string, error) {
	n := len(own)
	for from := range n {
		for to := range n {
			var relays [2]*Relay
			for j := range relays {
				if from == to {
					continue
				}
				r, err := newRelay(net.JoinHostPort("127.0.0.1", strconv.Itoa(own[to][j])))
				if err != nil {
					return nil, err
				}
				relays[j] = r
				e.relays[pair{from + 1, to + 1}] = relays // even if the next one fails
			}
		}
	}
	for p, relays := range e.relays {
		introduce := introduceAs(e.relays[pair{p.to, p.from}][electionPort].Addr())
		relays[electionPort].protocol = func() (forth, back forwarder) { return introduce, forwardAll }
		for _, r := range relays {
			r.serve()
		}
	}
	lines := make([][]string, n)
	for from := range n {
		lines[from] = []string{fmt.Sprintf("initLimit=%d", ensembleLimit), fmt.Sprintf("syncLimit=%d", ensembleLimit)}
		for to := range n {
			quorum, election := own[to][quorumPort], own[to][electionPort]
			if from != to {
				quorum, election = e.relays[pair{from + 1, to + 1}][quorumPort].port(), e.relays[pair{from + 1, to + 1}][electionPort].port()
			}
			lines[from] = append(lines[from], fmt.Sprintf("server.%d=127.0.0.1:%d:%d", to+1, quorum, election))
		}
	}
	return lines, nil
}

// end stops the servers and then the relays.
func (e *Ensemble) end() error {
	errs := make([]error, len(e.servers))
	var wg sync.WaitGroup
	for i, s := range e.servers {
		wg.Go(func() { errs[i] = s.p.Stop() })
	}
	wg.Wait()
	for _, relays := range e.relays {
		for _, r := range relays {
			if r != nil {
				r.Close()
			}
		}
	}
	for _, own := range e.ports {
		for _, port := range own {
			releasePort(port)
		}
	}
	return errors.Join(errs...)
}

// Servers returns all servers in the order of their numbers.
func (e *Ensemble) Servers() []*Server { return slices.Clone(e.servers) }

// Others returns all servers except s.
func (e *Ensemble) Others(s *Server) []*Server {
	return slices.DeleteFunc(e.Servers(), func(other *Server) bool { return other == s })
}

// Addrs returns the addresses of servers, as host:port.
func Addrs(servers ...*Server) []string {
	addrs := make([]string, 0, len(servers))
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Leader waits until a server leads, and returns it. It ignores isolated servers.
func (e *Ensemble) Leader() *Server {
	e.tb.Helper()
	return e.await("no server leads", func(leader *Server, _ []*Server) bool { return leader != nil })
}

// Follower waits until a server that is not isolated follows, and returns it.
func (e *Ensemble) Follower() *Server {
	e.tb.Helper()
	var follower *Server
	e.await("no server follows", func(_ *Server, followers []*Server) bool {
		if len(followers) == 0 {
			return false
		}
		follower = followers[0]
		return true
	})
	return follower
}

// Settled waits until all servers that are not isolated serve, and returns the leader.
func (e *Ensemble) Settled() *Server {
	e.tb.Helper()
	return e.await("not all servers serve", func(leader *Server, followers []*Server) bool {
		return leader != nil && 1+len(followers) == len(e.servers)-len(e.isolated)
	})
}

// await polls the roles of all servers that are not isolated until ok returns true,
// and returns the leader.
func (e *Ensemble) await(unless string, ok func(leader *Server, followers []*Server) bool) *Server {
	e.tb.Helper()
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(e.tb.Context(), patience)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		var leader *Server
		var followers []*Server
		for _, s := range e.servers {
			if e.isolated[s] {
				continue
			}
			// A server that is paused or down does not answer.
			answer, err := ask(ctx, time.Second, s.Addr(), "srvr")
			switch {
			case err != nil:
			case strings.Contains(answer, "Mode: leader"):
				leader = s
			case strings.Contains(answer, "Mode: follower"):
				followers = append(followers, s)
			}
		}
		if ok(leader, followers) {
			return leader
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			e.tb.Fatalf("realzk: for %v %s: %v", patience, unless, context.Cause(ctx))
		}
	}
}

// Isolate cuts a server off from the others, in both directions and silently: no
// connection is refused or closed. Its clients reach it as before.
func (e *Ensemble) Isolate(s *Server) {
	e.tb.Helper()
	if !slices.Contains(e.servers, s) {
		e.tb.Fatalf("realzk: the server at %s does not belong to this ensemble", s.Addr())
	}
	e.isolated[s] = true
	e.each(func(r *Relay, apart bool) {
		if apart {
			r.Cut()
		}
	})
}

// Heal ends all isolation.
func (e *Ensemble) Heal() {
	clear(e.isolated)
	e.each(func(r *Relay, _ bool) { r.Mend() })
}

// each calls fn for each relay, and tells whether one of its ends is isolated.
func (e *Ensemble) each(fn func(r *Relay, apart bool)) {
	for p, relays := range e.relays {
		apart := e.isolated[e.servers[p.from-1]] || e.isolated[e.servers[p.to-1]]
		for _, r := range relays {
			fn(r, apart)
		}
	}
}
