// SPDX-License-Identifier: Apache-2.0

package election

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/holdfast-go/holdfast/internal/oneline"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
)

// The leadership is a lock, and these are the lock's errors.
var (
	// ErrLost says that this process does not lead any more, although it has not
	// resigned. Stop what only the leader does.
	ErrLost = manager.ErrLost
	// ErrNotElected says that the process is not elected yet.
	ErrNotElected = manager.ErrNotGranted
	// ErrResigned says that the Leadership was given up by Resign.
	ErrResigned = manager.ErrReleased
	// ErrTooLarge says that the data of a record exceed 64 KiB, or an ID 1 KiB.
	ErrTooLarge = manager.ErrTooLarge
)

// What fits into a record.
const (
	maxID   = 1 << 10
	maxData = 64 << 10
)

// Options are what a candidate says of itself. The zero Options are ready to use.
type Options struct {
	// ID names this process in the leader's record: its address, for example.
	// Defaults to its process id and host name, such as 4711@db7.
	ID string

	// Latch has the candidates queue as those of Apache Curator's LeaderLatch do, with
	// which they then share the election. All candidates must use the same setting.
	Latch bool

	// Data is what the record says besides, at the beginning of each term.
	// [Leadership.Proclaim] changes it.
	Data []byte
}

// An Election elects one process among those that stand. Its goroutines share the
// leadership. Make one Election for a name in a process. All methods may be called
// concurrently.
type Election struct {
	access manager.Access
	lock   *manager.Lock
	name   string
	record string // the path of the leader's record
	opts   Options

	mu       sync.Mutex // protects what follows; held for a few instructions
	term     *term      // the newest; nil before the first
	recorded uint64     // the last term whose record was written
	tellers  []*teller  // see OnEvent
}

// New returns the election of this name, a slash-separated path under Config.Root of the
// Manager. It does no I/O. The errors are [manager.ErrBadName], [manager.ErrKind],
// [ErrTooLarge] and, once the Manager shuts down, [manager.ErrClosed].
func New(m *manager.Manager, name string, opts Options) (*Election, error) {
	path, err := m.Access().Path(name)
	if err == nil && len(opts.ID) > maxID {
		err = fmt.Errorf("%w: an ID of %d bytes", ErrTooLarge, len(opts.ID))
	}
	if err == nil {
		err = checkData(opts.Data)
	}
	if err != nil {
		return nil, access.Error(m.Access(), "election", name, err)
	}
	open := m.Exclusive
	if opts.Latch {
		open = m.Access().Latch
	}
	lock, err := open(name + "/lock")
	if err != nil {
		return nil, err
	}
	if err := lock.SetLinger(0); err != nil { // who resigns leads no longer
		return nil, err
	}
	opts.Data = bytes.Clone(opts.Data)
	if opts.ID == "" {
		host, _ := os.Hostname()
		opts.ID = fmt.Sprintf("%d@%s", os.Getpid(), host)
	}
	return &Election{access: m.Access(), lock: lock, name: name, record: path + "/leader", opts: opts}, nil
}

func checkData(data []byte) error {
	if len(data) > maxData {
		return fmt.Errorf("%w: data of %d bytes", ErrTooLarge, len(data))
	}
	return nil
}

func (e *Election) error(op string, err error) error { return access.Error(e.access, op, e.name, err) }

// Name returns the election's name.
func (e *Election) Name() string { return e.name }

// Lock returns the lock whose holder leads.
func (e *Election) Lock() *manager.Lock { return e.lock }

// Stand has this process stand for election, and returns at once. [Leadership.Elected]
// settles when it leads. If ctx ends before, the candidacy is withdrawn; afterwards ctx has
// no effect. Call Resign in either case.
func (e *Election) Stand(ctx context.Context) *Leadership {
	ctx, withdraw := context.WithCancelCause(ctx)
	l := newLeadership(e, withdraw)
	e.access.Go(func() {
		defer withdraw(nil)
		l.stand(ctx)
	})
	return l
}

