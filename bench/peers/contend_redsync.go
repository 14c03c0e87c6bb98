// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// onRedis is the connections to several servers of Redis that know nothing of each other: a lock is
// held that most of them have granted. A holder extends its lock, which ends by itself after the
// contender's timeout. Listening holders take it for lost at the time that Until says.
type onRedis struct {
	contender *contender
	clients   []*redis.Client
	locks     *redsync.Redsync
}

// openRedsync returns at once: go-redis connects when it must. It must mind the ends of contexts, by
// which redsync goes on without a server that does not answer, as the description of Redlock has it.
func openRedsync(p *contender) (system, error) {
	r := &onRedis{contender: p}
	var pools []redsyncredis.Pool
	for _, server := range p.servers {
		c := redis.NewClient(&redis.Options{Addr: server, ContextTimeoutEnabled: true})
		r.clients = append(r.clients, c)
		pools = append(pools, goredis.NewPool(c))
	}
	r.locks = redsync.New(pools...)
	return r, nil
}

func (r *onRedis) locker(client, path string) (watchedLock, error) {
	m := r.locks.NewMutex(path, redsync.WithExpiry(r.contender.timeout))
	return &redisLock{system: r, client: client, mutex: m, patient: redsyncLocker{m}}, nil
}

func (*onRedis) session() uint64 { return 0 }

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
	over    atomic.Bool   // the time of the latest Lock is
	stop    func()        // ends the extensions of that, and joins them
}

func (l *redisLock) Lock(ctx context.Context) error {
	if err := l.patient.Lock(ctx); err != nil {
		return err
	}
	l.over.Store(false)
	expiry := time.AfterFunc(time.Until(l.mutex.Until()), func() {
		l.over.Store(true)
		l.system.contender.lose(l.client)
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.extend(ctx, expiry)
	}()
	l.stop = func() {
		expiry.Stop()
		cancel()
		<-ended
		expiry.Stop() // the last extension may have started it again
	}
	return nil
}

func (l *redisLock) valid() bool { return !l.over.Load() }

// third is a third of the time for which a holder has its lock.
func (l *redisLock) third() time.Duration { return l.system.contender.timeout / 3 }

// extend extends the lock every third of its time, and its expiry with it, until ctx ends. No
// extension takes longer than that: redsync waits for all servers, also for one that does not answer.
func (l *redisLock) extend(ctx context.Context, expiry *time.Timer) {
	tick := time.NewTicker(l.third())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			bounded, cancel := context.WithTimeout(ctx, l.third())
			if ok, _ := l.mutex.ExtendContext(bounded); ok {
				expiry.Reset(time.Until(l.mutex.Until()))
			}
			cancel()
		}
	}
}

func (l *redisLock) Unlock(ctx context.Context) error {
	l.stop()
	ctx, cancel := context.WithTimeout(ctx, l.third())
	defer cancel()
	return l.patient.Unlock(ctx)
}
