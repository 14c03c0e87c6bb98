// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// held returns the tenure beside which readers of this process enter: that of the round
// in which it owns the write lock, or owned it until its node is deleted; or that of
// an upgradable that is exclusive. It is nil if there is none.
func (rw *RWLock) held() *tenure {
	if w := rw.upgraded(); w != nil {
		return w
	}
	r := rw.writer.cur.Load()
	switch r.word.Load().Phase() {
	case state.Retained, state.Releasing:
		// The future says whether a round that is being released was ever
		// granted. It lags behind the word for a moment: see granted.
		if _, err, ok := r.io().granted.Future().Poll(); ok && err == nil {
			return r.io().tenure
		}
	}
	return nil
}

// granted is called when a round of l has been granted.
//
// If another lock of the pair waits for it in this process, the round takes newcomers
// for a tenure only. One that begins to queue makes its round FETCHING before it looks
// for ours; ours is RETAINED before we look for the others. At least one sees the other.
func (rw *RWLock) granted(l *Lock) {
	if l == rw.writer {
		rw.letReadersIn()
	}
	if rw.awaited(l) {
		rw.closeGate(l)
	}
}

// letReadersIn wakes the readers of this process that are queued behind its writer,
// which has just been granted, or behind its upgradable, which is now exclusive: they
// enter beside it.
//
// A reader's step looks for held after its round is FETCHING; what held returns is
// settled before we look for the reader's round. At least one sees the other.
func (rw *RWLock) letReadersIn() {
	r := rw.reader.cur.Load()
	if r.word.Load().Phase() == state.Fetching && r.flags.Load().Has(state.PrevReleased|state.Wanted) {
		r.io().wake()
	}
}

// fetching is called when a round of l queues. The other locks of the pair do not linger
// any longer. Their holders in this process would keep l out for as long as new ones
// arrive, so those queue behind it once their round has lasted a tenure. Readers have no
// need of that: they enter beside our own writer.
func (rw *RWLock) fetching(l *Lock) {
	for other := range rw.locks() {
		if other != l {
			other.cur.Load().endIdle()
		}
	}
	if l.kind == queue.Read {
		return
	}
	for other := range rw.locks() {
		if other != l && queue.Excludes(other.kind, l.kind) {
			rw.closeGate(other)
		}
	}
}

// awaited reports whether a round of another lock of the pair waits in this process
// until a round of l is over.
func (rw *RWLock) awaited(l *Lock) bool {
	for other := range rw.locks() {
		switch {
		case other == l, other.kind == queue.Read: // see fetching
		case !queue.Excludes(other.kind, l.kind):
			if other.own().upgrading() { // it waits for l, the reader
				return true
			}
		case other.cur.Load().word.Load().Phase() == state.Fetching:
			return true
		}
	}
	return false
}

// closeGate tells the holders of l, if this process holds l, that another lock of the pair
// waits for them, and closes the gate of their round: now if the round has lasted a tenure,
// otherwise then, if it is still awaited. Closing it at once would end a read round for
// every write, and even for a TryLock that passes by; with occasional writes, hardly any
// readers would share a round.
func (rw *RWLock) closeGate(l *Lock) {
	r := l.cur.Load()
	m := l.m
	if r.word.Load().Phase() != state.Retained {
		return
	}
	t := r.io()
	//holdfast:reached hold: told that its own process waits
	t.round.seeContention()
	if m.cfg.Tenure < 0 {
		return
	}
	if rest := m.cfg.Tenure - time.Duration(m.now()-t.tenure.since); rest <= 0 {
		//holdfast:reached gate: closed as our own writer queued
		r.closeGate()
	} else {
		t.delays().after(rest, state.WriterTimer, state.WriterDue)
	}
}

// writerDue closes the gate of the round r if it has been awaited until now. r's step
// calls it after lowering the timer that closeGate started. A round that is FETCHING
// after that finds that the tenure is over; one that found the timer raised is seen
// here.
func (rw *RWLock) writerDue(r *round) {
	if r.word.Load().Phase() == state.Retained && rw.awaited(r.lock) {
		//holdfast:reached gate: closed when our own writer had waited for the tenure
		r.closeGate()
	}
}

