// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// naive is the lock that one writes first: whoever creates an ephemeral node has
// the lock, and everybody else watches that node and tries again when it goes. All
// who wait are woken by each release, and all but one in vain; whom it will be
// nobody knows.
type naive struct{}

func (naive) Version() string {
	return onGo("naive (one ephemeral node), go-zookeeper", "github.com/go-zookeeper/zk", "Create and ExistsW")
}

func (naive) Open(ctx context.Context, server string) (work.Session, error) {
	c, err := connect(ctx, server)
	if err != nil {
		return nil, err
	}
	return naiveSession{c}, nil
}

type naiveSession struct{ c *zk.Conn }

func (s naiveSession) Close() error { s.c.Close(); return nil }

func (s naiveSession) Locker(p string, read bool) (work.Locker, error) {
	if read {
		return nil, fmt.Errorf("%w: a lock that is one node has one holder", work.ErrUnsupported)
	}
	return &naiveLocker{c: s.c, node: p}, makeDir(s.c, path.Dir(p))
}

type naiveLocker struct {
	c    *zk.Conn
	node string
}

func (l *naiveLocker) Lock(ctx context.Context) error {
	for {
		_, err := l.c.Create(l.node, nil, zk.FlagEphemeral, everybody)
		if !errors.Is(err, zk.ErrNodeExists) {
			return err // there is none if we made it
		}
		held, _, gone, err := l.c.ExistsW(l.node)
		if err != nil {
			return err
		}
		if !held {
			// It went meanwhile. The watch stays for the next holder's creation of
			// the node, which is lost on a buffered channel.
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
