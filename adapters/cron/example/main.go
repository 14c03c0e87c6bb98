// SPDX-License-Identifier: Apache-2.0

// Example has three processes with a robfig Cron each and the same job, every two seconds. One of them runs
// it each time. One is killed in the middle of a run, which another one begins again when the lock of the
// killed process is free. Then it runs the planned times that have passed meanwhile.
//
//	go run ./example
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"time"

	robfig "github.com/robfig/cron/v3"

	adapter "github.com/holdfast-go/holdfast/adapters/cron"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/cron"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// server names the server to the processes that the program starts.
const server = "EXAMPLE_SERVER"

const period = 2 * time.Second

func main() {
	run := supervise
	if address := os.Getenv(server); address != "" {
		run = func() error { return work(address) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}

// work is a process. It ends when the one that has started it closes its input, or has gone.
func work(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	m, err := manager.Open(ctx, manager.Config{Servers: []string{address}, SessionTimeout: 4 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer m.Close()

	c := robfig.New(robfig.WithSeconds(), robfig.WithLocation(time.UTC))
	schedule, err := robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow).Parse("*/2 * * * * *")
	if err != nil {
		return err
	}
	once, err := adapter.New(ctx, m, "reports", schedule, robfig.DiscardLogger, cron.Options{
		Location: c.Location(),
		Missed:   cron.RunAll,
		Attempts: 2,
	})
	if err != nil {
		return err
	}
	c.Schedule(schedule, once.Job(func(ctx context.Context, t cron.Tick) error {
		fmt.Println("begins", t.Planned.Unix(), "attempt", t.Attempt, "token", t.Token)
		select {
		case <-time.After(300 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}))
	c.Start()
	_, _ = io.Copy(io.Discard, os.Stdin)
	stopped := c.Stop()
	ctx, end := context.WithTimeout(context.Background(), 10*time.Second)
	defer end()
	err = m.Shutdown(ctx) // waits for the run under way, and ends what waits for ZooKeeper
	<-stopped.Done()
	return err
}

// supervise starts the processes, prints what they print, and checks it.
func supervise() error {
	srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer srv.Close()
	address, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	type line struct{ process, text string }
	lines, processes := make(chan line, 100), map[string]*exec.Cmd{}
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	for _, name := range []string{"A", "B", "C"} {
		p := exec.Command(os.Args[0]) //nolint:gosec // this program
		p.Env = append(os.Environ(), server+"="+address)
		p.Stderr = os.Stderr
		in, err := p.StdinPipe()
		if err != nil {
			return err
		}
		out, err := p.StdoutPipe()
		if err != nil {
			return err
		}
		if err := p.Start(); err != nil {
			return err
		}
		processes[name] = p
		read := make(chan struct{})
		go func() {
			defer close(read)
			for text := bufio.NewScanner(out); text.Scan(); {
				lines <- line{name, text.Text()}
			}
		}()
		ends = append(ends, func() { _ = in.Close(); <-read; _ = p.Wait() }) // one was killed
	}

	var last, repeated int64
	var token uint64
	runs, killed := 0, ""
	for limit := time.After(time.Minute); runs < 8 || repeated == 0; {
		var l line
		select {
		case l = <-lines:
		case <-limit:
			return errors.New("it takes too long")
		}
		fmt.Printf("process %s: %s\n", l.process, l.text)
		var planned int64
		var attempt int
		var with uint64
		if _, err := fmt.Sscanf(l.text, "begins %d attempt %d token %d", &planned, &attempt, &with); err != nil {
			return err
		}
		switch {
		case with < token:
			return fmt.Errorf("the token %d comes after %d", with, token)
		case attempt == 2 && planned == last && l.process != killed:
			repeated++
		case last != 0 && planned != last+int64(period/time.Second) || attempt != 1:
			return fmt.Errorf("the run of %d, attempt %d, comes after that of %d", planned, attempt, last)
		}
		last, token = planned, with
		if runs++; runs == 3 {
			killed = l.process
			fmt.Printf("process %s: <- kill -9\n", killed)
			if err := processes[killed].Process.Kill(); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%d runs, none left out, %d repeated\n", runs, repeated)
	return nil
}
