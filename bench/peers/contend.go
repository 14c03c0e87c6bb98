// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// contenders are the locks that the stress harness can contend for. Their clients share a
// connection. A holder hears of no loss; one whose name has -listening at the end takes its lock for
// lost when the connection's events say that it is disconnected.
var contenders = map[string]func(c *zk.Conn, dir string) (work.Locker, error){
	"go-zookeeper": goZooKeeper.Lock,
	"naive":        func(c *zk.Conn, dir string) (work.Locker, error) { return naive.Lock(c, path.Join(dir, "lock")) },
}

// listeningMark is at the end of the name of a contender that hears of losses.
const listeningMark = "-listening"

// A contender does what the stress harness tells it: docs/testing.md has the protocol.
type contender struct {
	conn      *zk.Conn
	lock      func(c *zk.Conn, dir string) (work.Locker, error)
	listening bool
	begun     chan struct{} // closed when there is a session

	saying sync.Mutex // protects out, and held by a write of a line
	out    io.Writer

	mu      sync.Mutex // protects holders
	holders map[string]bool
}

// contend runs a contender until the end of in.
func contend(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 3 {
		return fmt.Errorf("contend NAME SERVERS MILLISECONDS, and not %q", args)
	}
	name, listening := strings.CutSuffix(args[0], listeningMark)
	millis, err := strconv.Atoi(args[2])
	if err != nil || contenders[name] == nil {
		return fmt.Errorf("there is no contender %s, or %q is no number", name, args[2])
	}
	p := &contender{lock: contenders[name], listening: listening, out: out, holders: map[string]bool{}, begun: make(chan struct{})}
	conn, events, err := zk.Connect(strings.Split(args[1], ","), time.Duration(millis)*time.Millisecond, zk.WithLogger(silent{}))
	if err != nil {
		return err
	}
	p.conn = conn
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		p.hear(events)
	}()
	<-p.begun // the harness waits for so long as it likes
	p.say("ready")
	clients := map[string]chan []string{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		words := strings.Fields(lines.Text())
		orders := clients[words[0]]
		if orders == nil {
			orders = make(chan []string, 1)
			clients[words[0]] = orders
			go p.serve(words[0], orders) // ends with the process: a wait for a lock cannot be cut short
		}
		orders <- words
	}
	conn.Close() // which closes the session
	<-heard
	return nil
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// hear tells of the session, and of locks that are taken for lost.
func (p *contender) hear(events <-chan zk.Event) {
	var session int64
	begin := sync.OnceFunc(func() { close(p.begun) })
	for e := range events {
		switch e.State {
		case zk.StateHasSession:
			what := "resumed"
			if id := p.conn.SessionID(); id != session {
				session, what = id, "began"
			}
			p.say("session %#x %s", uint64(session), what) //nolint:gosec // its bits
			begin()
		case zk.StateDisconnected, zk.StateExpired:
			p.lose()
			what := "suspended"
			if e.State == zk.StateExpired {
				what = "ended"
			}
			if session != 0 {
				p.say("session %#x %s", uint64(session), what) //nolint:gosec // its bits
			}
		}
	}
}

// lose tells holders that they have lost their locks.
func (p *contender) lose() {
	if !p.listening {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for client := range p.holders {
		p.say("%s lost", client)
	}
}

// serve does what a client is told.
func (p *contender) serve(client string, orders <-chan []string) {
	locks := map[string]work.Locker{}
	for words := range orders {
		if err := p.do(client, words[1], words[2], locks); err != nil {
			p.say("%s error %v", client, err)
		}
	}
}

func (p *contender) do(client, command, dir string, locks map[string]work.Locker) (err error) {
	l := locks[dir]
	if l == nil {
		if l, err = p.lock(p.conn, dir); err != nil {
			return err
		}
		locks[dir] = l
	}
	if command == "acquire" {
		if err := l.Lock(context.Background()); err != nil {
			return err
		}
		p.hold(client, true)
		p.say("%s granted session=%#x", client, uint64(p.conn.SessionID())) //nolint:gosec // its bits
		return nil
	}
	p.hold(client, false)
	if err := l.Unlock(context.Background()); err != nil {
		return err
	}
	p.say("%s released", client)
	return nil
}

func (p *contender) hold(client string, holds bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.holders, client); holds {
		p.holders[client] = true
	}
}

func (p *contender) say(format string, args ...any) {
	p.saying.Lock()
	defer p.saying.Unlock()
	_, _ = fmt.Fprintf(p.out, format+"\n", args...) // if the harness is gone, so is the input
}
