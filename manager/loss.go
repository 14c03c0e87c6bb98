// SPDX-License-Identifier: Apache-2.0

package manager

import "github.com/holdfast-go/holdfast/futures"

// lostPromise is the promise that a round is ended by force. It settles with an
// error only.
type lostPromise struct{ futures.Promise[struct{}] }

// promiseLoss returns the promise, and makes it on first use: most rounds are
// neither lost nor watched.
func (t *roundIO) promiseLoss() *lostPromise {
	for {
		if p := t.lost.Load(); p != nil {
			return p
		}
		t.lost.CompareAndSwap(nil, new(lostPromise))
	}
}

// lostErr returns why the round was ended by force, and nil if it was not. The
// promise settles before anything else tells of the loss, so a goroutine that
// learned of it elsewhere finds the error here.
func (t *roundIO) lostErr() error {
	if p := t.lost.Load(); p != nil {
		if _, err, ok := p.Future().Poll(); ok {
			return err
		}
	}
	return nil
}

// onLoss has fn called when the round is ended by force, or at once if it has
// been; in a race perhaps twice. The function that it returns forgets fn.
func (t *roundIO) onLoss(fn func(error)) (forget func()) {
	forget, _ = t.losses.add(fn)
	if err := t.lostErr(); err != nil { // also if the list was taken: lost settles before
		fn(err)
	}
	return forget
}

// notifyLost calls what onLoss was given, on a goroutine of the manager's: it ends
// contexts, and what that calls may be the user's. It is called once, after lost
// has settled, by the goroutine that ended the round by force.
func (t *roundIO) notifyLost(err error) {
	if fns := t.losses.take(); len(fns) > 0 {
		t.round.lock.m.spawn(func() {
			for fn := range fns {
				(*fn)(err)
			}
		})
	}
}
