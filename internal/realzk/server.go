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

	"github.com/holdfast-go/holdfast/internal/realzk/child"
)

// A Server is a ZooKeeper server for one test. Its methods block, fail the test on
// error, and must be called by the test's goroutine.
type Server struct {
	p      *Process
	tb     testing.TB
	shared bool
}

// Start starts a server for this test and returns when it serves. The end of the test
// kills it and, if the test failed, logs the end of its log.
//
// Without ZooKeeper, and with -short, Start skips the test; see the package
// documentation.
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
			tb.Logf("the log of ZooKeeper at %s ends with:\n%s", p.Addr(), child.LogSince(p.LogFile(), 0, 200))
		}
	})
	return &Server{p: p, tb: tb}
}

// theShared is the server that the tests of this process share.
var theShared struct {
	sync.Mutex // protects the fields; held while the server starts
	p          *Process
	err        error // of starting it; the same for every test
}

// Shared returns the server that the package's tests share. The first call starts it.
// Tests must not pause, kill or stop it. TestMain stops it; see [WithShared] and
// [StopShared].
func Shared(tb testing.TB) *Server {
	tb.Helper()
	Require(tb)
	theShared.Lock()
	defer theShared.Unlock()
	if theShared.p == nil && theShared.err == nil {
		// Not with tb.Context, since the server outlives the test.
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
			tb.Logf("the log of the shared ZooKeeper at %s during the test:\n%s", p.Addr(), child.LogSince(p.LogFile(), from, 200))
		}
	})
	return &Server{p: p, tb: tb, shared: true}
}

// StopShared stops the shared server, if there is one. It is for TestMain.
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

// WithShared returns an m whose Run stops the shared server before it returns, for a
// TestMain that looks for leaks afterwards:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(realzk.WithShared(m)) }
func WithShared(m interface{ Run() int }) interface{ Run() int } { return withShared{m} }

type withShared struct{ m interface{ Run() int } }

func (w withShared) Run() int {
	defer StopShared()
	return w.m.Run()
}

// Addr returns the server's address, host:port. A restart does not change it.
func (s *Server) Addr() string { return s.p.Addr() }

// PID returns the process id of the server, or of the last one if it was killed.
func (s *Server) PID() int { return s.p.PID() }

// Pause pauses the server as [Process.Pause] does. If the system cannot do that, it
// skips the test.
func (s *Server) Pause() {
	s.tb.Helper()
	s.own("pause")
	if !child.CanPause {
		NotRun(s.tb, "this operating system cannot pause a process")
	}
	s.check(s.p.Pause())
}

// Resume resumes a paused server.
func (s *Server) Resume() {
	s.tb.Helper()
	s.own("resume")
	s.check(s.p.Resume())
}

// Kill kills the server and waits for its end.
func (s *Server) Kill() {
	s.tb.Helper()
	s.own("kill")
	s.check(s.p.Kill())
}

// Stop kills the server for good, as the end of the test does.
func (s *Server) Stop() {
	s.tb.Helper()
	s.own("stop")
	s.check(s.p.Stop())
}

// Restart starts the server again, as [Process.Restart] does.
func (s *Server) Restart() {
	s.tb.Helper()
	s.own("restart")
	s.check(s.p.Restart(s.tb.Context()))
}

// Wipe kills the server and removes its data.
func (s *Server) Wipe() {
	s.tb.Helper()
	s.own("wipe")
	s.check(s.p.Kill())
	s.check(os.RemoveAll(dataDir(s.p.dir)))
}

// FourLetterWord sends an administrative command, such as "mntr", and returns the
// answer.
func (s *Server) FourLetterWord(word string) string {
	s.tb.Helper()
	answer, err := FourLetterWord(s.tb.Context(), s.Addr(), word)
	s.check(err)
	return answer
}

func (s *Server) own(verb string) {
	s.tb.Helper()
	if s.shared {
		s.tb.Fatalf("realzk: a test must not %s the server that it shares; use realzk.Start", verb)
	}
}

func (s *Server) check(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatal(err)
	}
}

// Require skips or fails the test, as Start does, if it cannot use a real server. It
// is for tests that start one in another way.
func Require(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		const reason = "it needs a real ZooKeeper, which -short excludes"
		note(tb, reason)
		tb.Skip(reason)
	}
	if _, err := Find(); err != nil {
		NotRun(tb, err.Error())
	}
}

// NotRun ends a test that this machine cannot run. The reason should say what to do
// about it. NotRun skips the test or, with CI=true in the environment, where a skip
// would go unnoticed, fails it.
//
// Without -v, go test does not show skips. So if HOLDFAST_NOT_RUN names a file, NotRun
// appends a line with the test's name and the reason: `make test` shows them at its
// end, and `make test-short` counts those that -short excludes.
func NotRun(tb testing.TB, reason string) {
	tb.Helper()
	if inCI() {
		tb.Fatalf("NOT RUN, which CI=true forbids: %s", reason)
	}
	note(tb, reason)
	tb.Skipf("NOT RUN: %s", reason)
}

// note appends a test to the file that HOLDFAST_NOT_RUN names.
func note(tb testing.TB, reason string) {
	tb.Helper()
	if name := os.Getenv("HOLDFAST_NOT_RUN"); name != "" {
		if err := record(name, testPackage()+"."+tb.Name(), reason); err != nil {
			tb.Fatal(err)
		}
	}
}

// record appends a line to a file to which several test processes append; a short
// write is atomic.
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

// testPackage returns the import path of the package under test.
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
