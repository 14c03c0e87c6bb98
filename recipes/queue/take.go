// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"

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
			if err := q.refresh(ctx, synced); err != nil {
				return nil, err
			}
			if !q.more() {
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
	if err := q.refresh(ctx, plainly); err != nil || q.more() {
		return nil, err
	}
	return q.await(ctx)
}

// await waits in the line of the idle processes. The first of them watches the queue. Once
// it has claimed an element, or has seen that its turn is over, the next one looks.
func (q *Queue) await(ctx context.Context) (*Element, error) {
	hold, err := q.idle.Lock(ctx)
	if errors.Is(err, manager.ErrLost) {
		return nil, nil // lost as soon as granted: the caller searches again
	} else if err != nil {
		return nil, reason(err)
	}
	defer hold.Release()
	turn, done := hold.Context(ctx)
	defer done()
	w := q.watch()
	defer w.end()
	for {
		if err := q.refresh(turn, watching); err != nil {
			return nil, inTurn(ctx, turn, err)
		}
		if q.more() {
			if e, err := q.claimNext(turn); e != nil || err != nil {
				return e, inTurn(ctx, turn, err)
			}
			continue
		}
		select {
		case <-w.changed:
		case <-turn.Done():
			return nil, inTurn(ctx, turn, ctxerr.Of(turn))
		case <-q.access.Accepting().Done(): // Shutdown waits for our place in line
			return nil, manager.ErrClosed
		}
	}
}

// inTurn returns err, or nil if it is only that the turn was lost: the caller searches
// again, and finds out if the Manager is closed.
func inTurn(ctx, turn context.Context, err error) error {
	switch {
	case err == nil || turn.Err() == nil:
		return err
	case ctx.Err() != nil:
		return ctxerr.Of(ctx)
	}
	return nil
}

// A watcher is told when an element may have come, or have become free: an element is put
// into the queue, or returned, or a consumer has ended.
type watcher struct {
	q       *Queue
	changed chan struct{} // has room for one
}

func (q *Queue) watch() *watcher {
	w := &watcher{q: q, changed: make(chan struct{}, 1)}
	q.setWaits(w)
	q.access.Watch(q.dirs.items, w)
	q.access.WatchChildren(q.dirs.consumers, w)
	return w
}

func (q *Queue) setWaits(w *watcher) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits = w
}

// PathChanged is called by the dispatcher.
func (w *watcher) PathChanged(string, zkio.Event) { w.wake() }

// wake does not block.
func (w *watcher) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// end has a worker remove the watches: the caller does not wait.
func (w *watcher) end() {
	w.q.setWaits(nil)
	w.q.access.Submit(zkio.Releases, w)
}

// Run is called by the pool.
func (w *watcher) Run(s *zkio.Session) {
	s.Unwatch(w.q.dirs.items, w)
	s.UnwatchChildren(w.q.dirs.consumers, w)
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
	element *Element
	refused error
}

// do is called by a worker, until it returns nil or a definite error.
func (c *claim) do(s *zkio.Session) error {
	q := c.q
	if c.tried != s && !q.seated(s) {
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
	// Cversion counts creations and deletions of children.
	attempt := int(content.Stat.Cversion+content.Stat.NumChildren) / 2
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
	c.tried = s
	results, err := s.MultiAndRead([]*zkio.Read{content},
		zkio.CreateOp(c.node(), nil, c.q.access.ACL()).Ephemeral(),
		zkio.SetOp(c.node(), []byte(c.id), 0)) // its Stat has the transaction
	switch {
	case err == nil:
		return results[1].Stat.Czxid, nil
	case errors.Is(err, zkio.ErrNodeExists) && again:
		data, stat, err := s.Get(c.node())
		if err != nil || string(data) != c.id {
			return 0, unless(err, zkio.ErrNoNode)
		}
		s.Read(content)
		return stat.Czxid, nil
	case zkio.ClassOf(err) == zkio.Definite:
		c.tried = nil
		return 0, unless(unless(err, zkio.ErrNodeExists), zkio.ErrNoNode)
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

// undo deletes the claim's node, if it is there. A worker calls it, until it returns nil or
// a definite error.
func (c *claim) undo(s *zkio.Session) error {
	if c.element != nil {
		c.element.node.Forget()
	}
	if c.tried != s {
		return nil // if it is there, it goes with its session
	}
	// The session may be at another server than the one that got the request.
	if err := s.Sync(c.path); err != nil {
		return err
	}
	data, _, err := s.Get(c.node())
	if err != nil || string(data) != c.id {
		return unless(err, zkio.ErrNoNode)
	}
	return unless(c.q.transact(s, c.q.giveBack(c.path)), zkio.ErrNoNode)
}

// node returns the path of the claim's node.
func (c *claim) node() string { return c.path + claimName }
