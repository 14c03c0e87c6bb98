// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/members"
	"github.com/holdfast-go/holdfast/recipes/queue"
	"github.com/holdfast-go/holdfast/recipes/semaphore"
	"github.com/holdfast-go/holdfast/recipes/shards"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/journal"
	"github.com/holdfast-go/holdfast/stress/internal/plan"
	"github.com/holdfast-go/holdfast/stress/internal/register"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// What a recipe gives to one process at a time, or to some at once, is for the history a
// lock: the leadership of an election, the id of a group, a shard, an element of a queue,
// and the permits of a semaphore. The judge of the history knows what must hold of each.

// A recipe performs the steps of workers with one of these. It waits for it until ctx ends,
// and works until run does.
type recipe interface {
	step(run, ctx context.Context, w *worker, s plan.Step, l *contended)
}

func (w *worker) goThrough(run context.Context, s plan.Step, l *contended) {
	ctx, cancel := context.WithTimeout(run, s.Bound)
	defer cancel()
	l.recipe.step(run, ctx, w, s, l)
}

// A noLock is the name of something that is no lock.
type noLock struct {
	locker
	name string
}

func (n noLock) Name() string                           { return n.name }
func (n noLock) State() (state.Phase, int)              { return state.Free, 0 }
func (n noLock) Stats() manager.Stats                   { return manager.Stats{} }
func (n noLock) ReleaseIdle() *futures.Future[struct{}] { return futures.Resolved(struct{}{}, nil) }

func (c *child) openRecipe(m *manager.Manager, l *contended, v wire.Venue) (err error) {
	switch v.Kind {
	case wire.ElectionWorkload:
		r := &electionRecipe{}
		r.election, err = election.New(m, v.Name, election.Options{})
		l.recipe = r
	case wire.MembersWorkload:
		r := &membersRecipe{}
		r.group, err = members.New(m, v.Name)
		l.recipe = r
	case wire.ShardsWorkload:
		l.recipe = &shardsRecipe{name: v.Name}
	case wire.SemaphoreWorkload:
		r := &semaphoreRecipe{}
		r.semaphore, err = semaphore.New(m, v.Name, semaphore.Options{Permits: wire.ManyPermits})
		l.mode, l.recipe = history.Permit, r
	case wire.QueueWorkload:
		r := &queueRecipe{}
		r.queue, err = queue.New(m, v.Name, queue.Options{MaxAttempts: -1})
		l.recipe = r
	case wire.BarrierWorkload:
		l.mode = history.Permit
		l.recipe, err = c.newBarrier(v.Name)
	}
	return err
}

// A given is what a recipe has given to a worker.
type given struct {
	journal.Watched
	session uint64 // of a contender; 0: unknown
	token   uint64
	// alone says that no other process may have it, which the referee checks.
	alone bool
	// fenced says that it is used to write to the register, which remembers each name.
	fenced bool
	giveUp func(ctx context.Context) error
}

// use works with what a recipe has given, and gives it up. The record has been requested.
func (w *worker) use(run context.Context, s plan.Step, l *contended, r *journal.Record, g given) {
	grant := manager.Grant{Token: g.token, Session: int64(g.session)} //nolint:gosec // its bits
	r.Granted(grant, g)
	leave := func() {}
	if g.alone {
		var ok bool
		if leave, ok = w.enterReferee(l, grant, g.Lost()); !ok {
			return
		}
	}
	w.entered(l)
	w.sabotageInside()
	if g.fenced {
		w.writeNow(l)
	}
	w.stay(run, s.Hold, l, g.Lost())
	if len(w.child.settings.Program) == 0 { // else there is no asking: see contendAbroad
		r.Valid(g)
	}
	if g.fenced {
		w.writeNow(l)
	}
	r.Release()
	leave()
	lost := closed(g.Lost())
	if g.fenced && len(w.child.settings.Program) == 0 { // else all stale writes are those of holders that have not been told
		w.leaves(r, lost)
	}
	if lost {
		w.child.count(func(n *wire.Counts) { n.LostHolds++ })
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.child.settings.Patience)
	defer cancel()
	err := w.during("giving up", l, func() error { return g.giveUp(ctx) })
	r.Released(err)
	switch {
	case err == nil, errors.Is(err, manager.ErrLost), errors.Is(err, queue.ErrLost), errors.Is(err, semaphore.ErrLost):
	case errors.Is(err, manager.ErrUnconfirmed), errors.Is(err, manager.ErrUnknownOutcome): // the session ended meanwhile
	default:
		w.unexpected("giving up", l, err)
	}
}

// An electionRecipe lets workers lead. Those of one process lead together.
type electionRecipe struct{ election *election.Election }

func (r *electionRecipe) step(run, ctx context.Context, w *worker, s plan.Step, l *contended) {
	rec := w.asks(l)
	if led, ok := get(ctx, w, "Campaign", l, r.election.Campaign); ok {
		w.use(run, s, l, rec, given{Watched: led, token: led.Token(), alone: true, fenced: true, giveUp: led.Resign})
	}
}

// A membersRecipe lets workers be the one member of a group, under one id. Only one worker
// of a process tries at a time.
type membersRecipe struct {
	group *members.Group
	busy  atomic.Bool // a worker tries, or is the member
}

// A membership is one that ends with its loss, although the member joins again by itself.
type membership struct {
	member *members.Member
	lost   <-chan struct{}
}

