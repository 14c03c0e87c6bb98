// SPDX-License-Identifier: Apache-2.0

// Package access is how the recipes put a request to ZooKeeper and wait for the answer: by
// [manager.Access.Call], whose function may end with a verdict, and with one kind of error around
// what comes out.
package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A verdict is an error that trying again does not mend, whatever its class.
type verdict struct{ why error }

func (v *verdict) Error() string { return v.why.Error() }

// Verdict returns the error by which a function of [Do], [Ask] or [Tell] says that it is not to be
// run again. The caller gets why.
func Verdict(why error) error { return &verdict{why} }

// Do has an I/O goroutine run do, again and again until it has succeeded, was refused by
// ZooKeeper, or has returned a verdict. It blocks until then, or until ctx ends or the Manager
// closes. In these cases do may still be running: see [manager.Access.Call].
func Do(ctx context.Context, a manager.Access, do func(s *zkio.Session) error) error {
	var why error
	err := a.Call(ctx, func(s *zkio.Session) error {
		err := do(s)
		if v, ok := err.(*verdict); ok { //nolint:errorlint // it is made by us and never wrapped
			why, err = v.why, nil
		}
		return err
	}, nil)
	if err != nil {
		return err // do may be writing to why
	}
	return why
}

// Ask is Do with a result.
func Ask[T any](ctx context.Context, a manager.Access, do func(s *zkio.Session) (T, error)) (T, error) {
	var v, none T
	err := Do(ctx, a, func(s *zkio.Session) (err error) { v, err = do(s); return err })
	if err != nil {
		return none, err // do may be writing to v
	}
	return v, nil
}

// Tell is Do for what no caller can give up. It fails with [manager.ErrClosed] if the Manager
// closes; then do may still be running.
func Tell(a manager.Access, do func(s *zkio.Session) error) error {
	err := Do(a.Context(), a, do)
	if err != nil && a.Context().Err() != nil {
		return manager.ErrClosed
	}
	return err
}

// Error returns what the operation op of the recipe of this name returns for err; nil for nil. If
// the operation was given up, the error says whether ZooKeeper could be reached.
func Error(a manager.Access, op, name string, err error) error {
	if err == nil {
		return nil
	}
	e := &manager.Error{Op: op, Name: name, Err: err}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, manager.ErrClosed) {
		e.Outage = a.Outage()
	}
	return e
}

// Unless returns err, or nil if it wraps one of those that were expected.
func Unless(err error, expected ...error) error {
	for _, e := range expected {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// Each reads the node of each of the items, whose path is path of it, and calls fn with those that
// are there. It leaves no watches: see [zkio.Session.GetAll].
func Each[T any](s *zkio.Session, items []T, path func(T) string, fn func(item T, node *zkio.Read)) error {
	paths := make([]string, len(items))
	for i, item := range items {
		paths[i] = path(item)
	}
	for i, r := range s.GetAll(paths...) {
		switch {
		case r.Err == nil:
			fn(items[i], &r)
		case !errors.Is(r.Err, zkio.ErrNoNode):
			return r.Err
		}
	}
	return nil
}

// errDirGone has Do try again.
var errDirGone = fmt.Errorf("%w: another client has deleted a directory that was there just now", zkio.ErrNotSent)

// InDir has create make a node in dir. If there is no such directory, it makes that first. Should
// another client delete it in between, InDir fails with an error after which [Do] tries again.
func InDir(a manager.Access, s *zkio.Session, dir string, create func() error) error {
	err := create()
	if errors.Is(err, zkio.ErrNoNode) {
		if err = s.EnsureDir(dir, a.ACL()); err == nil {
			err = create()
		}
		if errors.Is(err, zkio.ErrNoNode) {
			err = errDirGone
		}
	}
	return err
}
