// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk/child"
	"github.com/holdfast-go/holdfast/internal/realzk/port"
	"github.com/holdfast-go/holdfast/internal/realzk/scratch"
)

// A Process is a running ZooKeeper server. It is for commands; tests use a [Server].
// Its methods block, and are safe for concurrent use.
type Process struct {
	cfg  Config
	in   Installation
	dir  string
	temp *scratch.Dir // which Stop removes, or nil
	port int

	mu  sync.Mutex     // serializes starting, signalling and killing the JVM
	jvm *child.Running // protected by mu; the latest, which may have exited; nil: none
}

// scratchPrefix begins the names of temporary directories of servers.
const scratchPrefix = "holdfast-realzk-"

// errPortTaken makes run try another port.
var errPortTaken = errors.New("the port is taken")

// Run starts a server and returns when it serves. The server runs until
// [Process.Stop] is called or ctx ends. The error wraps [ErrNotInstalled] if there is
// no ZooKeeper.
func Run(ctx context.Context, opts ...Option) (*Process, error) {
	opts = append(opts[:len(opts):len(opts)], func(c *Config) { c.ownGroup = true })
	p, err := run(ctx, newConfig(opts))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = p.Stop() })
	return p, nil
}

// run starts a server in cfg.Dir, or in a temporary directory if that is "".
func run(ctx context.Context, cfg Config) (*Process, error) {
	in, err := Find()
	if err != nil {
		return nil, err
	}
	p := &Process{cfg: cfg, in: in, dir: cfg.Dir}
	if p.dir == "" {
		if p.temp, err = scratch.New(scratchPrefix); err != nil {
			return nil, fmt.Errorf("realzk: make a directory for ZooKeeper: %w", err)
		}
		p.dir = p.temp.Path()
	}
	// The JVM has another working directory.
	if p.dir, err = filepath.Abs(p.dir); err != nil {
		return nil, fmt.Errorf("realzk: %w", err)
	}
	// Another process may take a free port before ZooKeeper listens on it; then try
	// another. The caller does that for an ensemble, whose servers know each
	// other's ports.
	if p.port = cfg.Port; p.port != 0 {
		err = p.launch(ctx)
	} else {
		for range 10 {
			if p.port, err = port.Free(); err != nil {
				break
			}
			if err = p.launch(ctx); err == nil || !errors.Is(err, errPortTaken) {
				break
			}
			port.Release(p.port)
		}
	}
	if err != nil {
		port.Release(p.port)
		p.removeTemp()
		return nil, err
	}
	return p, nil
}

// Addr returns the server's address, host:port. A restart does not change it.
func (p *Process) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// Installation returns the server's installation.
func (p *Process) Installation() Installation { return p.in }

// ID returns the server's number in its ensemble, or 0.
func (p *Process) ID() int { return p.cfg.id }

// Dir returns the directory of the server's files.
func (p *Process) Dir() string { return p.dir }

// LogFile returns the path of the server's log. Restarts append to it.
func (p *Process) LogFile() string { return logFile(p.dir) }

// PID returns the process id of the server, or of the last one if it was killed.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.jvm.Process.Pid
}

// Pause stops the server by SIGSTOP, like a long pause of a virtual machine or of the
// garbage collector: connections stay open and requests are not answered. On Linux it
// returns when all threads have stopped, elsewhere when the signal has been sent. On
// systems without that signal the error wraps [errors.ErrUnsupported].
func (p *Process) Pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := child.Pause(p.jvm.Process); err != nil {
		return fmt.Errorf("realzk: pause ZooKeeper at %s: %w", p.Addr(), err)
	}
	return nil
}

// Resume resumes a paused server. It does nothing if the server is not paused, or has
// exited.
func (p *Process) Resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := child.Resume(p.jvm.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("realzk: resume ZooKeeper at %s: %w", p.Addr(), err)
	}
	return nil
}

// StallLog keeps the server from writing its transaction log, as a disk that does not answer
// would, until resume is called, which the caller must do once. Reads and pings go on; no write
// gets the server's vote. On systems other than Linux the error wraps [errors.ErrUnsupported].
func (p *Process) StallLog() (resume func() error, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	resume, err = child.Stall(p.jvm.Process.Pid, "SyncThread:")
	if err != nil {
		return nil, fmt.Errorf("realzk: stall the log of ZooKeeper at %s: %w", p.Addr(), err)
	}
	return resume, nil
}

// Kill kills the server by SIGKILL, even if it is paused, and waits for its end, which
// resets its connections. Its data remains for [Process.Restart]. Kill does nothing if
// the server has exited.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kill()
}

