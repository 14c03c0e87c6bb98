// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A cluster is the ZooKeeper under test, and the parent's client of it. The
// client does not contend; it looks for leaked nodes at the end. The parent's
// goroutine alone uses a cluster.
type cluster struct {
	servers  []string
	embedded *zktest.Server // nil: the servers are real
	client   *zkio.Client
	fault    *zktest.Fault // the latest that swallows an answer; may be nil
}

// openCluster connects to o's servers, or to an embedded server that it starts.
func openCluster(ctx context.Context, o options, log *slog.Logger) (*cluster, error) {
	c := &cluster{servers: o.servers}
	if c.servers == nil {
		// Servers do not grant a session timeout below two ticks.
		c.embedded = zktest.NewServer(zktest.Config{TickTime: min(2*time.Second, o.SessionTimeout/2), Logger: log})
		address, err := c.embedded.Listen("127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, c.embedded.Close())
		}
		c.servers = []string{address}
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var err error
	c.client, err = zkio.Open(ctx, zkio.Config{Servers: c.servers, SessionTimeout: o.SessionTimeout, Logger: log})
	if err != nil {
		return nil, errors.Join(err, c.stopEmbedded())
	}
	return c, nil
}

// describe returns the servers, for messages.
func (c *cluster) describe() string {
	if c.embedded != nil {
		return "embedded, in memory, on " + c.servers[0]
	}
	return strings.Join(c.servers, ",")
}

// swallow makes the embedded server carry out the next request that is not a
// ping, and send no answer to it. The connection stays up.
func (c *cluster) swallow() {
	if c.fault != nil && c.fault.Hits() == 0 {
		return // a second fault would choose the same request
	}
	c.fault = c.embedded.Faults().SwallowReply(zktest.Match{})
}

// stopSwallowing ends the effect of swallow.
func (c *cluster) stopSwallowing() {
	if c.fault != nil {
		c.fault.Remove()
	}
}

// swallowed returns how many answers the embedded server has swallowed.
func (c *cluster) swallowed() int {
	if c.embedded == nil {
		return 0
	}
	return c.embedded.Faults().Hits()[zktest.FaultSwallowReply]
}

func (c *cluster) stopEmbedded() error {
	if c.embedded == nil {
		return nil
	}
	return c.embedded.Close()
}

// close closes the client and the embedded server.
func (c *cluster) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(c.client.Close(ctx), c.stopEmbedded())
}

// A leak is a node that should have been deleted.
type leak struct {
	Path  string `json:"path"`
	Owner string `json:"session"` // hexadecimal; 0x0 if the node is not ephemeral
	Data  string `json:"data"`
}

func (l leak) String() string { return fmt.Sprintf("%s of session %s: %s", l.Path, l.Owner, l.Data) }

// leaks returns the nodes under root other than the locks' directories. Once all
// processes have stopped there should be none.
func (c *cluster) leaks(ctx context.Context, root string, locks int) ([]leak, error) {
	expected := map[string]bool{root: true}
	for i := range locks {
		expected[root+"/"+lockName(i)] = true
	}
	found := []leak{}
	err := c.walk(ctx, root, func(s *zkio.Session, path string) error {
		if expected[path] {
			return nil
		}
		data, stat, err := s.Get(path)
		if err != nil {
			return err
		}
		found = append(found, leak{path, fmt.Sprintf("%#x", stat.EphemeralOwner), string(data)})
		return nil
	})
	return found, err
}

// remove deletes root and everything below it.
func (c *cluster) remove(ctx context.Context, root string) error {
	return c.walk(ctx, root, func(s *zkio.Session, path string) error { return s.Delete(path, -1) })
}

// walk calls visit for root and each node below it, children first. It ignores
// nodes that disappear meanwhile: the server may delete an empty container at any
// time. It retries after a connection failure until ctx ends.
func (c *cluster) walk(ctx context.Context, root string, visit func(s *zkio.Session, path string) error) error {
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
func (c *cluster) try(ctx context.Context, do func(*zkio.Session) error) error {
	for {
		err := do(c.client.Session())
		switch {
		case err == nil, errors.Is(err, zkio.ErrNoNode):
			return nil
		case zkio.ClassOf(err) == zkio.Definite, zkio.ClassOf(err) == zkio.Closed:
			return err
		}
		if !pause(ctx, 100*time.Millisecond, nil) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}
