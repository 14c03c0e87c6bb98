// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// etcd is the Mutex of etcd's package concurrency: a queue of keys, each of which
// ends with a lease, and each of which waits until all those ahead are gone, by a
// watch of the last of them.
//
// With contention it hands over once in 100 ms at most to each that waits. The
// watch is one from the revision at which the key ahead was read, which to the
// server is a revision of the past; watches of the past it serves in a loop that
// runs every 100 ms. So it was measured with servers 3.4.23 and 3.7.3; the time is
// a constant of theirs.
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
	// New does not wait for the connection; a question does.
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := c.Get(ctx, "/"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &etcdSession{c: c}, nil
}

// etcdSession is a client, and a lease for each of its workers.
//
// What etcd calls a session is a lease, and the key with which a Mutex queues is
// named after the lease: to etcd, all who use one lease are one contender. Two
// workers that lock the same name by the same lease find each other's key, take it
// for their own, and both go in, and the first to leave deletes it. So a session's
// workers share its connection but each has a lease of its own, as etcd's users
// have to arrange it, too.
type etcdSession struct {
	c      *clientv3.Client
	leases []*concurrency.Session
}

func (s *etcdSession) Locker(p string, read bool) (work.Locker, error) {
	if read {
		return nil, fmt.Errorf("%w: etcd's package concurrency has no read locks", work.ErrUnsupported)
	}
	lease, err := concurrency.NewSession(s.c)
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
