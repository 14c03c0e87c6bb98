// SPDX-License-Identifier: Apache-2.0

// Package zkconn has what subjects share that use ZooKeeper by go-zookeeper, without anything
// in between.
package zkconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// A Subject is a subject whose sessions are connections.
type Subject struct {
	Name string // which Version returns
	// Lock returns a locker of the lock at p.
	Lock func(c *zk.Conn, p string) (work.Locker, error)
}

// Version returns the name.
func (s Subject) Version() string { return s.Name }

// Open opens a connection.
func (s Subject) Open(ctx context.Context, server string) (work.Session, error) {
	c, err := Connect(ctx, server)
	if err != nil {
		return nil, err
	}
	return session{s, c}, nil
}

type session struct {
	s Subject
	c *zk.Conn
}

func (s session) Close() error { s.c.Close(); return nil }

func (s session) Locker(p string) (work.Locker, error) { return s.s.Lock(s.c, p) }

// OpenACL lets every client do everything.
var OpenACL = zk.WorldACL(zk.PermAll)

// Connect opens a connection and waits for its session.
func Connect(ctx context.Context, server string) (*zk.Conn, error) {
	c, events, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogger(Quiet))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, fmt.Errorf("no session at %s within 30 s", server))
	defer cancel()
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return c, nil
			}
		case <-ctx.Done():
			c.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// Quiet is a logger that discards everything.
var Quiet zk.Logger = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)

// MakeDir creates a directory and its parents.
func MakeDir(c *zk.Conn, dir string) error {
	if dir == "/" {
		return nil
	}
	if err := MakeDir(c, path.Dir(dir)); err != nil {
		return err
	}
	if _, err := c.Create(dir, nil, 0, OpenACL); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	return nil
}
