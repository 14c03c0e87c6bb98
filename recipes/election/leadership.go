// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/oneline"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Leadership is one candidacy and, once elected, a share in this process's term: each
// call of Stand and Campaign has its own. The process leads until all of them have
// resigned, or the term is lost. While other processes wait, a newcomer may have to let them
// lead first, although its process leads: see Config.Tenure of package manager. All methods
// may be called concurrently.
type Leadership struct {
	e        *Election
	withdraw context.CancelCauseFunc // ends the wait of Stand
	elected  futures.Promise[uint64] // the token
	lost     chan struct{}           // closed when the process cannot be elected, and after hold was lost

	// These are written before elected is settled, and read only after it was settled
	// without an error.
	hold manager.Hold
	term *term
}

func newLeadership(e *Election, withdraw context.CancelCauseFunc) *Leadership {
	return &Leadership{e: e, withdraw: withdraw, lost: make(chan struct{})}
}

// stand settles elected.
func (l *Leadership) stand(ctx context.Context) {
	h, t, err := l.e.win(ctx)
	if err != nil {
		if ctx.Err() == nil { // else the candidacy was withdrawn
			close(l.lost)
		}
		l.elected.Settle(0, err)
		return
	}
	l.hold, l.term = h, t
	inside, cancel := h.Context(context.Background())
	lost := l.lost // and not l: the lock must notice if the Leadership is dropped
	context.AfterFunc(inside, func() {
		defer cancel()
		if !errors.Is(context.Cause(inside), ErrResigned) {
			close(lost)
		}
	})
	l.elected.Settle(t.token, nil)
}

// Elected returns the future of the election. It settles with the token when this process
// leads and its record is there, or with an error that says why it cannot lead: that of
// ctx, [ErrResigned], [manager.ErrClosed], or what ZooKeeper refused. It does not block.
func (l *Leadership) Elected() *futures.Future[uint64] { return l.elected.Future() }

// Token returns the fencing token of the term, or 0 before the election. The tokens of an
// election strictly increase from term to term. See [manager.Grant]. It does not block.
func (l *Leadership) Token() uint64 {
	token, _, _ := l.elected.Future().Poll()
	return token
}

// Err returns nil if this process leads at this moment. Otherwise it wraps
// [ErrNotElected], [ErrLost], [ErrResigned] or [manager.ErrClosed], or says as Elected
// does why the process cannot lead. It reads the clock, so it notices the loss after a
// pause of the process, too. It does not block.
func (l *Leadership) Err() error {
	switch _, err, settled := l.elected.Future().Poll(); {
	case !settled:
		return l.e.error("lead", ErrNotElected)
	case err != nil:
		return err
	}
	return l.hold.Err()
}

// Lost returns a channel that closes when this process leads no longer, before another can
// be elected, within the bounds of [manager.Hold.Lost]. It also closes when the process
// cannot be elected, but not because of Resign or the end of Stand's ctx. Err then says
// why. Call Lost once elected: a channel from before may close a moment later. It does not
// block.
func (l *Leadership) Lost() <-chan struct{} {
	if l.Token() == 0 {
		return l.lost
	}
	return l.hold.Lost()
}

// Context returns a context for what the leader does. It ends with parent, and when this
// process leads no longer, with the error of Err as its cause. Standing again with it
// shares the term. Call the CancelFunc when the work is done. Before the election it
// returns a context that has ended. It does not block.
func (l *Leadership) Context(parent context.Context) (context.Context, context.CancelFunc) {
	if l.Token() == 0 {
		ctx, cancel := context.WithCancelCause(parent)
		cancel(l.Err())
		return ctx, func() {}
	}
	return l.hold.Context(parent)
}

// Guard performs ops in ZooKeeper in one transaction that takes effect only while this
// process leads: see [manager.Hold.Guard], also for what it blocks for and its errors.
// Before the election it fails as Err does.
func (l *Leadership) Guard(ctx context.Context, ops ...zkio.Op) ([]zkio.OpResult, error) {
	if l.Token() == 0 {
		return nil, l.Err()
	}
	return l.hold.Guard(ctx, ops...)
}

// Get reads the node at path. It sees what earlier leaders have written by Guard: see
// [manager.Hold.Get], also for what it blocks for and its errors. Before the election it
// fails as Err does.
func (l *Leadership) Get(ctx context.Context, path string) ([]byte, zkio.Stat, error) {
	if l.Token() == 0 {
		return nil, zkio.Stat{}, l.Err()
	}
	return l.hold.Get(ctx, path)
}

// Proclaim has the leader's record say data, up to 64 KiB, until the end of the term. All
// leaderships of the process share the record.
//
// It blocks until ZooKeeper has answered, ctx ends or the leadership is lost. Proclaims
// take effect in the order in which they are called one after the other. It fails as Err
// does if this process does not lead, with [ErrTooLarge], or with what ZooKeeper refused.
// If ctx ends while the request is under way, the error wraps
// [manager.ErrUnknownOutcome], too; a later Proclaim takes effect after it.
func (l *Leadership) Proclaim(ctx context.Context, data []byte) error {
	if err := l.Err(); err != nil {
		return err
	}
	if err := checkData(data); err != nil {
		return l.e.error("proclaim", err)
	}
	return l.term.publish(ctx, l.hold, data, false)
}

// Resign gives this Leadership up; if it is not elected yet, it withdraws the candidacy. Stop
// the leader's work before. The process leads on for as long as it has other Leaderships, and
// Resign returns at once then. When it gives the last one up, Resign blocks until ZooKeeper has
// confirmed that another process can be elected, ctx ends, or the session timeout has passed.
// The Leadership is given up in any case, at the moment of the call. The error is
//
//   - nil if another process can be elected, this process leads on, or it was not elected;
//   - [ErrLost] if the leadership was lost before: another process may have led meanwhile;
//   - [manager.ErrUnconfirmed] if ctx or the time has ended first: another process may have to
//     wait until the session is over. If it was ctx, the error wraps ctx.Err() and
//     context.Cause(ctx), too;
//   - [manager.ErrClosed] if the Manager is closed;
//   - [ErrResigned] if Resign was called before, by any goroutine.
func (l *Leadership) Resign(ctx context.Context) error {
	l.withdraw(ErrResigned)
	// This wait is for no answer of ZooKeeper's: stand returns when it is withdrawn.
	if _, err := l.elected.Future().Wait(context.Background()); err != nil {
		return nil //nolint:nilerr // there is nothing to give up
	}
	return l.hold.Unlock(ctx)
}

// lead calls fn, and resigns. It returns fn's error, and why the process did not lead any
// more when fn returned.
func (l *Leadership) lead(ctx context.Context, fn func(context.Context, *Leadership) error) (lost, err error) {
	inside, cancel := l.Context(ctx)
	defer func() {
		cancel()
		lost = l.Err()
		if e := l.Resign(ctx); e != nil && lost == nil && ctx.Err() == nil {
			err = oneline.Join(err, e)
		}
	}()
	return nil, fn(inside, l)
}
