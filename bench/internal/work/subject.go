// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Subject is a kind of lock.
type Subject interface {
	// Version describes the subject, such as "go-zookeeper 1.0.4 Lock".
	Version() string

	// Open opens a session, with its own connection to the server.
	Open(ctx context.Context, server string) (Session, error)
}

// A Session contends with other sessions.
type Session interface {
	// Locker returns a Locker of the lock at path, for one worker.
	Locker(path string) (Locker, error)

	Close() error
}

// A Locker takes and releases a lock, repeatedly. If it is an io.Closer, Close is
// called after the worker's last Unlock.
type Locker interface {
	// Lock waits for the lock.
	Lock(ctx context.Context) error

	// Unlock releases the lock. It returns when a user may consider it released,
	// whether or not the server knows.
	Unlock(ctx context.Context) error
}

// A Sharer is a session that has read locks.
type Sharer interface {
	// ReadLocker returns a Locker of the read lock at path, for one worker.
	ReadLocker(path string) (Locker, error)
}

// A Gatherer is a session that can take several locks at once.
type Gatherer interface {
	// All returns a Locker of all the locks at these paths, for one worker.
	All(paths []string) (Locker, error)
}

// A Reenterer is a session whose locks a holder can take again.
type Reenterer interface {
	// Reenter takes the lock at path for one worker, until the session is closed. It
	// returns a function that takes and releases it again n times.
	Reenter(ctx context.Context, path string) (pairs func(n int) error, err error)
}

// A Racer is a session that counts failed compare-and-swaps.
type Racer interface{ Lost() uint64 }

// A Specialist is a subject that can do further kinds of work.
type Specialist interface {
	Special() map[string]func(context.Context, Job) (Result, error)
}

// ErrUnsupported is returned for work that a subject cannot do.
var ErrUnsupported = errors.New("not supported")

// Serve reads jobs from in, does them, and writes the results to out, until the end
// of in.
func Serve(ctx context.Context, s Subject, in io.Reader, out io.Writer) error {
	jobs, results := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var j Job
		switch err := jobs.Decode(&j); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a job: %w", err)
		}
		if err := results.Encode(Do(ctx, s, j)); err != nil {
			return err
		}
	}
}

// loops has the kinds of work that every subject does by its sessions.
var loops = map[string]func(context.Context, []Session, Job) (Result, error){
	Contend: contend, Line: line, Drain: drain, Reenter: reenter, Succeed: succeed,
}

// Do does one job.
func Do(ctx context.Context, s Subject, j Job) Result {
	r, err := do(ctx, s, j)
	switch {
	case errors.Is(err, ErrUnsupported):
		return Result{Unsupported: err.Error()}
	case err != nil:
		return Result{Err: err.Error()}
	}
	return r
}

func do(ctx context.Context, s Subject, j Job) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, j.Limit())
	defer cancel()
	if j.Work == Hello {
		return Result{Version: s.Version()}, nil
	}
	if j.Work == Keep {
		return keep(ctx, s, j)
	}
	if loop := loops[j.Work]; loop != nil {
		sessions, err := openAll(ctx, s, j)
		defer func() { closeAll(sessions) }()
		if err != nil {
			return Result{}, err
		}
		return loop(ctx, sessions, j)
	}
	if s, ok := s.(Specialist); ok && s.Special()[j.Work] != nil {
		return s.Special()[j.Work](ctx, j)
	}
	return Result{}, fmt.Errorf("%w: work %q", ErrUnsupported, j.Work)
}

// openAll opens a job's sessions; of a job that tells no number, one.
func openAll(ctx context.Context, s Subject, j Job) ([]Session, error) {
	var mu sync.Mutex
	var sessions []Session
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for range max(1, j.Sessions) {
		g.Go(func() error {
			session, err := s.Open(ctx, j.Server)
			if err != nil {
				return fmt.Errorf("open a session at %s: %w", j.Server, err)
			}
			mu.Lock()
			defer mu.Unlock()
			sessions = append(sessions, session)
			return nil
		})
	}
	err := g.Wait()
	return sessions, err
}

func closeAll(sessions []Session) {
	var g errgroup.Group
	g.SetLimit(16)
	for _, s := range sessions {
		g.Go(s.Close)
	}
	_ = g.Wait() // the results do not depend on it
}

// Sleep waits for d or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
