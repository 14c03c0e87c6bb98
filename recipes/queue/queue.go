// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

// The conditions that the package reports, besides those of package manager. Each is
// wrapped in a [*manager.Error].
var (
	// ErrEmpty says that there is no element that is not taken.
	ErrEmpty = errors.New("queue is empty")
	// ErrFull says that the queue has as many elements as its limit allows. Nothing was put
	// into it. Try again when consumers have made room, or use [Queue.OfferWait].
	ErrFull = errors.New("queue is full")
	// ErrTooLarge says that an element, or all elements of a call together, are too large, or
	// that they are more than the queue can ever have.
	ErrTooLarge = errors.New("too large")
	// ErrSequenceExhausted says that the queue has used up the 2³¹ numbers that ZooKeeper
	// has for its elements. Nothing was put into it. The numbers begin anew when the queue
	// is offered something while it is empty.
	ErrSequenceExhausted = errors.New("sequence numbers are exhausted until the queue is empty")
	// ErrLost says that this process no longer has the element, although it has not settled
	// it: its session's lease has ended, or another client has deleted the claim. Another
	// consumer may have the element.
	ErrLost = errors.New("element was lost")
	// ErrNotDead says that there is no buried element of this name: it was requeued or dropped
	// meanwhile, say.
	ErrNotDead = errors.New("no such buried element")
	// ErrSettled says that Ack, Return or Bury was called for the element before.
	ErrSettled = errors.New("element was settled before")
)

// The bounds of the queue. See the package documentation for why they are needed.
const (
	maxLength = 50_000    // of Options.MaxLength, and of what lies in dead/
	maxOffer  = 512 << 10 // bytes of elements that are offered together
	maxCount  = 1000      // elements that one transaction puts into the queue

	// maxRequest is how large a transaction is at most that puts elements into the queue, with the
	// paths of the nodes. Servers take requests of a megabyte by default.
	maxRequest = 900 << 10
)

// Options limit a queue. Zero values stand for the defaults. Processes with different
// options can share a queue: the limits are those of the process that offers or takes.
type Options struct {
	// MaxLength is the number of elements, taken ones included, from which on nothing is
	// put into the queue: 10,000 by default, at most 50,000.
	MaxLength int
	// MaxSize is the size of an element in bytes: 64 KiB by default, at most 512 KiB.
	MaxSize int
	// MaxAttempts is how often an element is taken before it is buried: 10 by default. If
	// it is negative, elements are buried by [Element.Bury] only.
	MaxAttempts int
}

// A Queue is a queue in ZooKeeper that processes share. All methods may be called
// concurrently. A process needs one Queue of a name.
type Queue struct {
	*nodes
	producer *producer
	consumer *consumer
}

// New returns the queue of this name, which is a path as for [manager.Manager.Exclusive].
// It does no I/O. The errors are [manager.ErrBadName], [manager.ErrBadConfig] for options
// out of bounds, and [manager.ErrClosed].
func New(m *manager.Manager, name string, o Options) (*Queue, error) {
	n := &nodes{name: name, access: m.Access()}
	var err error
	if n.options, err = o.withDefaults(); err != nil {
		return nil, n.error("open", err)
	}
	path, err := n.access.Path(name)
	if err != nil {
		return nil, n.error("open", err)
	}
	n.dirs = dirs{
		queue: path, items: path + "/items", consumers: path + "/consumers", producers: path + "/producers",
		dead: path + "/dead", delayed: path + "/delayed",
	}
	idle, err := m.Exclusive(name + "/idle")
	if err != nil {
		return nil, n.error("open", reason(err))
	}
	return &Queue{n, &producer{nodes: n}, newConsumer(n, idle)}, nil
}

func (o Options) withDefaults() (Options, error) {
	for _, l := range []struct {
		name         string
		value        *int
		normal, most int
	}{
		{"MaxLength", &o.MaxLength, 10_000, maxLength},
		{"MaxSize", &o.MaxSize, 64 << 10, maxOffer},
	} {
		if *l.value == 0 {
			*l.value = l.normal
		}
		if *l.value < 1 || *l.value > l.most {
			return o, fmt.Errorf("%w: %s is %d, which is not between 1 and %d", manager.ErrBadConfig, l.name, *l.value, l.most)
		}
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = 10
	}
	return o, nil
}

