// SPDX-License-Identifier: Apache-2.0

package start

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/internal/realzk/child"
	"github.com/holdfast-go/holdfast/internal/realzk/scratch"
)

// ErrNotInstalled is wrapped by errors about programs that the machine lacks.
var ErrNotInstalled = errors.New("not installed")

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

// startTimeout bounds the wait for a server to serve.
const startTimeout = 60 * time.Second

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
		return startDaemon(ctx, etcd)
	case Redis:
		return startDaemon(ctx, redis)
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

// A daemon tells how to start a kind of server that consists of one program.
type daemon struct {
	name, program string
	install       string // Debian's package
	ports         int
	// args returns arguments for serving on the first of ports with data in dir.
	args func(dir string, ports []string) []string
	// A server that serves answers ask with a text that has answer in it.
	ask, answer string
	// version matches the version in the output of --version.
	version *regexp.Regexp
}

var etcd = daemon{
	name: "etcd", program: "etcd", install: "etcd-server", ports: 2,
	args: func(dir string, ports []string) []string {
		client, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
		return []string{
			"--name=bench", "--data-dir=" + filepath.Join(dir, "data"),
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=bench=" + peer,
			"--logger=zap", "--log-level=warn",
			// Do not force each change to disk.
			"--unsafe-no-fsync",
		}
	},
	ask: "GET /health HTTP/1.0\r\n\r\n", answer: `"health":"true"`,
	version: regexp.MustCompile(`etcd Version: (\S+)`),
}

var redis = daemon{
	name: "Redis", program: "redis-server", install: "redis-server", ports: 1,
	// The defaults without a configuration file are those of Debian's: a snapshot
	// after a minute with many changes, and no log.
	args: func(dir string, ports []string) []string {
		return []string{"--bind", "127.0.0.1", "--port", ports[0], "--dir", dir}
	},
	ask: "PING\r\n", answer: "+PONG",
	version: regexp.MustCompile(`v=(\S+)`),
}

// startDaemon starts a server. If another process takes its ports, it tries others.
func startDaemon(ctx context.Context, d daemon) (*Server, error) {
	program, err := exec.LookPath(d.program)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w: no %s in the PATH (Debian: apt-get install %s)", d.name, ErrNotInstalled, d.program, d.install)
	}
	said, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("get the version of %s: %w", program, err)
	}
	version := "(version unknown)"
	if m := d.version.FindSubmatch(said); m != nil {
		version = string(m[1])
	}
	for range 3 {
		var s *Server
		if s, err = d.launch(ctx, program); err == nil {
			s.version = d.name + " " + version
			// The end of ctx kills the process; this removes its data.
			context.AfterFunc(ctx, func() { _ = s.Stop() })
			return s, nil
		}
		if !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			break
		}
	}
	return nil, fmt.Errorf("start %s (%s): %w", d.name, program, err)
}

// launch starts a process and waits until it serves. If that fails, it leaves
// nothing behind.
func (d daemon) launch(ctx context.Context, program string) (*Server, error) {
	ports, err := freePorts(d.ports)
	if err != nil {
		return nil, err
	}
	dir, err := scratch.New("holdfast-" + d.program + "-")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir.Path(), "log"))
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	defer log.Close() // the process has a copy of the descriptor
	ctx, end := context.WithCancelCause(ctx)
	cmd := exec.CommandContext(ctx, program, d.args(dir.Path(), ports)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir.Path(), log, log
	starter := child.NewStarter()
	if err := starter.Start(cmd); err != nil {
		end(nil)
		starter.Close()
		return nil, errors.Join(err, dir.Remove())
	}
	var ended sync.WaitGroup
	ended.Go(func() { end(fmt.Errorf("it exited: %w", cmd.Wait())) })
	s := &Server{addr: net.JoinHostPort("127.0.0.1", ports[0]), stop: sync.OnceValue(func() error {
		end(nil)
		ended.Wait()
		starter.Close()
		return dir.Remove()
	})}
	if err := d.await(ctx, s.addr); err != nil {
		text, _ := os.ReadFile(log.Name()) // which is empty if unreadable
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		err = fmt.Errorf("%w\nits log ends with:\n%s", err, bytes.Join(lines[max(0, len(lines)-20):], []byte("\n")))
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// await waits until the server at addr serves. Its context ends with the server.
func (d daemon) await(ctx context.Context, addr string) error {
	waiting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := d.serves(waiting, addr)
		select {
		case <-waiting.Done(): // if a server answered, it was another one
			return errors.Join(context.Cause(waiting), err)
		case <-time.After(20 * time.Millisecond):
		}
		if err == nil {
			return nil
		}
	}
}

// serves returns nil if the server at addr serves.
func (d daemon) serves(ctx context.Context, addr string) error {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends a Read
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(d.ask)); err != nil {
		return err
	}
	var said []byte
	for buf := make([]byte, 1024); ; {
		n, err := conn.Read(buf)
		if said = append(said, buf[:n]...); bytes.Contains(said, []byte(d.answer)) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it answered %q to %q: %w", said, d.ask, err)
		}
	}
}

// freePorts returns free ports of 127.0.0.1.
func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() //nolint:gocritic // all remain open, so that the ports differ
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
