// SPDX-License-Identifier: Apache-2.0

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
// Its methods are safe for concurrent use.
type Server struct {
	addr, version string
	stop          func() error
}

// Addr returns the server's address, host:port, or those of an ensemble with commas between.
func (s *Server) Addr() string { return s.addr }

// Version returns name and version, such as "etcd 3.4.23".
func (s *Server) Version() string { return s.version }

// Stop kills the server, waits for its end and removes its data. A second Stop does
// nothing.
func (s *Server) Stop() error { return s.stop() }

// Start starts a server and returns when it serves. The end of ctx kills it.
//
// No server but ZooKeeperForced forces its log to disk, so that locks are measured
// rather than the disk: ZooKeeper runs with forceSync=no and etcd with
// --unsafe-no-fsync, which are not their defaults. Redis writes its data now and then,
// which is its default.
//
// On Linux a server ends with the process that started it, even if that is killed,
// which leaves only its data. Elsewhere a killed process leaves the server running.
func Start(ctx context.Context, kind string) (*Server, error) {
	switch kind {
	case ZooKeeper:
		return startZooKeeper(ctx, "")
	case ZooKeeperForced:
		return startZooKeeper(ctx, " with forceSync=yes", realzk.ConfigLine("forceSync=yes"))
	case ZooKeeperLarge:
		return startZooKeeper(ctx, " with a heap of up to 1 GiB", realzk.JavaOption("-Xmx1g"))
	case ZooKeeperEnsemble:
		return startEnsemble(ctx)
	case Etcd:
		return startDaemon(ctx, daemon.Etcd)
	case Redis:
		return startDaemon(ctx, daemon.Redis)
	}
	return nil, fmt.Errorf("start a server: unknown kind %q", kind)
}

func startZooKeeper(ctx context.Context, with string, opts ...realzk.Option) (*Server, error) {
	p, err := realzk.Run(ctx, opts...)
	if errors.Is(err, realzk.ErrNotInstalled) {
		err = fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	if err != nil {
		return nil, err
	}
	return &Server{addr: p.Addr(), version: "ZooKeeper " + p.Installation().Version + with, stop: p.Stop}, nil
}

func startEnsemble(ctx context.Context) (*Server, error) {
	c, err := realzk.RunEnsemble(ctx, 3, realzk.TickTime(2*time.Second), realzk.ConfigLine("syncLimit=5"))
	if errors.Is(err, realzk.ErrNotInstalled) {
		err = fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	if err != nil {
		return nil, err
	}
	return &Server{addr: strings.Join(c.Addrs(), ","), version: "three of ZooKeeper " + c.Members()[0].Installation().Version, stop: c.Stop}, nil
}

func startDaemon(ctx context.Context, k daemon.Kind) (*Server, error) {
	s, err := daemon.Run(ctx, k)
	if err != nil {
		return nil, err
	}
	return &Server{addr: s.Addr(), version: s.Version(), stop: s.Stop}, nil
}
