// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// serverCmd serves the embedded ZooKeeper.
type serverCmd struct {
	Port              int           `default:"2181" help:"The port to serve; 0 is a free one."`
	Host              string        `default:"127.0.0.1" help:"The address to listen on. Every client that reaches it can do anything."`
	TickTime          time.Duration `placeholder:"D" help:"ZooKeeper's tickTime; 2s by default."`
	MinSessionTimeout time.Duration `placeholder:"D" help:"The shortest session timeout that clients get; 2 ticks by default."`
	MaxSessionTimeout time.Duration `placeholder:"D" help:"The longest session timeout that clients get; 20 ticks by default."`
	FourLetterWords   []string      `placeholder:"WORD" help:"The monitoring commands to answer; all by default."`
}

// Help describes the verb.
func (*serverCmd) Help() string {
	return `The server is one process and keeps everything in memory: when it ends, all data is gone. Use it to try Holdfast and to develop. In production, run a ZooKeeper ensemble.

Examples:

    holdfast server &
    holdfast server --port 2182 --tick-time 500ms`
}

// Run serves until a signal comes.
func (c *serverCmd) Run(a *app) error {
	if c.Port < 0 || c.Port > 65535 {
		return usagef("--port is %d: it must be between 0 and 65535", c.Port)
	}
	srv := zktest.NewServer(zktest.Config{
		TickTime:          c.TickTime,
		MinSessionTimeout: c.MinSessionTimeout,
		MaxSessionTimeout: c.MaxSessionTimeout,
		FourLetterWords:   c.FourLetterWords,
		Logger:            slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	defer srv.Close()
	addr, err := srv.Listen(net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
	if err != nil {
		return fmt.Errorf("cannot serve: %w", err)
	}
	a.warnf("serving an embedded ZooKeeper on %s, FOR DEVELOPMENT ONLY: one process, in memory; its data is gone when it ends (Ctrl-C)", addr)
	if a.asJSON {
		if err := a.json(struct {
			Address string `json:"address"`
		}{addr}); err != nil {
			return err
		}
	}
	<-a.ctx.Done()
	return nil
}
