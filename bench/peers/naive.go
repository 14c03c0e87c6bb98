// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/bench/internal/zkconn"
)

// naive is the simplest lock: a contender that creates an ephemeral node holds the
// lock, and the others watch that node and try again when it is deleted. A release
// wakes all waiters, and one arbitrary waiter wins (thundering herd).
var naive = zkconn.Subject{
	Name: onGo("naive (one ephemeral node), go-zookeeper", "github.com/go-zookeeper/zk", "Create and ExistsW"),
	Lock: func(c *zk.Conn, p string) (work.Locker, error) {
		return &naiveLocker{c: c, node: p}, zkconn.MakeDir(c, path.Dir(p))
	},
}

type naiveLocker struct {
	c    *zk.Conn
	node string
}

func (l *naiveLocker) Lock(ctx context.Context) error {
	for {
		_, err := l.c.Create(l.node, nil, zk.FlagEphemeral, zkconn.OpenACL)
		if !errors.Is(err, zk.ErrNodeExists) {
			return err // nil if we created it
		}
		held, _, gone, err := l.c.ExistsW(l.node)
		if err != nil {
			return err
		}
		if !held {
			// It was deleted meanwhile. The watch remains for its creation by the
			// next holder; that event is dropped.
			continue
		}
		select {
		case e := <-gone:
			if e.Err != nil {
				return e.Err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *naiveLocker) Unlock(context.Context) error { return l.c.Delete(l.node, -1) }
