// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync"
	"sync/atomic"
)

// callbacks are to be called when a handle or a round ends. The zero value has none.
type callbacks struct{ list atomic.Pointer[callbackList] }

type callbackList struct {
	mu    sync.Mutex // protects what follows, and the links of the callbacks; none is called under it
	first *callback
	taken bool
	loss  *lossOfAll // of the Holds whose first is the handle that the list is of: see Holds.Lost; nil: none
}

// A callback is what a list has for one that is to be called. It is a part of that one, so that
// it costs no allocation of its own, and is used once.
type callback struct {
	ender

	list       *callbackList // that it was added to; nil before
	next, prev *callback     // protected by list.mu until the list is taken, and then the taker's
}

// An ender is called when what it has registered for has ended. err is why, if that was by force.
type ender interface{ ended(err error) }

// An enderFunc is a function as an ender.
type enderFunc func(error)

func (f enderFunc) ended(err error) { f(err) }

// add adds cb; cb.forget removes it again. taken reports that the list was taken
// meanwhile, and so does not have cb.
//
// The caller must then check whether the end has come already, and if so call ended
// itself. The goroutine that ends the handle or round changes the state before it
// takes the list, so one of the two calls it, and in a race perhaps both.
func (c *callbacks) add(cb *callback) (taken bool) {
	l := c.open()
	l.mu.Lock()
	defer l.mu.Unlock()
	cb.list = l
	if l.taken {
		return true
	}
	if cb.next = l.first; cb.next != nil {
		cb.next.prev = cb
	}
	l.first = cb
	return false
}

// forget removes the callback from its list, unless that was taken. It may be called any number
// of times, after add.
func (cb *callback) forget() {
	l := cb.list
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken || cb.prev == nil && l.first != cb {
		return
	}
	if cb.prev != nil {
		cb.prev.next = cb.next
	} else {
		l.first = cb.next
	}
	if cb.next != nil {
		cb.next.prev = cb.prev
	}
	cb.next, cb.prev = nil, nil
}

// open returns the list, and makes it on first use.
func (c *callbacks) open() *callbackList {
	l := c.list.Load()
	for l == nil {
		c.list.CompareAndSwap(nil, new(callbackList))
		l = c.list.Load() // nil again if it was taken at once
	}
	return l
}

// empty reports whether no callback was added since the last take, without an
// atomic write.
func (c *callbacks) empty() bool { return c.list.Load() == nil }

// take returns the callbacks, which the caller must call, and forgets them.
func (c *callbacks) take() takenCallbacks {
	if c.empty() { // the usual case; no write
		return takenCallbacks{}
	}
	l := c.list.Swap(nil)
	if l == nil {
		return takenCallbacks{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.first
	l.first, l.taken = nil, true
	return takenCallbacks{first}
}

// takenCallbacks are callbacks that were taken from their list.
type takenCallbacks struct{ first *callback }

func (t takenCallbacks) none() bool { return t.first == nil }

// call calls them, the newest first.
func (t takenCallbacks) call(err error) {
	for cb := t.first; cb != nil; {
		next := cb.next
		cb.next, cb.prev = nil, nil // the program may keep one of them, which must not keep the others
		cb.ended(err)
		cb = next
	}
}
