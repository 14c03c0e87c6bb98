// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A delays is a roundIO in the role of one that is to be woken later.
type delays roundIO

func (t *roundIO) delays() *delays { return (*delays)(t) }

// A delayedWake wakes a round's I/O when its time has come. Its timer bit keeps a
// second one from being started meanwhile.
type delayedWake struct {
	io    *roundIO
	timer state.Events
	event state.Events // what it raises; may be none
	later bool         // what it wakes can wait: see wakeLater
}

// Void is called before the task is queued: a round is often over by then, or in
// another phase, and then needs no worker.
func (w *delayedWake) Void() bool {
	phase := w.io.round.word.Load().Phase()
	switch w.timer {
	case state.OwnTimer, state.DelayTimer:
		return phase != state.Fetching
	case state.BehindTimer, state.WriterTimer, state.UpgradeTimer:
		return phase != state.Retained
	}
	return phase == state.Released
}

// Run is called by the pool. The wake may find a step running: there will be another.
func (w *delayedWake) Run(*zkio.Session) {
	if w.timer != state.BehindTimer { // lookBehind lowers that one, when it lists
		w.io.events.Take(w.timer)
	}
	switch {
	case w.Void():
	case w.later:
		w.io.raiseLater(w.event)
	default:
		w.io.raise(w.event)
	}
}

// after wakes the round's I/O after d, with the event, unless a wake of this
// timer is on its way. It reports false if the pool is closed, so that no wake will
// come.
func (t *delays) after(d time.Duration, timer, event state.Events) bool {
	return t.add(d, &delayedWake{io: t.io, timer: timer, event: event})
}

// add is after for w. The wake itself does no I/O, so it is a fetch even if
// what it wakes can wait.
func (t *delays) add(d time.Duration, w *delayedWake) bool {
	if !t.events.Raise(w.timer) {
		return true
	}
	q := zkio.Fetches
	if w.timer == state.EndTimer {
		q = zkio.Releases
	}
	return t.round.lock.m.client.SubmitAfterFor(t.io, d, q, w)
}

// drop forgets the wakes of a round that is RELEASED, and the timer of its idle time:
// they may be due in hours, and would keep the round until then. A goroutine that has found
// the round as it was before puts off nothing any more: see [delayedWake.Void].
func (t *delays) drop() {
	c := t.round.lock.m.client
	c.Drop(t.io)
	if t.tenure != nil {
		t.tenure.dropTimer(c)
	}
}

// retry wakes the round's I/O after a while. It reports false if the pool is
// closed.
func (t *delays) retry() bool { return t.retryIn(t.attempts.Wait()) }

// awaitLease has s send the next proof when it is due, and then wakes the round's I/O, which
// sends one itself if there is still no lease. It returns what to do until then. A process with
// many such rounds sends one proof for all.
func (t *delays) awaitLease(s *zkio.Session) next {
	t.node.KeepAlive(true)
	if t.retryIn(s.NextProof() + s.Timeout()/48) {
		return sleep
	}
	t.round.fail(t.round.error("acquire", ErrClosed))
	return again
}

// retryIn wakes the round's I/O after d. It reports false if the pool is closed.
func (t *delays) retryIn(d time.Duration) bool {
	timer := state.FetchTimer
	if t.io.Urgent() {
		timer = state.EndTimer
	}
	return t.add(d, &delayedWake{io: t.io, timer: timer, later: t.events.Load().Has(state.Waited) || t.attempts > promptTries})
}

// promptTries is how often a round that has not waited in a queue yet is tried again
// among the fetches that callers have just begun. A session that ends, or a connection
// that breaks, at the very moment at which a caller asks costs it one or two.
const promptTries = 3

// rotationTimeout is how long after its last look a round is due for another, in case news was lost:
// see rotation.
const rotationTimeout = 10 * time.Second

// heldTimeout is the same for a held round, whose holders need no news of their own, and for
// the mailbox.
const heldTimeout = time.Minute
