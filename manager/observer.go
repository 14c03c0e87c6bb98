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
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// CachedHolder is [Lock.Holder] from memory, for callers that ask for each message or
// request. It returns nil if the lock is free.
//
// The first call asks ZooKeeper and leaves a watch there. Later calls return the same
// answer at once, without a request, until ZooKeeper reports that the holder is gone.
// The next call then asks again. A change that no caller asks about costs one
// notification and no request.
//
// The answer is never older than what this process has learned otherwise: from an
// earlier call of CachedHolder, [Lock.Holder] or [Lock.WatchHolder], from an error that
// named the holder, or from its own grant. It can still be out of date: for the time
// that the notification takes, or for as long as there is no connection. So a process
// that receives a message for the lock's holder must check [Hold.Err] before it acts on
// it. If it refuses, because it is not the holder, the sender must call Holder, which
// also corrects what CachedHolder remembers.
//
// A Manager remembers about 4,096 locks, and forgets those that were not asked for
// lately. It asks ZooKeeper about one lock at most every 50 ms: if the holder changes
// more often, a call waits that long.
//
// CachedHolder blocks only if it has to ask ZooKeeper: until ZooKeeper has answered or
// ctx ends. Without a connection it waits for one. It fails as Holder does. All callers
// share the Contender and must not modify it.
func (l *Lock) CachedHolder(ctx context.Context) (*Contender, error) {
	if c := l.own().cached(); c != nil {
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

// cached is asHolder, but makes the Contender only once for each grant: callers share
// it.
func (l *own) cached() *Contender {
	if l.rw == nil && l.cur.Load().word.Load().Phase() != state.Retained && !l.noted.Load().Has(state.Together) {
		return nil // the answer to most calls, which are to take no time
	}
	var t *tenure
	for _, t = range l.held() {
		break
	}
	if t == nil || l.observer.overtakes(t.path, t.token) {
		return nil
	}
	o := l.observer.Load()
	if o != nil {
		if c := o.own.Load(); c != nil && c.Token == t.token && c.Path == t.path {
			return c
		}
	}
	c := l.asHolder()
	if c == nil {
		return nil // it was released, or lost, a moment ago
	}
	if o == nil {
		o, _ = l.m.observers.remember((*Lock)(l))
	}
	if o != nil {
		o.own.Store(c)
	}
	return c
}

// askObserver is CachedHolder where nothing is remembered: it waits for ZooKeeper.
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
		answer = o.ask() // nil: the manager forgot the observer just now
	}
	c, err := answer.Wait(ctx)
	if err != nil {
		return nil, &Error{Op: opCachedHolder, Name: l.Name(), Err: err, Outage: l.m.outage()}
	}
	return c, nil
}

// WatchHolder returns an iterator over the holders of the lock: the present one, as
// [Lock.Holder] defines it, and then another each time that it has changed. A nil
// Contender with a nil error means that the lock is free.
//
//	for holder, err := range lock.WatchHolder(ctx) {
//		if err != nil {
//			return err
//		}
//		route(holder)
//	}
//
// The iterator does not yield every holder, but it always yields the last one. A slow
// loop body delays only its own loop, which skips the holders that came and went
// meanwhile. WatchHolder asks ZooKeeper at most every 50 ms, so it also skips holders
// of a lock that changes hands more often.
//
// The loop blocks between changes. It runs on the caller's goroutine; break leaves
// nothing behind, neither a goroutine nor a watch. All loops of a Manager over the same
// lock share their requests: each change costs one notification and one or two reads.
//
// An error is always the last thing that the iterator yields. It is an [*Error] that
// wraps ctx.Err() and context.Cause(ctx) if ctx has ended, [ErrClosed] if the Manager
// was closed, or the server's refusal, such as [zkio.ErrNoAuth]. An outage is not an
// error: the loop waits, even through a new session, and then yields the holder if it
// has changed.
//
// All callers share the Contender and must not modify it. See [Lock.Holder] for how far
// it can be out of date.
func (l *Lock) WatchHolder(ctx context.Context) iter.Seq2[*Contender, error] {
	return func(yield func(*Contender, error) bool) {
		fail := func(err error) { yield(nil, &Error{Op: opWatchHolder, Name: l.Name(), Err: err, Outage: l.m.outage()}) }
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
			case shown == last: // older than this loop, or handled already
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

// An observer finds out who holds a lock. There is one for each lock's directory; all
// callers of CachedHolder and WatchHolder share it.
//
// It watches the children of the holder's node. The node has none, so the watch fires
// when the node is deleted, and not when its data are written. And observers do not delay
// a grant: a server first notifies those that watch the node's data, who are the waiters.
// While the lock is free, the observer watches the children of the directory.
//
// The dispatcher reports changes to the observer. Workers of the pool run its step, one
// at a time: see [errand.Errand]. Only steps do I/O.
type observer struct {
	l      *Lock // one of those of the directory
	errand errand.Errand

	// seen is what CachedHolder returns; if it is nil, CachedHolder must ask. It is set
	// only while a watch is set, and cleared when a change is heard. It is never a node
	// of this process: for those, the phase of the lock's own round decides.
	seen atomic.Pointer[sighting]
	own  atomic.Pointer[Contender] // this process, as the holder that it last was
	used atomic.Bool               // CachedHolder was called lately: see observers.replaceLocked

	// told is the last sighting of which a caller has learned, by this observer or by another
	// call: see noteLocked. It is written with mu held, before the caller learns of it: see
	// memory.overtakes.
	told atomic.Pointer[sighting]

	mu       sync.Mutex    // protects what follows; held for a few instructions only
	changes  uint64        // how many were heard
	deleted  string        // the holder's node whose deletion was heard last
	asked    []*asking     // what callers wait for and no step has taken yet
	shown    *sighting     // the last one
	current  bool          // no change was heard since the look that made shown began
	changed  chan struct{} // closed and replaced when shown changes
	watchers int           // loops of WatchHolder
	over     bool          // no caller uses the observer any more, and none will
	closed   bool          // the manager is closed

	cached bool // CachedHolder keeps it; protected by observers.mu

	observing // used by steps only
}

// asking is the promise of an answer to callers of CachedHolder.
type asking = futures.Promise[*Contender]

// A sighting is the result of a look: who held the lock. It never changes.
type sighting struct {
	holder *Contender // nil: none
	err    error      // why there is no holder to show: the server refused, or the manager is closed

	// The newest transactions of which the session had told before the look began, and when it
	// had ended.
	from, upto int64
}

// sameHolder reports whether two sightings show the same node. An error names its holder
// without a token.
func (s *sighting) sameHolder(other *sighting) bool {
	if s.holder == nil || other.holder == nil {
		return s.holder == other.holder
	}
	a, b := s.holder.Token, other.holder.Token
	return s.holder.Path == other.holder.Path && (a == b || a == 0 || b == 0)
}

// token returns the holder's token; if there is none, one that is higher than those of all
// nodes that the process knew then.
func (s *sighting) token() uint64 {
	if s.holder == nil {
		return uint64(s.upto) + 1
	}
	return s.holder.Token
}

func newObserver(l *Lock) *observer {
	o := &observer{l: l, changed: make(chan struct{})}
	o.errand.Init(l.m.client, o)
	return o
}

// ask has a step look, and returns the future of its answer; nil if the observer is over.
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
	o.errand.Wake()
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
	if ev.What == zkio.NodeDeleted && path != o.l.path {
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
		o.errand.WakeBy(zkio.Refetches)
	}
}

// forget is outdate before this process learns of its own grant. No step needs to look
// for it: the watch will report the change.
func (o *observer) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changes++
	o.current = false
	o.seen.Store(nil)
}

