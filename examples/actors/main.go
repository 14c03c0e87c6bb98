// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/demo"
	"github.com/holdfast-go/holdfast/manager"
)

func main() {
	var d Driver
	store := flag.String("store", "", "run as a host, with the store at this URL; the program starts its hosts so")
	flag.StringVar(&d.servers, "servers", "", "ZooKeeper's connection string; default: an embedded server")
	flag.IntVar(&d.processes, "processes", 3, "host processes")
	flag.IntVar(&d.entities, "entities", 5_000, "entities")
	flag.IntVar(&d.messages, "messages", 20_000, "messages")
	flag.DurationVar(&d.duration, "duration", 20*time.Second, "the messages are spread over this time")
	flag.DurationVar(&d.pause, "pause", 12*time.Second, "how long a process is stopped")
	flag.BoolVar(&d.nokill, "nokill", false, "neither kill nor stop a process")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	run := d.Run
	if *store != "" {
		demo.EndWithParent()
		run = func(ctx context.Context) error { return runHost(ctx, d.servers, *store) }
	}
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "actors:", err)
		os.Exit(1)
	}
}

// runHost runs a host until ctx ends. It prints the host's endpoint as soon as it can
// be talked to.
func runHost(ctx context.Context, connect, store string) error {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	servers, chroot, err := manager.ParseServers(connect)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	endpoint := listener.Addr().String() // in production: an address that other machines can reach
	m, err := manager.Open(ctx, manager.Config{
		Servers:        servers,
		Chroot:         chroot,
		Endpoint:       endpoint,
		SessionTimeout: 4 * time.Second,
	})
	if err != nil {
		return err
	}
	defer m.Close()
	host := &Host{manager: m, endpoint: endpoint, store: store, ctx: ctx, actors: map[string]*actor{}}
	server := &http.Server{Handler: host.Handler()}
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(listener) }() // until Shutdown
	fmt.Println(endpoint)

	select {
	case <-ctx.Done():
	case err := <-serving:
		return err
	}
	host.Wait() // the actors end with ctx, and other processes get the entities at once
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(closing), m.Shutdown(closing))
}
