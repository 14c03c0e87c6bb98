// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync"

	"github.com/holdfast-go/holdfast/futures"
)

// losing is the promise that a round is ended by force. It settles with an error
// only.
type losing struct{ futures.Promise[struct{}] }

// lostPromise returns the promise, and makes it if nobody has asked for it yet:
// most rounds are neither lost nor watched.
func (t *trip) lostPromise() *losing {
	for {
		if p := t.lost.Load(); p != nil {
			return p
		}
		t.lost.CompareAndSwap(nil, new(losing))
	}
}

// lostErr returns why the round was ended by force, and nil if it was not. Who ends
// it settles the promise before anybody else is told, so whoever has been told by
// other means finds the error here.
func (t *trip) lostErr() error {
	if p := t.lost.Load(); p != nil {
		if _, err, ok := p.Future().Poll(); ok {
			return err
		}
	}
	return nil
}

// lossList is who is to be told that a round was ended by force: the contexts
// that were made from its holds.
type lossList struct {
	mu   sync.Mutex // protects what follows; no function is called under it
	fns  map[*func(error)]struct{}
	told bool // they have been taken; who comes later tells himself
}

// onLoss has fn called when the round is ended by force, or at once if it has
// been; in a race perhaps twice. The function that it returns forgets fn.
func (t *trip) onLoss(fn func(error)) (forget func()) {
	ls := t.losses.Load()
	for ls == nil {
		t.losses.CompareAndSwap(nil, &lossList{fns: make(map[*func(error)]struct{})})
		ls = t.losses.Load()
	}
	key := &fn
	ls.mu.Lock()
	late := ls.told
	if !late {
		ls.fns[key] = struct{}{}
	}
	ls.mu.Unlock()
	// Who ends the round settles lost before it takes the list, and we look at
	// lost after we have entered the list: one of us calls fn.
	if err := t.lostErr(); err != nil {
		fn(err)
	}
	return func() {
		ls.mu.Lock()
		delete(ls.fns, key)
		ls.mu.Unlock()
	}
}

// tellLoss calls what onLoss was given, on a goroutine of the manager's: it ends
// contexts, and what that calls may be the user's. It is called once, by whoever
// ended the round by force, after lost was settled.
func (t *trip) tellLoss(err error) {
	ls := t.losses.Load()
	if ls == nil {
		return // whoever makes it from now on finds lost settled
	}
	ls.mu.Lock()
	fns := ls.fns
	ls.fns, ls.told = nil, true
	ls.mu.Unlock()
	if len(fns) > 0 {
		t.round.lock.m.spawn(func() {
			for fn := range fns {
				(*fn)(err)
			}
		})
	}
}
