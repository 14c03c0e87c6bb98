// SPDX-License-Identifier: Apache-2.0

// Command zkembedded serves an embedded ZooKeeper, in memory, on 127.0.0.1 until
// Ctrl-C. It is for development and tests: when it ends, its data is gone.
//
//	zkembedded -port 2181 -tick-time 500ms -max-session-timeout 1m
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "zkembedded:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	cfg := zktest.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	flags := flag.NewFlagSet("zkembedded", flag.ContinueOnError)
	port := flags.Int("port", 0, "`port` on 127.0.0.1; 0 is a free one")
	addr := flags.String("addr", "", "`address` to listen on, such as :2181, instead of -port")
	words := flags.String("four-letter-words", "*", "monitoring `commands` to answer, separated by commas; * is all")
	flags.DurationVar(&cfg.TickTime, "tick-time", 0, "ZooKeeper's tickTime (default 2s)")
	flags.DurationVar(&cfg.MinSessionTimeout, "min-session-timeout", 0, "shortest session timeout that clients get (default 2 ticks)")
	flags.DurationVar(&cfg.MaxSessionTimeout, "max-session-timeout", 0, "longest session timeout that clients get (default 20 ticks)")
	flags.BoolVar(&cfg.ExtendedTypes, "extended-types", false, "let clients create nodes with a time to live")
	flags.StringVar(&cfg.SuperDigest, "super-digest", "", "digest `identity` of a super user, \"user:base64\"")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; -help lists the flags", flags.Arg(0))
	}
	if *words != "*" {
		cfg.FourLetterWords = strings.FieldsFunc(*words, func(r rune) bool { return r == ',' || r == ' ' })
	}
	if *addr == "" {
		*addr = fmt.Sprintf("127.0.0.1:%d", *port)
	}
	srv := zktest.NewServer(cfg)
	defer srv.Close()
	at, err := srv.Listen(*addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: an embedded ZooKeeper, in memory, for development only; Ctrl-C ends it\n", at)
	<-ctx.Done()
	return nil
}
