// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync"
	"sync/atomic"
)

// callbacks are functions to be called when a handle or a round ends. The zero
// value has none.
type callbacks struct{ list atomic.Pointer[callbackList] }

type callbackList struct {
	mu    sync.Mutex // protects what follows; no function is called under it
	fns   map[*func(error)]struct{}
	taken bool
	loss  *lossOfAll // of the Holds whose first is the handle that the list is of: see Holds.Lost; nil: none
}

// add adds fn; forget removes it again. taken reports that the list was taken
// meanwhile, and so does not have fn.
//
// The caller must then check whether the end has come already, and if so call fn
// itself. The goroutine that ends the handle or round changes the state before it
// takes the list, so one of the two calls fn, and in a race perhaps both.
func (c *callbacks) add(fn func(error)) (forget func(), taken bool) {
	l := c.open()
	key := &fn
	l.mu.Lock()
	if taken = l.taken; !taken {
		l.fns[key] = struct{}{}
	}
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		delete(l.fns, key)
		l.mu.Unlock()
	}, taken
}

// open returns the list, and makes it on first use.
func (c *callbacks) open() *callbackList {
	l := c.list.Load()
	for l == nil {
		c.list.CompareAndSwap(nil, &callbackList{fns: make(map[*func(error)]struct{})})
		l = c.list.Load() // nil again if it was taken at once
	}
	return l
}

// empty reports whether no function was added since the last take, without an
// atomic write.
func (c *callbacks) empty() bool { return c.list.Load() == nil }

// take returns the functions, which the caller must call, and forgets them.
func (c *callbacks) take() map[*func(error)]struct{} {
	if c.empty() { // the usual case; no write
		return nil
	}
	l := c.list.Swap(nil)
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fns := l.fns
	l.fns, l.taken = nil, true
	return fns
}
