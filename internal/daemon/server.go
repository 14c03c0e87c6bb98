// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk/child"
	"github.com/holdfast-go/holdfast/internal/realzk/port"
	"github.com/holdfast-go/holdfast/internal/realzk/scratch"
)

// A Server is a server process. Its methods block, and are safe for concurrent use.
type Server struct {
	kind    Kind
	program string
	version string
	dir     *scratch.Dir
	me      int
	members []ports

	mu  sync.Mutex     // serializes starting, signalling and killing the process
	run *child.Running // protected by mu; the latest, which may have ended; nil: none
}

// startTimeout bounds the wait for a server to serve.
const startTimeout = 60 * time.Second

// Run starts a server, and returns when it serves. It runs until [Server.Stop] is called or ctx
// ends. The error wraps [foreign.ErrNotInstalled] if its program is missing.
func Run(ctx context.Context, k Kind) (*Server, error) {
	all, err := runAll(ctx, k, 1)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// runAll starts n servers that know each other. If another process takes their ports, it tries
// others.
func runAll(ctx context.Context, k Kind, n int) ([]*Server, error) {
	program, version, err := k.find(ctx)
	if err != nil {
		return nil, err
	}
	for range 3 {
		var all []*Server
		if all, err = tryAll(ctx, k, program, version, n); err == nil {
			return all, nil
		}
		if !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			break
		}
	}
	return nil, fmt.Errorf("start %s (%s): %w", k.Name, program, err)
}

// tryAll is runAll with one choice of ports. If it fails, it leaves nothing behind.
func tryAll(ctx context.Context, k Kind, program, version string, n int) (all []*Server, err error) {
	members, err := freePorts(n)
	if err != nil {
		return nil, err
	}
	for me := range n {
		s := &Server{kind: k, program: program, version: version, me: me, members: members}
		all = append(all, s)
		// What earlier processes have left that were killed goes first.
		if s.dir, err = scratch.New("holdfast-" + k.program + "-"); err != nil {
			return nil, errors.Join(err, stopAll(all))
		}
	}
	// Servers need each other, so they start at the same time.
	errs := make([]error, n)
	var starting sync.WaitGroup
	for i, s := range all {
		starting.Go(func() { errs[i] = s.Restart(ctx) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, stopAll(all))
	}
	context.AfterFunc(ctx, func() { _ = stopAll(all) })
	return all, nil
}

// freePorts returns free ports for n members, which it has reserved unless it fails.
func freePorts(n int) (all []ports, err error) {
	for range n {
		var p ports
		if p.client, err = port.Free(); err == nil {
			all = append(all, ports{client: p.client})
			all[len(all)-1].peer, err = port.Free()
		}
		if err != nil {
			release(all)
			return nil, err
		}
	}
	return all, nil
}

func release(all []ports) {
	for _, p := range all {
		port.Release(p.client)
		port.Release(p.peer)
	}
}

func stopAll(all []*Server) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Stop())
	}
	return errors.Join(errs...)
}

// Addr returns the server's address, host:port. A restart does not change it.
func (s *Server) Addr() string { return local(s.members[s.me].client) }

// Version returns name and version, such as "etcd 3.4.23".
func (s *Server) Version() string { return s.version }

// Kill kills the server by SIGKILL and waits for its end. Its data remains for [Server.Restart].
// Kill does nothing if the server has ended.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

// kill is Kill. The caller holds s.mu.
func (s *Server) kill() error {
	if err := s.run.Kill(); err != nil {
		return fmt.Errorf("kill %s at %s: %w", s.kind.Name, s.Addr(), err)
	}
	return nil
}

// Pause stops the server by SIGSTOP: connections stay open and requests are not answered.
func (s *Server) Pause() error { return s.signal("pause", child.Pause) }

// Resume continues a paused server. It does nothing if the server is not paused, or has ended.
func (s *Server) Resume() error {
	if err := s.signal("resume", child.Resume); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (s *Server) signal(what string, send func(*os.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := send(s.run.Process); err != nil {
		return fmt.Errorf("%s %s at %s: %w", what, s.kind.Name, s.Addr(), err)
	}
	return nil
}

// Restart starts the server again, with the same ports and data, and returns when it serves. It
// kills a running server first.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.kill(); err != nil {
		return err
	}
	if err := s.launch(ctx); err != nil {
		return errors.Join(err, s.kill())
	}
	return nil
}

// Stop kills the server, waits for its end and removes its data. A second Stop does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.kill()
	release(s.members[s.me : s.me+1])
	if s.dir != nil {
		err = errors.Join(err, s.dir.Remove())
	}
	return err
}

// launch starts a process, and waits until it serves. The caller holds s.mu.
func (s *Server) launch(ctx context.Context) error {
	cmd := exec.Command(s.program, s.kind.args(s.dir.Path(), s.me, s.members)...)
	cmd.Dir = s.dir.Path()
	run, err := child.Run(cmd, filepath.Join(s.dir.Path(), "log"))
	if err != nil {
		return err
	}
	s.run = run
	if err := s.await(ctx); err != nil {
		return fmt.Errorf("%w\nits log ends with:\n%s", err, run.Said(20))
	}
	return nil
}

// await waits until the server serves, or has ended.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("it did not serve within %v", startTimeout))
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := s.serves(ctx)
		select {
		case <-s.run.Exited(): // if a server answered, it was another one
			return s.run.Err()
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-poll.C:
		}
		if err == nil {
			return nil
		}
	}
}

// serves returns nil if the server serves.
func (s *Server) serves(ctx context.Context) error { return s.answers(ctx, s.kind.ask, s.kind.answer) }

// answers returns nil if the server's answer to a text has another text in it.
func (s *Server) answers(ctx context.Context, ask, answer string) error {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends a Read
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(ask)); err != nil {
		return err
	}
	var said []byte
	for buf := make([]byte, 1024); ; {
		n, err := conn.Read(buf)
		if said = append(said, buf[:n]...); bytes.Contains(said, []byte(answer)) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it answered %q to %q: %w", said, ask, err)
		}
	}
}
