// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// onEtcd is a connection to etcd. Each client has a lease of its own there, which etcd calls a
// session: see etcdSession. Listening holders take their locks for lost when that session says that
// it is done.
type onEtcd struct {
	contender *contender
	c         *clientv3.Client

	mu       sync.Mutex                      // protects sessions; not held while one is begun
	sessions map[string]*concurrency.Session // by the client, whose goroutine alone replaces its own
}

// openEtcd returns when the servers have answered. The timeouts are etcdctl's. The client's own
// defaults never give up a connection whose server does not answer. And it takes a new session for
// alive for a second more than DialTimeout, until the first answer to a keepalive.
func openEtcd(p *contender) (system, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: p.servers, Logger: zap.NewNop(),
		DialTimeout: 2 * time.Second, DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 6 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	if _, err := c.Get(ctx, "/"); err != nil {
		return nil, err
	}
	return &onEtcd{contender: p, c: c, sessions: map[string]*concurrency.Session{}}, nil
}

func (e *onEtcd) locker(client, path string) (watchedLock, error) {
	return &etcdLock{system: e, client: client, path: path}, nil
}

func (*onEtcd) session() uint64 { return 0 }

// sessionOf returns the client's session, and begins another one if that is done.
func (e *onEtcd) sessionOf(client string) (*concurrency.Session, error) {
	e.mu.Lock()
	s := e.sessions[client]
	e.mu.Unlock()
	if s != nil && !isDone(s) {
		return s, nil
	}
	s, err := concurrency.NewSession(e.c, concurrency.WithTTL(int((e.contender.timeout+time.Second-1)/time.Second)))
	if err != nil {
		return nil, err
	}
	go func() { // ends with the session, at the latest with the process
		<-s.Done()
		e.contender.lose(client)
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sessions[client] = s
	return s, nil
}

func (e *onEtcd) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sessions {
		_ = s.Close() // if that fails, its lease ends by itself
	}
	_ = e.c.Close()
}

// An etcdLock is a client's lock, by a Mutex of its present session.
type etcdLock struct {
	system       *onEtcd
	client, path string
	session      *concurrency.Session // of the latest Lock, as is the mutex
	mutex        *concurrency.Mutex
}

func (l *etcdLock) Lock(ctx context.Context) error {
	s, err := l.system.sessionOf(l.client)
	if err != nil {
		return err
	}
	l.session, l.mutex = s, concurrency.NewMutex(s, l.path)
	return l.mutex.Lock(ctx)
}

func (l *etcdLock) valid() bool { return !isDone(l.session) }

func isDone(s *concurrency.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func (l *etcdLock) Unlock(ctx context.Context) error { return l.mutex.Unlock(ctx) }
