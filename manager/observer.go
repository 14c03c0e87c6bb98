// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// CachedHolder is [Lock.Holder] from memory. The first call asks ZooKeeper, as Holder
// does, and leaves a watch. Later calls answer at once, without a request, until this
// process hears that the holder has gone; the next call then asks again. So a change
// that no caller asks about costs one notification and no request.
//
// The answer is never older than what this process has been told: by an earlier call
// of CachedHolder, [Lock.Holder] or [Lock.WatchHolder], by an error that named the
// holder, or by its own grant. The holder may have changed a moment ago all the same,
// and while there is no connection that moment may be long. So a process that gets a
// message for the lock's holder must check [Hold.Err] before it acts on it, and a
// sender that was told so by the other side asks again with Holder.
//
// A Manager remembers about 4,096 locks, those asked for last. It asks about a lock
// once in 50 ms at most; if the holder changes more often, a call waits that long.
//
// Callers share the Contender and must not change it. CachedHolder blocks until
// ZooKeeper has answered or ctx ends, if it has to ask. While there is no connection,
// it waits for one.
func (l *Lock) CachedHolder(ctx context.Context) (*Contender, error) {
	if c := l.ownCached(); c != nil {
		return c, nil
	}
	if o := l.observer.Load(); o != nil {
		if seen := o.seen.Load(); seen != nil {
			if !o.used.Load() { // most calls write nothing that others read
				o.used.Store(true)
			}
			return seen.holder, nil
		}
	}
	return l.askObserver(ctx)
}

const (
	opCachedHolder = "cached holder"
	opWatchHolder  = "watch holder"
)

// ownCached is ownHold from memory.
func (l *Lock) ownCached() *Contender {
	var t *tenure
	if l.rw == nil {
		t = l.held()
	} else if t = l.rw.writer.held(); t == nil {
		t = l.rw.reader.held()
	}
	if t == nil {
		return nil
	}
	o := l.observer.Load()
	if o != nil {
		if c := o.own.Load(); c != nil && c.Token == t.grant.Token && c.Path == t.grant.Path {
			return c
		}
	}
	c := l.ownHold()
	if c == nil {
		return nil // it was released, or lost, a moment ago
	}
	if o == nil {
		o, _ = l.m.observers.remember(l)
	}
	if o != nil {
		o.own.Store(c)
	}
	return c
}

// held returns the tenure of the round in which this process holds the lock, nil if
// it does not.
func (l *Lock) held() *tenure {
	r := l.cur.Load()
	if r.word.Load().Phase() != state.Retained {
		return nil
	}
	if t := r.io().tenure; t.lease.InForce() {
		return t
	}
	return nil
}

// askObserver is CachedHolder for a holder that is not in memory.
func (l *Lock) askObserver(ctx context.Context) (*Contender, error) {
	if ctx.Err() != nil {
		return nil, &Error{Op: opCachedHolder, Name: l.Name(), Err: ctxerr.Of(ctx)}
	}
	var answer *futures.Future[*Contender]
	for answer == nil {
		o, err := l.m.observers.remember(l)
		if err != nil {
			return nil, &Error{Op: opCachedHolder, Name: l.Name(), Err: err}
		}
		answer = o.ask() // nil: it was forgotten in this moment
	}
	c, err := answer.Wait(ctx)
	if err != nil {
		return nil, &Error{Op: opCachedHolder, Name: l.Name(), Err: err}
	}
	return c, nil
}

// WatchHolder tells who holds the lock, as [Lock.Holder] does, and then each time that
// it has changed. A nil Contender says that there is none.
//
//	for holder, err := range lock.WatchHolder(ctx) {
//		if err != nil {
//			return err
//		}
//		route(holder)
//	}
//
// It runs on the caller's goroutine, and needs no other. A loop that takes its time
// holds up nothing: it misses holders in between, and never the last. Neither does
// WatchHolder tell of each holder of a lock that changes hands quickly: it looks once
// in 50 ms at most. When a holder goes, that costs one notification and one or two
// reads, for all loops of this Manager that watch this lock together.
//
// The loop ends with break, or with an error, which comes last: when ctx ends, it wraps
// ctx.Err() and context.Cause(ctx); when the Manager is closed, it is [ErrClosed]; and
// if a server refuses to tell, it says why. An outage is no error. The loop waits, and
// afterwards is told what has changed, also in a new session.
//
// Callers share the Contender and must not change it. See [Lock.Holder] for how old
// it can be.
func (l *Lock) WatchHolder(ctx context.Context) iter.Seq2[*Contender, error] {
	return func(yield func(*Contender, error) bool) {
		fail := func(err error) { yield(nil, &Error{Op: opWatchHolder, Name: l.Name(), Err: err}) }
		o, last, err := l.m.observers.watch(l)
		if err != nil {
			fail(err)
			return
		}
		defer l.m.observers.unwatch(o)
		var told *sighting
		for {
			shown, changed := o.latest()
			switch {
			case ctx.Err() != nil:
				fail(ctxerr.Of(ctx))
				return
			case shown == last: // from before, or told already
				select {
				case <-changed:
				case <-ctx.Done():
				}
				continue
			case shown.err != nil:
				fail(shown.err)
				return
			}
			last = shown
			if told != nil && told.sameHolder(shown) {
				continue
			}
			told = shown
			if !yield(shown.holder, nil) {
				return
			}
		}
	}
}

