// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/zkio"
)

// These environment variables turn this test binary into a process that holds a
// lock: they name the server and the lock, and say whether it reports abandonment, how
// long its session timeout is, and whether it has a sentinel.
const (
	childServer   = "HOLDFAST_TEST_HOLDER_SERVER"
	childLock     = "HOLDFAST_TEST_HOLDER_LOCK"
	childReports  = "HOLDFAST_TEST_HOLDER_REPORTS"
	childTimeout  = "HOLDFAST_TEST_HOLDER_TIMEOUT"
	childSentinel = "HOLDFAST_TEST_HOLDER_SENTINEL"
)

// holderTimeout is the session timeout of the real processes, unless childTimeout says
// otherwise.
const holderTimeout = 4 * time.Second

// holderProcess acquires the lock and prints "held" and its token. It executes
// each line of its standard input and answers with one line; "repeat CALL" gets a
// second one after a pause. It exits at the end of its input, without releasing
// the lock.
func holderProcess() {
	ctx := context.Background()
	timeout, err := time.ParseDuration(cmp.Or(os.Getenv(childTimeout), holderTimeout.String()))
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := Config{Servers: []string{os.Getenv(childServer)}, SessionTimeout: timeout, Label: "holder"}
	if os.Getenv(childSentinel) == "" {
		cfg.Dialer = dialToTheBrink
	} else if cfg.Sentinel, err = sentinel.Start(sentinel.Config{}); err != nil {
		fmt.Println(err)
		return
	}
	m, err := Open(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := m.Exclusive(os.Getenv(childLock))
	if err != nil {
		fmt.Println(err)
		return
	}
	if os.Getenv(childReports) != "" {
		if err := l.ReportAbandoned(0); err != nil {
			fmt.Println(err)
			return
		}
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
		what, rest, _ := strings.Cut(in.Text(), " ")
		path, data, _ := strings.Cut(rest, " ")
		guard := func() string {
			_, err := h.Guard(ctx, zkio.SetOp(path, []byte(data), -1))
			return brief(err)
		}
		switch what {
		case "guard":
			fmt.Println(guard())
		case "guard-at-the-brink":
			brink.Store(&data)
			fmt.Println(guard())
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
		default:
			if call, ok := strings.CutPrefix(in.Text(), "repeat "); ok {
				fmt.Println(repeat(ctx, call, l, h))
			}
		}
	}
}

// repeat makes a call over and over until the process has been paused, and returns
// the answer of the first call that began after the pause. It prints "repeating"
// when the first call has succeeded.
func repeat(ctx context.Context, call string, l *Lock, h Hold) string {
	// Timers of the process compete with these calls, and are mostly slower.
	runtime.GOMAXPROCS(1)
	const pause = 2 * time.Second
	if err := makeCall(ctx, call, l, h); err != nil {
		return brief(err)
	}
	before := time.Now()
	fmt.Println("repeating") // the pause may come from now on
	for {
		now := time.Now()
		paused := now.Sub(before) > pause
		before = now
		err := makeCall(ctx, call, l, h)
		switch took := time.Since(now); {
		case paused:
			return brief(err)
		case err != nil && took <= pause:
			return fmt.Sprintf("not paused, and yet: %v", err)
		}
		// Otherwise there was no pause, or it fell into this call: try the next
		// one.
	}
}

// makeCall makes one of the calls that read the clock, and undoes its effect.
func makeCall(ctx context.Context, call string, l *Lock, h Hold) (err error) {
	var got Hold
	switch call {
	case "err":
		err = h.Err()
	case "grant":
		_, err = h.Grant()
	case "reenter":
		got, err = h.Reenter()
	case "share":
		got, err = h.Share()
	case "lock":
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		got, err = l.Lock(ctx)
	case "trylock":
		got, err = l.TryLock(ctx)
	default:
		return fmt.Errorf("there is no call %q", call)
	}
	if err == nil {
		got.Release()
	}
	return err
}

// brink is a text: the process stops when it is about to send it. nil is none.
var brink atomic.Pointer[string]

// stopItself stops the process until it gets SIGCONT, on systems that have it.
var stopItself func()

// dialToTheBrink is the Dialer of the process.
func dialToTheBrink(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return brinkConn{conn}, nil
}

type brinkConn struct{ net.Conn }

func (c brinkConn) Write(p []byte) (int, error) {
	if text := brink.Load(); text != nil && bytes.Contains(p, []byte(*text)) && brink.CompareAndSwap(text, nil) {
		stopItself()
	}
	return c.Conn.Write(p)
}

// A holder is a process that holds a lock on a real server.
type holder struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	token uint64
}

// startHolder starts a process, and returns when it holds the lock. The test kills
// the process when it ends.
func startHolder(t *testing.T, server, lock string, env ...string) *holder {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{t: t, cmd: exec.CommandContext(t.Context(), exe, "-test.run=^$")}
	h.cmd.Env = append(append(os.Environ(), childServer+"="+server, childLock+"="+lock), env...)
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
		t.Fatalf("the process printed nothing: %v\n%s", h.out.Err(), h.cmd.Stderr)
	}
	if n, err := fmt.Sscanf(h.out.Text(), "held %d <nil>", &h.token); n != 1 {
		t.Fatalf("the process printed %q (%v)\n%s", h.out.Text(), err, h.cmd.Stderr)
	}
	return h
}

// ask sends the process a command, and returns the answer.
func (h *holder) ask(what string) string {
	h.t.Helper()
	h.tell(what)
	return h.answer(what)
}

// says checks the answer to a command.
func (h *holder) says(what, want string) {
	h.t.Helper()
	wantEq(h.t, "the process's answer to "+what, h.ask(what), want)
}

// tell sends the process a command.
func (h *holder) tell(what string) {
	h.t.Helper()
	if _, err := fmt.Fprintln(h.in, what); err != nil {
		h.t.Fatal(err)
	}
}

// answer returns the next line that the process prints.
func (h *holder) answer(to string) string {
	h.t.Helper()
	if !h.out.Scan() {
		h.t.Fatalf("no answer to %s: %v\n%s", to, h.out.Err(), h.cmd.Stderr)
	}
	return h.out.Text()
}

// kill kills the process, unless it has exited.
func (h *holder) kill() {
	if h.cmd.ProcessState != nil {
		return
	}
	err := h.cmd.Process.Kill()
	expect(h.t, err == nil || errors.Is(err, os.ErrProcessDone), "%v", err)
	_ = h.cmd.Wait() // it reports the kill
}
