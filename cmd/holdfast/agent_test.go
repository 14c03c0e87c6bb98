// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/sentinel"
)

// asWard in the environment makes the test program a process that holds a lock and has the agent
// at that socket. Its only argument is the server.
const asWard = "HOLDFAST_TEST_WARD"

func wardMain() {
	helper, err := sentinel.Start(sentinel.Config{Agent: os.Getenv(asWard)})
	if err == nil {
		var m *manager.Manager
		m, err = manager.Open(context.Background(), manager.Config{Servers: os.Args[1:], SessionTimeout: time.Minute, Sentinel: helper})
		if err == nil {
			var l *manager.Lock
			if l, err = m.Exclusive("x"); err == nil {
				_, err = l.Lock(context.Background())
			}
		}
	}
	fmt.Println("held", err)
	select {}
}

// What is no socket of an agent's is not removed.
func TestAgentKeepsFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	file := filepath.Join(t.TempDir(), "precious")
	writeFile(t, file, "precious")
	for _, socket := range []string{file, filepath.Dir(file)} {
		if _, stderr, code := do(t, "agent", "--socket", socket); code != exitFailure || !strings.Contains(stderr, "is no socket: choose another path") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// An agent closes the session of a process that is killed: the lock is free at once. An agent that
// was killed is replaced by the next, which uses the socket that it has left behind.
func TestF351_Agent(t *testing.T) {
	if runtime.GOOS != "linux" {
		_, stderr, code := do(t, "agent", "--socket", "x")
		if code != exitFailure || !strings.Contains(stderr, "an agent needs Linux") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
		return
	}
	_, addr := serve(t)
	socket := filepath.Join(t.TempDir(), "agent")
	args := []string{"agent", "--servers", addr, "--socket", socket, "--mode", "660"}
	first := begin(t, args...)
	first.stderr.await(t, "closing the sessions of processes")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket is %v, %v", info, err)
	}

	ward := &command{Cmd: exec.Command(os.Args[0], addr), t: t, stdout: newOutput(), stderr: newOutput(), ended: make(chan struct{})}
	ward.Cmd.Stdout, ward.Cmd.Stderr = ward.stdout, ward.stderr
	ward.Env = append(os.Environ(), asWard+"="+socket)
	ward.begin()
	ward.stdout.await(t, "held <nil>")

	if _, stderr, code := do(t, args...); code != exitFailure || !strings.Contains(stderr, "another agent listens") {
		t.Errorf("a second agent: exit code %d, %s", code, stderr)
	}
	must(t, first.Process.Kill())
	ward.stderr.await(t, "the sentinel does not run")
	second := begin(t, args...)
	ward.stderr.await(t, "the sentinel runs again")

	must(t, ward.Process.Kill())
	second.stderr.await(t, "is closed after")
	lock(t, manage(t, addr, "next", nil), "x")
	second.signal(os.Interrupt)
	if code := second.code(); code != exitOK {
		t.Errorf("after an interrupt: exit code %d", code)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}
