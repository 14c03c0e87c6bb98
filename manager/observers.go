// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/zkio"
)

// Observers are a Manager's observers.
type observers struct {
	most int // how many CachedHolder keeps; tests lower it

	// mu protects what follows, and observer.cached. A goroutine that holds it may take
	// observer.mu.
	mu     sync.Mutex
	all    map[string]*observer // by the lock's directory
	cached []*observer          // those that CachedHolder keeps, in no order
	hand   int                  // where replaceLocked goes on with its search
	closed bool
}

// mostCached is how many locks CachedHolder remembers.
const mostCached = 4096

// remember returns the observer of l, and keeps it for CachedHolder. It may forget another.
func (os *observers) remember(l *Lock) (*observer, error) {
	os.mu.Lock()
	o, err := os.ofLocked(l)
	var forgotten *observer
	switch {
	case err != nil:
	case o.cached:
		o.used.Store(true)
	default:
		o.cached = true
		// It is not used yet: of many locks that are asked for once, none replaces one that
		// is asked for again and again.
		if len(os.cached) < os.most {
			os.cached = append(os.cached, o)
		} else {
			forgotten = os.replaceLocked(o)
		}
	}
	os.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if forgotten != nil {
		forgotten.errand.WakeBy(zkio.Refetches) // its last step takes its watch back
	}
	return o, nil
}

// ofLocked returns the observer of l, and makes it if there is none.
func (os *observers) ofLocked(l *Lock) (*observer, error) {
	if os.closed {
		return nil, ErrClosed
	}
	o := os.all[l.path]
	forgotten := l.observer.Load()
	if o == nil {
		o = newObserver(l)
		if forgotten != nil {
			o.inherit(forgotten)
		}
		if os.all == nil {
			os.all = make(map[string]*observer)
		}
		os.all[l.path] = o
	}
	l.observer.Store(o)
	if l.rw != nil {
		l.rw.reader.observer.Store(o) // first: see RWLock.Upgradable
		for other := range l.rw.locks() {
			other.observer.Store(o)
		}
	}
	if forgotten != nil && forgotten != o {
		// A look of forgotten may have ended since. It notes its sighting, and then looks for
		// the observer that is here now: at least one of us sees the other.
		o.inherit(forgotten)
	}
	return o, nil
}

// replaceLocked puts o in the place of an observer that CachedHolder has not used
// lately. The search goes round in a circle (the clock algorithm), and takes the first
// one that was not used since it last came by. replaceLocked returns that one if no
// caller needs it any more.
func (os *observers) replaceLocked(o *observer) (forgotten *observer) {
	for {
		os.hand = (os.hand + 1) % len(os.cached)
		old := os.cached[os.hand]
		if old.used.Swap(false) {
			continue
		}
		old.cached = false
		os.cached[os.hand] = o
		if os.endLocked(old) {
			return old
		}
		return nil
	}
}

// endLocked ends o if no caller needs it, and reports whether it did.
func (os *observers) endLocked(o *observer) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cached || o.watchers > 0 {
		return false
	}
	o.over, o.current = true, false
	o.seen.Store(nil)
	delete(os.all, o.l.path)
	return true
}

// watch returns the observer of l for a loop of WatchHolder. If its last sighting may be
// out of date, watch returns that as well: the loop must wait for another. Call unwatch
// when the loop ends.
func (os *observers) watch(l *Lock) (o *observer, last *sighting, err error) {
	os.mu.Lock()
	o, err = os.ofLocked(l)
	if err != nil {
		os.mu.Unlock()
		return nil, nil, err
	}
	o.mu.Lock()
	o.watchers++
	look := !o.current
	if look {
		last = o.shown
	}
	o.mu.Unlock()
	os.mu.Unlock()
	if look {
		o.errand.Wake()
	}
	return o, last, nil
}

// unwatch undoes watch.
func (os *observers) unwatch(o *observer) {
	os.mu.Lock()
	o.mu.Lock()
	o.watchers--
	o.mu.Unlock()
	ended := os.endLocked(o)
	os.mu.Unlock()
	if ended {
		o.errand.WakeBy(zkio.Refetches) // its last step takes its watch back
	}
}

// each calls fn for all observers.
func (os *observers) each(fn func(*observer)) {
	os.mu.Lock()
	all := make([]*observer, 0, len(os.all))
	for _, o := range os.all {
		all = append(all, o)
	}
	os.mu.Unlock()
	for _, o := range all {
		fn(o)
	}
}

// close fails all calls with ErrClosed, and refuses new ones.
func (os *observers) close() {
	os.mu.Lock()
	os.closed = true
	os.mu.Unlock()
	os.each(func(o *observer) { o.fail(ErrClosed) })
}

// sessionOver is called when a session has ended, and its watches with it.
func (os *observers) sessionOver(cause error) {
	os.each(func(o *observer) {
		o.outdate()
		if errors.Is(cause, zkio.ErrAuthFailed) {
			o.fail(cause) // callers need not wait: only new credentials help
		}
	})
}
