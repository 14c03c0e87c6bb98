// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// listeningMark is at the end of the name of a contender that hears of losses.
const listeningMark = "-listening"

// A contender does what the stress harness tells it: docs/testing.md has the protocol.
type contender struct {
	servers   []string
	timeout   time.Duration // of a session, or whatever ends the locks of a client that has ended
	listening bool          // tell holders of losses, by whatever the library offers for that

	saying sync.Mutex // protects out, and held by a write of a line
	out    io.Writer

	mu      sync.Mutex // protects holders, and keeps what is said of grants and losses in order
	holders map[string]bool
}

// A system is a client of servers, as all clients of a contender share it.
type system interface {
	// locker returns the lock at that path for a client, which asks for each once. The goroutine
	// of that client alone uses it.
	locker(client, path string) (watchedLock, error)
	// session returns what has the locks of the process; 0: it has no number.
	session() uint64
	close()
}

// A watchedLock is one of whose loss the library tells.
type watchedLock interface {
	work.Locker
	// valid reports whether the library has told of no loss since the lock was granted.
	valid() bool
}

// contenders connect to the servers of the locks that the stress harness can contend for.
var contenders = map[string]func(p *contender) (system, error){
	"go-zookeeper":   func(p *contender) (system, error) { return openZooKeeper(p, carefulLock) },
	"naive":          func(p *contender) (system, error) { return openZooKeeper(p, naiveLock) },
	"etcd":           openEtcd,
	"redsync":        openRedsync,
	"holdfast-mutex": openHoldfast,
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
	p := &contender{
		servers: strings.Split(args[1], ","), timeout: time.Duration(millis) * time.Millisecond, listening: listening,
		out: out, holders: map[string]bool{},
	}
	s, err := contenders[name](p)
	if err != nil {
		return err
	}
	p.say("ready")
	clients := map[string]chan []string{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		words := strings.Fields(lines.Text())
		orders := clients[words[0]]
		if orders == nil {
			orders = make(chan []string, 1)
			clients[words[0]] = orders
			go p.serve(s, words[0], orders) // ends with the process: a wait for a lock cannot be cut short
		}
		orders <- words
	}
	s.close()
	return nil
}

// serve does what a client is told.
func (p *contender) serve(s system, client string, orders <-chan []string) {
	locks := map[string]watchedLock{}
	for words := range orders {
		if err := p.do(s, client, words[1], words[2], locks); err != nil {
			p.say("%s error %s", client, strings.ReplaceAll(err.Error(), "\n", ": "))
		}
	}
}

func (p *contender) do(s system, client, command, path string, locks map[string]watchedLock) (err error) {
	l := locks[path]
	if l == nil {
		if l, err = s.locker(client, path); err != nil {
			return err
		}
		locks[path] = l
	}
	switch command {
	case "acquire":
		if err := l.Lock(context.Background()); err != nil {
			return err
		}
		p.granted(client, s.session(), l)
	case "release":
		p.leaves(client)
		if err := l.Unlock(context.Background()); err != nil {
			return err
		}
		p.say("%s released", client)
	default:
		return fmt.Errorf("this client cannot %s", command)
	}
	return nil
}

// granted says that the client has the lock. What the library has told of a loss meanwhile comes
// after that: the harness passes over a loss of what no client has.
func (p *contender) granted(client string, session uint64, l watchedLock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if session != 0 {
		p.say("%s granted session=%#x", client, session)
	} else {
		p.say("%s granted", client)
	}
	p.holders[client] = true
	if p.listening && !l.valid() {
		p.say("%s lost", client)
	}
}

// leaves notes that the client gives up its lock.
func (p *contender) leaves(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.holders, client)
}

// lose tells the client that it has lost its lock, if it has one.
func (p *contender) lose(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listening && p.holders[client] {
		p.say("%s lost", client)
	}
}

// loseAll tells all holders that they have lost their locks.
func (p *contender) loseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client := range p.holders {
		if p.listening {
			p.say("%s lost", client)
		}
	}
}

func (p *contender) say(format string, args ...any) {
	p.saying.Lock()
	defer p.saying.Unlock()
	_, _ = fmt.Fprintf(p.out, format+"\n", args...) // if the harness is gone, so is the input
}
