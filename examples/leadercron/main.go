// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/demo"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
)

func main() {
	given := flag.String("servers", "", "a ZooKeeper server; default: an embedded one")
	flag.Parse()
	if err := demonstrate(*given); err != nil {
		fmt.Fprintln(os.Stderr, "leadercron:", err)
		os.Exit(1)
	}
}

// demonstrate runs one process on the given server, or two on an embedded one.
func demonstrate(given string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	if given != "" {
		return run(ctx, fmt.Sprint(os.Getpid()), given)
	}
	servers, stop, err := demo.Servers("")
	if err != nil {
		return err
	}
	defer stop()
	for _, name := range []string{"A", "B"} {
		leading, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := run(leading, name, servers)
		cancel()
		if err != nil {
			return err
		}
		demo.Sleep(ctx, 3*time.Second) // no process leads
	}
	return nil
}

// run is what a process does until ctx ends.
func run(ctx context.Context, name, server string) error {
	m, err := manager.Open(ctx, manager.Config{Servers: []string{server}})
	if err != nil {
		return err
	}
	defer m.Close()
	path, err := m.Access().Path("cron/done")
	if err != nil {
		return err
	}
	e, err := election.New(m, "cron", election.Options{ID: name})
	if err != nil {
		return err
	}
	cron := Cron{Done: path, Every: time.Second, Job: func(_ context.Context, due time.Time) error {
		fmt.Printf("%s runs the job of %s\n", name, due.Format(time.TimeOnly))
		return nil
	}}
	if err := e.Run(ctx, cron.Lead); !errors.Is(err, ctx.Err()) || ctx.Err() == nil {
		return err
	}
	return nil
}
