// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// envExit makes the test binary play the command beside the server: it asks
// the server at its last argument whether it is well.
const envExit = "ZKSERVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(envExit) != "" {
		child()
	}
	goleak.VerifyTestMain(m)
}

func child() {
	answer, err := realzk.FourLetterWord(context.Background(), os.Args[len(os.Args)-1], "ruok")
	if err != nil || answer != "imok" {
		os.Exit(1)
	}
	os.Exit(7)
}

func TestCommandBesideServer(t *testing.T) {
	realzk.Require(t)
	t.Setenv(envExit, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if status, err := run([]string{self, "{}"}); status != 7 || err != nil {
		t.Errorf("status %d, error %v; want the command's status 7", status, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	if status, err := run([]string{self, l.Addr().String()}, realzk.Port(port)); status != 7 || err != nil {
		t.Errorf("on port %d: status %d, error %v; want the command's status 7", port, status, err)
	}
	if _, err := run([]string{"no-such-command-here"}); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("error %v, want that the command is not found", err)
	}
}
