// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// etcd is the Mutex of etcd's package concurrency: a queue of keys with leases, each
// of which waits until the keys ahead are gone, by watching the last of them.
//
// Under contention each waiter is granted the lock at most once per 100 ms. It
// watches from the revision at which it read the key ahead, which to the server is
// in the past, and the server serves such watches in a loop that runs every 100 ms, a
// constant. This was measured with servers 3.4.23 and 3.7.3.
type etcd struct{}

func (etcd) Version() string {
	return onGo("etcd client", "go.etcd.io/etcd/client/v3", "concurrency.Mutex")
}

func (etcd) Open(ctx context.Context, server string) (work.Session, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{server},
		DialTimeout: 30 * time.Second,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	// New does not wait for the connection; a request does.
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := c.Get(ctx, "/"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &etcdSession{c: c}, nil
}

// etcdSession is a client, and a lease for each of its workers.
//
// What etcd calls a session is a lease, and a Mutex names its key after the lease. So
// two workers with the same lease that lock the same name find each other's key, take
// it for their own and both enter; the first to leave deletes it. Therefore workers
// share the session's connection, but each has its own lease, which etcd's users must
// arrange, too.
type etcdSession struct {
	c      *clientv3.Client
	leases []*concurrency.Session
}

func (s *etcdSession) Locker(p string) (work.Locker, error) {
	lease, err := concurrency.NewSession(s.c, concurrency.WithTTL(10)) // seconds, as the sessions of the others
	if err != nil {
		return nil, err
	}
	s.leases = append(s.leases, lease)
	return concurrency.NewMutex(lease, p), nil
}

func (s *etcdSession) Close() error {
	var errs []error
	for _, lease := range s.leases {
		errs = append(errs, lease.Close())
	}
	return errors.Join(append(errs, s.c.Close())...)
}
