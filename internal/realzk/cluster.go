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
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk/port"
	"github.com/holdfast-go/holdfast/internal/realzk/scratch"
)

// A Cluster is several ZooKeeper servers that replicate each other. It is for commands;
// tests use an [Ensemble]. Servers have numbers, from 1. Its methods block, and are safe
// for concurrent use.
//
// The connections between servers, but not those of clients, go through relays, which
// [Cluster.Isolate] cuts.
type Cluster struct {
	members []*Process         // member i has the number i+1
	relays  map[pair][2]*Relay // by the pair, one to the quorum port and one to the election port
	ports   [][ports]int       // of the members, reserved
	temp    *scratch.Dir       // which Stop removes, or nil

	ctx context.Context // ends with the cluster
	end context.CancelFunc

	mu       sync.Mutex   // protects isolated, and keeps relays in line with it
	isolated map[int]bool // by the number
}

// A pair is the numbers of a member and of one that it connects to.
type pair struct{ from, to int }

// ensembleLimit is the time in ticks for which members wait for each other: when a
// leader starts, and when a leader or a follower receives nothing.
const ensembleLimit = 20

// RunEnsemble starts an ensemble of n servers and returns when they serve. They run until
// [Cluster.Stop] is called or ctx ends. The error wraps [ErrNotInstalled] if there is no
// ZooKeeper.
//
// The options apply to each server; Dir is the parent of their directories. A leader
// and a follower that receive nothing from each other disconnect after 20 ticks, 10 s
// by default; ConfigLine("syncLimit=…") changes that.
func RunEnsemble(ctx context.Context, n int, opts ...Option) (*Cluster, error) {
	opts = append(opts[:len(opts):len(opts)], func(c *Config) { c.ownGroup = true })
	c, err := runEnsemble(ctx, newConfig(opts), n)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = c.Stop() })
	return c, nil
}

// runEnsemble starts n servers below cfg.Dir, or in a temporary directory if that is "".
func runEnsemble(ctx context.Context, cfg Config, n int) (c *Cluster, err error) {
	// As in run, another process may have taken a port.
	for range 3 {
		if c, err = tryEnsemble(ctx, cfg, n); err == nil || !errors.Is(err, errPortTaken) {
			break
		}
	}
	return c, err
}

// tryEnsemble is runEnsemble with one choice of ports. If it fails, it leaves nothing
// behind.
func tryEnsemble(ctx context.Context, cfg Config, n int) (_ *Cluster, err error) {
	c := &Cluster{relays: make(map[pair][2]*Relay), isolated: make(map[int]bool)}
	c.ctx, c.end = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if cfg.Dir == "" {
		if c.temp, err = scratch.New(scratchPrefix); err != nil {
			return nil, fmt.Errorf("realzk: make a directory for an ensemble: %w", err)
		}
		cfg.Dir = c.temp.Path()
	}
	if c.ports, err = memberPorts(n); err != nil {
		return nil, err
	}
	lines, err := c.connect()
	if err != nil {
		return nil, err
	}
	// Servers need each other, so a failure ends the others' wait.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	members, errs := make([]*Process, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			own := cfg
			own.id, own.Port = i+1, c.ports[i][clientPort]
			own.Dir = filepath.Join(cfg.Dir, strconv.Itoa(own.id))
			own.Lines = append(slices.Clip(lines[i]), cfg.Lines...)
			for _, opt := range cfg.members[own.id] {
				opt(&own)
			}
			if members[i], errs[i] = run(ctx, own); errs[i] != nil {
				cancel(fmt.Errorf("server %d did not start", own.id))
			}
		})
	}
	wg.Wait()
	c.members = slices.DeleteFunc(members, func(p *Process) bool { return p == nil })
	return c, errors.Join(errs...)
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
			if own[i][j], err = port.Free(); err != nil {
				return own, err
			}
		}
	}
	return own, nil
}

// connect creates the relays to the members, and returns the lines of each one's
// configuration that list all members.
func (c *Cluster) connect() ([][]string, error) {
	n := len(c.ports)
	for from := range n {
		for to := range n {
			var relays [2]*Relay
			for j := range relays {
				if from == to {
					continue
				}
				r, err := newRelay(net.JoinHostPort("127.0.0.1", strconv.Itoa(c.ports[to][j])))
				if err != nil {
					return nil, err
				}
				r.patience = memberPatience
				relays[j] = r
				c.relays[pair{from + 1, to + 1}] = relays // even if the next one fails
			}
		}
	}
	for p, relays := range c.relays {
		introduce := introduceAs(c.relays[pair{p.to, p.from}][electionPort].Addr())
		relays[electionPort].protocol = func() (forth, back forwarder) { return introduce, forwardAll }
		for _, r := range relays {
			r.serve()
		}
	}
	lines := make([][]string, n)
	for from := range n {
		lines[from] = []string{fmt.Sprintf("initLimit=%d", ensembleLimit), fmt.Sprintf("syncLimit=%d", ensembleLimit)}
		for to := range n {
			quorum, election := c.ports[to][quorumPort], c.ports[to][electionPort]
			if from != to {
				relays := c.relays[pair{from + 1, to + 1}]
				quorum, election = relays[quorumPort].port(), relays[electionPort].port()
			}
			lines[from] = append(lines[from], fmt.Sprintf("server.%d=127.0.0.1:%d:%d", to+1, quorum, election))
		}
	}
	return lines, nil
}

