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

// A cluster is the ZooKeeper that the run is about: its servers, and the
// parent's own client, which takes no part in the contention. It looks at what
// is left at the end.
type cluster struct {
	servers  []string
	embedded *zktest.Server // nil: servers are real ones
	client   *zkio.Client
}

// openCluster starts the embedded server if o names none, and connects. Its
// error says which addresses were tried and why each of them failed.
func openCluster(ctx context.Context, o options, log *slog.Logger) (*cluster, error) {
	c := &cluster{servers: o.servers}
	if c.servers == nil {
		// A server does not agree to a session timeout below two ticks.
		c.embedded = zktest.NewServer(zktest.Config{TickTime: min(2*time.Second, o.sessionTimeout/2), Logger: log})
		address, err := c.embedded.Listen("127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, c.embedded.Close())
		}
		c.servers = []string{address}
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var err error
	c.client, err = zkio.Open(ctx, zkio.Config{Servers: c.servers, SessionTimeout: o.sessionTimeout, Logger: log})
	if err != nil {
		return nil, errors.Join(err, c.stopEmbedded())
	}
	return c, nil
}

// describe says what the servers are, for a person.
func (c *cluster) describe() string {
	if c.embedded != nil {
		return "embedded, on " + c.servers[0]
	}
	return strings.Join(c.servers, ",")
}

func (c *cluster) stopEmbedded() error {
	if c.embedded == nil {
		return nil
	}
	return c.embedded.Close()
}

// close ends the client and the embedded server.
func (c *cluster) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(c.client.Close(ctx), c.stopEmbedded())
}

// A leak is a node that should have gone.
type leak struct {
	Path  string `json:"path"`
	Owner string `json:"session"` // hexadecimal; 0x0: the node is not ephemeral
	Data  string `json:"data"`    // what it says of itself
}

func (l leak) String() string { return fmt.Sprintf("%s of session %s: %s", l.Path, l.Owner, l.Data) }

// leaks returns the nodes under root that should not be there when nobody is at
// work: all but the locks' directories.
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

// remove deletes root and all that is below it.
func (c *cluster) remove(ctx context.Context, root string) error {
	return c.walk(ctx, root, func(s *zkio.Session, path string) error { return s.Delete(path, -1) })
}

// walk calls visit for each node below root and for root itself, children
// first. A node that has gone meanwhile is nobody's concern: the server deletes
// empty containers when it likes. What fails for want of a connection is tried
// again until ctx ends.
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

// try calls do until it succeeds, or fails for good, or ctx ends.
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
