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

// goZooKeeper is go-zookeeper's Lock: a queue of ephemeral sequential nodes, each of
// which waits for the one ahead.
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
	return &goZooKeeperLocker{c: s.c, lock: zk.NewLock(s.c, p, openACL)}, nil
}

type goZooKeeperLocker struct {
	c    *zk.Conn
	lock *zk.Lock
	ends context.Context // of the job, once known
}

func (l *goZooKeeperLocker) Lock(ctx context.Context) error {
	if l.ends != ctx {
		// Lock takes no context, so if the job ends early, because another worker
		// failed, only closing the connection ends it. The context is the same
		// for all calls; registering once keeps this out of the measurement.
		l.ends = ctx
		context.AfterFunc(ctx, l.c.Close)
	}
	return l.lock.Lock()
}

func (l *goZooKeeperLocker) Unlock(context.Context) error { return l.lock.Unlock() }

// openACL lets every client do everything.
var openACL = zk.WorldACL(zk.PermAll)

// connect opens a go-zookeeper connection and waits for its session.
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

// quiet is a logger that discards everything.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

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