// An observer finds out who holds a lock, for all callers of CachedHolder and
// WatchHolder: there is one for each lock's directory. It watches the children of the
// holder's node. That has none, so the watch fires when the node is deleted, and not
// when data is written into it, and the server tells waiters first, who watch the
// node itself. While the lock is free, it watches the children of the directory.
//
// The dispatcher tells it of changes, and workers of the pool run its step, one at a
// time: see runner. Steps do all I/O.
type observer struct {
	l      *Lock // one of those of the directory
	runner runner

	// seen is what CachedHolder answers; nil: it must ask. It is set only while a watch
	// is set, and cleared when a change is heard. It never is a node of this process:
	// that this process holds the lock, its own words tell.
	seen atomic.Pointer[sighting]
	own  atomic.Pointer[Contender] // this process, as it held the lock last
	used atomic.Bool               // CachedHolder was called: see observers.evictLocked

	mu       sync.Mutex    // protects what follows; held for a few instructions only
	changes  uint64        // that were heard
	deleted  string        // the last node of a holder that was heard to be deleted
	asked    []*asking     // what callers wait for; a look that has begun has taken its own
	shown    *sighting     // the last one
	current  bool          // no change was heard since the look that has shown it began
	changed  chan struct{} // closed and replaced when shown changes
	watchers int           // loops of WatchHolder
	over     bool          // no caller is left, and none will come
	closed   bool          // the manager is closed

	cached bool // CachedHolder keeps it; protected by observers.mu

	timer     atomic.Bool // an observerTimer is on its way
	observing             // used by steps only
}

// asking is the promise of an answer to callers of CachedHolder.
type asking = futures.Promise[*Contender]

// A sighting is what a look has shown. It never changes.
type sighting struct {
	holder *Contender // nil: none
	err    error      // a refusal, or the end
}

// sameHolder reports whether two sightings are of one node.
func (s *sighting) sameHolder(other *sighting) bool {
	if s.holder == nil || other.holder == nil {
		return s.holder == other.holder
	}
	return s.holder.Path == other.holder.Path && s.holder.Token == other.holder.Token
}

func newObserver(l *Lock) *observer {
	return &observer{l: l, changed: make(chan struct{})}
}

// ask has the observer look, and returns its answer; nil if the observer is over.
func (o *observer) ask() *futures.Future[*Contender] {
	o.mu.Lock()
	if o.over {
		o.mu.Unlock()
		return nil
	}
	if o.closed { // since the caller got the observer: no step answers any more
		o.mu.Unlock()
		return futures.Resolved((*Contender)(nil), ErrClosed)
	}
	if seen := o.seen.Load(); seen != nil {
		o.mu.Unlock()
		return futures.Resolved(seen.holder, nil)
	}
	if len(o.asked) > 0 {
		defer o.mu.Unlock()
		return o.asked[0].Future()
	}
	p := new(asking)
	o.asked = append(o.asked, p)
	o.mu.Unlock()
	o.wakeFor(zkio.Fetches)
	return p.Future()
}

// latest returns the last sighting, and a channel that is closed when there is another.
func (o *observer) latest() (*sighting, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shown, o.changed
}

// PathChanged is called by the dispatcher when something happened to the holder's node
// or to the directory.
func (o *observer) PathChanged(path string, ev zkio.Event) {
	if ev == zkio.NodeDeleted && path != o.l.path {
		o.mu.Lock()
		o.deleted = path
		o.mu.Unlock()
	}
	o.outdate()
}

// outdate notes that the holder may have changed. It does not block.
func (o *observer) outdate() {
	o.mu.Lock()
	o.changes++
	o.current = false
	o.seen.Store(nil)
	look := o.watchers > 0
	o.mu.Unlock()
	if look {
		o.wakeFor(zkio.Refetches)
	}
}

// forget is outdate for what this process is about to be told. The observer need not
// look: its watch will tell.
func (o *observer) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changes++
	o.current = false
	o.seen.Store(nil)
}

// told is called when this process was told that the lock's holder has the node at
// path; "" if there is none. The news of the watch may still be on its way.
func (l *Lock) told(path string) {
	o := l.observer.Load()
	if o == nil {
		return
	}
	if seen := o.seen.Load(); seen != nil && (seen.holder == nil) == (path == "") && (path == "" || seen.holder.Path == path) {
		return
	}
	o.outdate()
}

// toldHolder is told with a holder.
func (l *Lock) toldHolder(c *Contender) {
	if c == nil {
		l.told("")
	} else {
		l.told(c.Path)
	}
}

// show publishes a look's sighting. Before is the number of changes when the look
// began, and asked is what callers wait for who had asked by then.
func (o *observer) show(s *sighting, before uint64, asked []*asking) {
	o.mu.Lock()
	if o.closed {
		s = &sighting{err: ErrClosed}
	}
	o.current = o.changes == before && s.err == nil
	if o.current && !o.over && (s.holder == nil || !s.holder.Own) {
		o.seen.Store(s)
	}
	if o.current || s.err != nil { // it answers also who has asked since
		asked, o.asked = append(asked, o.asked...), nil
	}
	o.shown = s
	close(o.changed)
	o.changed = make(chan struct{})
	o.mu.Unlock()
	for _, p := range asked {
		p.Settle(s.holder, s.err)
	}
}

// fail ends all calls with err.
func (o *observer) fail(err error) {
	o.mu.Lock()
	o.changes++
	o.seen.Store(nil)
	o.closed = o.closed || errors.Is(err, ErrClosed)
	o.mu.Unlock()
	o.show(&sighting{err: err}, 0, nil)
}

// wakeFor has a worker run a step.
func (o *observer) wakeFor(q zkio.Queue) { o.runner.wake(o, q) }

func (o *observer) due() bool    { return true }
func (o *observer) urgent() bool { return false }

func (o *observer) submit(q zkio.Queue) {
	if !o.l.m.client.Submit(q, o) {
		o.fail(ErrClosed)
	}
}

// Run is called by the pool.
func (o *observer) Run(s *zkio.Session) { o.runner.run(o, s) }
