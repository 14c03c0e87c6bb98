// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// take takes an element. If there is none it waits, or returns ErrEmpty.
func (q *Queue) take(ctx context.Context, wait bool) (*Element, error) {
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

func (q *Queue) find(ctx context.Context, wait bool) (*Element, error) {
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
func (q *Queue) claimNext(ctx context.Context) (*Element, error) {
	for name, ok := q.pick(); ok; name, ok = q.pick() {
		e, err := q.claim(ctx, name)
		if e != nil || err != nil {
			return e, err
		}
	}
	return nil, nil
}

// search returns when the list has elements, or with an element that it has waited for.
// One goroutine of the process searches at a time.
func (q *Queue) search(ctx context.Context) (*Element, error) {
	if q.more() {
		return nil, nil // the goroutine before has found them
	}
	if found, err := q.refresh(ctx, plainly); err != nil || found {
		return nil, err
	}
	return q.await(ctx)
}

// await waits in the line of the idle processes.
func (q *Queue) await(ctx context.Context) (*Element, error) {
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
		case <-time.After(time.Until(w.next)):
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

// claim claims an element, unless it is gone or taken, or must be buried: then it returns
// nil.
func (q *Queue) claim(ctx context.Context, name string) (*Element, error) {
	c := &claim{q: q, name: name, path: q.dirs.items + "/" + name, id: q.access.GUID()}
	if err := q.access.Call(ctx, c.do, c.undo); err != nil {
		q.drop(name) // c is a worker's, if ctx has ended
		q.relist(name)
		return nil, err
	}
	if c.element == nil {
		q.drop(name)
	}
	return c.element, c.refused
}

// A claim is the try to claim one element. The worker that carries it out uses it; then
// the caller does.
type claim struct {
	q    *Queue
	name string
	path string // of the element
	id   string // the data of the claim's node

	tried   *zkio.Session // the session in which the node may be there; nil: in none
	sent    time.Time     // when the request that may have created it was sent
	element *Element
	refused error
}

// do is called by a worker, until it returns nil or a definite error.
func (c *claim) do(s *zkio.Session) error {
	q := c.q
	switch {
	case c.tried != nil && c.tried != s:
		return c.undo(s) // the session has ended, and the claim with it
	case c.tried == nil && !q.seated(s):
		return nil // the list is of an earlier session
	}
	content := zkio.Read{Path: c.path, What: zkio.ReadData}
	created, err := c.create(s, &content)
	if created == 0 {
		return err
	}
	if content.Err != nil {
		return unless(content.Err, zkio.ErrNoNode)
	}
	attempt := attempts(content.Stat)
	if most := q.options.MaxAttempts; most > 0 && attempt > most {
		return c.bury(s, content.Data)
	}
	node, err := q.keeper.Keep(s, c.node(), created)
	if err != nil {
		return unless(err, zkio.ErrNoNode) // an administrator has deleted it
	}
	c.element = q.newElement(c.name, c.path, content.Data, attempt, node)
	q.fruitful()
	return nil
}

// create creates the claim's node, and reads the element. It returns the transaction that
// has created the node, or 0 if this process has not got the element.
func (c *claim) create(s *zkio.Session, content *zkio.Read) (created int64, err error) {
	again := c.tried == s
	sent := time.Now()
	if !again {
		c.tried, c.sent = s, sent
	}
	results, err := s.MultiAndRead([]*zkio.Read{content},
		zkio.CreateOp(c.node(), nil, c.q.access.ACL()).Ephemeral(),
		zkio.SetOp(c.node(), []byte(c.id), 0)) // its Stat has the transaction
	switch {
	case err == nil:
		c.q.clock.set(results[1].Stat.Mtime, sent)
		return results[1].Stat.Czxid, nil
	case errors.Is(err, zkio.ErrNodeExists) && again:
		data, stat, err := s.Get(c.node())
		if err != nil || string(data) != c.id {
			return 0, unless(err, zkio.ErrNoNode)
		}
		c.q.clock.set(stat.Mtime, c.sent)
		s.Read(content)
		return stat.Czxid, nil
	case zkio.ClassOf(err) == zkio.Definite:
		c.tried = nil
		return 0, unless(unless(err, zkio.ErrNodeExists), zkio.ErrNoNode)
	case errors.Is(err, zkio.ErrNotSent) && !again:
		c.tried = nil
	}
	return 0, err
}

// bury moves the element to dead/.
func (c *claim) bury(s *zkio.Session, data []byte) error {
	ops, err := c.q.burial(s, c.path, data)
	if err == nil {
		err = c.q.transact(s, ops)
	}
	if errors.Is(err, ErrFull) || zkio.ClassOf(err) == zkio.Definite && !errors.Is(err, zkio.ErrNoNode) {
		c.refused = err
		return c.undo(s)
	}
	return unless(err, zkio.ErrNoNode) // moved by a try whose answer was lost
}

// undo takes the claim back, of which no caller has heard: it deletes the claim's node, if it is
// there, and has the attempt not count. A worker calls it, until it returns nil or a definite
// error.
func (c *claim) undo(s *zkio.Session) error {
	if c.element != nil {
		c.element.node.Forget()
	}
	switch c.tried {
	case nil:
		return nil
	case s:
		// The session may be at another server than the one that got the request.
		if err := s.Sync(c.path); err != nil {
			return err
		}
		data, _, err := s.Get(c.node())
		if err != nil || string(data) != c.id {
			return unless(err, zkio.ErrNoNode)
		}
		return unless(c.takeBack(s, c.q.giveBack(c.path)), zkio.ErrNoNode)
	}
	// The claim goes with its session, or was never made. An attempt too many would bury the
	// element one attempt early, unseen; one too few is harmless. So what is in doubt counts
	// as taken back, and is not tried twice.
	if err := c.takeBack(s, nil); !errors.Is(err, zkio.ErrUnknown) {
		return unless(err, zkio.ErrNoNode)
	}
	return nil
}

// takeBack carries out the operations, and has the attempt not count.
func (c *claim) takeBack(s *zkio.Session, ops []zkio.Op) error {
	uncount, err := uncounted(s, c.path)
	if err != nil {
		return err
	}
	return c.q.transact(s, append(ops, uncount))
}

// node returns the path of the claim's node.
func (c *claim) node() string { return c.path + claimName }
