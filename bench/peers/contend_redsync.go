// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// onRedis is the connections to several servers of Redis that know nothing of each other: a lock is
// held that most of them have granted. A holder extends its lock, which ends by itself after the
// contender's timeout. Listening holders take it for lost at the time that Until says.
type onRedis struct {
	contender *contender
	clients   []*redis.Client
	locks     *redsync.Redsync
}

// openRedsync returns at once: go-redis connects when it must.
func openRedsync(p *contender) (system, error) {
	r := &onRedis{contender: p}
	var pools []redsyncredis.Pool
	for _, server := range p.servers {
		c := redis.NewClient(&redis.Options{Addr: server})
		r.clients = append(r.clients, c)
		pools = append(pools, goredis.NewPool(c))
	}
	r.locks = redsync.New(pools...)
	return r, nil
}

func (r *onRedis) locker(client, path string) (work.Locker, error) {
	m := r.locks.NewMutex(path, redsync.WithExpiry(r.contender.timeout))
	return &redisLock{system: r, client: client, mutex: m, patient: redsyncLocker{m}}, nil
}

func (*onRedis) session() uint64 { return 0 }

func (*onRedis) lost(string) bool { return false } // Lock fails then

func (r *onRedis) close() {
	for _, c := range r.clients {
		_ = c.Close()
	}
}

// A redisLock is a client's lock.
type redisLock struct {
	system  *onRedis
	client  string
	mutex   *redsync.Mutex
	patient redsyncLocker // tries again for as long as it takes
	stop    func()        // ends the extensions of the latest Lock, and joins them
}

func (l *redisLock) Lock(ctx context.Context) error {
	if err := l.patient.Lock(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.extend(ctx)
	}()
	l.stop = func() {
		cancel()
		<-ended
	}
	return nil
}

// extend extends the lock every third of its time, until ctx ends or the lock has.
func (l *redisLock) extend(ctx context.Context) {
	tick := time.NewTicker(l.system.contender.timeout / 3)
	defer tick.Stop()
	for {
		over := time.NewTimer(time.Until(l.mutex.Until()))
		select {
		case <-ctx.Done():
			over.Stop()
			return
		case <-over.C:
			l.system.contender.lose(l.client)
			return
		case <-tick.C:
			over.Stop()
			_, _ = l.mutex.ExtendContext(ctx) // Until says whether it has
		}
	}
}

func (l *redisLock) Unlock(ctx context.Context) error {
	l.stop()
	return l.patient.Unlock(ctx)
}