// noteLocked notes that callers are about to learn of s. Of two looks at the same time the one
// counts that saw the younger holder. A look that began later counts in any case: a read beside a
// write has a younger node than the writer that comes next.
func (o *observer) noteLocked(s *sighting) {
	if told := o.told.Load(); told == nil || s.from >= told.upto || s.token() > told.token() {
		o.told.Store(s)
	}
}

// inherit notes what old was told of, which o replaces.
func (o *observer) inherit(old *observer) {
	if s := old.told.Load(); s != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.noteLocked(s)
	}
}

// A memory is what CachedHolder remembers of a lock: its observer, which is nil until a caller asks
// for the holder.
type memory struct{ atomic.Pointer[observer] }

// told is called when a call of this process is about to return what s shows. If that
// contradicts what the observer remembers, the notification of its watch is still on its way,
// and the memory is out of date.
func (l *own) told(s *sighting) {
	o := l.observer.Load()
	if l.contends() {
		// The process can be granted the lock by a node that is gone already: the memory must
		// know better than that grant.
		o, _ = l.m.observers.remember((*Lock)(l))
	}
	if o == nil {
		return
	}
	if seen := o.seen.Load(); seen != nil && seen.sameHolder(s) {
		return
	}
	o.mu.Lock()
	o.noteLocked(s)
	o.mu.Unlock()
	o.outdate() // after that: a look that it wakes finds s noted
}

// toldBy is told for an error that names the holder, which was seen some time before.
func (l *own) toldBy(e *Error) {
	l.told(&sighting{holder: e.Holder, upto: l.m.client.Session().Zxid()})
}

// overtakes reports whether callers were told of a holder that is younger than this process, which
// holds the lock by the node at path, under token; or that the lock was free when that node was
// known. Then the node is gone, and the news of it is on its way; or another client has made a node
// with a lower number; or the younger holder read beside its own write, and has left. In any case
// neither CachedHolder nor Holder may name this process without asking.
func (y *memory) overtakes(path string, token uint64) bool {
	o := y.Load()
	if o == nil {
		return false
	}
	s := o.told.Load()
	return s != nil && s.token() > token && (s.holder == nil || s.holder.Path != path)
}

// show publishes a look's sighting. Before is the number of changes when the look began,
// and asked are the promises to callers that had asked by then.
func (o *observer) show(s *sighting, before uint64, asked []*asking) {
	o.mu.Lock()
	if o.closed {
		s = &sighting{err: ErrClosed}
	}
	o.current = o.changes == before && s.err == nil
	if o.current && !o.over && (s.holder == nil || !s.holder.Own) {
		o.seen.Store(s)
	}
	if o.current || s.err != nil { // it also answers callers that asked during the look
		asked, o.asked = append(asked, o.asked...), nil
	}
	o.shown = s
	if s.err == nil {
		o.noteLocked(s)
	}
	close(o.changed)
	o.changed = make(chan struct{})
	o.mu.Unlock()
	if now := o.l.observer.Load(); now != o && s.err == nil { // forgotten during the look: see ofLocked
		now.inherit(o)
	}
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

func (o *observer) Urgent() bool      { return false }
func (o *observer) Closed(zkio.Queue) { o.fail(ErrClosed) }
