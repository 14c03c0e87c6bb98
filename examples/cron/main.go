// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/demo"
	"github.com/holdfast-go/holdfast/manager"
)

func main() {
	servers := flag.String("servers", "", "ZooKeeper's connection string; default: an embedded server")
	machine := flag.Bool("machine", false, "run as a machine; the program starts its machines so")
	flag.Parse()
	run := demonstrate
	if *machine {
		demo.EndWithParent()
		run = runMachine
	}
	if err := run(*servers); err != nil {
		fmt.Fprintln(os.Stderr, "cron:", err)
		os.Exit(1)
	}
}

// runMachine runs the job until SIGTERM.
func runMachine(connect string) error {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	servers, chroot, err := manager.ParseServers(connect)
	if err != nil {
		return err
	}
	m, err := manager.Open(stop, manager.Config{Servers: servers, Chroot: chroot, SessionTimeout: 4 * time.Second})
	if err != nil {
		return err
	}
	defer m.Close()
	lock, err := m.Exclusive("cron/nightly")
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	cron := Cron{Lock: lock, Interval: time.Second, Log: say, Job: func(ctx context.Context, token uint64) error {
		say("run begins, token %#x", token)
		select { // what a job does: it takes a while, and stops when ctx ends
		case <-time.After(300 * time.Millisecond):
			say("run is done")
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	say("waits for the lock")
	err = cron.Run(stop)
	say("ends")
	return err
}

// demonstrate starts three machines and prints what they say. It stops the first that
// runs the job, kills the second, and ends with the third. The error says what was not
// as it should be.
func demonstrate(given string) error {
	servers, stop, err := demo.Servers(given)
	if err != nil {
		return err
	}
	defer stop()
	started, lines := time.Now(), make(chan demo.Line, 100)
	say := func(p *demo.Process, text string) {
		fmt.Printf("%5.1f s  %s: %s\n", time.Since(started).Seconds(), p.Name, text)
	}
	var machines []*demo.Process
	defer func() { demo.Kill(machines) }()
	for _, name := range []string{"machine A", "machine B", "machine C"} {
		p, err := demo.Start(name, lines, "-machine", "-servers", servers)
		if err != nil {
			return err
		}
		machines = append(machines, p)
	}

	var order []*demo.Process // the machines that have run the job
	begun, done := map[*demo.Process]int{}, map[*demo.Process]int{}
	var highest uint64
	for limit := time.After(time.Minute); ; {
		var line demo.Line
		select {
		case line = <-lines:
		case <-limit:
			return errors.New("no machine runs the job any more")
		}
		p := line.From
		say(p, line.Text)
		var token uint64
		switch {
		case line.Text == "run is done":
			done[p]++
		case line.Text == "ends" && begun[p] != done[p]:
			return fmt.Errorf("%s has begun %d runs, and finished %d", p.Name, begun[p], done[p])
		case line.Text == "ends" && len(order) == 3:
			return nil
		}
		if n, _ := fmt.Sscanf(line.Text, "run begins, token %v", &token); n == 0 {
			continue
		}
		if token < highest {
			return fmt.Errorf("%s runs the job with the token %#x, after %#x", p.Name, token, highest)
		}
		highest = token
		if begun[p]++; begun[p] == 1 {
			order = append(order, p)
		}
		if begun[p] < 2 {
			continue
		}
		if len(order) == 2 {
			say(p, "<- kill -9")
			p.Kill()
		} else {
			say(p, "<- SIGTERM")
			if err := p.Signal(syscall.SIGTERM); err != nil {
				return err
			}
		}
	}
}