// Campaign has this process stand for election, and blocks until it leads. Then the caller
// must call [Leadership.Resign] of what it returns. ctx bounds the wait only: to lead no
// longer than some context use [Leadership.Context], or [Election.Run].
//
// Any number of goroutines may campaign at a time. They share the term, and each has a
// Leadership of its own to resign. They do not exclude each other: what the goroutines of a
// leader share needs a mutex of its own.
//
// Campaign fails with an error that wraps ctx.Err() and context.Cause(ctx) if ctx ends first,
// [manager.ErrClosed] once Shutdown or Close of the Manager has begun, or what ZooKeeper
// refuses, be it a place in the queue or the record. Then there is nothing to resign, and no
// node is left, or it goes as soon as ZooKeeper can be reached. The error is a
// [*manager.Error], whose field Holder names the leader, if that is known. A session that ends
// meanwhile is no error: the process stands again in the next one, at the end of the queue.
func (e *Election) Campaign(ctx context.Context) (*Leadership, error) {
	l := newLeadership(e, func(error) {})
	l.stand(ctx)
	if _, err, _ := l.elected.Future().Poll(); err != nil {
		return nil, err
	}
	return l, nil
}

// win waits for the lock and publishes the term. If the lock is lost in between, it begins
// again.
func (e *Election) win(ctx context.Context) (manager.Hold, *term, error) {
	for {
		h, err := e.lock.Lock(ctx)
		if err == nil {
			var t *term
			if t, err = e.begin(ctx, h); err == nil {
				return h, t, nil
			}
			h.Release()
		}
		if ctx.Err() != nil || !errors.Is(err, ErrLost) {
			return manager.Hold{}, nil, err
		}
	}
}

// begin publishes the record of the term that h belongs to, unless that was done.
func (e *Election) begin(ctx context.Context, h manager.Hold) (*term, error) {
	g, err := h.Grant()
	if err != nil {
		return nil, err
	}
	t, err := e.termOf(h, g.Token)
	if err != nil {
		return nil, err
	}
	if err := t.publish(ctx, h, e.opts.Data, true); err != nil {
		return nil, err
	}
	return t, h.Err()
}

// termOf returns the term that h belongs to. The tokens do not say which of two terms is the
// newer one: those of a ZooKeeper that was restored from a backup begin anew. But the newest
// term is that of the hold that is not over.
func (e *Election) termOf(h manager.Hold, token uint64) (*term, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil || e.term.token != token {
		if err := h.Err(); err != nil {
			return nil, err
		}
		e.term = newTerm(e, token)
	}
	return e.term, nil
}

// Run has this process stand for election and calls fn once it leads, on the caller's
// goroutine. The context that fn gets ends with ctx, and when the process leads no longer. When
// fn returns, or panics, Run resigns. It returns fn's error, even if that is nil: to lead again
// call Run again. Only if the leadership was lost before fn returned, and ctx has not ended,
// Run ignores fn's error, stands again, and calls fn again, with another Leadership.
//
// So Run blocks until fn returns while the process leads or after ctx has ended, or until the
// process cannot be elected: then it returns Campaign's error. If the Manager closes while fn
// runs, Run joins [manager.ErrClosed] to fn's error, and if the process has resigned and
// ZooKeeper does not confirm that, the error of [Leadership.Resign]. Run may be called by
// several goroutines at a time: the process leads until fn has returned in all of them.
func (e *Election) Run(ctx context.Context, fn func(ctx context.Context, l *Leadership) error) error {
	for {
		l, err := e.Campaign(ctx)
		if err != nil {
			return err
		}
		lost, err := l.lead(ctx, fn)
		if errors.Is(lost, ErrLost) && ctx.Err() == nil {
			continue
		}
		if errors.Is(lost, manager.ErrClosed) && !errors.Is(err, manager.ErrClosed) {
			err = oneline.Join(err, lost)
		}
		return err
	}
}
