// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/demo"
	"github.com/holdfast-go/holdfast/manager"
)

const (
	hosts    = 3 // one is killed, one is stopped, and one remains
	accounts = 300
	messages = 2_000
)

func main() {
	servers := flag.String("servers", "", "ZooKeeper's connection string; default: an embedded server")
	store := flag.String("store", "", "run as a host, with the store at this address; the program starts its hosts so")
	flag.Parse()
	var err error
	if *store == "" {
		err = demonstrate(*servers)
	} else {
		demo.EndWithParent()
		err = runHost(*servers, *store)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "actors:", err)
		os.Exit(1)
	}
}

// runHost runs a host until SIGTERM. It prints the host's endpoint.
func runHost(connect, store string) error {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	servers, chroot, err := manager.ParseServers(connect)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	endpoint := listener.Addr().String() // in production: an address that other machines can reach
	opening, opened := context.WithTimeout(ctx, 20*time.Second)
	defer opened()
	m, err := manager.Open(opening, manager.Config{Servers: servers, Chroot: chroot, Endpoint: endpoint, SessionTimeout: 4 * time.Second})
	if err != nil {
		return err
	}
	go serve(listener, "Host", &Host{manager: m, store: store, ctx: ctx, actors: map[string]*actor{}}) // ends with the process
	fmt.Println(endpoint)
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return m.Shutdown(closing) // the actors end with ctx, and other processes get the entities
}

// demonstrate starts the store and the hosts, sends messages, and kills one host and
// stops another meanwhile. The error says that the senders were told something untrue.
func demonstrate(given string) error {
	servers, stop, err := demo.Servers(given)
	if err != nil {
		return err
	}
	defer stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d := &driver{store: &Store{entries: map[string][]Entry{}}}
	go serve(listener, "Store", d.store) // ends with the process
	defer time.AfterFunc(2*time.Minute, func() { log.Fatal("actors: not done after two minutes") }).Stop()
	var processes []*demo.Process
	defer func() { demo.Kill(processes) }()
	lines := make(chan demo.Line)
	for i := range hosts {
		p, err := demo.Start(fmt.Sprint("process ", i+1), lines, "-servers", servers, "-store", listener.Addr().String())
		if err != nil {
			return err
		}
		processes = append(processes, p)
		select {
		case line := <-lines:
			d.endpoints = append(d.endpoints, line.Text)
		case <-p.Ended():
			return fmt.Errorf("%s did not start: %w; see its own message above", p.Name, p.Wait())
		}
	}
	var sending sync.WaitGroup
	for n := range messages {
		switch n {
		case messages / 5:
			fmt.Println("process 1 is killed")
			processes[0].Kill()
		case messages * 3 / 10:
			fmt.Println("process 2 is stopped")
			err = processes[1].Pause()
		case messages * 19 / 20:
			fmt.Println("process 2 goes on; its accounts live elsewhere by now, but messages wait for it")
			err = errors.Join(err, processes[1].Resume())
		}
		sending.Go(func() { d.send(n) })
		<-time.After(6 * time.Millisecond)
	}
	sending.Wait()
	for _, p := range processes[1:] {
		err = errors.Join(err, p.Signal(syscall.SIGTERM), p.Wait())
	}
	return errors.Join(err, d.judge())
}

// A driver sends messages, and compares the replies with the store. It knows no locks.
type driver struct {
	store     *Store
	endpoints []string // of the hosts

	mu         sync.Mutex // protects what follows
	handled    []Message
	violations int
}

// send sends message n until it is handled, and checks the reply.
func (d *driver) send(n int) {
	m := Message{ID: uint64(n) + 1, Entity: strconv.Itoa(n % accounts), Amount: max(0, rand.Int64N(50)-40)} // most only ask
	d.store.mu.Lock()
	token, balance := d.store.state(m.Entity)
	d.store.mu.Unlock()
	var reply Reply
	for host := rand.IntN(hosts); call(5*timeout, d.endpoints[host%hosts], "Host.Send", m, &reply) != nil; host++ {
		<-time.After(timeout / 5)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handled = append(d.handled, m)
	if reply.Token < token || reply.Balance < balance { // by a former owner, or not from what is stored
		d.violation(m, "was handled under token %d, after token %d: balance %d, after %d", reply.Token, token, reply.Balance, balance)
	}
}

// violation notes what must not happen to a message.
func (d *driver) violation(m Message, format string, args ...any) {
	d.violations++
	fmt.Printf("VIOLATION: message %d for account %s %s\n", m.ID, m.Entity, fmt.Sprintf(format, args...))
}

// judge compares the store with the replies, when all senders have ended.
func (d *driver) judge() error {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	applied := map[uint64]int64{} // how often, by ID; 0 are activations
	for _, entries := range d.store.entries {
		for i, e := range entries {
			applied[e.ID]++
			if before := entries[max(0, i-1)]; e.Token < before.Token {
				d.violation(e.Message, "was written under token %d, after token %d", e.Token, before.Token)
			}
		}
	}
	for _, m := range d.handled {
		if n := applied[m.ID]; n != min(1, m.Amount) {
			d.violation(m, "adds %d, and was applied %d times", m.Amount, n)
		}
	}
	fmt.Printf("messages handled %6d\nactivations      %6d  of %d accounts\nviolations       %6d\n", len(d.handled), applied[0], accounts, d.violations)
	if d.violations > 0 {
		return errors.New("the senders were told something untrue")
	}
	return nil
}
