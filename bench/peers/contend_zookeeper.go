// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/bench/internal/zkconn"
)

// lockOf returns the lock at a path.
type lockOf func(c *zk.Conn, path string) (work.Locker, error)

func naiveLock(c *zk.Conn, dir string) (work.Locker, error) {
	return naive.Lock(c, path.Join(dir, "lock"))
}

func carefulLock(c *zk.Conn, dir string) (work.Locker, error) {
	return &persistentLocker{c: c, dir: dir}, nil
}

// A persistentLocker is go-zookeeper's Lock with a careful caller. It asks to unlock until ZooKeeper
// has answered: Unlock gives up when the connection breaks, and the node stays with the session. It
// uses each Lock once: one whose node has gone with its session counts as locked for ever.
type persistentLocker struct {
	c    *zk.Conn
	dir  string
	lock *zk.Lock
}

func (l *persistentLocker) Lock(context.Context) error {
	l.lock = zk.NewLock(l.c, l.dir, zkconn.OpenACL)
	return l.lock.Lock()
}

func (l *persistentLocker) Unlock(ctx context.Context) error {
	for {
		err := l.lock.Unlock()
		switch {
		case errors.Is(err, zk.ErrNoNode): // an earlier try has deleted it, or the session's end
			return nil
		case !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrNoServer):
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// onZooKeeper is a session with ZooKeeper. Listening holders take their locks for lost when the
// connection's events say that it is disconnected.
type onZooKeeper struct {
	contender *contender
	conn      *zk.Conn
	connected atomic.Bool // as the events say
	lock      lockOf
	heard     chan struct{} // closed when there are no more events
}

// openZooKeeper returns when there is a session: the harness waits for so long as it likes.
func openZooKeeper(p *contender, lock lockOf) (system, error) {
	// The library drops an event if six others, of the session or of nodes, have not been received:
	// a loss may be among them. It calls a callback for all.
	events := make(chan zk.Event, 1024)
	conn, some, err := zk.Connect(p.servers, p.timeout, zk.WithLogger(zkconn.Quiet), zk.WithEventCallback(func(e zk.Event) { events <- e }))
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(events)
		for range some { // until there are no more
			continue
		}
	}()
	z := &onZooKeeper{contender: p, conn: conn, lock: lock, heard: make(chan struct{})}
	begun := make(chan struct{})
	go func() {
		defer close(z.heard)
		z.hear(events, sync.OnceFunc(func() { close(begun) }))
	}()
	<-begun
	return z, nil
}

// hear tells of the session, and of locks that are taken for lost.
func (z *onZooKeeper) hear(events <-chan zk.Event, begin func()) {
	var session int64
	p := z.contender
	for e := range events {
		switch e.State {
		case zk.StateHasSession:
			z.connected.Store(true)
			what := "resumed"
			if id := z.conn.SessionID(); id != session {
				session, what = id, "began"
			}
			p.say("session %#x %s", uint64(session), what) //nolint:gosec // its bits
			begin()
		case zk.StateDisconnected, zk.StateExpired:
			z.connected.Store(false)
			p.loseAll()
			what := "suspended"
			if e.State == zk.StateExpired {
				what = "ended"
			}
			if session != 0 {
				p.say("session %#x %s", uint64(session), what) //nolint:gosec // its bits
			}
		}
	}
}

func (z *onZooKeeper) locker(_, dir string) (watchedLock, error) {
	l, err := z.lock(z.conn, dir)
	return zooKeeperLock{l, z}, err
}

// A zooKeeperLock is a client's lock.
type zooKeeperLock struct {
	work.Locker
	system *onZooKeeper
}

func (l zooKeeperLock) valid() bool { return l.system.connected.Load() }

func (z *onZooKeeper) session() uint64 { return uint64(z.conn.SessionID()) } //nolint:gosec // its bits

// close closes the session.
func (z *onZooKeeper) close() {
	z.conn.Close()
	<-z.heard
}
