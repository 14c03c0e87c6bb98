// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// holderMain is a program that reads commands from its standard input, one a line,
// and answers each with a line:
//
//	lock NAME      Lock; "granted" with token and time
//	err NAME       Hold.Err
//	grant NAME     Hold.Grant
//	reenter NAME   Hold.Reenter
//	share NAME     Hold.Share
//	again NAME     Lock with the Hold's own context
//	lost NAME      waits until Hold.Lost is closed; "closed"
//	release NAME   Release, and waits for its future
//
// Unless stated otherwise the answer is an error: "nil", "ErrLost" or another
// text. The arguments are the server's address, the root and the session timeout.
func holderMain() {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	answer := func(err error) {
		switch {
		case err == nil:
			say("nil")
		case errors.Is(err, manager.ErrLost):
			say("ErrLost")
		default:
			say("%v", err)
		}
	}
	timeout, err := time.ParseDuration(os.Args[3])
	if err != nil {
		say("%v", err)
		return
	}
	ctx := context.Background()
	m, err := manager.Open(ctx, manager.Config{Servers: []string{os.Args[1]}, Root: os.Args[2], SessionTimeout: timeout})
	if err != nil {
		say("%v", err)
		return
	}
	say("ready")
	errorOf := map[string]func(h manager.Hold, inside context.Context) error{
		"err":     func(h manager.Hold, _ context.Context) error { return h.Err() },
		"grant":   func(h manager.Hold, _ context.Context) error { _, err := h.Grant(); return err },
		"reenter": func(h manager.Hold, _ context.Context) error { _, err := h.Reenter(); return err },
		"share":   func(h manager.Hold, _ context.Context) error { _, err := h.Share(); return err },
		"again":   func(h manager.Hold, inside context.Context) error { _, err := h.Lock().Lock(inside); return err },
		"release": func(h manager.Hold, _ context.Context) error { _, err := h.Release().Wait(ctx); return err },
	}
	holds := map[string]manager.Hold{}
	contexts := map[string]context.Context{}
	var cancels []context.CancelFunc
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, name, _ := strings.Cut(lines.Text(), " ")
		h := holds[name]
		switch command {
		case "lock":
			l, err := m.Exclusive(name)
			if err == nil {
				h, err = l.Lock(ctx)
			}
			if err != nil {
				say("%v", err)
				continue
			}
			at := time.Now()
			holds[name] = h
			inside, cancel := h.Context(ctx)
			contexts[name] = inside
			cancels = append(cancels, cancel)
			if g, err := h.Grant(); err != nil {
				answer(err)
			} else {
				say("granted %d %d", g.Token, at.UnixNano())
			}
		case "lost":
			<-h.Lost()
			say("closed")
		default:
			answer(errorOf[command](h, contexts[name]))
		}
	}
	for _, cancel := range cancels {
		cancel()
	}
	if err := m.Close(); err != nil {
		say("%v", err)
	}
}

// A holder is a running holderMain.
type holder struct {
	t     *testing.T
	p     *program
	stdin io.WriteCloser
	lines *bufio.Scanner
}

// startHolder starts one. The end of the test stops it.
func startHolder(t *testing.T, address, root string, timeout time.Duration) *holder {
	t.Helper()
	h := &holder{t: t, p: newProgram(t, "holder", []string{address, root, timeout.String()})}
	h.p.cmd.Stdout = nil
	stdout, err := h.p.cmd.StdoutPipe()
	if err == nil {
		h.stdin, err = h.p.cmd.StdinPipe()
	}
	if err == nil {
		err = h.p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	h.lines = bufio.NewScanner(stdout)
	t.Cleanup(func() {
		_ = h.stdin.Close()
		for h.lines.Scan() {
			t.Errorf("a holder said %q at the end", h.lines.Text())
		}
		if exit := h.p.wait(t); t.Failed() {
			t.Logf("a holder ended with status %d and wrote %q", exit, h.p.stderr.String())
		}
	})
	h.expect("ready")
	return h
}

// tell sends a command.
func (h *holder) tell(command string) {
	h.t.Helper()
	if _, err := io.WriteString(h.stdin, command+"\n"); err != nil {
		h.t.Fatal(err)
	}
}

// hear returns the next answer.
func (h *holder) hear() string {
	h.t.Helper()
	if !h.lines.Scan() {
		h.t.Fatalf("the holder has ended; it wrote %q", h.p.stderr.String())
	}
	return h.lines.Text()
}

// expect checks the next answer.
func (h *holder) expect(want string) {
	h.t.Helper()
	if got := h.hear(); got != want {
		h.t.Errorf("the holder said %q, want %q", got, want)
	}
}

// granted expects a grant and returns its token and time.
func (h *holder) granted() (token uint64, at time.Time) {
	h.t.Helper()
	var ns int64
	if got := h.hear(); strings.HasPrefix(got, "granted ") {
		if _, err := fmt.Sscanf(got, "granted %d %d", &token, &ns); err != nil {
			h.t.Fatalf("%q: %v", got, err)
		}
	} else {
		h.t.Fatalf("the holder said %q, want a grant", got)
	}
	return token, time.Unix(0, ns)
}
