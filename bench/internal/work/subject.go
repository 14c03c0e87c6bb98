// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A Subject is something that has locks.
type Subject interface {
	// Version says what it is, for the table: "go-zookeeper 1.0.4, Lock".
	Version() string

	// Open opens a session, with a connection of its own, to the server.
	Open(ctx context.Context, server string) (Session, error)
}

// A Session is what contends with other sessions.
type Session interface {
	// Locker returns what one worker takes the lock at path with. Each worker asks
	// for its own, and no other uses it.
	Locker(path string, read bool) (Locker, error)

	Close() error
}

// A Locker takes and releases one lock, again and again. If it has a method
// Close() error, that is called after the worker's last Unlock.
type Locker interface {
	// Lock waits for the lock.
	Lock(ctx context.Context) error

	// Unlock releases it. It returns when the subject's users may take it to be
	// released, whether or not the server knows yet.
	Unlock(ctx context.Context) error
}

// A Reenterer is a session whose locks can be taken once more by their holder.
type Reenterer interface {
	// Reenter takes the lock at path, and returns a function that takes it n times
	// more and releases it each time, and one that gives it up. Each worker asks
	// for its own function.
	Reenter(ctx context.Context, path string, read bool) (pairs func(n int) error, leave func() error, err error)
}

// A Racer is a session that counts the compare-and-swaps that have lost a race.
type Racer interface{ Lost() uint64 }

// A Specialist is a subject that does kinds of work in its own way: Many, Footprint.
type Specialist interface {
	Do(ctx context.Context, j Job) (Result, error)
}

// ErrUnsupported is returned for what a subject cannot do.
var ErrUnsupported = errors.New("not supported")

// Serve does the jobs that it reads from in with the subject, and writes the
// results to out, until there are no more.
func Serve(ctx context.Context, s Subject, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var j Job
		if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
			return fmt.Errorf("job %q: %w", lines.Text(), err)
		}
		text, err := json.Marshal(Do(ctx, s, j))
		if err != nil {
			return err
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Do does one job.
func Do(ctx context.Context, s Subject, j Job) Result {
	var r Result
	var err error
	switch j.Work {
	case Hello:
		r.Version = s.Version()
	case Contend:
		r, err = contend(ctx, s, j)
	case Reenter:
		r, err = reenter(ctx, s, j)
	default:
		if special, ok := s.(Specialist); ok {
			r, err = special.Do(ctx, j)
		} else {
			err = fmt.Errorf("%w: work %q", ErrUnsupported, j.Work)
		}
	}
	switch {
	case errors.Is(err, ErrUnsupported):
		return Result{Unsupported: err.Error()}
	case err != nil:
		return Result{Err: err.Error()}
	}
	return r
}
