// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
)

// Permits are permits of a [Semaphore] that one call acquires and releases together: pending
// first, then granted. They belong to no goroutine. All methods may be called concurrently.
type Permits struct {
	sem      *Semaphore
	op       string // of the call that they come from
	weight   int
	withdraw context.CancelFunc // ends the wait

	granted  futures.Promise[struct{}]
	released futures.Promise[struct{}]
	over     atomic.Bool // Release was called

	alive context.Context // ends when the permits are lost, or cannot be granted
	lose  context.CancelCauseFunc
	held  context.Context // ends when alive does, or when they are released
	leave context.CancelCauseFunc

	// Written before granted settles without an error, and not changed after.
	claim *claim
	nodes []*own.Node // those of claim
}

// newPermits returns pending permits. They are withdrawn when ctx, which it returns, ends.
func newPermits(parent context.Context, s *Semaphore, op string, w int) (p *Permits, ctx context.Context) {
	p = &Permits{sem: s, op: op, weight: w}
	ctx, p.withdraw = context.WithCancel(parent)
	p.alive, p.lose = context.WithCancelCause(context.Background())
	p.held, p.leave = context.WithCancelCause(p.alive)
	return p, ctx
}

// Granted returns the future of the grant: see [Semaphore.Acquire]. It does not block.
func (p *Permits) Granted() *futures.Future[struct{}] { return p.granted.Future() }

// Weight returns how many permits they are.
func (p *Permits) Weight() int { return p.weight }

// Token returns the transaction that created the permits' nodes. It rises from grant to
// grant, except that TryLock does not line up, nor does a process that goes ahead of one that
// seems to be dead: their permits may have a higher one than permits that are granted later. It
// fails as [Permits.Err] does. Token reads the clock, and does not
// block.
func (p *Permits) Token() (uint64, error) {
	if err := p.Err(); err != nil {
		return 0, err
	}
	return uint64(p.claim.czxid), nil
}

// Err returns nil while the permits are held. Else it returns [manager.ErrNotGranted] while
// they are pending; the error of Granted, if that has failed; [ErrLost] or
// [manager.ErrClosed] if they are lost; [manager.ErrReleased] once Release was called. Err
// reads the clock, and does not block: call it after every pause.
func (p *Permits) Err() error {
	if p.over.Load() {
		return p.error("hold", manager.ErrReleased)
	}
	switch _, err, settled := p.granted.Future().Poll(); {
	case !settled:
		return p.error("hold", manager.ErrNotGranted)
	case err != nil:
		return err
	}
	return p.whyLost("hold")
}

// whyLost returns why the permits, which were granted, are lost; nil if they are not.
func (p *Permits) whyLost(op string) error {
	// The first looks at the lease, which all of them have.
	return p.error(op, cmp.Or(p.nodes[0].Err(), context.Cause(p.alive)))
}

// Lost returns a channel that closes when the permits are lost, or cannot be granted. It
// closes before ZooKeeper can give them to another process, within the bounds that package
// manager states, unless another client has deleted a node of theirs. It never closes because
// granted permits are released. Lost does not block.
func (p *Permits) Lost() <-chan struct{} { return p.alive.Done() }

// Context returns a context for the work that the permits are for. It ends with parent;
// with the cause [ErrLost] or [manager.ErrClosed] when the permits are lost, or with that of
// Granted when they cannot be granted; with the cause [manager.ErrReleased] when they are
// released; and when done is called. Context does not block.
func (p *Permits) Context(parent context.Context) (ctx context.Context, done context.CancelFunc) {
	return own.Within(parent, p.held)
}

// Release gives the permits back, or withdraws the request for them. It never blocks. The
// future that it returns settles
//
//   - with nil when ZooKeeper has deleted the permits' nodes, so other processes can have them;
//   - with [ErrLost] if they were lost before: roll back work that required them;
//   - with [manager.ErrNotGranted] if they were pending, or could not be had, when nothing
//     of them is left;
//   - with [manager.ErrClosed] if the manager is closed meanwhile, and with what ZooKeeper
//     refuses.
//
// There is no need to wait for it. Of permits that were released before it has failed with
// [manager.ErrReleased].
func (p *Permits) Release() *futures.Future[struct{}] {
	if p.over.Swap(true) {
		return futures.Resolved(struct{}{}, p.error("release", manager.ErrReleased))
	}
	p.leave(manager.ErrReleased)
	if p.fail(manager.ErrReleased) {
		p.withdraw()
	}
	if _, err, _ := p.granted.Future().Poll(); err == nil {
		lost := p.whyLost("release")
		for _, n := range p.nodes {
			n.Forget()
		}
		p.sem.access.Go(func() {
			p.released.Settle(struct{}{}, cmp.Or(lost, p.error("release", p.sem.remove(p.claim))))
		})
	}
	return p.released.Future()
}

// Unlock is Release that waits. It blocks until the future of Release has settled, and
// returns its error, or until ctx ends. In that case the error wraps
// [manager.ErrUnconfirmed], ctx.Err() and context.Cause(ctx): the permits are given up, but
// other processes may have to wait until ZooKeeper can be reached.
func (p *Permits) Unlock(ctx context.Context) error {
	released := p.Release()
	select {
	case <-released.Done():
	case <-ctx.Done():
	}
	if _, err, settled := released.Poll(); settled {
		return err
	}
	return p.error("unlock", fmt.Errorf("%w: %w", manager.ErrUnconfirmed, ctxerr.Of(ctx)))
}

// wait waits for the grant, and checks it.
func (p *Permits) wait() (*Permits, error) {
	<-p.granted.Future().Done() // the end of ctx settles it
	if err := p.Err(); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// grant grants the permits, unless the caller has given up.
func (p *Permits) grant(c *claim, nodes []*own.Node) bool {
	p.claim, p.nodes = c, nodes
	if !p.granted.Settle(struct{}{}, nil) {
		return false
	}
	// No CancelFunc is called: the contexts go with the nodes.
	all := context.Background()
	for _, n := range nodes {
		all, _ = n.Context(all)
	}
	context.AfterFunc(all, func() { p.lose(context.Cause(all)) })
	return true
}

// fail has Granted fail, and reports whether it was pending.
func (p *Permits) fail(err error) bool {
	if e, ok := errors.AsType[*manager.Error](err); ok {
		err = e.Err // of the line, or of a Guard
	}
	err = p.error(p.op, err)
	if !p.granted.Settle(struct{}{}, err) {
		return false
	}
	p.lose(err)
	return true
}

func (p *Permits) error(op string, err error) error {
	return p.sem.error(op, err)
}
