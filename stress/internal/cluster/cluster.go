// SPDX-License-Identifier: Apache-2.0

// Package cluster is the ZooKeeper that a run of the harness uses: the embedded server, an
// ensemble that the run has started, or servers that were there.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/daemon"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/stress/internal/contender"
	"github.com/holdfast-go/holdfast/stress/internal/options"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A Cluster is the ZooKeeper under test, and the parent's client of it. The
// client does not contend; it looks for leaked nodes at the end. The parent's
// goroutine alone uses a cluster.
//
// If a contender's locks are in another system, those servers are under test, and the ZooKeeper is
// an embedded one that only the parent uses.
type Cluster struct {
	Servers  []string
	Embedded *zktest.Server  // nil: the servers are real
	Ensemble *realzk.Cluster // nil: the servers were not started by this run
	Others   *daemon.Cluster // of another system; nil: ZooKeeper is under test
	Links    []*realzk.Links // of the worker processes to the servers; nil: they have none
	Client   *zkio.Client
	fault    *zktest.Fault // the latest that swallows an answer; may be nil
}

// Open connects to o's servers, or starts an ensemble or the embedded server and
// connects to that.
func Open(ctx context.Context, o options.Options, log *slog.Logger) (_ *Cluster, err error) {
	c := &Cluster{Servers: o.Servers}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stopServers())
		}
	}()
	// Servers are stopped by close, and not by the end of ctx, since workers end first.
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if s := contender.BackendOf(o.Contender); s != nil {
		if c.Others, err = startOthers(starting, s.Servers, o.Ensemble); err != nil {
			return nil, err
		}
	}
	switch {
	case o.Ensemble > 0 && c.Others == nil:
		if c.Ensemble, err = startEnsemble(starting, o); err != nil {
			return nil, err
		}
		c.Servers = c.Ensemble.Addrs()
	case c.Servers == nil:
		// Servers do not grant a session timeout below two ticks.
		c.Embedded = zktest.NewServer(zktest.Config{TickTime: min(2*time.Second, o.SessionTimeout/2), Logger: log})
		address, err := c.Embedded.Listen("127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		c.Servers = []string{address}
	}
	if o.Faulty {
		for range o.Processes {
			links, err := c.runLinks()
			if err != nil {
				return nil, err
			}
			c.Links = append(c.Links, links)
		}
	}
	connecting, cancel := context.WithTimeout(ctx, wire.ConnectTimeout)
	defer cancel()
	c.Client, err = zkio.Open(connecting, zkio.Config{Servers: c.Servers, SessionTimeout: o.SessionTimeout, Logger: log})
	return c, err
}

func startOthers(ctx context.Context, k daemon.Kind, n int) (*daemon.Cluster, error) {
	// RunCluster stops the servers when its context ends.
	running, stop := context.WithCancel(context.Background())
	defer context.AfterFunc(ctx, stop)()
	c, err := daemon.RunCluster(running, k, n)
	if err != nil {
		stop()
	}
	return c, err
}

func (c *Cluster) runLinks() (*realzk.Links, error) {
	if c.Others != nil {
		return realzk.RunBareLinks(c.Others.Addrs())
	}
	return realzk.RunLinks(c.Servers)
}

// startEnsemble starts real servers. A leader and a follower that do not hear from each
// other part after half a session timeout, so that the others elect a leader before
// sessions end.
func startEnsemble(ctx context.Context, o options.Options) (*realzk.Cluster, error) {
	const tick = 500 * time.Millisecond
	// RunEnsemble stops the servers when its context ends.
	running, stop := context.WithCancel(context.Background())
	defer context.AfterFunc(ctx, stop)()
	e, err := realzk.RunEnsemble(running, o.Ensemble,
		// Otherwise servers keep all that they ever wrote, some gigabytes a day.
		realzk.ConfigLine("autopurge.purgeInterval=1"), realzk.ConfigLine("autopurge.snapRetainCount=3"),
		realzk.TickTime(min(tick, o.SessionTimeout/2)),
		realzk.SessionTimeouts(min(2*tick, o.SessionTimeout), max(20*tick, o.SessionTimeout)),
		realzk.ConfigLine(fmt.Sprintf("syncLimit=%d", max(2, o.SessionTimeout/2/tick))))
	if err != nil {
		stop()
		return nil, fmt.Errorf("starting an ensemble of %d servers: %w", o.Ensemble, err)
	}
	return e, nil
}

// IsEmbedded reports whether the embedded server is under test.
func (c *Cluster) IsEmbedded() bool { return c.Embedded != nil && c.Others == nil }

// Tested returns the addresses of the servers under test.
func (c *Cluster) Tested() []string {
	if c.Others != nil {
		return c.Others.Addrs()
	}
	return c.Servers
}

// ServersOf returns the addresses to which a worker process connects: links of its own, if
// faults are injected.
func (c *Cluster) ServersOf(process int) []string {
	if process < 0 || process >= len(c.Links) {
		return c.Tested()
	}
	return c.Links[process].Addrs()
}

// Describe returns the servers, for messages.
func (c *Cluster) Describe() string {
	switch {
	case c.Others != nil:
		return fmt.Sprintf("%d of %s, started for this run, on %s", len(c.Tested()), c.Others.Version(), strings.Join(c.Tested(), ","))
	case c.Embedded != nil:
		return "embedded, in memory, on " + c.Servers[0]
	case c.Ensemble != nil:
		return fmt.Sprintf("an ensemble of %d, started for this run, on %s", len(c.Servers), strings.Join(c.Servers, ","))
	default:
		return strings.Join(c.Servers, ",")
	}
}

