// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// goZooKeeper is the Lock that comes with go-zookeeper: a queue of ephemeral
// sequential nodes, in which each waits for the one ahead.
type goZooKeeper struct{}

func (goZooKeeper) Version() string {
	return onGo("go-zookeeper", "github.com/go-zookeeper/zk", "Lock")
}

func (goZooKeeper) Open(ctx context.Context, server string) (work.Session, error) {
	c, err := connect(ctx, server)
	if err != nil {
		return nil, err
	}
	return goZooKeeperSession{c}, nil
}

type goZooKeeperSession struct{ c *zk.Conn }

func (s goZooKeeperSession) Close() error { s.c.Close(); return nil }

func (s goZooKeeperSession) Locker(p string, read bool) (work.Locker, error) {
	if read {
		return nil, fmt.Errorf("%w: go-zookeeper has no read locks", work.ErrUnsupported)
	}
	return &goZooKeeperLocker{c: s.c, lock: zk.NewLock(s.c, p, everybody)}, nil
}

type goZooKeeperLocker struct {
	c    *zk.Conn
	lock *zk.Lock
	ends context.Context // that of the job, once it is known
}

func (l *goZooKeeperLocker) Lock(ctx context.Context) error {
	if l.ends != ctx {
		// Lock takes no context: when the job ends early, because another worker
		// failed, it has to end with the connection. This is done once and not for
		// each Lock, so that it does not count; the context is the same for all.
		l.ends = ctx
		context.AfterFunc(ctx, l.c.Close)
	}
	return l.lock.Lock()
}

func (l *goZooKeeperLocker) Unlock(context.Context) error { return l.lock.Unlock() }

// everybody may do everything with the nodes.
var everybody = zk.WorldACL(zk.PermAll)

// connect opens a connection of go-zookeeper's with a session of its own, and
// returns when the session is there.
func connect(ctx context.Context, server string) (*zk.Conn, error) {
	c, events, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("no session within 30 s"))
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

// quiet is a logger that writes nothing.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// makeDir makes a directory and those above it.
func makeDir(c *zk.Conn, dir string) error {
	if dir == "/" {
		return nil
	}
	if err := makeDir(c, path.Dir(dir)); err != nil {
		return err
	}
	if _, err := c.Create(dir, nil, 0, everybody); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	return nil
}
