// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/members"
)

// A runner is a call of Run. Its goroutine decides which shards to want, and has a worker
// for each of them. Only that goroutine uses its fields, but for those that never change.
type runner struct {
	access        manager.Access
	name, dir, id string
	settle, grace time.Duration
	fn            func(context.Context, Shard) error
	group         *members.Group
	locks         []*manager.Lock // of the shards

	members []string        // their ids, by the newest view
	mine    []bool          // which shards are ours by it
	workers map[int]*worker // those that have not ended
	ended   chan *worker    // gets each when it has
}

// A worker waits for a shard's lock, has fn called under it, and gives the lock up. Then it
// ends.
type worker struct {
	index   int
	ctx     context.Context         // fn's, but for the loss of the lock
	cancel  context.CancelCauseFunc // ends ctx
	wanted  context.Context         // bounds the wait for the lock
	unwant  context.CancelFunc      // ends wanted
	revoked chan struct{}           // closed by the runner
	grace   *time.Timer             // nil until then

	err error // written before the worker is sent to ended
}

// run has the shards until ctx ends or something fails.
func (r *runner) run(ctx context.Context) error {
	me, err := r.group.Join(ctx, r.id, nil)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	err = r.follow(ctx, work)
	stop()
	// Others can queue for our shards while we finish them.
	left := make(chan struct{})
	go func() {
		defer close(left)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.access.Session().Timeout())
		defer cancel()
		_ = me.Leave(ctx) // what it cannot delete goes with the session
	}()
	for len(r.workers) > 0 {
		r.end(<-r.ended)
	}
	<-left
	return err
}

// follow keeps the workers as the group demands. Work is their context, which ends with
// ctx.
func (r *runner) follow(ctx, work context.Context) error {
	views := r.group.Watch(work)
	settled := time.NewTimer(r.settle)
	defer settled.Stop()
	var changed time.Time // when the group changed for the first time since revoke; zero: it has not
	seen := false
	for {
		select {
		case view, ok := <-views:
			switch {
			case !ok:
				return r.why(ctx)
			case view.Err == nil:
				seen = true
				if !r.assign(work, view) {
					continue // a member has changed its data
				}
				if changed.IsZero() {
					changed = time.Now()
				}
				// A group that does not come to rest is not waited for any longer.
				settled.Reset(min(r.settle, time.Until(changed.Add(restless*r.settle))))
			case !seen:
				return view.Err
			}
		case <-settled.C:
			changed = time.Time{}
			r.revoke()
		case w := <-r.ended:
			r.end(w)
			switch {
			case ctx.Err() != nil:
				return r.why(ctx)
			case w.err != nil:
				return w.err
			case r.mine[w.index]:
				r.start(work, w.index)
			}
		}
	}
}

// assign has a worker wait for each shard that is ours by view, and no other worker wait. It
// reports whether view has other members than the one before.
func (r *runner) assign(work context.Context, view members.View) bool {
	ids := make([]string, len(view.Members))
	for i, m := range view.Members {
		ids[i] = m.ID
	}
	if slices.Equal(ids, r.members) {
		return false
	}
	r.members = ids
	for index, id := range Assign(len(r.locks), ids) {
		r.mine[index] = id == r.id
		switch w := r.workers[index]; {
		case r.mine[index] && w == nil:
			r.start(work, index)
		case !r.mine[index] && w != nil:
			w.unwant() // if it has the lock, revoke is for it
		}
	}
	return true
}

// revoke has the shards given up that we own and another process is to have.
func (r *runner) revoke() {
	for index, w := range r.workers {
		if !r.mine[index] && w.grace == nil {
			w.grace = time.AfterFunc(r.grace, func() { w.cancel(ErrRevoked) })
			close(w.revoked)
		}
	}
}

func (r *runner) start(work context.Context, index int) {
	w := &worker{index: index, revoked: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancelCause(work)
	w.wanted, w.unwant = context.WithCancel(w.ctx)
	r.workers[index] = w
	go func() {
		w.err = w.run(r.locks[index], r.fn)
		r.ended <- w
	}()
}

// end forgets a worker that has ended.
func (r *runner) end(w *worker) {
	delete(r.workers, w.index)
	w.cancel(nil)
	if w.grace != nil {
		w.grace.Stop()
	}
}

// run returns nil if the worker should start again in case that the shard is still ours.
func (w *worker) run(lock *manager.Lock, fn func(context.Context, Shard) error) error {
	h, err := lock.Lock(w.wanted)
	switch {
	case w.wanted.Err() != nil && err != nil, errors.Is(err, manager.ErrLost):
		return nil //nolint:nilerr // see above
	case err != nil:
		return err
	}
	err = w.own(h, fn)
	// It waits until another process can have the lock, or for the session timeout. If
	// the lock was lost, or its node cannot be deleted, there is nothing left to do here.
	_ = h.Unlock(context.Background())
	return err
}

// own has fn called, and returns when the shard is to be given up.
func (w *worker) own(h manager.Hold, fn func(context.Context, Shard) error) error {
	g, err := h.Grant()
	if err != nil || w.wanted.Err() != nil {
		return nil // the lock was lost, or is no longer wanted
	}
	ctx, done := h.Context(w.ctx)
	defer done()
	err = fn(ctx, Shard{Index: w.index, Token: g.Token, Hold: h, Revoked: w.revoked})
	if ctx.Err() != nil {
		return nil // it was interrupted, and says so
	}
	if err == nil {
		select {
		case <-w.revoked:
		case <-ctx.Done():
		}
	}
	return err
}
