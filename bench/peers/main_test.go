// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/internal/start"
	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/internal/realzk"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// job returns a job of two sessions with four workers, two for each lock.
func job(server start.Server) work.Job {
	return work.Job{
		Work: work.Contend, Server: server.Addr, Dir: "/bench/test",
		Sessions: 2, Workers: 4, Locks: 2, HoldMicros: 100,
		WarmupMillis: 100, MeasureMillis: 400,
	}
}

// serve starts a server for the test.
func serve(t *testing.T, kind string) start.Server {
	t.Helper()
	s, err := start.Start(t.Context(), kind)
	if errors.Is(err, start.ErrNotInstalled) {
		realzk.NotRun(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Subjects that are not locks would win every comparison.
func TestSubjectsExclude(t *testing.T) {
	for _, p := range start.Peers() {
		subject, ok := subjects[p.Name]
		if !ok {
			continue // not written in Go
		}
		t.Run(p.Name, func(t *testing.T) {
			var locks sync.Map // from path to *atomic.Int32
			var violations atomic.Int64
			guard := wrapped{subject, func(path string, l work.Locker) work.Locker {
				holders, _ := locks.LoadOrStore(path, new(atomic.Int32))
				return guarded{l, holders.(*atomic.Int32), &violations}
			}}
			r := work.Do(t.Context(), guard, job(serve(t, p.Server)))
			if r.Err != "" || r.Unsupported != "" {
				t.Fatalf("error %q, unsupported %q", r.Err, r.Unsupported)
			}
			if r.Entries == 0 || len(r.Waits) == 0 {
				t.Errorf("%d entries and %d waits in %.1f s", r.Entries, len(r.Waits), r.Seconds)
			}
			if n := violations.Load(); n != 0 {
				t.Errorf("a lock had two holders %d times in %d entries", n, r.Entries)
			}
		})
	}
}

// wrapped is a subject with wrapped lockers.
type wrapped struct {
	work.Subject

	wrap func(path string, l work.Locker) work.Locker
}

func (w wrapped) Open(ctx context.Context, server string) (work.Session, error) {
	s, err := w.Subject.Open(ctx, server)
	return wrappedSession{s, w.wrap}, err
}

type wrappedSession struct {
	work.Session

	wrap func(path string, l work.Locker) work.Locker
}

func (s wrappedSession) Locker(path string) (work.Locker, error) {
	l, err := s.Session.Locker(path)
	return s.wrap(path, l), err
}

// guarded counts the moments when its lock has two holders.
type guarded struct {
	work.Locker

	holders    *atomic.Int32 // of the lock
	violations *atomic.Int64
}

func (l guarded) Lock(ctx context.Context) error {
	err := l.Locker.Lock(ctx)
	if err == nil && l.holders.Add(1) != 1 {
		l.violations.Add(1)
	}
	return err
}

func (l guarded) Unlock(ctx context.Context) error {
	l.holders.Add(-1)
	return l.Locker.Unlock(ctx)
}

// A failed worker ends the job, although others are waiting for a lock in a call that
// only the end of its connection can interrupt.
func TestFailureEndsTheJob(t *testing.T) {
	r := work.Do(t.Context(), wrapped{goZooKeeper, func(_ string, l work.Locker) work.Locker { return broken{l} }}, job(serve(t, start.ZooKeeper)))
	if r.Err != "unlock: "+errBroken.Error() {
		t.Errorf("got %+v, want a failure", r)
	}
}

// broken is never released.
type broken struct{ work.Locker }

var errBroken = errors.New("broken")

func (broken) Unlock(context.Context) error { return errBroken }

// versions matches the versions of Go subjects: library, version, lock, and Go.
var versions = regexp.MustCompile(`[a-z] \d+\.\d+\.\d+ [A-Z].* on go1\.|client \d+\.\d+\.\d+ concurrency\.Mutex on go1\.`)

// Peers in any language do the jobs that they support, and exit at the end of their
// input. Those in Java and Python check by themselves that a lock has one holder.
func TestPrograms(t *testing.T) {
	for _, p := range start.Peers() {
		t.Run(p.Name, func(t *testing.T) {
			argv, err := p.Command(t.Context(), "../..")
			if errors.Is(err, start.ErrNotInstalled) {
				realzk.NotRun(t, err.Error())
			}
			if err != nil {
				t.Fatal(err)
			}
			server := serve(t, p.Server)
			program := run(t, argv)

			r := program.do(work.Job{Work: work.Hello})
			if _, inGo := subjects[p.Name]; r.Version == "" || inGo && !versions.MatchString(r.Version) {
				t.Errorf("hello: %+v, want a version", r)
			}
			if r := program.do(work.Job{Work: "sing"}); r.Unsupported == "" {
				t.Errorf("unknown work: %+v, want that it is not supported", r)
			}
			locks, line, read, all, again := job(server), job(server), job(server), job(server), job(server)
			line.Work, line.Dir, line.Sessions, line.QueueMillis = work.Line, "/bench/line", 3, 20
			read.Read, read.Dir = true, "/bench/read"
			all.Together, all.Dir = 2, "/bench/all"
			again.Work, again.Dir = work.Reenter, "/bench/again"
			for _, j := range []work.Job{locks, line, read, all, again} {
				r := program.do(j)
				for r.Err == "" && r.Unsupported == "" && r.Entries == 0 && j.MeasureMillis < 30_000 {
					j.MeasureMillis *= 4 // a program that has just started enters late on a busy machine
					r = program.do(j)
				}
				has := (j.Work == work.Contend || j.Work == work.Line) && !j.Read && j.Together == 0 ||
					p.Name == "curator" ||
					p.Name == "kazoo" && j.Work == work.Contend && j.Together == 0
				waits := min(r.Entries, work.MaxWaits)
				if j.Work == work.Reenter {
					waits = 0
				}
				switch {
				case !has && r.Unsupported == "":
					t.Errorf("%s, read %v: %d entries, error %q; want that it is not supported", j.Work, j.Read, r.Entries, r.Err)
				case has && (r.Err != "" || r.Unsupported != "" || r.Entries == 0 || r.Seconds < 0.4 && j.Work != work.Line || r.Seconds == 0 || r.Allocs != -1):
					t.Errorf("%s, read %v: error %q, unsupported %q, %d entries in %.1f s, %.1f allocations", j.Work, j.Read, r.Err, r.Unsupported, r.Entries, r.Seconds, r.Allocs)
				case has && int64(len(r.Waits)) > waits, has && len(r.Waits) == 0 && waits > 0:
					t.Errorf("%s, read %v: %d waits of %d entries", j.Work, j.Read, len(r.Waits), r.Entries)
				}
			}
			program.end()
		})
	}
}

// program is a running peer.
type program struct {
	t   *testing.T
	in  *json.Encoder
	out *bufio.Reader
	end func() // closes its input and waits for it to exit
}

func run(t *testing.T, argv []string) program {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	t.Cleanup(func() {
		if !ended { // the test failed, and its context kills the program
			_ = cmd.Wait()
		}
	})
	return program{t, json.NewEncoder(in), bufio.NewReader(out), func() {
		ended = true
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("at the end of its input: %v", err)
		}
	}}
}

// do has the program do a job.
func (p program) do(j work.Job) (r work.Result) {
	p.t.Helper()
	if err := p.in.Encode(j); err != nil {
		p.t.Fatal(err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		p.t.Fatalf("%+v: %v after %q", j, err, line)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		p.t.Fatalf("%+v: %v in %.200q", j, err, line)
	}
	return r
}
