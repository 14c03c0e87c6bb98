// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

// Access is the way to a Manager's ZooKeeper session, for programs that build something
// beside its locks: the packages below recipes have no other. What is built on it ends
// together with the process's locks when the session ends, which it would not with a
// zkio.Client of its own.
//
// All methods may be called concurrently. The zero Access is of no use.
type Access struct{ m *Manager }

// Access returns the way to the Manager's session.
func (m *Manager) Access() Access { return Access{m} }

// Context returns a context that ends when Close of the Manager begins, with cause
// [ErrClosed].
func (a Access) Context() context.Context { return a.m.ctx }

// Accepting returns a context that ends when Shutdown or Close of the Manager begins, with
// cause [ErrClosed]. What waits for another process is to fail then, and to release the locks
// that it has: Shutdown waits for those. Until Context ends, ZooKeeper can be told.
func (a Access) Accepting() context.Context { return a.m.accepting }

// Session returns the present session, which may be over. It does not block.
func (a Access) Session() *zkio.Session { return a.m.client.Session() }

// Submit has an I/O goroutine of the Manager run t: see [zkio.Client.Submit]. It does not
// block, and reports false if the Manager is closed.
func (a Access) Submit(q zkio.Queue, t zkio.Task) bool { return a.m.client.Submit(q, t) }

// SubmitAfter is Submit after d.
func (a Access) SubmitAfter(d time.Duration, q zkio.Queue, t zkio.Task) bool {
	return a.m.client.SubmitAfter(d, q, t)
}

// Watch registers w for the node at path: see [zkio.Client.Watch]. It does not block.
func (a Access) Watch(path string, w zkio.Watcher) { a.m.client.Watch(path, w) }

// WatchChildren registers w for changes of the children of the node at path: see
// [zkio.Client.WatchChildren]. It does not block.
func (a Access) WatchChildren(path string, w zkio.Watcher) { a.m.client.WatchChildren(path, w) }

// Unwatch undoes Watch. It does not block. [zkio.Session.Unwatch] also removes the watch at
// the server, and [zkio.Session.UnwatchChildren] undoes WatchChildren.
func (a Access) Unwatch(path string, w zkio.Watcher) { a.m.client.Unwatch(path, w) }

// Listen has l told what happens to the Manager's sessions, until stop is called. The methods
// of l are called by the Manager's dispatcher, one at a time and in the order of what happened,
// after the locks were told. They must not block: all locks of the process wait for them.
// Close of the Manager ends the session, with [zkio.ErrClosed]. Neither Listen nor stop blocks,
// so a method of l may be under way when stop returns.
func (a Access) Listen(l zkio.Listener) (stop func()) { return a.m.listeners.add(l) }

// ACL returns Config.ACL, for the nodes that the caller creates.
func (a Access) ACL() []zkio.ACL { return slices.Clone(a.m.cfg.ACL) }

// Path returns the path of what has this name: a slash-separated path under Config.Root,
// as for [Manager.Exclusive]. The errors are [ErrBadName] and, once Shutdown or Close has
// begun, [ErrClosed].
func (a Access) Path(name string) (string, error) {
	path, err := lockPath(a.m.cfg.Root, name)
	if err == nil && a.m.closing() {
		err = ErrClosed
	}
	return path, err
}

// Latch returns the exclusive lock called name whose queue is that of Apache Curator's
// LeaderLatch: its nodes are called as those are, so processes of either kind are in one
// line. It is like the lock of [Manager.Exclusive] in all other respects, which ignores such
// nodes, as this one ignores those of other locks: do not use both on one name. To Curator,
// the id of this participant is the node's data: see [Access.Describe].
//
// Latch does no I/O and does not block. The errors are those of Exclusive; [ErrKind] also if
// this process uses the name for another lock.
func (a Access) Latch(name string) (*Lock, error) {
	e, err := a.m.open("latch", name, func(e *locks, path string) bool {
		if *e == (locks{}) {
			e.lock = newLock(a.m, path, queue.Exclusive)
			e.lock.latch = true
		}
		return e.lock != nil && e.lock.latch
	})
	return e.lock, err
}

