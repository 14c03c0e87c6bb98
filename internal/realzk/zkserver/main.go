// SPDX-License-Identifier: Apache-2.0

// Command zkserver runs a real ZooKeeper server on 127.0.0.1 for as long as
// another command, or its user, needs one.
//
//	zkserver -find                 say which ZooKeeper would be used; exit 1 if there is none
//	zkserver                       run a server until Ctrl-C
//	zkserver COMMAND ARG…          run COMMAND beside a server; {} in an ARG is its address
//
// With a COMMAND its exit status is the COMMAND's, and the server ends after it.
// The COMMAND gets Ctrl-C from the terminal, and SIGTERM from zkserver.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

func main() {
	find := flag.Bool("find", false, "say which ZooKeeper would be used, and exit")
	tick := flag.Duration("tick", 0, "ZooKeeper's tickTime (default 500ms)")
	flag.Parse()
	if *find {
		in, err := realzk.Find()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(in)
		return
	}
	status, err := run(flag.Args(), realzk.TickTime(*tick))
	if err != nil {
		fmt.Fprintln(os.Stderr, "zkserver:", err)
		if status == 0 {
			status = 1
		}
	}
	os.Exit(status)
}

// run runs a server, and args as a command beside it, and returns the exit status.
func run(args []string, opts ...realzk.Option) (status int, err error) {
	// A command gets the terminal's interrupts too, and its end is ours: until
	// then they must not end the server under it.
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	interrupted, stop := signal.NotifyContext(terminated, os.Interrupt)
	defer stop()
	server, err := realzk.Run(context.Background(), opts...)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()

	fmt.Fprintf(os.Stderr, "%v: serves at %s, log in %s\n", server.Installation(), server.Addr(), server.LogFile())
	if len(args) == 0 {
		fmt.Println(server.Addr())
		<-interrupted.Done()
		return 0, nil
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{}", server.Addr())
	}
	cmd := exec.CommandContext(terminated, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}
