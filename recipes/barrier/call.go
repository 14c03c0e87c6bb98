// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/bell"
	"github.com/holdfast-go/holdfast/zkio"
)

// run has fn run on a goroutine that begin starts, which is Go or Finish of a, and returns what
// fn returns. If ctx ends before, or Shutdown or Close of the Manager begins, run returns at once
// with the reason. Fn notices that, too, and cleans up. If it has succeeded in the same moment,
// its result is given to drop.
func run[T any](ctx context.Context, a manager.Access, begin func(func()), fn func() (T, error), drop func(T)) (T, error) {
	type result struct {
		v   T
		err error
	}
	taken := make(chan result)
	begin(func() {
		v, err := fn()
		select {
		case taken <- result{v, err}:
			return
		case <-ctx.Done():
		case <-a.Accepting().Done():
		}
		if err == nil {
			drop(v)
		}
	})
	var none T
	select {
	case r := <-taken:
		return r.v, r.err
	case <-ctx.Done():
		return none, ctxerr.Of(ctx)
	case <-a.Accepting().Done():
		return none, manager.ErrClosed
	}
}

// call has an I/O goroutine run do until it has succeeded, was refused, or has returned a
// verdict. It blocks until then, or until the Manager closes. In that case do may still be
// running.
func call(a manager.Access, do func(s *zkio.Session) error) error {
	var why error
	err := a.Call(a.Context(), func(s *zkio.Session) error {
		err := do(s)
		if v, ok := err.(*verdict); ok { //nolint:errorlint // it is made by us and never wrapped
			why, err = v.why, nil
		}
		return err
	}, nil)
	if err != nil {
		return err
	}
	return why
}

// wait returns nil when it is time to look again: the bell has rung, or a watch may have been
// lost. It fails if ctx ends, or if Shutdown or Close of the Manager begins.
func wait(ctx context.Context, a manager.Access, b bell.Bell) error {
	anyway := time.NewTimer(lookAgain + rand.N(lookAgain/2))
	defer anyway.Stop()
	select {
	case <-ctx.Done():
		return ctxerr.Of(ctx)
	case <-a.Accepting().Done():
		return manager.ErrClosed
	case <-b:
	case <-anyway.C:
	}
	return nil
}

// lookAgain is after how long a goroutine that waits looks again at the earliest.
const lookAgain = 10 * time.Second

// A lookout watches the node of one process at a time, with a bell. The present worker uses it.
type lookout struct {
	double *Double
	bell   bell.Bell
	path   string // of the node; "": none
}

// watch has the bell rung when something happens to the node of the process of this name that is
// inside, or waits, and reports whether it is there.
func (l *lookout) watch(s *zkio.Session, name string) (there bool, err error) {
	if path := l.double.in(name); l.path != path {
		l.end(s)
		l.path = path
		l.double.access.Watch(path, l.bell)
	}
	_, stat, err := s.Get(l.path) // leaves no watch if there is no such node
	return err == nil && l.double.owned(name, stat), except(zkio.ErrNoNode, err)
}

// end ends watching.
func (l *lookout) end(s *zkio.Session) {
	if l.path != "" {
		s.Unwatch(l.path, l.bell)
		l.path = ""
	}
}
