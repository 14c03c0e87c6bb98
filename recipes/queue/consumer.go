// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/bell"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
)

// A consumer takes elements for this process: for each goroutine that wants one. In its methods q
// stands for the queue.
type consumer struct {
	*nodes
	keeper *own.Keeper
	idle   *manager.Lock // the line of the processes that wait for elements
	clock  clock         // ZooKeeper's

	searching chan struct{} // has room for the one goroutine that looks for elements

	mu    sync.Mutex // protects what follows; held for a few instructions, or to sift a list
	list  list
	known known
	mine  map[string]bool // the elements that this process tries to claim, or has claimed
	seat  seat
	waits bell.Bell // of the goroutine that waits for elements; nil: there is none
	using int       // calls that want elements, and elements that are not settled
	used  time.Time // when using last fell
}

func newConsumer(n *nodes, idle *manager.Lock) *consumer {
	return &consumer{
		nodes: n, keeper: own.NewKeeper(n.access, ErrLost), idle: idle,
		searching: make(chan struct{}, 1), mine: make(map[string]bool),
	}
}

// take takes an element. If there is none it waits, or returns ErrEmpty.
func (q *consumer) take(ctx context.Context, wait bool) (*Element, error) {
	if ctx.Err() != nil {
		return nil, ctxerr.Of(ctx)
	}
	q.use()
	e, err := q.find(ctx, wait)
	if e == nil {
		q.unuse() // otherwise the element's end does so
	}
	return e, err
}

func (q *consumer) find(ctx context.Context, wait bool) (*Element, error) {
	for {
		if e, err := q.claimNext(ctx); e != nil || err != nil {
			return e, err
		}
		if !wait {
			// Other goroutines may take what is found: only if nothing is, the queue is empty.
			if found, err := q.refresh(ctx, synced); err != nil {
				return nil, err
			} else if !found {
				return nil, ErrEmpty
			}
			continue
		}
		select {
		case q.searching <- struct{}{}:
		case <-q.access.Context().Done():
			return nil, manager.ErrClosed
		case <-ctx.Done():
			return nil, ctxerr.Of(ctx)
		}
		e, err := q.search(ctx)
		<-q.searching
		if e != nil || err != nil {
			return e, err
		}
	}
}

// claimNext claims the first element of the list that can be had; nil if there is none.
func (q *consumer) claimNext(ctx context.Context) (*Element, error) {
	for name, ok := q.pick(); ok; name, ok = q.pick() {
		e, err := q.claim(ctx, name)
		if e != nil || err != nil {
			return e, err
		}
	}
	return nil, nil
}

// claim claims an element, unless it is gone or taken, or must be buried: then it returns
// nil.
func (q *consumer) claim(ctx context.Context, name string) (*Element, error) {
	c := q.newClaim(name)
	if err := q.access.Call(ctx, c.do, c.undo); err != nil {
		q.drop(name) // c is a worker's, if ctx has ended
		q.relist(name)
		return nil, err
	}
	if c.kept == nil {
		q.drop(name)
		return nil, c.refused
	}
	q.fruitful()
	return q.newElement(c), nil
}

// search returns when the list has elements, or with an element that it has waited for.
// One goroutine of the process searches at a time.
func (q *consumer) search(ctx context.Context) (*Element, error) {
	if q.more() {
		return nil, nil // the goroutine before has found them
	}
	if found, err := q.refresh(ctx, plainly); err != nil || found {
		return nil, err
	}
	return q.await(ctx)
}

// await waits in the line of the idle processes.
func (q *consumer) await(ctx context.Context) (*Element, error) {
	w := newWaiter(q)
	defer w.end()
	stop := q.idle.Listen(manager.Listener{Queued: w.queued})
	defer stop()
	hold := q.idle.Acquire(ctx)
	defer hold.Release()
	turn, done := hold.Context(ctx) // ends if the place in line is lost, too
	defer done()
	ready := hold.Ready()
	granted := ready.Done()
	for {
		select {
		case <-granted:
			granted = nil
			if _, err, _ := ready.Poll(); err != nil {
				return nil, over(ctx, err)
			}
			w.look(first)
		case place := <-w.places:
			w.look(place)
		case <-w.changed:
			w.hear()
		case <-w.due():
			if e, err := w.try(turn); e != nil || err != nil {
				return e, inTurn(ctx, turn, err)
			}
		case <-turn.Done():
			return nil, inTurn(ctx, turn, ctxerr.Of(turn))
		case <-q.access.Accepting().Done(): // Shutdown waits for our place in line
			return nil, manager.ErrClosed
		}
	}
}

// inTurn returns err, or why the turn is over if that is all.
func inTurn(ctx, turn context.Context, err error) error {
	if err == nil || turn.Err() == nil {
		return err
	}
	return over(ctx, context.Cause(turn))
}

// over returns why a caller waits no longer whose place in line has ended with err: nil if it was
// only lost, and the caller searches again.
func over(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctxerr.Of(ctx)
	case errors.Is(err, manager.ErrLost):
		return nil
	}
	return reason(err)
}
