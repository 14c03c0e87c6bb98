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
	Locker(path string, read bool) (Locker, error)

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

// A Gatherer is a session that can take several locks at once.
type Gatherer interface {
	// All returns a Locker of all the locks at these paths, for one worker.
	All(paths []string) (Locker, error)
}

// A Reenterer is a session whose locks a holder can take again.
type Reenterer interface {
	// Reenter takes the lock at path for one worker. It returns a function that
	// takes and releases it again n times, and one that releases it.
	Reenter(ctx context.Context, path string, read bool) (pairs func(n int) error, leave func() error, err error)
}

// A Racer is a session that counts failed compare-and-swaps.
type Racer interface{ Lost() uint64 }

// A Specialist is a subject that implements further kinds of work.
type Specialist interface {
	Do(ctx context.Context, j Job) (Result, error)
}

// ErrUnsupported is returned for work that a subject cannot do.
var ErrUnsupported = errors.New("not supported")

// Serve reads jobs from in, does them, and writes the results to out, until the end
// of in.
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
	case Line:
		r, err = line(ctx, s, j)
	case Drain:
		r, err = drain(ctx, s, j)
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
