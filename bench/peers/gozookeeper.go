// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/bench/internal/zkconn"
)

// goZooKeeper is go-zookeeper's Lock: a queue of ephemeral sequential nodes, each of
// which waits for the one ahead.
var goZooKeeper = zkconn.Subject{
	Name: onGo("go-zookeeper", "github.com/go-zookeeper/zk", "Lock"),
	Lock: func(c *zk.Conn, p string) (work.Locker, error) {
		return &goZooKeeperLocker{c: c, lock: zk.NewLock(c, p, zkconn.OpenACL)}, nil
	},
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