// Swallow makes the embedded server carry out the next request that is not a
// ping, and send no answer to it. The connection stays up.
func (c *Cluster) Swallow() {
	if c.fault != nil && c.fault.Hits() == 0 {
		return // a second fault would choose the same request
	}
	c.fault = c.Embedded.Faults().SwallowReply(zktest.Match{Times: 1})
}

// StopSwallowing ends the effect of swallow.
func (c *Cluster) StopSwallowing() {
	if c.fault != nil {
		c.fault.Remove()
	}
}

// Swallowed returns how many answers the embedded server has swallowed.
func (c *Cluster) Swallowed() int {
	if c.Embedded == nil {
		return 0
	}
	return c.Embedded.Faults().Hits()[zktest.FaultSwallowReply]
}

// stopServers stops what Open has started.
func (c *Cluster) stopServers() (err error) {
	for _, l := range c.Links {
		l.Close()
	}
	if c.Embedded != nil {
		err = c.Embedded.Close()
	}
	if c.Ensemble != nil {
		err = errors.Join(err, c.Ensemble.Stop())
	}
	if c.Others != nil {
		err = errors.Join(err, c.Others.Stop())
	}
	return err
}

// Close closes the client and stops the servers.
func (c *Cluster) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(c.Client.Close(ctx), c.stopServers())
}

// A Leak is a node that should have been deleted.
type Leak struct {
	Path  string `json:"path"`
	Owner string `json:"session"` // hexadecimal; 0x0 if the node is not ephemeral
	Data  string `json:"data"`
}

func (l Leak) String() string { return fmt.Sprintf("%s of session %s: %s", l.Path, l.Owner, l.Data) }

// Leaks returns the nodes under root other than the locks' directories. Once all
// processes have stopped there should be none.
func (c *Cluster) Leaks(ctx context.Context, root string, w wire.Workload) ([]Leak, error) {
	expected := map[string]bool{root: true}
	var recipes []string // their records and directories stay
	for _, v := range w.Venues() {
		path := root + "/" + v.Name
		expected[path] = true
		if v.Recipe && v.Kind != wire.BarrierWorkload {
			recipes = append(recipes, path+"/")
		}
	}
	found := []Leak{}
	err := c.walk(ctx, root, func(s *zkio.Session, path string) error {
		if expected[path] || isMailbox(root, path) || isNote(root, path) {
			return nil
		}
		data, stat, err := s.Get(path)
		if err != nil {
			return err
		}
		if stat.EphemeralOwner == 0 && slices.ContainsFunc(recipes, func(r string) bool { return strings.HasPrefix(path, r) }) {
			return nil
		}
		found = append(found, Leak{path, fmt.Sprintf("%#x", stat.EphemeralOwner), string(data)})
		return nil
	})
	return found, err
}

// isMailbox reports whether the path is that of a directory into which processes put what
// they ask a holder. ZooKeeper removes such a directory when it has been empty for a while.
func isMailbox(root, path string) bool {
	asks := root + "/_asks_"
	rest, ok := strings.CutPrefix(path, asks+"/")
	return path == asks || ok && !strings.Contains(rest, "/")
}

// isNote reports whether the path is that of a note, which the helper of a killed process has left, or of
// their directory. They are no more than a few.
func isNote(root, path string) bool {
	notes := takeover.Directory(root)
	return path == notes || strings.HasPrefix(path, notes+"/")
}

// Remove deletes root and everything below it.
func (c *Cluster) Remove(ctx context.Context, root string) error {
	return c.walk(ctx, root, func(s *zkio.Session, path string) error { return s.Delete(path, -1) })
}

// walk calls visit for root and each node below it, children first. It ignores
// nodes that disappear meanwhile: the server may delete an empty container at any
// time. It retries after a connection failure until ctx ends.
func (c *Cluster) walk(ctx context.Context, root string, visit func(s *zkio.Session, path string) error) error {
	var children []string
	err := c.try(ctx, func(s *zkio.Session) (err error) {
		children, _, err = s.Children(root)
		return err
	})
	if err != nil {
		return fmt.Errorf("listing %s: %w", root, err)
	}
	for _, child := range children {
		if err := c.walk(ctx, root+"/"+child, visit); err != nil {
			return err
		}
	}
	if err := c.try(ctx, func(s *zkio.Session) error { return visit(s, root) }); err != nil {
		return fmt.Errorf("visiting %s: %w", root, err)
	}
	return nil
}

// try calls do until it succeeds, fails definitely, or ctx ends.
func (c *Cluster) try(ctx context.Context, do func(*zkio.Session) error) error {
	for {
		err := do(c.Client.Session())
		switch {
		case err == nil, errors.Is(err, zkio.ErrNoNode):
			return nil
		case zkio.ClassOf(err) == zkio.Definite, zkio.ClassOf(err) == zkio.Closed:
			return err
		}
		if !pause.For(ctx, 100*time.Millisecond, nil) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// Version returns ZooKeeper's version, or "embedded", or name and version of another system.
func (c *Cluster) Version() string {
	if c.Others != nil {
		return c.Others.Version()
	}
	if c.Embedded != nil {
		return "embedded"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	answer, err := realzk.FourLetterWord(ctx, c.Servers[0], "srvr")
	if err != nil {
		return "unknown" // many servers do not answer the command
	}
	first, _, _ := strings.Cut(answer, "\n")
	_, version, _ := strings.Cut(first, "version: ")
	version, _, _ = strings.Cut(version, "-")
	return version
}