// Offer puts elements at the end of the queue: all of them, in this order and without
// others between them, or none. It blocks until they are there or ctx ends. Elements that
// goroutines of one process offer at the same time travel in one transaction.
//
// The errors are [ErrFull], [ErrTooLarge], [ErrSequenceExhausted], those of ctx, and
// [manager.ErrUnknownOutcome] if the elements may be there all the same: the session has
// ended, or ctx, while they were under way.
func (q *Queue) Offer(ctx context.Context, data ...[]byte) error {
	return q.error("offer", q.producer.offer(ctx, data))
}

// OfferWait is Offer, but while the queue is full it waits. It looks again after a pause
// that grows from 100 ms to a second, and fails with [manager.ErrClosed] when Shutdown of the
// Manager begins. More elements than Options.MaxLength would wait for ever, so they are refused at
// once, with [ErrTooLarge].
func (q *Queue) OfferWait(ctx context.Context, data ...[]byte) error {
	for n := 0; ; n++ {
		err := q.producer.offer(ctx, data)
		if !errors.Is(err, ErrFull) {
			return q.error("offer", err)
		}
		select {
		case <-time.After(zkio.Backoff(n, 100*time.Millisecond, time.Second)):
		case <-q.access.Accepting().Done():
			return q.error("offer", manager.ErrClosed)
		case <-ctx.Done():
			return q.error("offer", fmt.Errorf("%w: %w", err, ctxerr.Of(ctx)))
		}
	}
}

// Take takes an element. It blocks until there is one or ctx ends. The caller must call
// Ack, Return or Bury of the element. The errors are those of ctx, [manager.ErrClosed],
// and [ErrFull] if an element must be buried and dead/ has no room.
func (q *Queue) Take(ctx context.Context) (*Element, error) {
	e, err := q.consumer.take(ctx, true)
	return e, q.error("take", err)
}

// Poll takes an element and acks it before the caller has seen it, so that the element is
// handled at most once. It does not wait for elements, but blocks until ZooKeeper has
// answered or ctx ends. The error is [ErrEmpty] if there is no element that is not taken.
// If it is not known whether the element was acked, also because ctx has ended meanwhile,
// Poll returns its data with [manager.ErrUnknownOutcome]: it may come again.
func (q *Queue) Poll(ctx context.Context) ([]byte, error) {
	for {
		e, err := q.consumer.take(ctx, false)
		if err != nil {
			return nil, q.error("poll", err)
		}
		err = e.Ack(ctx)
		switch {
		case err == nil:
			return e.Data(), nil
		case errors.Is(err, manager.ErrUnknownOutcome):
			return e.Data(), q.error("poll", reason(err))
		case errors.Is(err, ErrLost):
		case ctx.Err() == nil:
			return nil, q.error("poll", reason(err))
		case e.settled.Load(): // it goes on
			return e.Data(), q.error("poll", fmt.Errorf("%w: %w", reason(err), manager.ErrUnknownOutcome))
		default: // ctx has ended between the two
			q.access.Finish(func() { _ = e.withdraw(context.WithoutCancel(ctx)) })
			return nil, q.error("poll", reason(err))
		}
	}
}

// Element returns the data of the first element that is not taken, and leaves it where it
// is. It blocks until ZooKeeper has answered or ctx ends. The error is [ErrEmpty] if there
// is no such element.
func (q *Queue) Element(ctx context.Context) ([]byte, error) {
	data, err := access.Ask(ctx, q.access, func(s *zkio.Session) ([]byte, error) {
		if err := s.Sync(q.dirs.items); err != nil {
			return nil, err
		}
		names, _, err := s.Children(q.dirs.items)
		if err := access.Unless(err, zkio.ErrNoNode); err != nil {
			return nil, err
		}
		for names = inOrder(names); len(names) > 0; names = names[1:] {
			l := look{names: names}
			if err := l.run(s, q.dirs.items, 1); err != nil {
				return nil, err
			}
			if len(l.free) == 0 {
				break
			}
			data, _, err := s.Get(q.dirs.items + "/" + l.free[0])
			if !errors.Is(err, zkio.ErrNoNode) {
				return data, err
			}
		}
		return nil, access.Verdict(ErrEmpty)
	})
	return data, q.error("element", err)
}

// reason returns what err says has happened, without what was attempted.
func reason(err error) error {
	if e, ok := errors.AsType[*manager.Error](err); ok {
		return e.Err
	}
	return err
}
