// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// redsyncPeer is the Mutex of redsync, the Redlock algorithm in Go, with one Redis
// server. It has no queue: a contender that is refused tries again after 50 to
// 250 ms, its default, so under contention the measurement is mostly of sleeping. It
// has no session: a hold expires after 8 s.
type redsyncPeer struct{}

func (redsyncPeer) Version() string {
	return onGo("redsync", "github.com/go-redsync/redsync/v4", "Mutex")
}

func (redsyncPeer) Open(ctx context.Context, server string) (work.Session, error) {
	c := redis.NewClient(&redis.Options{Addr: server})
	if err := c.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return redsyncSession{c: c, locks: redsync.New(goredis.NewPool(c))}, nil
}

type redsyncSession struct {
	c     *redis.Client
	locks *redsync.Redsync
}

func (s redsyncSession) Close() error { return s.c.Close() }

func (s redsyncSession) Locker(p string) (work.Locker, error) {
	return redsyncLocker{s.locks.NewMutex(p)}, nil
}

type redsyncLocker struct{ mutex *redsync.Mutex }

func (l redsyncLocker) Lock(ctx context.Context) error {
	for {
		// A call gives up after 32 attempts, some 5 s, so call again.
		err := l.mutex.LockContext(ctx)
		var taken *redsync.ErrTaken
		if err == nil || ctx.Err() != nil || !errors.Is(err, redsync.ErrFailed) && !errors.As(err, &taken) {
			return err
		}
	}
}

func (l redsyncLocker) Unlock(ctx context.Context) error {
	switch ok, err := l.mutex.UnlockContext(ctx); {
	case err != nil:
		return err
	case !ok:
		return errors.New("the hold expired before it was released")
	}
	return nil
}
