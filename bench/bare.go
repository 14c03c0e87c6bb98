// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// bare is the limit for a lock without contention: go-zookeeper creates and deletes
// an ephemeral sequential node, and does nothing else. It does not exclude.
type bare struct{}

func (bare) Version() string { return "bare create + delete, go-zookeeper" }

func (bare) Open(_ context.Context, server string) (work.Session, error) {
	c, err := connect(server)
	return bareSession{c}, err
}

// relay is the limit for a lock with contention: a queue of ephemeral sequential
// nodes, each of which watches the one ahead, with as few requests as possible. One
// transaction leaves the queue and joins it again, and a contender does not list the
// queue again if only one was ahead. It handles no failures.
type relay struct{}

func (relay) Version() string { return "bare relay, go-zookeeper" }

func (relay) Open(_ context.Context, server string) (work.Session, error) {
	c, err := connect(server)
	return relaySession{c}, err
}

// quiet is a logger for go-zookeeper that discards everything.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect opens a go-zookeeper connection and waits for its session.
func connect(server string) (*zk.Conn, error) {
	c, events, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return c, nil
			}
		case <-timeout.C:
			c.Close()
			return nil, fmt.Errorf("no session at %s within 30 s", server)
		}
	}
}

// openACL lets every client do everything.
var openACL = zk.WorldACL(zk.PermAll)

// makeDir creates a directory and its parents.
func makeDir(c *zk.Conn, dir string) error {
	if dir == "/" {
		return nil
	}
	if err := makeDir(c, path.Dir(dir)); err != nil {
		return err
	}
	if _, err := c.Create(dir, nil, 0, openACL); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	return nil
}

type bareSession struct{ c *zk.Conn }

func (s bareSession) Close() error { s.c.Close(); return nil }

func (s bareSession) Locker(p string, _ bool) (work.Locker, error) {
	return &bareLocker{c: s.c, dir: p}, makeDir(s.c, p)
}

type bareLocker struct {
	c    *zk.Conn
	dir  string
	node string
}

func (l *bareLocker) Lock(context.Context) (err error) {
	l.node, err = l.c.Create(l.dir+"/n-", nil, zk.FlagEphemeralSequential, openACL)
	return err
}

func (l *bareLocker) Unlock(context.Context) error { return l.c.Delete(l.node, -1) }

type relaySession struct{ c *zk.Conn }

func (s relaySession) Close() error { s.c.Close(); return nil }

func (s relaySession) Locker(p string, _ bool) (work.Locker, error) {
	return &relayLocker{c: s.c, dir: p}, makeDir(s.c, p)
}

type relayLocker struct {
	c    *zk.Conn
	dir  string
	node string // name; "" if not queued
}

func (l *relayLocker) Lock(ctx context.Context) error {
	if l.node == "" {
		made, err := l.c.Create(l.dir+"/n-", nil, zk.FlagEphemeralSequential, openACL)
		if err != nil {
			return err
		}
		l.node = path.Base(made)
	}
	for {
		names, _, err := l.c.Children(l.dir)
		if err != nil {
			return err
		}
		ahead := slices.DeleteFunc(names, func(n string) bool { return n >= l.node })
		if len(ahead) == 0 {
			return nil
		}
		_, _, gone, err := l.c.GetW(l.dir + "/" + slices.Max(ahead))
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		select {
		case <-gone:
		case <-ctx.Done():
			return ctx.Err()
		}
		if len(ahead) == 1 {
			return nil
		}
	}
}

// Unlock leaves the queue and joins it again.
func (l *relayLocker) Unlock(context.Context) error {
	results, err := l.c.Multi(
		&zk.DeleteRequest{Path: l.dir + "/" + l.node, Version: -1},
		&zk.CreateRequest{Path: l.dir + "/n-", Flags: zk.FlagEphemeralSequential, Acl: openACL})
	if err != nil {
		return err
	}
	l.node = strings.TrimPrefix(results[1].String, l.dir+"/")
	return nil
}

// Close leaves the queue.
func (l *relayLocker) Close() error { return l.c.Delete(l.dir+"/"+l.node, -1) }

// inFlight is the number of concurrent requests in Many: that of Holdfast's I/O
// goroutines by default.
const inFlight = 32

// Do creates and deletes a node in each of many directories.
func (b bare) Do(ctx context.Context, j work.Job) (r work.Result, err error) {
	if j.Work != work.Many {
		return r, fmt.Errorf("%w: work %q", work.ErrUnsupported, j.Work)
	}
	c, err := connect(j.Server)
	if err != nil {
		return r, err
	}
	defer c.Close()
	if err := makeDir(c, j.Dir); err != nil {
		return r, err
	}
	each := func(do func(dir string) error) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(inFlight)
		for i := range j.Locks {
			g.Go(func() error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return do(j.Lock(i))
			})
		}
		return g.Wait()
	}
	makeContainer := func(dir string) error {
		_, err := c.CreateContainer(dir, nil, zk.FlagContainer, openACL)
		return err
	}
	if j.Made {
		if err := each(makeContainer); err != nil {
			return r, err
		}
	}
	began := time.Now()
	err = each(func(dir string) error {
		if !j.Made {
			if err := makeContainer(dir); err != nil {
				return err
			}
		}
		l := bareLocker{c: c, dir: dir}
		return errors.Join(l.Lock(ctx), l.Unlock(ctx))
	})
	r.Seconds = time.Since(began).Seconds()
	r.Entries = int64(j.Locks)
	return r, err
}
