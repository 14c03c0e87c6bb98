// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A Server is a ZooKeeper server as seen by one test: what cannot be done
// fails the test. Its methods block, and are called by the test's goroutine.
type Server struct {
	p      *Process
	tb     testing.TB
	shared bool
}

// Start starts a server for this test and returns when it serves. It is killed
// when the test ends; if the test failed, the end of its log is shown.
//
// Without ZooKeeper on the machine, and with -short, Start skips the test; see
// the package's documentation.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	Require(tb)
	cfg := newConfig(opts)
	if cfg.Dir == "" {
		cfg.Dir = tb.TempDir()
	}
	p, err := run(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Stop(); err != nil {
			tb.Error(err)
		}
		if tb.Failed() {
			tb.Logf("the log of ZooKeeper at %s ends:\n%s", p.Addr(), logSince(p.LogFile(), 0, 200))
		}
	})
	return &Server{p: p, tb: tb}
}

// theShared is the one server of this process that tests share.
var theShared struct {
	sync.Mutex // protects the fields; held while the server starts, so that others wait
	p          *Process
	err        error // why it did not start; every test hears the same
}

// Shared returns the one server that this package's tests share, starting it
// for the first of them. It cannot be paused, killed or stopped by a test.
// TestMain has to end it: see [WithShared] and [StopShared].
func Shared(tb testing.TB) *Server {
	tb.Helper()
	Require(tb)
	theShared.Lock()
	defer theShared.Unlock()
	if theShared.p == nil && theShared.err == nil {
		// Not bound by tb.Context: the server outlives the test.
		theShared.p, theShared.err = run(context.Background(), newConfig(nil))
	}
	if theShared.err != nil {
		tb.Fatal(theShared.err)
	}
	p := theShared.p
	var from int64
	if info, err := os.Stat(p.LogFile()); err == nil {
		from = info.Size()
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("meanwhile the log of the shared ZooKeeper at %s said:\n%s", p.Addr(), logSince(p.LogFile(), from, 200))
		}
	})
	return &Server{p: p, tb: tb, shared: true}
}

// StopShared ends the shared server if there is one. TestMain calls it after
// the tests have run.
func StopShared() {
	theShared.Lock()
	defer theShared.Unlock()
	if theShared.p != nil {
		if err := theShared.p.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		theShared.p = nil
	}
}

// WithShared returns an m whose Run also stops the shared server, before it
// returns. It is for TestMains that look for leaks afterwards:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(realzk.WithShared(m)) }
func WithShared(m interface{ Run() int }) interface{ Run() int } { return withShared{m} }

type withShared struct{ m interface{ Run() int } }

func (w withShared) Run() int {
	defer StopShared()
	return w.m.Run()
}

// Addr returns the server's address, host:port. It stays the same over a restart.
func (s *Server) Addr() string { return s.p.Addr() }

// PID returns the id of the operating-system process that serves, or served last.
func (s *Server) PID() int { return s.p.PID() }

// Pause stops the server without ending it, as [Process.Pause] does. Where the
// system has no such thing, the test is skipped.
func (s *Server) Pause() {
	s.tb.Helper()
	s.own("pause")
	if !canPause {
		NotRun(s.tb, "a process cannot be paused on this operating system")
	}
	s.check(s.p.Pause())
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.tb.Helper()
	s.own("resume")
	s.check(s.p.Resume())
}

// Kill ends the server at once and returns when it is gone.
func (s *Server) Kill() {
	s.tb.Helper()
	s.own("kill")
	s.check(s.p.Kill())
}

// Stop ends the server for good. The end of the test does that by itself.
func (s *Server) Stop() {
	s.tb.Helper()
	s.own("stop")
	s.check(s.p.Stop())
}

// Restart starts the server again, on the same port and data, killing it first
// if it still runs, and returns when it serves.
func (s *Server) Restart() {
	s.tb.Helper()
	s.own("restart")
	s.check(s.p.Restart(s.tb.Context()))
}

// Wipe ends the server at once, as Kill does, and removes all that it knew:
// restarted it is one that has never had a client.
func (s *Server) Wipe() {
	s.tb.Helper()
	s.own("wipe")
	s.check(s.p.Kill())
	s.check(os.RemoveAll(dataDir(s.p.dir)))
}

// FourLetterWord sends the server an administrative command, such as "mntr",
// and returns its answer.
func (s *Server) FourLetterWord(word string) string {
	s.tb.Helper()
	answer, err := FourLetterWord(s.tb.Context(), s.Addr(), word)
	s.check(err)
	return answer
}

func (s *Server) own(verb string) {
	s.tb.Helper()
	if s.shared {
		s.tb.Fatalf("realzk: a test must not %s the server that it shares with others; use realzk.Start", verb)
	}
}

func (s *Server) check(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatal(err)
	}
}

// Require ends the test as Start would, unless it may use a real server. It is
// for tests that start theirs in another way.
func Require(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		const reason = "it needs a real ZooKeeper, which -short leaves out"
		note(tb, reason)
		tb.Skip(reason)
	}
	if _, err := Find(); err != nil {
		NotRun(tb, err.Error())
	}
}

// NotRun ends a test that this machine cannot run, for a reason that the
// reader can act on. The test is skipped; with CI=true in the environment it
// fails, since there nobody reads what was skipped.
//
// If HOLDFAST_NOT_RUN names a file, the test's name and the reason are added to
// it, one line each: `make test` shows them at its end, and `make test-short`
// counts those that -short leaves out. (go test itself hides that and why tests
// were skipped, unless it is run with -v.)
func NotRun(tb testing.TB, reason string) {
	tb.Helper()
	if inCI() {
		tb.Fatalf("NOT RUN, and CI=true forbids that: %s", reason)
	}
	note(tb, reason)
	tb.Skipf("NOT RUN: %s", reason)
}

// note adds a test that does not run to the file that HOLDFAST_NOT_RUN names.
func note(tb testing.TB, reason string) {
	tb.Helper()
	if name := os.Getenv("HOLDFAST_NOT_RUN"); name != "" {
		if err := record(name, testPackage()+"."+tb.Name(), reason); err != nil {
			tb.Fatal(err)
		}
	}
}

// record adds a line to a file that several test processes write at the same
// time; a single short write at the end of a file is not torn.
func record(file, test, reason string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("realzk: record that %s did not run: %w", test, err)
	}
	_, err = fmt.Fprintf(f, "%s\t%s\n", test, reason)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("realzk: record that %s did not run: %w", test, err)
	}
	return nil
}

// testPackage returns the import path of the package whose tests this process runs.
func testPackage() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return strings.TrimSuffix(info.Path, ".test")
}

func inCI() bool {
	ci, err := strconv.ParseBool(os.Getenv("CI"))
	return err == nil && ci
}
