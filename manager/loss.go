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
// promise settles before the loss shows anywhere else, so a goroutine that
// noticed the loss finds the error here.
func (t *roundIO) lostErr() error {
	if p := t.lost.Load(); p != nil {
		if _, err, ok := p.Future().Poll(); ok {
			return err
		}
	}
	return nil
}

// onLoss has fn called when the round is ended by force, or at once if it has
// been; in a race perhaps twice. forget takes fn back.
func (t *roundIO) onLoss(fn func(error)) (forget func()) {
	forget, _ = t.losses.add(fn)
	if err := t.lostErr(); err != nil { // also if the list was taken: lost settles before
		fn(err)
	}
	return forget
}

// notifyLost calls the functions given to onLoss on a goroutine of the manager's:
// it ends contexts, which may call user code. The goroutine that ended the round
// by force calls it once, after lost has settled.
func (t *roundIO) notifyLost(err error) {
	if fns := t.losses.take(); len(fns) > 0 {
		t.round.lock.m.spawn(func() {
			for fn := range fns {
				(*fn)(err)
			}
		})
	}
}
