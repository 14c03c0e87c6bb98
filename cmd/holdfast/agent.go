// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/zkio"
)

// agentCmd is the helper of many processes.
type agentCmd struct {
	Socket string `required:"" placeholder:"PATH" help:"The Unix socket to listen on."`
	Mode   string `default:"600" placeholder:"OCTAL" help:"The permissions of the socket: every user who may write to it can use the agent."`
}

// Help describes the verb.
func (*agentCmd) Help() string {
	return `An agent closes the ZooKeeper sessions of processes that have been killed, so that their locks are free at once: of those that have its socket as sentinel.Config.Agent. Run it where it outlives them, such as on the host of their containers, and put the socket where they can reach it. It closes sessions at the servers of --servers, with the flags for TLS; processes bring their own credentials.

Examples:

    holdfast agent --servers zk1,zk2,zk3 --socket /run/holdfast/agent.sock
    docker run -v /run/holdfast:/run/holdfast billing`
}

// Run serves until a signal comes.
func (c *agentCmd) Run(a *app) error {
	if runtime.GOOS != "linux" {
		return exitf(exitFailure, "an agent needs Linux, where the kernel tells for certain that a process has ended")
	}
	mode, err := strconv.ParseUint(c.Mode, 8, 9)
	if err != nil {
		return usagef("--mode is %q: it must be octal, such as 660", c.Mode)
	}
	conn, err := a.connection()
	if err != nil {
		return err
	}
	l, err := listenUnix(c.Socket, os.FileMode(mode))
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	a.warnf("closing the sessions of processes that have ended; they reach this agent at %s", c.Socket)
	return sentinel.Serve(a.ctx, l, func(cfg *zkio.Config) error {
		cfg.Servers, cfg.TLS = conn.servers, conn.tls
		return nil
	}, a.stderr)
}

// listenUnix makes a socket with these permissions. One that an agent has left behind when it was
// killed is replaced.
func listenUnix(path string, mode os.FileMode) (*net.UnixListener, error) {
	if strings.HasPrefix(path, "@") {
		return nil, fmt.Errorf("%s: an abstract socket has no permissions: name a file", path)
	}
	addr := &net.UnixAddr{Name: path, Net: "unixpacket"}
	l, err := net.ListenUnix("unixpacket", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("%s exists and is no socket: choose another path", path)
		}
		if conn, dialing := net.DialUnix("unixpacket", nil, addr); dialing == nil {
			_ = conn.Close()
			return nil, fmt.Errorf("another agent listens: %w", err)
		} else if !errors.Is(dialing, syscall.ECONNREFUSED) {
			return nil, err // it is not one of ours
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		l, err = net.ListenUnix("unixpacket", addr)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}
