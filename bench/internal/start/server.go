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

// ErrNotInstalled is wrapped by the errors about what is missing on the machine.
var ErrNotInstalled = errors.New("it is not installed")

// The kinds of servers.
const (
	ZooKeeper = "zookeeper"
	Etcd      = "etcd"
	Redis     = "redis"
)

// A Server is a process of its own that serves on 127.0.0.1 and keeps its data in
// a temporary directory. Its methods may be called by any goroutine.
type Server struct {
	addr, version string
	stop          func() error
}

// Addr returns the server's address, host:port.
func (s *Server) Addr() string { return s.addr }

// Version says what serves, such as "etcd 3.4.23".
func (s *Server) Version() string { return s.version }

// Stop kills the server, waits until it is gone and removes its data. A second
// Stop does nothing.
func (s *Server) Stop() error { return s.stop() }

// startTimeout bounds the wait until a started server serves.
const startTimeout = 60 * time.Second

// Start starts a server of a kind, and returns when it serves. It is killed when
// ctx ends.
//
// None of them forces what it logs to the disk, so that locks are measured and not
// the disk: ZooKeeper runs with forceSync=no and etcd with --unsafe-no-fsync, each
// against its default, and Redis writes its data every now and then, as it does by
// default. A killed process loses nothing by that but Redis'.
//
// On Linux a server ends with the process that started it, however that ends; only
// its data may stay behind then. Elsewhere a process that is killed leaves it.
func Start(ctx context.Context, kind string) (*Server, error) {
	switch kind {
	case ZooKeeper:
		p, err := realzk.Run(ctx)
		if errors.Is(err, realzk.ErrNotInstalled) {
			err = fmt.Errorf("%w: %w", ErrNotInstalled, err)
		}
		if err != nil {
			return nil, err
		}
		return &Server{addr: p.Addr(), version: "ZooKeeper " + p.Installation().Version, stop: p.Stop}, nil
	case Etcd:
		return startDaemon(ctx, etcd)
	case Redis:
		return startDaemon(ctx, redis)
	}
	return nil, fmt.Errorf("start a server: there is no kind %q", kind)
}

// A daemon is how a kind of server is started that is a program without more.
type daemon struct {
	name, program string
	install       string // Debian's package
	ports         int
	// args are those to serve on the first of ports and keep data in dir.
	args func(dir string, ports []string) []string
	// serves returns nil if the server at addr does.
	serves func(ctx context.Context, addr string) error
	// version finds the version in what the program prints of --version.
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
			// By default etcd forces each change to disk before it answers. So does
			// ZooKeeper; and ours does not.
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
			err = fmt.Errorf("it says of its health: %s", text)
		}
		return err
	},
	version: regexp.MustCompile(`etcd Version: (\S+)`),
}

var redis = daemon{
	name: "Redis", program: "redis-server", install: "redis-server", ports: 1,
	// Without a configuration file it has the defaults of the one that Debian
	// installs: a snapshot after a minute with many changes, no log of them.
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
			return fmt.Errorf("it answers %q", answer)
		}
		return nil
	},
	version: regexp.MustCompile(`v=(\S+)`),
}

// startDaemon starts a server; it tries other ports where somebody has taken those
// that were free.
func startDaemon(ctx context.Context, d daemon) (*Server, error) {
	program, err := exec.LookPath(d.program)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w: there is no %s in the PATH (Debian: apt-get install %s)", d.name, ErrNotInstalled, d.program, d.install)
	}
	said, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	version := d.name + " (version unknown)"
	if m := d.version.FindSubmatch(said); m != nil {
		version = d.name + " " + string(m[1])
	}
	for range 3 {
		var s *Server
		if s, err = d.launch(ctx, program); err == nil {
			s.version = version
			// The end of ctx kills it already; this removes its data.
			context.AfterFunc(ctx, func() { _ = s.Stop() })
			return s, nil
		}
		if !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			break
		}
	}
	return nil, fmt.Errorf("start %s (%s): %w", d.name, program, err)
}

// launch starts a process and waits until it serves; it leaves nothing behind if
// that fails.
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
	var end error // written before ended is closed, read only after
	go func() {   // ends with the process, which ends with ctx
		defer close(ended)
		// Linux kills the process when the thread that started it ends, so this
		// one is kept until then.
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
		case <-ended: // whoever has answered, it is not ours
			err = fmt.Errorf("it ended by itself: %w", end)
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
		text, _ := os.ReadFile(log.Name()) // without it there is one line less to show
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		err = fmt.Errorf("%w\nits log ends:\n%s", err, bytes.Join(lines[max(0, len(lines)-20):], []byte("\n")))
		return nil, errors.Join(err, s.Stop())
	}
}

// freePorts returns ports of 127.0.0.1 on which nobody listens.
func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() //nolint:gocritic // all at once, so that each is another
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
