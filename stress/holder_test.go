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

// holderMain is a program that does with locks what its standard input says,
// a command each line, and answers with a line each:
//
//	lock NAME      Lock; "granted" with token and time
//	err NAME       Hold.Err
//	grant NAME     Hold.Grant
//	reenter NAME   Hold.Reenter
//	share NAME     Hold.Share
//	again NAME     Lock with the Hold's own context
//	lost NAME      waits until the Hold's Lost is closed; "closed"
//	release NAME   Release, and waits for its future
//
// An answer is "nil", "ErrLost" or another error's text where nothing else is
// said. Its arguments are the server's address, the root, and the session timeout.
func holderMain() {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
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
				say("%s", inWords(err))
			} else {
				say("granted %d %d", g.Token, at.UnixNano())
			}
		case "err":
			say("%s", inWords(h.Err()))
		case "grant":
			_, err := h.Grant()
			say("%s", inWords(err))
		case "reenter":
			_, err := h.Reenter()
			say("%s", inWords(err))
		case "share":
			_, err := h.Share()
			say("%s", inWords(err))
		case "again":
			_, err := h.Lock().Lock(contexts[name])
			say("%s", inWords(err))
		case "lost":
			<-h.Lost()
			say("closed")
		case "release":
			_, err := h.Release().Wait(ctx)
			say("%s", inWords(err))
		default:
			say("what is %q?", command)
		}
	}
	for _, cancel := range cancels {
		cancel()
	}
	if err := m.Close(); err != nil {
		say("%v", err)
	}
}

func inWords(err error) string {
	switch {
	case err == nil:
		return "nil"
	case errors.Is(err, manager.ErrLost):
		return "ErrLost"
	}
	return err.Error()
}

// A holder is such a program.
type holder struct {
	t     *testing.T
	p     *program
	stdin io.WriteCloser
	lines *bufio.Scanner
}

// startHolder starts one. It is told to end when the test ends, and is killed
// if it does not.
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
			t.Errorf("a holder said %q in the end", h.lines.Text())
		}
		if exit := h.p.wait(t); t.Failed() {
			t.Logf("a holder ended with status %d and wrote %q", exit, h.p.stderr.String())
		}
	})
	h.expect("ready")
	return h
}

// tell gives a command.
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

// expect waits for an answer.
func (h *holder) expect(want string) {
	h.t.Helper()
	if got := h.hear(); got != want {
		h.t.Errorf("the holder said %q, want %q", got, want)
	}
}

// granted waits for a grant and returns its token and when it was.
func (h *holder) granted() (token uint64, at time.Time) {
	h.t.Helper()
	var ns int64
	if got := h.hear(); strings.HasPrefix(got, "granted ") {
		if _, err := fmt.Sscanf(got, "granted %d %d", &token, &ns); err != nil {
			h.t.Fatalf("%q: %v", got, err)
		}
	} else {
		h.t.Fatalf("the holder said %q, want that it was granted the lock", got)
	}
	return token, time.Unix(0, ns)
}