// GUID returns a string that no other call returns, in any process: 32 hexadecimal digits.
func (a Access) GUID() string { return a.m.newGUID() }

// Describe returns data for a node of this process, from which people and
// [DescribeNode] learn which process it is. Kind says what the node is for.
func (a Access) Describe(kind string) []byte {
	d := a.m.says()
	d.Kind = kind
	data, err := json.Marshal(d)
	if err != nil {
		panic("manager: a node's data cannot be encoded: " + err.Error())
	}
	return dated(data, time.Now())
}

// LeaseToBegin returns how much of the lease of s must remain for something to begin that
// lasts as long as the lease does. With less, call [zkio.Session.Prove] first.
func (a Access) LeaseToBegin(s *zkio.Session) time.Duration { return a.m.leaseToBegin(s) }

// Outage returns an error that says for how long ZooKeeper has not answered, and why; nil
// if the connection is in order. It does not block.
func (a Access) Outage() error { return a.m.outage() }

// Call has an I/O goroutine of the Manager run do, which talks to ZooKeeper in the session that
// it is given, and waits for it. It is how a goroutine that may give up makes requests, which
// themselves cannot be given up.
//
// Do is run until it returns nil, or an error that trying again does not mend: a refusal of the
// server's ([zkio.Definite]), which Call returns. After any other error, also one of do's own,
// it is run again after a pause, perhaps in another session. So do must reckon with an earlier
// run whose outcome is not known; and a result of its own, be it good or bad, it keeps in a
// variable and returns nil. Call blocks through outages, until there is a connection again.
//
// Call returns [ErrClosed] if the Manager is closed. If ctx ends, it returns at once, with an
// error that wraps ctx.Err() and context.Cause(ctx), while do may still be running: after such
// an error the caller must not touch what do uses. Otherwise everything that do has done
// happens before Call returns.
//
// If ctx has ended while do was running, and undo is not nil, undo is run when do has returned,
// to clean up. It is repeated as do is, with whatever session there is then, and until the
// Manager is closed. Do and undo never run at the same time, and may share variables. If ctx
// ends before do has begun, neither is run.
//
// Do and undo may wait for a lock of this Manager, but not for another Call. Eight of
// Config.Workers are reserved for releases; at most half of the others run functions of Call
// at a time, and further calls wait until one of those has returned. With 9
// Workers there is one other, so do and undo must not wait for a lock then.
func (a Access) Call(ctx context.Context, do, undo func(s *zkio.Session) error) error {
	return a.m.await(ctx, do, undo, &a.m.places)
}

// Protect calls fn, which calls a function of the recipe's user, and returns when fn has
// returned or panicked. Like those of a [Listener], a panic does not end the process: it is
// logged, with what, which says whose function it was.
func (a Access) Protect(what string, fn func()) {
	defer func() {
		if p := recover(); p != nil {
			a.m.cfg.Logger.Error("holdfast: a function of the user's panicked",
				"function", what, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	fn()
}

// Go runs fn on a goroutine that Close of the Manager joins, so fn must return soon after
// Context has ended. Go does not block, unless Close has returned before: then fn runs on
// the caller's goroutine.
func (a Access) Go(fn func()) { a.m.spawn(fn) }

// Finish is Go for what ends with a request that other processes rely on, such as one that
// says that this process has left. Shutdown of the Manager waits until fn has returned, but
// not for longer than its ctx and Config.CloseTimeout allow, and closes the session then. So fn
// must stop waiting for other processes when Accepting ends, and may talk to ZooKeeper until
// Context ends. Close does not wait for the request.
func (a Access) Finish(fn func()) {
	a.m.finishing.add()
	a.m.spawn(func() {
		defer a.m.finishing.done()
		fn()
	})
}