// paired is the trait of the locks of an RWLock.
type paired struct{ plain }

func (p paired) before(t *roundIO, s *zkio.Session) next {
	l := t.round.lock
	// Also for a node that the round before has made: RWLock.granted looks only
	// at the present round, which this one was not yet.
	l.rw.fetching(l)
	if t.node == nil && l.rw.idleLeaves(l) {
		//holdfast:reached linger: waits until an idle lock of its own pair is gone
		return sleep
	}
	if l.kind == queue.Read {
		before := t.near().downgrade
		// A write of an earlier session is lost. Its node can still be there: a leader that
		// has told us that the session is over, and is then deposed, may not have ended it.
		if w := l.rw.held(); w != nil && w.session == s && (before == nil || w.path != before.gone) {
			return p.enterBeside(t, s, w.grant())
		}
	}
	return goOn
}

func (paired) first(t *roundIO, _ *zkio.Session, n *tenure) next {
	if beside := t.node.Beside(); beside != "" && beside == t.near().downgrade.writer.Path {
		// Other contenders may have queued between our writer's node and this one.
		n.token = t.near().downgrade.writer.Token
	}
	return goOn
}

func (paired) granted(t *roundIO) { t.round.lock.rw.granted(t.round.lock) }

func (paired) held(t *roundIO, _ *zkio.Session) next {
	if t.events.Take(state.WriterDue) != 0 {
		t.round.lock.rw.writerDue(t.round)
	}
	return goOn
}

// besideWriter reports whether the round is one of readers, and this process has a writer beside
// which they may enter.
func besideWriter(t *roundIO) bool {
	return t.round.lock.kind == queue.Read && t.round.lock.rw.held() != nil
}

func (paired) outlook(t *roundIO, v outlook) outlook {
	// A contender has to wait for our writer anyway, and our readers may enter while it is
	// inside.
	v.open = v.open || besideWriter(t)
	return v
}

func (paired) keepsOut(t *roundIO) bool {
	l := t.round.lock
	return l.m.cfg.Tenure >= 0 && l.rw.awaited(l)
}

func (paired) last(t *roundIO, _ *zkio.Session, f farewell) (farewell, error) {
	f.alone = f.alone || besideWriter(t) // the next round enters beside the writer
	return f, nil
}

func (paired) over(t *roundIO) {
	l := t.round.lock
	if t.endReason.Load().idle {
		l.rw.idleLeft(l)
	}
	l.rw.stirGates(l)
}

// enterBeside creates a read node at the place of this process's own write node
// w: no contender that queued behind the writer can come in between, and the
// readers may enter, since the writer's process owns the lock. The release of the
// write lock may be under way; the transaction says whether its node is there.
func (paired) enterBeside(t *roundIO, s *zkio.Session, w Grant) next {
	t.round.lock.m.box.arm(s)
	if t.node == nil {
		t.queuer().hasNode(t.queuer().newNode())
	}
	if t.node.Czxid() != 0 && t.node.Beside() == "" {
		//holdfast:reached downgrade: was queued behind its own writer
		return requeue
	}
	if c, _ := queue.ParseName(lastSegment(w.Path)); queue.Exhausted(c.Seq) {
		//holdfast:reached numbers run out: a downgrade is refused
		t.round.fail(t.round.error("acquire", fmt.Errorf("%w: no read lock can be had beside the write lock %s", ErrSequenceExhausted, w.Path)))
		return again
	}
	if t.near().downgrade == nil {
		t.meet().downgrade = new(downgradeState)
	}
	t.neighbours.downgrade.writer = w
	err := t.node.CreateAtSequence(s, w.Path)
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		//holdfast:reached downgrade: the write is gone, queues
		t.neighbours.downgrade.gone = w.Path
		return again
	case err != nil:
		return t.failed(err)
	case t.node.Beside() != w.Path:
		return requeue // an earlier request, whose answer was lost, has queued it
	}
	t.teller().queued()
	t.watched = true
	//holdfast:reached downgrade: at the writer's place
	return atFront
}
