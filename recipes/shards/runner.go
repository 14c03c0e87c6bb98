// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/members"
	"github.com/holdfast-go/holdfast/zkio"
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

	members  []string             // their ids, by the newest view
	changed  time.Time            // when they did
	settled  bool                 // they have been the same for long enough to give up shards
	heirs    []string             // who is to have each shard
	silent   map[string]time.Time // the members that did not come for a shard, and when: they seem to be dead
	deputies []deputy             // who is to have each shard if it is left
	mine     []bool               // which shards are ours, or were left to us
	workers  map[int]*worker      // those that have not ended
	ended    chan *worker         // gets each when it has
}

// A deputy is the one that is to have a shard if the silent members are not counted.
type deputy struct {
	id    string
	since time.Time
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
	look := time.NewTimer(r.patience())
	defer look.Stop()
	var unrest time.Time // when the group changed for the first time since it had settled; zero: it has not
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
				if unrest.IsZero() {
					unrest = r.changed
				}
				// A group that does not come to rest is not waited for any longer.
				settled.Reset(min(r.settle, time.Until(unrest.Add(restless*r.settle))))
				if len(r.silent) == 0 {
					look.Reset(r.patience())
				} else {
					look.Reset(0)
				}
			case !seen:
				return view.Err
			}
		case <-r.access.Accepting().Done():
			return r.why(ctx) // Shutdown waits for the shards to be given up
		case <-settled.C:
			unrest, r.settled = time.Time{}, true
			look.Reset(0)
		case <-look.C:
			if r.look(work) {
				look.Reset(r.patience())
			}
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

// patience returns for how long a shard is left to its heir, which has had a look at the group by
// then and queues for the shard.
func (r *runner) patience() time.Duration { return r.access.Session().Timeout() / 8 }

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
	r.members, r.changed, r.settled = ids, time.Now(), false
	r.heirs = Assign(len(r.locks), ids)
	maps.DeleteFunc(r.silent, func(id string, _ time.Time) bool { return !slices.Contains(ids, id) })
	r.depute()
	for index, id := range r.heirs {
		r.mine[index] = id == r.id
		switch w := r.workers[index]; {
		case r.mine[index] && w == nil:
			r.start(work, index)
		case !r.mine[index] && w != nil:
			w.unwant() // if it has the lock, it goes on until the heir waits for it
		}
	}
	return true
}

// depute finds out who is to have what is left.
func (r *runner) depute() {
	ids := slices.DeleteFunc(slices.Clone(r.members), func(id string) bool { _, is := r.silent[id]; return is })
	for index, id := range Assign(len(r.locks), ids) {
		if d := &r.deputies[index]; d.id != id {
			*d = deputy{id, time.Now()}
		}
	}
}

// look looks at the shards that others are to have, and reports whether to look again. Members may
// be dead that ZooKeeper takes for alive. So a shard that we own is given up when another process
// waits for it, and not before. One that no process has or waits for is left: its deputy, which is
// the heir at first, must be dead, or slow, and the members divide it anew without that one. If the
// heir comes after all, it waits, and gets the shard.
func (r *runner) look(ctx context.Context) (again bool) {
	var others []int
	for index, id := range r.heirs {
		if id != r.id {
			others = append(others, index)
		}
	}
	if len(others) == 0 || !slices.Contains(r.members, r.id) {
		return false
	}
	// One that is dead would have left the group by now: it was slow.
	maps.DeleteFunc(r.silent, func(_ string, since time.Time) bool { return time.Since(since) > r.access.Session().Timeout() })
	contenders, err := r.contenders(ctx, others)
	if err != nil {
		return ctx.Err() == nil
	}
	var left []int
	for _, index := range others {
		w := r.workers[index]
		switch {
		case w != nil && w.grace == nil:
			if again = true; r.settled && contenders[index] > 1 {
				r.mine[index] = false
				r.revoke(w)
			}
		case w == nil && contenders[index] == 0:
			left = append(left, index)
			if d := r.deputies[index]; d.id != r.id && time.Since(d.since) >= r.patience() {
				r.silent[d.id] = time.Now()
			}
		}
	}
	r.depute()
	for _, index := range left {
		if r.deputies[index].id == r.id {
			r.mine[index] = true
			r.start(ctx, index)
		}
	}
	return again || len(left) > 0 || len(r.silent) > 0 || time.Since(r.changed) < r.patience()
}

// contenders returns how many processes have each of these shards or wait for it.
func (r *runner) contenders(ctx context.Context, shards []int) (map[int]int, error) {
	// In an outage Run goes on without the answer: a function may have failed.
	ctx, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()
	return access.Ask(ctx, r.access, func(s *zkio.Session) (map[int]int, error) {
		counts := make(map[int]int) // the server removes empty directories: 0
		// A lock may have a watcher registered for its path, so the reads must be of a kind that
		// sets no watch.
		err := access.Each(s, shards, func(index int) string { return r.locks[index].Path() }, func(index int, dir *zkio.Read) {
			counts[index] = int(dir.Stat.NumChildren)
		})
		return counts, err
	})
}

// revoke has a shard given up that we own and another process is to have.
func (r *runner) revoke(w *worker) {
	w.grace = time.AfterFunc(r.grace, func() { w.cancel(ErrRevoked) })
	close(w.revoked)
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
