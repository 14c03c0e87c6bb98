// SPDX-License-Identifier: Apache-2.0

// Package register is a resource that checks fencing tokens. The workers write to it.
package register

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
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
// It listens on a socket in the directory of the run. Each worker has a connection, and
// sends a line of JSON for each write.

// Mark is in settings.Process of the register.
const Mark = history.Register

// socket is the path of the socket, from the directory of the run. Processes work
// in that directory, because the path of a socket must be short.
const socket = "register"

// A Write is a write to the register.
type Write struct {
	Lock    string `json:"lock"`
	Token   uint64 `json:"token"`
	Turn    uint64 `json:"turn,omitempty"`
	Process int    `json:"process"`
	Worker  int    `json:"worker"`
	Op      uint64 `json:"op"`
}

// A reply says whether a write was accepted.
type reply struct {
	OK bool `json:"ok"`
}

// A fencing is a token and a turn.
type fencing struct{ token, turn uint64 }

func (f fencing) below(g fencing) bool {
	return f.token < g.token || f.token == g.token && f.turn < g.turn
}

// A register is the state of the process. One goroutine serves all writes, so that they
// have an order, which is that of the history.
type register struct {
	journal *journal.Journal
	writes  chan pendingWrite
	highest map[string]fencing // by lock
	sloppy  bool               // sabotage: accepts every write
}

type pendingWrite struct {
	Write
	answer chan<- bool
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
	r := &register{journal: j, writes: make(chan pendingWrite), highest: map[string]fencing{}, sloppy: s.Sabotage == wire.SloppyRegister}
	var all sync.WaitGroup
	all.Go(func() { j.Alive(ctx) })
	all.Go(func() { r.run(ctx) })
	all.Go(func() { r.listen(ctx, listener) })
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
func (r *register) listen(ctx context.Context, listener net.Listener) {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		conns.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			defer c.Close()
			r.serve(ctx, c)
		})
	}
}

// serve answers the writes of one connection.
func (r *register) serve(ctx context.Context, c net.Conn) {
	dec, enc := json.NewDecoder(bufio.NewReader(c)), json.NewEncoder(c)
	answer := make(chan bool, 1)
	for {
		var w Write
		if dec.Decode(&w) != nil {
			return
		}
		select {
		case r.writes <- pendingWrite{w, answer}:
		case <-ctx.Done():
			return
		}
		// run answers each write that it has taken.
		if enc.Encode(reply{OK: <-answer}) != nil {
			return
		}
	}
}

// run judges writes, one after the other.
func (r *register) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-r.writes:
			w.answer <- r.judge(w.Write)
		}
	}
}

// judge accepts w, or refuses it, and writes which.
func (r *register) judge(w Write) (accepted bool) {
	fence := fencing{w.Token, w.Turn}
	accepted = r.sloppy || !fence.below(r.highest[w.Lock])
	e := history.Event{Kind: history.Stale, Process: w.Process, Lock: w.Lock, Token: w.Token, Turn: w.Turn, Worker: w.Worker, Op: w.Op}
	if accepted {
		r.highest[w.Lock] = fence
		e.Kind = history.Accepted
	}
	r.journal.Write(e)
	return accepted
}

// A Client is one worker's connection to the register. Only that worker uses it.
type Client struct {
	conn net.Conn
	dec  *json.Decoder
}

// Close closes the connection, if there is one.
func (c *Client) Close() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// Write sends a write and returns whether it was accepted.
func (c *Client) Write(w Write) (bool, error) {
	if c.conn == nil {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return false, err
		}
		c.conn, c.dec = conn, json.NewDecoder(conn)
	}
	line, err := json.Marshal(w)
	if err != nil {
		return false, err
	}
	if _, err = c.conn.Write(append(line, '\n')); err != nil {
		return false, err
	}
	var a reply
	err = c.dec.Decode(&a)
	return a.OK, err
}
