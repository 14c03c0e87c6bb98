// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/bench/internal/zkconn"
)

// trip is the limit for everything: a round trip. To lock is to ask whether a node
// exists, and it does not exclude.
var trip = zkconn.Subject{Name: "one read, go-zookeeper", Lock: func(c *zk.Conn, p string) (work.Locker, error) {
	return tripLocker{c, p}, nil
}}

type tripLocker struct {
	c    *zk.Conn
	path string
}

func (l tripLocker) Lock(context.Context) error {
	_, _, err := l.c.Exists(l.path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

func (tripLocker) Unlock(context.Context) error { return nil }

// bare is the limit for a lock without contention: go-zookeeper creates and deletes
// an ephemeral sequential node, and does nothing else. It does not exclude.
var bare = bareSubject{zkconn.Subject{Name: "bare create + delete, go-zookeeper", Lock: func(c *zk.Conn, p string) (work.Locker, error) {
	return &bareLocker{c: c, dir: p}, zkconn.MakeDir(c, p)
}}}

type bareSubject struct{ zkconn.Subject }

type bareLocker struct {
	c    *zk.Conn
	dir  string
	node string
}

func (l *bareLocker) Lock(context.Context) (err error) {
	l.node, err = l.c.Create(l.dir+"/n-", nil, zk.FlagEphemeralSequential, zkconn.OpenACL)
	return err
}

func (l *bareLocker) Unlock(context.Context) error { return l.c.Delete(l.node, -1) }

// inFlight is the number of concurrent requests in Many: that of Holdfast's I/O
// goroutines by default.
const inFlight = 32

func (bareSubject) Special() map[string]func(context.Context, work.Job) (work.Result, error) {
	return map[string]func(context.Context, work.Job) (work.Result, error){work.Many: bareMany}
}

// bareMany creates and deletes a node in each of many directories.
func bareMany(ctx context.Context, j work.Job) (r work.Result, err error) {
	c, err := zkconn.Connect(ctx, j.Server)
	if err != nil {
		return r, err
	}
	defer c.Close()
	if err := zkconn.MakeDir(c, j.Dir); err != nil {
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
		_, err := c.CreateContainer(dir, nil, zk.FlagContainer, zkconn.OpenACL)
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
	return work.Result{Seconds: time.Since(began).Seconds(), Entries: int64(j.Locks)}, err
}

// relay is the limit for a lock with contention: a queue of ephemeral sequential
// nodes, each of which watches the one ahead, with as few requests as possible. One
// transaction leaves the queue and joins it again, and a contender does not list the
// queue again if only one was ahead. It handles no failures.
var relay = zkconn.Subject{Name: "bare relay, go-zookeeper", Lock: func(c *zk.Conn, p string) (work.Locker, error) {
	return &relayLocker{c: c, dir: p}, zkconn.MakeDir(c, p)
}}

type relayLocker struct {
	c    *zk.Conn
	dir  string
	node string // name; "" if not queued
}

func (l *relayLocker) Lock(ctx context.Context) error {
	if l.node == "" {
		made, err := l.c.Create(l.dir+"/n-", nil, zk.FlagEphemeralSequential, zkconn.OpenACL)
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
		&zk.CreateRequest{Path: l.dir + "/n-", Flags: zk.FlagEphemeralSequential, Acl: zkconn.OpenACL})
	if err != nil {
		return err
	}
	l.node = strings.TrimPrefix(results[1].String, l.dir+"/")
	return nil
}

// Close leaves the queue.
func (l *relayLocker) Close() error { return l.c.Delete(l.dir+"/"+l.node, -1) }
