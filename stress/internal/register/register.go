// SPDX-License-Identifier: Apache-2.0

// Package register is a resource that checks fencing tokens. The workers write to it.
package register

import (
	"context"
	"io"
	"net"
	"net/rpc"
	"sync"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// The register is the resource that the locks protect: a process of its own, which the
// workers of all others write to while they hold a lock, and sometimes when they do not
// hold it any more. It does what docs/fencing.md asks of a resource: it keeps the highest
// token of each lock, and refuses a write with a lower one. It knows nothing else of the
// locks.
//
// It listens on a socket in the directory of the run. Each worker has a connection, and calls
// the register for each write.

// socket is the path of the socket, from the directory of the run. Processes work
// in that directory, because the path of a socket must be short.
const socket = "register"

// service is the register's name in calls.
const service = "register"

// A Write is a write to the register.
type Write struct {
	Lock        string
	Token, Turn uint64
	Process     int
	Worker      int
	Op          uint64
}

// A register is the state of the process.
type register struct {
	sloppy bool // sabotage: accepts every write

	// mu is held while an answer is written into the history, so that writes have the same
	// order there. The file is local, and no caller waits for anything else.
	mu      sync.Mutex
	journal *journal.Journal
	highest map[string]history.Fence // by lock
}

// Main runs the register until stdin ends, and returns its exit status.
func Main(s wire.Settings, stdin io.Reader, out *wire.MessageWriter) int {
	fail := func(err error) int {
		out.Send(wire.Message{Failure: &wire.Failure{Text: "the register: " + err.Error(), Fatal: true}})
		return wire.ExitFailure
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fail(err)
	}
	j, err := journal.Open(s, func(err error) { fail(err) })
	if err != nil {
		_ = listener.Close()
		return fail(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r := &register{journal: j, highest: map[string]history.Fence{}, sloppy: s.Sabotage == wire.SloppyRegister}
	server := rpc.NewServer()
	if err := server.RegisterName(service, r); err != nil {
		return fail(err)
	}
	var all sync.WaitGroup
	all.Go(func() { j.Alive(ctx) })
	all.Go(func() { listen(ctx, listener, server) })
	out.Send(wire.Message{Ready: true})
	_, _ = io.Copy(io.Discard, stdin) // until the parent closes it, or is gone
	stop()
	_ = listener.Close()
	all.Wait()
	if err := j.Close(); err != nil {
		return fail(err)
	}
	out.Send(wire.Message{Final: &wire.Final{}})
	return wire.ExitOK
}

// listen serves connections until the listener is closed.
func listen(ctx context.Context, listener net.Listener, server *rpc.Server) {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		conns.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			server.ServeConn(c)
		})
	}
}

// Write accepts w, or refuses it, and writes which into the history. Clients call it.
func (r *register) Write(w Write, accepted *bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := history.Event{Kind: history.Stale, Process: w.Process, Lock: w.Lock, Token: w.Token, Turn: w.Turn, Worker: w.Worker, Op: w.Op}
	if *accepted = r.sloppy || e.Fence().Compare(r.highest[w.Lock]) >= 0; *accepted {
		r.highest[w.Lock] = e.Fence()
		e.Kind = history.Accepted
	}
	r.journal.Write(e)
	return nil
}

// A Client is one worker's connection to the register. Only that worker uses it.
type Client struct{ client *rpc.Client }

// Close closes the connection, if there is one.
func (c *Client) Close() {
	if c.client != nil {
		_ = c.client.Close()
	}
}

// Write sends a write and returns whether it was accepted.
func (c *Client) Write(w Write) (accepted bool, err error) {
	if c.client == nil {
		if c.client, err = rpc.Dial("unix", socket); err != nil {
			return false, err
		}
	}
	err = c.client.Call(service+".Write", w, &accepted)
	return accepted, err
}
