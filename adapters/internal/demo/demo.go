// SPDX-License-Identifier: Apache-2.0

// Package demo is what the example programs of the adapters have in common: three processes
// of the program on one embedded ZooKeeper server, of which one is killed. It has nothing
// to do with the adapters themselves.
package demo

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A Program is an example. Its output is the lines that its processes print.
type Program struct {
	// Work is what each process does, until ctx ends. dir is a directory that all of them share.
	Work func(ctx context.Context, m *manager.Manager, dir string) error
	// Watch is told of each line that a process prints, and says what is to happen. The
	// program fails with the error.
	Watch func(process, line string) (Next, error)
}

// Next is what is to happen after a line.
type Next int

// What can happen next.
const (
	GoOn Next = iota
	Kill      // kill -9 of the process that has printed the line
	End       // of all processes
)

// Main runs the program, and exits with status 1 if it fails.
func Main(p Program) {
	worker, servers, dir := flag.Bool("worker", false, "run as a process; the program starts its processes so"),
		flag.String("servers", "", "for a process: where ZooKeeper is"), flag.String("dir", "", "for a process: the shared directory")
	flag.Parse()
	run := p.supervise
	if *worker {
		run = func() error { return p.work(*servers, *dir) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}

// work is a process. It ends when the one that has started it closes its input or has gone.
func (p Program) work(servers, dir string) error {
	slog.SetLogLoggerLevel(slog.LevelError)
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	m, err := manager.Open(ctx, manager.Config{Servers: []string{servers}, SessionTimeout: 4 * time.Second})
	if err != nil {
		return err
	}
	defer m.Close()
	return p.Work(ctx, m, dir)
}

type line struct{ process, text string }

// supervise starts the processes, and prints what they print.
func (p Program) supervise() error {
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	address, err := server.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "adapters")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	start, lines, processes := time.Now(), make(chan line, 1000), map[string]*exec.Cmd{}
	var ends []func() error
	defer func() {
		for _, end := range ends {
			_ = end()
		}
	}()
	for _, name := range []string{"A", "B", "C"} {
		c := exec.Command(os.Args[0], "-worker", "-servers", address, "-dir", dir)
		c.Stderr = os.Stderr
		in, err := c.StdinPipe()
		if err != nil {
			return err
		}
		out, err := c.StdoutPipe()
		if err != nil {
			return err
		}
		if err := c.Start(); err != nil {
			return err
		}
		processes[name] = c
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for text := bufio.NewScanner(out); text.Scan(); {
				lines <- line{name, text.Text()}
			}
		}()
		ends = append(ends, func() error { _ = in.Close(); <-ended; return c.Wait() })
	}
	for limit := time.After(time.Minute); ; {
		var l line
		select {
		case l = <-lines:
		case <-limit:
			return errors.New("it takes too long")
		}
		say := func(text string) {
			fmt.Printf("%5.1f s  process %s: %s\n", time.Since(start).Seconds(), l.process, text)
		}
		say(l.text)
		next, err := p.Watch(l.process, l.text)
		switch {
		case err != nil || next == End:
			return err
		case next == Kill:
			say("<- kill -9")
			if err := processes[l.process].Process.Kill(); err != nil {
				return err
			}
		}
	}
}
