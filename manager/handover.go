// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/oneline"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// adopt takes what the round before has handed on.
func (t *roundIO) adopt() {
	l := t.round.lock
	h := l.handed.Load()
	// A late wake may run a step of a round that is RELEASED; what it finds there
	// is the next one's.
	if h == nil || t.round.word.Load().Phase() == state.Released {
		return
	}
	l.handed.Store(nil)
	t.queuer().hasNode(h.node)
	t.seenAt = h.seenAt
	if h.seenAt != 0 {
		t.teller().queued()
	}
	switch {
	case h.alone:
		t.waiter().follow(queue.Prospect{Complete: true}, h.conn, queue.Contender{})
	case h.listed != nil:
		t.meet().listed = h.listed
	case h.tail != nil:
		own, _ := queue.ParseName(t.node.Name())
		if p, ok := h.tail.Prospect(own); ok {
			//holdfast:reached hand-over: behind those it has seen, no list
			var first queue.Contender
			if p.Complete && l.kind == queue.Exclusive {
				first = p.Known[0]
			}
			t.waiter().follow(p, h.conn, first)
		}
	}
}

// release deletes the round's node, and finishes the round when the node is surely
// gone: until then the round stays RELEASING, and the next one waits.
func (t *roundIO) release(s *zkio.Session) {
	why := t.endReason.Load()
	if why == nil {
		return // the goroutine that ended the round is about to store why, and to wake it
	}
	m := t.round.lock.m
	first := t.events.Raise(state.Ending)
	if first {
		t.attempts = 0
	}
	// Shutdown leaves the holders their time to stop; Close does not.
	if rest := why.notBefore - m.now(); rest > 0 && m.stage.Load() != closingDown {
		//holdfast:reached release: the node waits for the lost margin
		if t.delays().after(time.Duration(rest), state.EndTimer, 0) {
			return
		}
	}
	t.waiter().unwatchAhead()
	t.incumbent().unwatchBehind()
	err := why.err
	if t.node != nil {
		how, derr := t.deleteNode(s, first && why.err == nil)
		switch {
		case derr == nil:
			// If our request deleted the node, the lock was ours until then. If the
			// node was gone before, it was not. If there is no telling, the lease
			// said whether the lock was ours when the last holder left.
			if loss, ok := errors.AsType[*lossError](err); ok && how == zkio.RemovedBefore && t.tenure.session.Err() == nil {
				loss.alive.Store(true)
			}
			lost := !why.idle && (how == zkio.RemovedBefore || how == zkio.RemovedUnknown && why.late)
			if err == nil && lost {
				//holdfast:reached release: the lock turns out to have been lost
				by := leaseOver
				if how == zkio.RemovedBefore {
					by = nodeMissed
				}
				loss := t.round.lost("release", by)
				if !t.released.Settled() { // else it is known that the lock was released
					t.teller().lost(loss)
				}
				err = loss
			}
		case zkio.ClassOf(derr) == zkio.Closed || m.closed.Load():
			if err == nil {
				err = t.round.error("release", fmt.Errorf("%w: %w", ErrClosed, derr))
			}
		default:
			if zkio.ClassOf(derr) == zkio.Definite {
				// This will not change by itself before the session ends. Say so
				// now, and keep trying: an administrator may grant the right.
				refused := t.round.error("release", oneline.Join(why.err, derr))
				t.teller().released(why, refused)
				t.settleReleased(refused)
				t.tellOver()
			}
			if t.delays().retry() {
				return
			}
			if err == nil {
				err = t.round.error("release", derr)
			}
		}
		t.node.Forget()
		t.node = nil
	}
	m.active.remove(t)
	t.teller().released(why, err) // before the next round has events
	m.feed.gone(t, err)
	handOn := t.near().handOn
	t.neighbours = nil // an old Hold keeps t alive, and must not keep the next round's node
	t.round.finish(handOn)
	t.delays().drop()
	t.settleReleased(err)
	t.tellOver()
	t.teller().logOver(err)
}

// tellOver tells the round's traits that its release has settled.
func (t *roundIO) tellOver() {
	for _, tr := range t.traits() {
		tr.over(t)
	}
}

// deleteNode deletes the round's node. If together is set and the next round is
// to queue, and one request can do both, it creates the next round's node as well.
func (t *roundIO) deleteNode(s *zkio.Session, together bool) (zkio.Removal, error) {
	f, err := t.farewell(s)
	switch {
	case err != nil:
		return zkio.RemovedUnknown, err
	case f.instead != nil:
		return f.instead(s)
	case !together || f.alone || !t.nextQueues(s):
		return t.remove(s, f)
	}
	n := t.round.next.Load().io().queuer().newNode()
	tail := t.near().tail
	along, conn := t.round.lock.listAlong(s, tail), connectionOf(s)
	children, err := n.Replace(s, t.node, f.along, along.reads()...)
	switch class := zkio.ClassOf(err); {
	case err == nil:
		//holdfast:reached hand-over: left and queued again in one request
		now := t.round.lock.m.now()
		t.meet().handOn = &handed{node: n, seenAt: now, alone: children == 1, conn: conn, listed: along.listed(now), tail: tail}
		t.round.lock.counted(children)
		return zkio.RemovedByUs, nil
	case class == zkio.NotSent || class == zkio.Definite:
		//holdfast:reached hand-over: refused, one after the other
	default:
		// Remove finds out what became of our node, and the next round what became
		// of its own.
		//holdfast:reached hand-over: left and queued again, perhaps: the answer is lost
		t.meet().handOn = &handed{node: n}
	}
	return t.remove(s, f)
}

// remove deletes the round's node, and no more than f says with it.
func (t *roundIO) remove(s *zkio.Session, f farewell) (zkio.Removal, error) {
	how, err := t.node.Remove(s, f.along...)
	if err == nil && how == zkio.RemovedAlone {
		f.refused()
	}
	return how, err
}

// nextQueues reports whether goroutines wait in the next round, and its node can
// be created by one request, in session s.
//
// If they all give up meanwhile, or the round is ended by force, it finds its node
// when its turn comes.
func (t *roundIO) nextQueues(s *zkio.Session) bool {
	l, n := t.round.lock, t.round.next.Load()
	return n != nil && n.waits() && l.directory.countable() && s == t.node.Session() && !l.m.closing()
}
