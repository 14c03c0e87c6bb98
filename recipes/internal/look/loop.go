// SPDX-License-Identifier: Apache-2.0

// Package look has a goroutine of a recipe wait for what others do in ZooKeeper: it watches, looks,
// waits until something may have changed, and takes its watches back in the end.
package look

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/bell"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Loop is one wait: its fields are set and its first watches registered before [Loop.Run] is
// called, once. From then on the look that is under way uses it, and nothing else.
type Loop struct {
	// Bell is rung by the watches, and when a session begins: what was learned in the last one went
	// with it. Another goroutine may ring it to have the Loop look again.
	Bell bell.Bell
	// Again is after how long the Loop looks again if nothing has rung; 0: it does not. A look may
	// change it for the next wait.
	Again time.Duration

	access  manager.Access
	until   context.Context
	watches []watch
}

// A watch is for a node, or for its children.
type watch struct {
	path     string
	children bool
}

// New returns a Loop that ends with [manager.ErrClosed] when until does. That is
// [manager.Access.Accepting] for a caller that waits for another process, and
// [manager.Access.Context] for what goes on while the Manager shuts down.
func New(a manager.Access, until context.Context) *Loop { //nolint:revive // until is not what New runs under
	return &Loop{Bell: bell.New(), access: a, until: until}
}

// Watch has the Loop look again when something happens to the node at path. It does not ask the
// server: each look has to read the node, which leaves the server's watch.
func (l *Loop) Watch(path string) {
	l.watches = append(l.watches, watch{path, false})
	l.access.Watch(path, l.Bell)
}

// WatchChildren is Watch for a node's list of children.
func (l *Loop) WatchChildren(path string) {
	l.watches = append(l.watches, watch{path, true})
	l.access.WatchChildren(path, l.Bell)
}

// Unwatch undoes Watch, at the server as well. Without a Watch it does nothing.
func (l *Loop) Unwatch(s *zkio.Session, path string) {
	if l.remove(path) {
		s.Unwatch(path, l.Bell)
	}
}

// Forget undoes Watch, and leaves the server its watch. That costs no request, and an event which
// is not heard.
func (l *Loop) Forget(path string) {
	if l.remove(path) {
		l.access.Unwatch(path, l.Bell)
	}
}

func (l *Loop) remove(path string) bool {
	n := len(l.watches)
	l.watches = slices.DeleteFunc(l.watches, func(w watch) bool { return w == watch{path, false} })
	return len(l.watches) < n
}

// Run has an I/O goroutine run look, as [access.Tell] does, and again whenever there may be
// something new, until look says that the wait is over. It blocks until then, look fails, ctx ends
// or the Manager shuts down or closes. The Loop's watches are gone when it returns, unless the
// Manager has closed.
//
// There is one look at a time, and the first one is made even if ctx has ended. No look is
// interrupted, since it may leave a watch. Only after success, or an error of look's own, nothing
// of it is under way: the caller must not touch what look uses if the Manager has closed.
func (l *Loop) Run(ctx context.Context, look func(s *zkio.Session) (over bool, err error)) error {
	defer l.access.Listen(l.Bell)()
	for {
		over := false
		err := access.Tell(l.access, func(s *zkio.Session) (err error) {
			if over, err = look(s); over && err == nil {
				l.unwatch(s)
			}
			return err
		})
		if err == nil {
			if over {
				return nil
			}
			err = l.wait(ctx)
		}
		if err != nil {
			_ = access.Tell(l.access, func(s *zkio.Session) error { l.unwatch(s); return nil }) // or the Manager is closed
			return err
		}
	}
}

// wait returns nil when it is time to look again.
func (l *Loop) wait(ctx context.Context) error {
	var anyway <-chan time.Time
	if l.Again > 0 {
		anyway = time.After(l.Again)
	}
	select {
	case <-ctx.Done():
		return ctxerr.Of(ctx)
	case <-l.until.Done():
		return manager.ErrClosed
	case <-l.Bell:
	case <-anyway:
	}
	return nil
}

// unwatch takes the watches back.
func (l *Loop) unwatch(s *zkio.Session) {
	for _, w := range l.watches {
		if w.children {
			s.UnwatchChildren(w.path, l.Bell)
		} else {
			s.Unwatch(w.path, l.Bell)
		}
	}
	l.watches = nil
}