// Stop kills all servers and removes their files, unless the caller named the directory. It
// ends a [Cluster.Restart] that is under way. A second Stop does nothing.
func (c *Cluster) Stop() error {
	c.end()
	errs := make([]error, len(c.members))
	var wg sync.WaitGroup
	for i, p := range c.members {
		wg.Go(func() { errs[i] = p.Stop() })
	}
	wg.Wait()
	for _, relays := range c.relays {
		for _, r := range relays {
			if r != nil {
				r.Close()
			}
		}
	}
	for _, own := range c.ports {
		for _, number := range own {
			port.Release(number)
		}
	}
	err := errors.Join(errs...)
	if c.temp != nil {
		err = errors.Join(err, c.temp.Remove())
	}
	return err
}

// Members returns the servers in the order of their numbers.
func (c *Cluster) Members() []*Process { return slices.Clone(c.members) }

// Addrs returns the servers' addresses, as host:port, in the order of their numbers.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, 0, len(c.members))
	for _, p := range c.members {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

// member returns the server of that number.
func (c *Cluster) member(id int) (*Process, error) {
	if id < 1 || id > len(c.members) {
		return nil, fmt.Errorf("realzk: there is no server %d in an ensemble of %d", id, len(c.members))
	}
	return c.members[id-1], nil
}

// Kill kills a server: see [Process.Kill].
func (c *Cluster) Kill(id int) error { return c.with(id, (*Process).Kill) }

// Pause pauses a server: see [Process.Pause].
func (c *Cluster) Pause(id int) error { return c.with(id, (*Process).Pause) }

// Resume resumes a server: see [Process.Resume].
func (c *Cluster) Resume(id int) error { return c.with(id, (*Process).Resume) }

// StallLogs keeps all servers that run from writing their logs until resume is called: see
// [Process.StallLog].
func (c *Cluster) StallLogs() (resume func() error, err error) {
	var all []func() error
	resume = func() (err error) {
		for _, r := range all {
			err = errors.Join(err, r())
		}
		return err
	}
	for _, p := range c.Members() {
		r, err := p.StallLog()
		if err != nil {
			return nil, errors.Join(err, resume())
		}
		all = append(all, r)
	}
	return resume, nil
}

// Restart starts a server again and returns when it serves: see [Process.Restart].
func (c *Cluster) Restart(ctx context.Context, id int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(errors.New("the ensemble was stopped")) })()
	return c.with(id, func(p *Process) error { return p.Restart(ctx) })
}

func (c *Cluster) with(id int, do func(*Process) error) error {
	p, err := c.member(id)
	if err != nil {
		return err
	}
	return do(p)
}

// Isolate cuts a server off from the others, in both directions and silently: no
// connection is refused or closed. Its clients reach it as before.
func (c *Cluster) Isolate(id int) error {
	if _, err := c.member(id); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isolated[id] = true
	for p, relays := range c.relays {
		for _, r := range relays {
			if p.from == id || p.to == id {
				r.Cut()
			}
		}
	}
	return nil
}

// Heal ends all isolation.
func (c *Cluster) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.isolated)
	for _, relays := range c.relays {
		for _, r := range relays {
			r.Mend()
		}
	}
}

// Roles are what the servers of a [Cluster] are at a moment, by their numbers.
type Roles struct {
	Leader    int // 0: none
	Followers []int
	Isolated  int // how many are isolated; they are not asked
	Other     int // how many neither lead nor follow: they are down, paused or starting
}

// Roles asks the servers what they are. A server that does not answer within a second is
// not asked again.
func (c *Cluster) Roles(ctx context.Context) Roles {
	c.mu.Lock()
	var asked []*Process
	for _, p := range c.members {
		if !c.isolated[p.ID()] {
			asked = append(asked, p)
		}
	}
	c.mu.Unlock()
	answers := make([]string, len(asked))
	var wg sync.WaitGroup
	for i, p := range asked {
		// A server that is paused or down does not answer.
		wg.Go(func() { answers[i], _ = ask(ctx, time.Second, p.Addr(), "srvr") })
	}
	wg.Wait()
	r := Roles{Isolated: len(c.members) - len(asked)}
	for i, p := range asked {
		switch {
		case strings.Contains(answers[i], "Mode: leader"):
			r.Leader = p.ID()
		case strings.Contains(answers[i], "Mode: follower"):
			r.Followers = append(r.Followers, p.ID())
		default:
			r.Other++
		}
	}
	return r
}

// Leader waits until a server leads, and returns it. It ignores isolated servers.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	r, err := c.await(ctx, "no server leads", func(r Roles) bool { return r.Leader != 0 })
	return r.Leader, err
}

// Followers waits until a server that is not isolated follows, and returns all that do.
func (c *Cluster) Followers(ctx context.Context) ([]int, error) {
	r, err := c.await(ctx, "no server follows", func(r Roles) bool { return len(r.Followers) > 0 })
	return r.Followers, err
}

// Settled waits until all servers that are not isolated serve, and returns the leader.
func (c *Cluster) Settled(ctx context.Context) (leader int, err error) {
	r, err := c.await(ctx, "not all servers serve", func(r Roles) bool { return r.Leader != 0 && r.Other == 0 })
	return r.Leader, err
}

// await polls the roles until ok returns true, or ctx ends.
func (c *Cluster) await(ctx context.Context, unless string, ok func(Roles) bool) (Roles, error) {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for began := time.Now(); ; {
		r := c.Roles(ctx)
		if ok(r) {
			return r, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return r, fmt.Errorf("realzk: for %v %s: %w", time.Since(began).Round(time.Millisecond), unless, context.Cause(ctx))
		case <-c.ctx.Done():
			return r, fmt.Errorf("realzk: %s: the ensemble was stopped", unless)
		}
	}
}
