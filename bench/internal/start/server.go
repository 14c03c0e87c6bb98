// SPDX-License-Identifier: Apache-2.0

// Package start starts the servers that the benchmarks need (Start), and builds the
// programs of the locks that Holdfast is compared with (Peers), and holdfast. If something is not
// installed, the error wraps ErrNotInstalled and tells what to install.
package start

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/daemon"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/realzk"
)

// ErrNotInstalled is wrapped by errors about programs that the machine lacks.
var ErrNotInstalled = foreign.ErrNotInstalled

// The kinds of servers.
const (
	ZooKeeper       = "zookeeper"
	ZooKeeperForced = "zookeeper-forceSync" // which forces its log to disk, its default
	ZooKeeperLarge  = "zookeeper-large"     // with memory for 500,000 nodes

	ZooKeeperEnsemble = "zookeeper-ensemble" // of three

	Etcd  = "etcd"
	Redis = "redis"
)

// A Server is a server process, or an ensemble of them, on 127.0.0.1 with its data in a temporary directory.
type Server struct {
	Addr    string // host:port, or those of an ensemble with commas between
	Version string // name and version, such as "etcd 3.4.23"

	// Stop kills the server, waits for its end and removes its data. A second Stop does
	// nothing. It may be called concurrently.
	Stop func() error
}

// Start starts a server and returns when it serves. The end of ctx kills it.
//
// No server but ZooKeeperForced forces its log to disk, so that locks are measured
// rather than the disk: ZooKeeper runs with forceSync=no and etcd with
// --unsafe-no-fsync, which are not their defaults. Redis writes its data now and then,
// which is its default.
//
// On Linux a server ends with the process that started it, even if that is killed,
// which leaves only its data. Elsewhere a killed process leaves the server running.
func Start(ctx context.Context, kind string) (s Server, err error) {
	switch kind {
	case ZooKeeper:
		s, err = zooKeeper(ctx, "")
	case ZooKeeperForced:
		s, err = zooKeeper(ctx, " with forceSync=yes", realzk.ConfigLine("forceSync=yes"))
	case ZooKeeperLarge:
		s, err = zooKeeper(ctx, " with a heap of up to 1 GiB", realzk.JavaOption("-Xmx1g"))
	case ZooKeeperEnsemble:
		s, err = ensemble(ctx)
	case Etcd:
		s, err = other(ctx, daemon.Etcd)
	case Redis:
		s, err = other(ctx, daemon.Redis)
	default:
		return s, fmt.Errorf("start a server: unknown kind %q", kind)
	}
	if errors.Is(err, realzk.ErrNotInstalled) {
		err = fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	return s, err
}

func zooKeeper(ctx context.Context, with string, opts ...realzk.Option) (s Server, err error) {
	p, err := realzk.Run(ctx, opts...)
	if err != nil {
		return s, err
	}
	return Server{p.Addr(), "ZooKeeper " + p.Installation().Version + with, p.Stop}, nil
}

func ensemble(ctx context.Context) (s Server, err error) {
	c, err := realzk.RunEnsemble(ctx, 3, realzk.TickTime(2*time.Second), realzk.ConfigLine("syncLimit=5"))
	if err != nil {
		return s, err
	}
	return Server{strings.Join(c.Addrs(), ","), "three of ZooKeeper " + c.Members()[0].Installation().Version, c.Stop}, nil
}

func other(ctx context.Context, k daemon.Kind) (s Server, err error) {
	d, err := daemon.Run(ctx, k)
	if err != nil {
		return s, err
	}
	return Server{d.Addr(), d.Version(), d.Stop}, nil
}
