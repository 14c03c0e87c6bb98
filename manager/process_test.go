// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bufio"
	"bytes"
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

	"github.com/holdfast-go/holdfast/zkio"
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
// one line; "repeat CALL" is answered with one more after a pause. It ends when its input does, without giving the lock back.
func holderProcess() {
	ctx := context.Background()
	m, err := Open(ctx, Config{Servers: []string{os.Getenv(childServer)}, SessionTimeout: holderTimeout, Label: "holder", Dialer: dialToTheBrink})
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

// repeat makes a call over and over until the process was paused, and returns
// what the first call answered that began after the pause. It says so when the
// first of all has succeeded.
func repeat(ctx context.Context, call string, l *Lock, h Hold) string {
	// Timers of the process run beside us, and are mostly slower.
	runtime.GOMAXPROCS(1)
	const pause = 2 * time.Second
	if err := makeCall(ctx, call, l, h); err != nil {
		return brief(err)
	}
	before := time.Now()
	fmt.Println("repeating") // and we may be paused from here on
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
		// Else all was well, or the pause fell into this call and the next is
		// the one.
	}
}

// makeCall makes one of the calls that look at the clock, and undoes it.
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

// brink is a text that stops the process when it is about to send it; nil is none.
var brink atomic.Pointer[string]

// stopItself stops the process until it gets SIGCONT, where the system has that.
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
	h.tell(what)
	return h.answer(what)
}

// tell has the process do something.
func (h *holder) tell(what string) {
	h.t.Helper()
	if _, err := fmt.Fprintln(h.in, what); err != nil {
		h.t.Fatal(err)
	}
}

// answer returns the next line that the process says, to what it was told to do.
func (h *holder) answer(to string) string {
	h.t.Helper()
	if !h.out.Scan() {
		h.t.Fatalf("no answer to %s: %v\n%s", to, h.out.Err(), h.cmd.Stderr)
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
