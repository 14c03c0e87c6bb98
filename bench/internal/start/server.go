// SPDX-License-Identifier: Apache-2.0

package start

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// ErrNotInstalled is wrapped by errors about programs that the machine lacks.
var ErrNotInstalled = errors.New("not installed")

// The kinds of servers.
const (
	ZooKeeper       = "zookeeper"
	ZooKeeperForced = "zookeeper-forceSync" // which forces its log to disk, its default
	ZooKeeperLarge  = "zookeeper-large"     // with memory for 500,000 nodes
	Etcd            = "etcd"
	Redis           = "redis"
)

// A Server is a server process on 127.0.0.1 with its data in a temporary directory.
// Its methods are safe for concurrent use.
type Server struct {
	addr, version string
	stop          func() error
}

// Addr returns the server's address, host:port.
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
	case ZooKeeper, ZooKeeperForced, ZooKeeperLarge:
		var opts []realzk.Option
		var with string
		switch kind {
		case ZooKeeperForced:
			opts, with = append(opts, realzk.ConfigLine("forceSync=yes")), " with forceSync=yes"
		case ZooKeeperLarge:
			opts, with = append(opts, realzk.JavaOption("-Xmx1g")), " with a heap of up to 1 GiB"
		}
		p, err := realzk.Run(ctx, opts...)
		if errors.Is(err, realzk.ErrNotInstalled) {
			err = fmt.Errorf("%w: %w", ErrNotInstalled, err)
		}
		if err != nil {
			return nil, err
		}
		return &Server{addr: p.Addr(), version: "ZooKeeper " + p.Installation().Version + with, stop: p.Stop}, nil
	case Etcd:
		return startDaemon(ctx, etcd)
	case Redis:
		return startDaemon(ctx, redis)
	}
	return nil, fmt.Errorf("start a server: unknown kind %q", kind)
}

// A daemon tells how to start a kind of server that consists of one program.
type daemon struct {
	name, program string
	install       string // Debian's package
	ports         int
	// args returns arguments for serving on the first of ports with data in dir.
	args func(dir string, ports []string) []string
	// serves returns nil if the server at addr serves.
	serves func(ctx context.Context, addr string) error
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
	serves: func(ctx context.Context, addr string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/health", http.NoBody)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && !bytes.Contains(text, []byte(`"true"`)) {
			err = fmt.Errorf("its health is %s", text)
		}
		return err
	},
	version: regexp.MustCompile(`etcd Version: (\S+)`),
}

var redis = daemon{
	name: "Redis", program: "redis-server", install: "redis-server", ports: 1,
	// The defaults without a configuration file are those of Debian's: a snapshot
	// after a minute with many changes, and no log.
	args: func(dir string, ports []string) []string {
		return []string{"--bind", "127.0.0.1", "--port", ports[0], "--dir", dir}
	},
	serves: func(ctx context.Context, addr string) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends the Read
		if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
			return err
		}
		answer := make([]byte, len("+PONG"))
		if _, err := io.ReadFull(conn, answer); err != nil {
			return err
		}
		if string(answer) != "+PONG" {
			return fmt.Errorf("it answered %q to a PING", answer)
		}
		return nil
	},
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
	version := d.name + " (version unknown)"
	if m := d.version.FindSubmatch(said); m != nil {
		version = d.name + " " + string(m[1])
	}
	for range 3 {
		var s *Server
		if s, err = d.launch(ctx, program); err == nil {
			s.version = version
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
	dir, err := os.MkdirTemp("", "holdfast-"+d.program+"-")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	defer log.Close() // the process has a copy of the descriptor
	ctx, kill := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program, d.args(dir, ports)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = sysProcAttr()
	started := make(chan error, 1)
	ended := make(chan struct{})
	var end error // written before ended is closed, read after
	go func() {   // ends with the process, which ends with ctx
		defer close(ended)
		// Linux kills the process when the thread that started it ends, so keep
		// the thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			end = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		kill()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &Server{addr: net.JoinHostPort("127.0.0.1", ports[0]), stop: func() error {
		kill()
		<-ended
		return os.RemoveAll(dir)
	}}

	waiting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		attempt, cancel := context.WithTimeout(waiting, time.Second)
		err := d.serves(attempt, s.addr)
		cancel()
		select {
		case <-ended: // if a server answered, it was another one
			err = fmt.Errorf("it exited: %w", end)
		case <-waiting.Done():
			err = fmt.Errorf("%w: %w", context.Cause(waiting), err)
		case <-poll.C:
			if err != nil {
				continue
			}
		}
		if err == nil {
			return s, nil
		}
		text, _ := os.ReadFile(log.Name()) // which is empty if unreadable
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		err = fmt.Errorf("%w\nits log ends with:\n%s", err, bytes.Join(lines[max(0, len(lines)-20):], []byte("\n")))
		return nil, errors.Join(err, s.Stop())
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
