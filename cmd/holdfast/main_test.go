// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/internal/realzk/child"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// asCommand in the environment makes the test program the command, so that tests can
// start it as processes of their own.
const asCommand = "HOLDFAST_TEST_COMMAND"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == stamperVerb {
		stamperMain(os.Args[2:])
		return
	}
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	if os.Getenv(asWard) != "" {
		wardMain()
		return
	}
	endRacersAtOnce()
	child.CatchIgnoredSignals()
	goleak.VerifyTestMain(realzk.WithShared(m))
}

// endRacersAtOnce has the processes that the tests start end without delay if they are built
// with the race detector: by default it lets each of them sleep for a second at its end.
func endRacersAtOnce() {
	if os.Getenv("GORACE") == "" {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // a valid name and value
	}
}

// patience is how long tests wait for what must happen.
const patience = 60 * time.Second

// A command is a running holdfast.
type command struct {
	*exec.Cmd
	t              *testing.T
	stdout, stderr *output
	ended          chan struct{}
}

// prepare returns a holdfast that is not started yet. Its environment has nothing of
// the tester's settings.
func prepare(t *testing.T, args ...string) *command {
	t.Helper()
	c := &command{Cmd: exec.Command(os.Args[0], args...), t: t, stdout: newOutput(), stderr: newOutput(), ended: make(chan struct{})}
	c.Cmd.Stdout, c.Cmd.Stderr = c.stdout, c.stderr
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDFAST_") {
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, asCommand+"=1")
	return c
}

// begin starts holdfast. The end of the test kills it, and shows what it said if the test failed.
func begin(t *testing.T, args ...string) *command {
	t.Helper()
	c := prepare(t, args...)
	c.begin()
	return c
}

func (c *command) begin() {
	c.t.Helper()
	c.WaitDelay = patience
	if err := c.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = c.Cmd.Wait() // ProcessState says it
	}()
	c.t.Cleanup(func() {
		_ = c.Process.Kill() // fails if it has ended
		<-c.ended
		if c.t.Failed() {
			c.t.Logf("%q: %v; stderr %q", c.Args[1:], c.ProcessState, c.stderr)
		}
	})
}

// code waits for the end of holdfast and returns its exit code; -1 if a signal ended it.
func (c *command) code() int {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.t.Fatalf("%q has not ended; stdout %q, stderr %q", c.Args[1:], c.stdout, c.stderr)
	}
	return c.ProcessState.ExitCode()
}

// signal sends a signal to holdfast.
func (c *command) signal(s os.Signal) {
	c.t.Helper()
	if err := c.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// do runs holdfast and returns what it wrote, and its exit code.
func do(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	c := begin(t, args...)
	code = c.code()
	return c.stdout.String(), c.stderr.String(), code
}

// An output is what a process writes. Any goroutine may use it.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced at each write
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(p)
}

func (o *output) String() string {
	text, _ := o.now()
	return text
}

func (o *output) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.changed
}

// await waits until the output contains text.
func (o *output) await(t *testing.T, text string) {
	t.Helper()
	late := time.After(patience)
	for {
		got, changed := o.now()
		if strings.Contains(got, text) {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the output is %q: no %q", got, text)
		}
	}
}

// serve returns an embedded server for a test, and its address.
func serve(t *testing.T) (*zktest.Server, string) {
	t.Helper()
	s := zktest.NewServer(zktest.Config{TickTime: 100 * time.Millisecond, MaxSessionTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	addr, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, addr
}

// writeFile writes a file that only this user can read.
func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