func (m membership) Lost() <-chan struct{} { return m.lost }
func (m membership) Err() error {
	if closed(m.lost) {
		return members.ErrLost
	}
	return m.member.Err()
}

func (r *membersRecipe) step(run, ctx context.Context, w *worker, s plan.Step, l *contended) {
	if !r.busy.CompareAndSwap(false, true) {
		return
	}
	defer r.busy.Store(false)
	rec := w.asks(l)
	m, ok := get(ctx, w, "Join", l, func(ctx context.Context) (*members.Member, error) { return r.group.Join(ctx, "chair", nil) })
	if !ok {
		return
	}
	// The channel is taken first: if the membership is lost and won again in between, the
	// channel is closed.
	lost := m.Lost()
	w.use(run, s, l, rec, given{Watched: membership{m, lost}, token: m.Since(), alone: true, fenced: true, giveUp: m.Leave})
}

// A semaphoreRecipe lets workers have one or two permits.
type semaphoreRecipe struct{ semaphore *semaphore.Semaphore }

func (r *semaphoreRecipe) step(run, ctx context.Context, w *worker, s plan.Step, l *contended) {
	weight := 1
	if s.Order {
		weight = 2
	}
	rec := w.records.Add(w.child.journal.RequestPart(w.id, l, "", weight))
	p, ok := get(ctx, w, "Lock of permits", l, func(ctx context.Context) (*semaphore.Permits, error) { return r.semaphore.Lock(ctx, weight) })
	if !ok {
		return
	}
	token, err := p.Token()
	if err != nil {
		rec.Refused(err.Error())
		_ = p.Unlock(ctx) // it was lost at once
		w.child.count(func(n *wire.Counts) { n.LostHolds++ })
		return
	}
	w.use(run, s, l, rec, given{Watched: p, token: token, alone: false, fenced: false, giveUp: p.Unlock})
}

// A queueRecipe lets workers put elements into a queue, and take them. An element that was
// acked must not be taken again.
type queueRecipe struct{ queue *queue.Queue }

func (r *queueRecipe) step(run, ctx context.Context, w *worker, s plan.Step, l *contended) {
	if s.Order {
		err := w.during("Offer", l, func() error { return r.queue.Offer(ctx, []byte("an element"), []byte("another one")) })
		if err != nil && !errors.Is(err, manager.ErrUnknownOutcome) && !errors.Is(err, queue.ErrFull) {
			w.refused(ctx, "Offer", l, err)
		}
		return
	}
	e, ok := get(ctx, w, "Take", l, r.queue.Take)
	if !ok {
		return
	}
	// Which element it is, is known only now. So the history has no wait for it.
	rec := w.records.Add(w.child.journal.RequestPart(w.id, l, "/"+e.Name(), 0))
	giveUp := e.Ack
	if s.Again {
		giveUp = func(ctx context.Context) error {
			if err := e.Return(ctx); err != nil {
				return err
			}
			return errReturned
		}
	}
	w.use(run, s, l, rec, given{Watched: e, token: e.Token(), alone: false, fenced: false, giveUp: giveUp})
}

// errReturned tells the history that an element was not done, but given back.
var errReturned = fmt.Errorf("%w: it was given back", manager.ErrUnconfirmed)

// A shardsRecipe lets processes divide shards. One worker of each process takes part, for a
// while: then shards move.
type shardsRecipe struct {
	name string
	busy atomic.Bool // a worker takes part
}

func (r *shardsRecipe) step(run, _ context.Context, w *worker, s plan.Step, l *contended) {
	if !r.busy.CompareAndSwap(false, true) {
		return
	}
	defer r.busy.Store(false)
	// A time in which shards settle, and a part that the plan determines.
	stay := time.Second + 10*s.Bound
	ctx, cancel := context.WithTimeout(run, stay)
	defer cancel()
	defer w.activity.BeginFor("dividing shards", l, stay)()
	o := shards.Options{Name: r.name, N: wire.ManyShards, Settle: 200 * time.Millisecond, Grace: 2 * time.Second}
	err := shards.Run(ctx, w.child.manager, o, func(ctx context.Context, shard shards.Shard) error {
		r.own(ctx, w, l, shard)
		return nil
	})
	if ctx.Err() == nil {
		w.unexpected("dividing shards", l, err)
	}
}

// own works for a shard until it has to be given up. Several goroutines of the worker do.
func (r *shardsRecipe) own(ctx context.Context, w *worker, l *contended, shard shards.Shard) {
	rec := w.child.journal.RequestPart(w.id, l, fmt.Sprintf("/shard-%d", shard.Index), 0)
	grant, err := shard.Hold.Grant()
	if err != nil {
		rec.Refused(err.Error())
		return
	}
	rec.Granted(grant, shard.Hold)
	if rec != nil && !rec.Is(journal.Inside) {
		return // it was lost at once
	}
	w.entered(l)
	var register register.Client
	defer register.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if rec != nil {
			rec.Valid(shard.Hold)
			e := rec.Fill(history.Event{Kind: history.Write})
			w.write(&register, e)
		}
		select {
		case <-tick.C:
			continue
		case <-shard.Revoked:
		case <-ctx.Done():
		}
		break
	}
	rec.Release()
	rec.Released(nil) // shards.Run gives it up after this
}
