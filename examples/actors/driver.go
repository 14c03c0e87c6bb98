// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/demo"
)

// A Driver starts the host processes and the store, sends messages, kills one process
// and stops another, and judges what the senders were told by what is in the store.
type Driver struct {
	servers                       string
	processes, entities, messages int
	duration, pause               time.Duration
	nokill                        bool

	store     *Store
	hosts     []*demo.Process
	endpoints []string // of the hosts, in the same order
	started   time.Time
	sent      atomic.Int64
	judge     judge
}

const (
	maxSenders = 1_000
	// How long a sender waits for a reply. It is more than a host and the store take.
	sendTimeout = 5 * time.Second
	// How long a sender goes on trying, with a pause that doubles up to maxPause.
	giveUpAfter = time.Minute
	minPause    = 50 * time.Millisecond
	maxPause    = time.Second
	// How many messages are in a stopped process's sockets when it goes on, at most.
	lateMessages = 200
)

// Run runs the demonstration and prints what happens. The error says that the senders
// were told something untrue.
func (d *Driver) Run(ctx context.Context) error {
	if d.processes < 1 || !d.nokill && d.processes < 3 {
		return errors.New("3 processes at least: one is killed, one is stopped, and one has to remain")
	}
	servers, stop, err := demo.Servers(d.servers)
	if err != nil {
		return err
	}
	defer stop()
	d.store = newStore()
	d.judge = newJudge(d.store)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: d.store}
	go func() { _ = server.Serve(listener) }() // until Close
	defer server.Close()
	defer d.end()
	if err := d.start(servers, "http://"+listener.Addr().String()); err != nil {
		return err
	}
	d.say("%d processes, %d entities, %d messages", d.processes, d.entities, d.messages)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	numbers := make(chan int)
	for i := range min(maxSenders, 1+d.messages/20) {
		running.Go(func() {
			at := i // like a client with a list of hosts, which stays with one while that answers
			for n := range numbers {
				d.send(ctx, d.message(n), &at)
			}
		})
	}
	if !d.nokill {
		running.Go(func() {
			if err := d.disturb(ctx); err != nil && ctx.Err() == nil {
				d.judge.violation("the demonstration itself: %v", err)
			}
		})
	}
	d.pace(ctx, numbers)
	running.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d.say("all senders have their replies")
	return d.judge.summary()
}

// start starts the hosts and waits until each has told its endpoint.
func (d *Driver) start(servers, store string) error {
	lines := make(chan demo.Line)
	for i := range d.processes {
		p, err := demo.Start("process "+strconv.Itoa(i+1), lines, "-servers", servers, "-store", store)
		if err != nil {
			return err
		}
		d.hosts = append(d.hosts, p)
		select {
		case line := <-lines:
			d.endpoints = append(d.endpoints, line.Text)
		case <-time.After(20 * time.Second):
			return fmt.Errorf("%s does not start", p.Name)
		}
	}
	d.started = time.Now()
	return nil
}

// end ends the hosts.
func (d *Driver) end() {
	for _, p := range d.hosts {
		_ = p.Resume() // the errors say that it has ended, or cannot be told
		if p.Signal(syscall.SIGTERM) != nil {
			p.Kill()
		}
	}
	for _, p := range d.hosts {
		_ = p.Wait()
	}
}

// pace hands out the messages' numbers, spread over the duration.
func (d *Driver) pace(ctx context.Context, numbers chan<- int) {
	defer close(numbers)
	for n := range d.messages {
		due := d.started.Add(d.duration * time.Duration(n) / time.Duration(d.messages))
		if !demo.Sleep(ctx, time.Until(due)) {
			return
		}
		select {
		case numbers <- n:
			d.sent.Add(1)
		case <-ctx.Done():
			return
		}
	}
}

// message returns message n. Each entity has a first one soon; a third of the others
// only asks.
func (d *Driver) message(n int) Message {
	m := Message{ID: uint64(n) + 1, Entity: strconv.Itoa(n), Amount: 1 + rand.Int64N(100)}
	if n >= d.entities {
		m.Entity = strconv.Itoa(rand.IntN(d.entities))
		m.Amount *= min(1, rand.Int64N(3))
	}
	return m
}

// send sends a message until it is handled. It begins with host number *at, and goes on
// to the next when one does not answer.
func (d *Driver) send(ctx context.Context, m Message, at *int) {
	expected, pause := d.judge.before(m), minPause
	for begin := time.Now(); time.Since(begin) < giveUpAfter; {
		reply, err := d.attempt(ctx, m, d.endpoints[*at%d.processes])
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			d.judge.handled(m, reply, expected)
			return
		case errors.Is(err, errNoAnswer):
			*at++
		}
		d.judge.failed(err)
		demo.Sleep(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	d.judge.violation("message %d for account %s was not handled within %v", m.ID, m.Entity, giveUpAfter)
}

// attempt sends a message to a host, once.
func (d *Driver) attempt(ctx context.Context, m Message, endpoint string) (reply Reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err = post(ctx, "http://"+endpoint+"/send", m, &reply)
	return reply, err
}

// disturb kills the first host, stops the second for a while, and has messages wait for
// it when it goes on.
func (d *Driver) disturb(ctx context.Context) error {
	if !d.waitSent(ctx, d.messages/5) {
		return ctx.Err()
	}
	d.hosts[0].Kill()
	d.say("%s was killed", d.hosts[0].Name)

	if !d.waitSent(ctx, d.messages*3/10) {
		return ctx.Err()
	}
	if err := d.hosts[1].Pause(); err != nil {
		return err
	}
	d.say("%s was stopped", d.hosts[1].Name)
	if !demo.Sleep(ctx, d.pause) {
		return ctx.Err()
	}

	// It believes to own these accounts. Another process has them now.
	lost := d.store.takenFrom(d.endpoints[1])
	lost = lost[:min(len(lost), lateMessages)]
	var written, replied sync.WaitGroup
	defer replied.Wait()
	for i, entity := range lost {
		written.Add(1)
		replied.Go(func() {
			var once sync.Once
			ctx := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				WroteRequest: func(httptrace.WroteRequestInfo) { once.Do(written.Done) },
			})
			at := 1
			d.send(ctx, Message{ID: uint64(d.messages + i + 1), Entity: entity, Amount: int64(i % 2)}, &at)
			once.Do(written.Done)
		})
	}
	written.Wait()
	d.say("%s goes on; %d messages wait for it, for accounts that it has lost", d.hosts[1].Name, len(lost))
	return d.hosts[1].Resume()
}

// waitSent waits until n messages have been sent.
func (d *Driver) waitSent(ctx context.Context, n int) bool {
	for d.sent.Load() < int64(n) {
		if !demo.Sleep(ctx, 10*time.Millisecond) {
			return false
		}
	}
	return true
}

// say prints what happens.
func (d *Driver) say(format string, args ...any) {
	fmt.Printf("%6.1f s  %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}
