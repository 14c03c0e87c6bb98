// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/cron"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

const (
	// childServer turns this test binary into a process that runs the job. It names the server.
	childServer = "HOLDFAST_TEST_CRON_SERVER"

	// childAttempts has that process run an interrupted run again.
	childAttempts = "HOLDFAST_TEST_CRON_ATTEMPTS"

	childPeriod = 250 * time.Millisecond
)

// cronProcess runs the job until it is killed, or its input ends. It prints "begun" for each run, and
// "interrupted" for each that it was told of, with the planned time in milliseconds, the attempt
// and the token.
func cronProcess(server string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	m, err := manager.Open(ctx, manager.Config{Servers: []string{server}, SessionTimeout: 2 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer m.Close()
	say := func(what string, t cron.Tick) { fmt.Println(what, t.Planned.UnixMilli(), t.Attempt, t.Token) }
	o := cron.Options{Schedule: cron.Every(childPeriod), Missed: cron.RunAll, Attempts: len(os.Getenv(childAttempts))}
	o.OnEvent = func(e cron.Event) {
		if e.Kind == cron.EventInterrupted {
			say("interrupted", e.Tick)
		}
	}
	c, err := cron.New(m, name, o)
	if err != nil {
		return err
	}
	err = c.Run(ctx, func(_ context.Context, t cron.Tick) error {
		say("begun", t)
		if isLong(t.Planned.UnixMilli()) {
			<-time.After(time.Second) // there is time to kill it
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// isLong reports whether the run planned for that time takes long.
func isLong(planned int64) bool { return planned/childPeriod.Milliseconds()%8 == 0 }

// A line is what a child has printed.
type line struct {
	from    *exec.Cmd
	what    string
	planned int64
	attempt int
	token   uint64
}

// startChild starts a process, which the test kills when it ends.
func startChild(t *testing.T, server string, attempts int, lines chan<- line) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), childServer+"="+server, childAttempts+"="+strings.Repeat("x", attempts))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // it ends with this process
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := bufio.NewScanner(out); in.Scan(); {
			l := line{from: cmd}
			if _, err := fmt.Sscan(in.Text(), &l.what, &l.planned, &l.attempt, &l.token); err != nil {
				t.Errorf("a child says %q: %v", in.Text(), err)
			}
			lines <- l
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // it reports the kill
	})
	return cmd
}

// The process that runs the job is killed in the middle of a run, twice. Each planned time is begun
// once, by one of the processes; with a second attempt, the interrupted ones are run again.
func TestF355_Killed(t *testing.T) {
	t.Parallel()
	for attempts := 1; attempts <= 2; attempts++ {
		t.Run(fmt.Sprintf("attempts=%d, embedded", attempts), func(t *testing.T) {
			t.Parallel()
			srv := zktest.NewServer(zktest.Config{TickTime: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
			t.Cleanup(func() { _ = srv.Close() })
			addr, err := srv.Listen("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			killRunners(t, addr, attempts)
		})
	}
	t.Run("attempts=2, real", func(t *testing.T) {
		killRunners(t, realzk.Start(t, realzk.TickTime(500*time.Millisecond)).Addr(), 2)
	})
}

func killRunners(t *testing.T, server string, attempts int) {
	lines := make(chan line, 1000)
	for range 3 {
		startChild(t, server, attempts, lines)
	}
	type run struct {
		planned int64
		attempt int
	}
	begun := make(map[run]bool)       // by what the processes have printed
	interrupted := make(map[run]bool) // by what the next one says
	var token uint64
	killed := make(map[*exec.Cmd]bool)
	limit := time.After(time.Minute)
	for after := 0; after < 20; {
		var l line
		select {
		case l = <-lines:
		case <-limit:
			t.Fatalf("%d killed, and no process goes on", len(killed))
		}
		r := run{l.planned, l.attempt}
		if l.what == "interrupted" {
			interrupted[r] = true
			continue
		}
		if begun[r] || l.token < token || killed[l.from] && l.token != token {
			t.Errorf("begun is %+v, after token %d", l, token)
		}
		begun[r], token = true, l.token
		switch {
		case killed[l.from]: // it had printed that before
		case len(killed) < 2 && isLong(l.planned):
			if err := l.from.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			killed[l.from] = true
		case len(killed) == 2:
			after++
		}
	}
	var all []int64
	for r := range begun {
		all = append(all, r.planned)
	}
	for r := range interrupted {
		all = append(all, r.planned) // it may have been killed before it had printed that
		if attempts > r.attempt && !begun[run{r.planned, r.attempt + 1}] {
			t.Errorf("%+v was interrupted, and is not run again", r)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for i, planned := range all[1:] {
		if step := planned - all[i]; step != childPeriod.Milliseconds() {
			t.Errorf("a run is planned %d ms after the one before", step)
		}
	}
	if len(interrupted) == 0 {
		t.Error("no run was interrupted")
	}
	t.Logf("%d runs of %d planned times, %d interrupted", len(begun), len(all), len(interrupted))
}
