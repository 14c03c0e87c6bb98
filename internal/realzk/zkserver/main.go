// SPDX-License-Identifier: Apache-2.0

// Command zkserver runs a real ZooKeeper server on 127.0.0.1.
//
//	zkserver -find          print which ZooKeeper it would use; exit 1 if there is none
//	zkserver                run a server until Ctrl-C
//	zkserver -port 2181     the same, on that port and not on a free one
//	zkserver COMMAND ARG…   run COMMAND with a server; {} in an ARG is its address
//
// With a COMMAND the server runs until the COMMAND ends, whose exit status zkserver
// returns. The COMMAND receives Ctrl-C from the terminal, and SIGTERM from zkserver.
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
	find := flag.Bool("find", false, "print which ZooKeeper would be used, and exit")
	tick := flag.Duration("tick", 0, "ZooKeeper's tickTime (default 500ms)")
	port := flag.Int("port", 0, "the port to serve on (default a free one)")
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
	status, err := run(flag.Args(), realzk.TickTime(*tick), realzk.Port(*port))
	if err != nil {
		fmt.Fprintln(os.Stderr, "zkserver:", err)
		if status == 0 {
			status = 1
		}
	}
	os.Exit(status)
}

// run runs a server, and args as a command, and returns the exit status.
func run(args []string, opts ...realzk.Option) (status int, err error) {
	// The terminal interrupts the command, too. The server must run until the
	// command has ended.
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	interrupted, stop := signal.NotifyContext(terminated, os.Interrupt)
	defer stop()
	server, err := realzk.Run(context.Background(), opts...)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()

	fmt.Fprintf(os.Stderr, "%v: serving at %s, logging to %s\n", server.Installation(), server.Addr(), server.LogFile())
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