func (p *Process) kill() error {
	if err := p.jvm.Kill(); err != nil {
		return fmt.Errorf("realzk: kill ZooKeeper at %s: %w", p.Addr(), err)
	}
	return nil
}

// Restart starts the server again, with the same port and data, and returns when it
// serves. It kills a running server first. Sessions survive; each timeout begins
// anew.
func (p *Process) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.kill(); err != nil {
		return err
	}
	return p.launch(ctx)
}

// Stop kills the server and removes its directory, unless the caller named it. A
// proper shutdown of ZooKeeper would take seconds, and a kill loses nothing. A second
// Stop does nothing.
func (p *Process) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.kill()
	port.Release(p.port)
	p.removeTemp()
	return err
}

func (p *Process) removeTemp() {
	if p.temp != nil {
		// An error leaves a temporary directory, which does no harm.
		_ = p.temp.Remove()
	}
}

// launch starts a JVM and waits until it serves. If it fails, it kills the JVM. The
// caller holds p.mu, or p is not shared yet.
func (p *Process) launch(ctx context.Context) error {
	if err := os.MkdirAll(dataDir(p.dir), 0o700); err != nil {
		return fmt.Errorf("realzk: make a directory for ZooKeeper: %w", err)
	}
	files := map[string]string{configFile(p.dir): p.cfg.file(p.dir, p.port)}
	if p.cfg.id != 0 {
		files[idFile(p.dir)] = strconv.Itoa(p.cfg.id) + "\n"
	}
	for name, text := range loggingFiles {
		files[filepath.Join(p.dir, name)] = text
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return fmt.Errorf("realzk: configure ZooKeeper: %w", err)
		}
	}
	cmd := exec.Command(p.in.Java, p.cfg.javaArgs(p.in, p.dir)...)
	cmd.Dir = p.dir // where a JVM that crashes leaves its report
	cmd.SysProcAttr = sysProcAttr(p.cfg.ownGroup)
	jvm, err := child.Run(cmd, p.LogFile())
	if err != nil {
		return fmt.Errorf("realzk: start ZooKeeper with %s: %w", p.in.Java, err)
	}
	p.jvm = jvm

	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.StartTimeout, fmt.Errorf("it did not serve within %v", p.cfg.StartTimeout))
	defer cancel()
	if err := p.awaitServing(ctx); err != nil {
		err = errors.Join(err, p.kill())
		text := jvm.Said(50)
		if strings.Contains(text, "BindException") || strings.Contains(text, "Address already in use") {
			err = errors.Join(errPortTaken, err)
		}
		return fmt.Errorf("realzk: start ZooKeeper at %s (%s): %w\nits log ends with:\n%s", p.Addr(), p.in.Where, err, text)
	}
	return nil
}

// awaitServing waits until the new JVM serves. A server accepts connections before it
// serves, and another server might have the address, so it asks for the mode and the
// data directory.
func (p *Process) awaitServing(ctx context.Context) error {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	// The server may never answer a connection made while it starts, so wait only
	// briefly at first. Later waits are long enough for a slow machine.
	for patience := 100 * time.Millisecond; ; {
		asked := time.Now()
		mode, err := ask(ctx, patience, p.Addr(), "srvr")
		if err == nil && strings.Contains(mode, "Mode: ") {
			conf, err := ask(ctx, patience, p.Addr(), "conf")
			if err == nil && !strings.Contains(conf, "dataDir="+dataDir(p.dir)) {
				return fmt.Errorf("%w by another ZooKeeper", errPortTaken)
			}
			if err == nil {
				return nil
			}
		}
		if time.Since(asked) >= patience { // it timed out
			patience = min(2*patience, 5*time.Second)
		}
		select {
		case <-p.jvm.Exited():
			return p.jvm.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// FourLetterWord sends an administrative command, such as "ruok", "srvr", "mntr" or
// "dump", to the server at addr and returns the answer. It waits for at most five
// seconds.
func FourLetterWord(ctx context.Context, addr, word string) (string, error) {
	return ask(ctx, 5*time.Second, addr, word)
}

func ask(ctx context.Context, patience time.Duration, addr, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("realzk: send %q to ZooKeeper: %w", word, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends the Read
	if _, err := io.WriteString(conn, word); err != nil {
		return "", fmt.Errorf("realzk: send %q to ZooKeeper: %w", word, err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("realzk: read the answer to %q from ZooKeeper: %w", word, err)
	}
	return string(answer), nil
}
