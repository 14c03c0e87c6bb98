// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// These environment variables make this test binary a process that holds a
// lock: on which server, and which.
const (
	childServer = "HOLDFAST_TEST_HOLDER_SERVER"
	childLock   = "HOLDFAST_TEST_HOLDER_LOCK"
)

// holderTimeout is the session timeout of the real processes.
const holderTimeout = 4 * time.Second

// holderProcess takes the lock and says "held" and its token. For
// each line of its standard input it does what the line says and answers with
// one line. It ends when its input does, without giving the lock back.
func holderProcess() {
	ctx := context.Background()
	m, err := Open(ctx, Config{Servers: []string{os.Getenv(childServer)}, SessionTimeout: holderTimeout, Label: "holder"})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := m.Exclusive(os.Getenv(childLock))
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := l.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := h.Grant()
	fmt.Println("held", g.Token, err)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "err":
			fmt.Println(brief(h.Err()))
		case "reenter":
			_, err := h.Reenter()
			fmt.Println(brief(err))
		case "lost":
			<-h.Lost()
			fmt.Println("lost")
		case "unlock":
			fmt.Println(brief(h.Unlock(ctx)))
		case "lock":
			h, err = l.Lock(ctx)
			fmt.Println(brief(err))
		case "close":
			fmt.Println(brief(m.Close()))
		}
	}
}

// A holder is a process that holds a lock on a real server.
type holder struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	token uint64
}

// startHolder starts a process, and returns when it holds the lock. The process
// is killed when the test ends, if it is still there.
func startHolder(t *testing.T, server, lock string) *holder {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{t: t, cmd: exec.CommandContext(t.Context(), exe, "-test.run=^$")}
	h.cmd.Env = append(os.Environ(), childServer+"="+server, childLock+"="+lock)
	h.cmd.Stderr = new(strings.Builder)
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.out = bufio.NewScanner(out)
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.kill)
	if !h.out.Scan() {
		t.Fatalf("the process said nothing: %v\n%s", h.out.Err(), h.cmd.Stderr)
	}
	if n, err := fmt.Sscanf(h.out.Text(), "held %d <nil>", &h.token); n != 1 {
		t.Fatalf("the process said %q (%v)\n%s", h.out.Text(), err, h.cmd.Stderr)
	}
	return h
}

// ask has the process do something, and returns its answer.
func (h *holder) ask(what string) string {
	h.t.Helper()
	if _, err := fmt.Fprintln(h.in, what); err != nil {
		h.t.Fatal(err)
	}
	if !h.out.Scan() {
		h.t.Fatalf("no answer to %s: %v\n%s", what, h.out.Err(), h.cmd.Stderr)
	}
	return h.out.Text()
}

// kill ends the process at once, if it has not ended.
func (h *holder) kill() {
	if h.cmd.ProcessState != nil {
		return
	}
	if err := h.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		h.t.Error(err)
	}
	_ = h.cmd.Wait() // that it was killed is what we know
}
