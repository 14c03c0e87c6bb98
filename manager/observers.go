// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/zkio"
)

// Observers are a Manager's observers.
type observers struct {
	most int // of those that CachedHolder keeps; tests lower it

	// mu protects what follows, and observer.cached. Observer.mu may be taken while it
	// is held.
	mu     sync.Mutex
	all    map[string]*observer // by the lock's directory
	cached []*observer          // those that CachedHolder keeps, in no order
	hand   int                  // where the search for one to forget goes on
	closed bool
}

// mostCached is how many locks CachedHolder remembers.
const mostCached = 4096

// remember returns the observer of l, and keeps it.
func (os *observers) remember(l *Lock) (*observer, error) {
	os.mu.Lock()
	o, err := os.ofLocked(l)
	var forgotten *observer
	if err == nil && !o.cached {
		o.cached = true
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
	o.used.Store(true)
	if forgotten != nil {
		forgotten.wakeFor(zkio.Refetches) // it takes back its watch
	}
	return o, nil
}

// ofLocked returns the observer of l, and makes it if there is none.
func (os *observers) ofLocked(l *Lock) (*observer, error) {
	if os.closed {
		return nil, ErrClosed
	}
	o := os.all[l.path]
	if o == nil {
		o = newObserver(l)
		if os.all == nil {
			os.all = make(map[string]*observer)
		}
		os.all[l.path] = o
	}
	l.observer.Store(o)
	if l.rw != nil {
		l.rw.reader.observer.Store(o)
		l.rw.writer.observer.Store(o)
	}
	return o, nil
}

// replaceLocked puts o in the place of one that CachedHolder was not asked for lately:
// the first that was not used since the search came by. It returns that one if no
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

// watch returns the observer of l for a loop of WatchHolder, and the last sighting that
// is not for that loop. Call unwatch when the loop ends.
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
		o.wakeFor(zkio.Fetches)
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
		o.wakeFor(zkio.Refetches) // it takes back its watch
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

// close ends all calls, and refuses others.
func (os *observers) close() {
	os.mu.Lock()
	os.closed = true
	os.mu.Unlock()
	os.each(func(o *observer) { o.fail(ErrClosed) })
}

// sessionOver is called when a session has ended: its watches have gone.
func (os *observers) sessionOver(cause error) {
	os.each(func(o *observer) {
		o.outdate()
		if errors.Is(cause, zkio.ErrAuthFailed) {
			o.fail(cause) // the credentials have to be mended by hand
		}
	})
}
