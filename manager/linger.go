// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A lock lingers if its last holder leaves and the process keeps it: the round stays
// RETAINED, with no holder, and the next caller enters as any caller of a held lock does. It is
// then called idle. Its node stays in ZooKeeper, its lease is extended as that of a
// held lock, and it is lost as one, but there is no holder to be told.
//
// An idle round ends by one compare-and-swap, from RETAINED/0 to RELEASING/0, which a
// newcomer defeats by entering. There are two sides:
//
//   - Those who want the lock say so first, and then try that swap: a step that has
//     seen a contender (Contended), a revocation (GateClosed), Shutdown (the
//     manager's stage), the other lock of the pair (its word is FETCHING), SetLinger
//     (the lock's linger).
//   - The last holder looks at all of these, swaps to RETAINED/0, looks again, and tries
//     the same swap if it finds one.
//
// So at least one sees the other. Contenders are seen by the watch that a list of the
// queue leaves. BehindWatched says that there is such a watch, and that it has not
// fired. The dispatcher lowers it before it looks whether the round is idle; the last
// holder looks at it after its swap. If it is not raised, a step lists the queue at
// once. So another process waits for a list and a deletion at most. It waits for the
// deletion only, if the watch is there when it comes and the lock excludes all others.
//
// A newcomer looks at the lease as it enters, before it is told that it has the lock:
// if the lease has lapsed while the lock was idle, it may be the first to notice.

// idling is the trait of a lock that lingers.
type idling struct{ plain }

func (idling) first(t *roundIO, _ *zkio.Session, _ *tenure) next {
	if t.round.lock.lingersFor() > 0 {
		t.round.flags.Set(state.Lingers) // before any caller enters
	}
	return goOn
}

func (idling) held(t *roundIO, _ *zkio.Session) next {
	t.incumbent().answerWatch()
	return goOn
}

// lingerTime is how long a lock lingers by its own SetLinger: in milliseconds, so that it
// fits where a Lock has room.
type lingerTime struct{ ms atomic.Int32 }

// The values of lingerTime that are not a time.
const (
	lingerByConfig = 0
	lingerNever    = -1
)

// lingerForever is a time after which no timer ends an idle round, 24 days: what needs
// the lock ends it.
const lingerForever = math.MaxInt32 * time.Millisecond

func (t *lingerTime) set(d time.Duration) {
	ms := int32(lingerNever)
	if d > 0 {
		ms = int32((min(d, lingerForever) + time.Millisecond - 1) / time.Millisecond)
	}
	t.ms.Store(ms)
}

// lingersFor returns how long the lock may be idle and stay this process's; 0: not at
// all.
func (l *Lock) lingersFor() time.Duration {
	if l.neverLingers() {
		return 0
	}
	switch ms := l.linger.ms.Load(); ms {
	case lingerByConfig:
		return l.m.cfg.Linger
	case lingerNever:
		return 0
	default:
		return time.Duration(ms) * time.Millisecond
	}
}

// neverLingers reports whether the lock does not linger, whatever is set: by its kind; or
// since it reports abandonment, because the mark of an idle lock would look like that of a
// holder that was interrupted.
func (l *Lock) neverLingers() bool {
	return !abilities[l.kind].lingers || l.noted.Load().Has(state.Marking)
}

// SetLinger sets for this lock what Config.Linger sets for all locks of the manager: how
// long this process keeps the lock, after its last holder has left, while no other
// process wants it. The reader and the writer of a pair each have their own time.
//
// It takes effect when the last holder next leaves, also for holders that are inside now. With
// 0, the lock does not linger, and if it is idle now, it is given up at once. With more than
// 0, a lock that is idle now stays for that time from now on. The setting lasts as long as the
// *Lock: keep it. Times are rounded up to milliseconds, and 24 days or more mean until another
// process wants the lock.
//
// SetLinger does not block and does no I/O. If d is negative, or the lock cannot linger
// because it is an upgradable read lock or reports abandonment, it changes nothing and
// returns an error that wraps [ErrBadConfig].
func (l *Lock) SetLinger(d time.Duration) error {
	if d < 0 {
		return &Error{Op: "setlinger", Name: l.Name(), Err: fmt.Errorf("%w: a lock cannot linger for %v: use 0 for not at all", ErrBadConfig, d)}
	}
	if d > 0 && l.neverLingers() {
		return &Error{Op: "setlinger", Name: l.Name(), Err: fmt.Errorf("%w: an upgradable read lock, or one that reports abandonment, cannot linger", ErrBadConfig)}
	}
	l.linger.set(d)
	// A granter that has read the old time is about to grant the present round, or
	// one before it: only the present round is ever granted. So this round gets the
	// flag here, and later granters read the new time.
	r := l.cur.Load()
	if d == 0 {
		r.endIdle()
		return nil
	}
	r.flags.Set(state.Lingers)
	if r.word.Load().Phase() == state.Retained {
		// A timer that is running may run for too long. A leaver that has found it
		// has swapped the word before: we find the round idle.
		t := r.io()
		t.tenure.dropTimer(l.m.client)
		t.incumbent().timeIdle()
	}
	return nil
}

// ReleaseIdle gives the lock up if it is idle: if it lingers, with no holder. Otherwise it does
// nothing. In particular, it takes nothing away from a holder. If it races with the
// Release of the last holder, the lock may linger after it. To rule that out, call
// [Lock.SetLinger] with 0.
//
// ReleaseIdle does not block and does no I/O. The future that it returns settles as that of
// [Hold.Release]: with nil when the lock's node is gone, so that another process can have
// the lock. It is pending while callers of this process hold the lock, those of
// [Manager.LockAll] included. If this process neither holds the lock nor is about to give it
// up, the future has settled with nil.
func (l *Lock) ReleaseIdle() *futures.Future[struct{}] {
	l.cur.Load().endIdle()
	var all []*futures.Future[struct{}]
	for r := range l.own().live() {
		switch r.word.Load().Phase() {
		case state.Retained, state.Releasing:
			all = append(all, r.releasedFuture())
		}
	}
	switch len(all) {
	case 0:
		return notHeld
	case 1:
		return all[0]
	}
	return futures.Map(futures.All(all...), func([]struct{}) (struct{}, error) { return struct{}{}, nil })
}

// notHeld is what ReleaseIdle returns for a lock that this process does not hold.
var notHeld = futures.Resolved(struct{}{}, error(nil))

// acquireLingering is acquire for a round that may linger.
func (l *Lock) acquireLingering(ctx context.Context, op string, r *round) Hold {
	for lost := 0; ; lost++ {
		w := r.word.Load()
		// Between the load of the word and its swap: see round.arrive.
		closed := r.flags.Load().Has(state.GateClosed)
		if closed || !w.Admits() {
			l.noteRaces(lost)
			return l.acquireSlow(ctx, op)
		}
		if r.word.Enter(w) {
			l.noteRaces(lost)
			if !r.confirm(w) {
				return l.acquireSlow(ctx, op)
			}
			return l.enter(&r.share)
		}
	}
}

// leaveLingering is leave for a round that may linger.
func (s *share) leaveLingering() (state.Word, state.Effect) {
	w, e, lost := s.word.Apply(func(w state.Word) (state.Word, state.Effect) {
		// This reads the clock once for each last holder, as any other release does.
		if w.Last() && !s.wanted() && s.promises().tenure.lease.InForce() {
			return w.LeaveIdle()
		}
		return w.Leave()
	})
	if e != state.Left || lost > 0 {
		s.left(e, lost)
	}
	return w, e
}

// wanted reports whether the lock of this round, which this process owns, is to be given
// up as soon as it is idle.
func (s *share) wanted() bool {
	l := s.lock
	return s.flags.Load()&(state.GateClosed|state.Contended) != 0 ||
		l.m.closing() || l.lingersFor() == 0 || l.rw != nil && l.rw.wantedBeside(l)
}

// wantedBeside reports whether this process waits for another lock of the pair or holds
// it: of a pair, only one lock lingers, and only alone.
func (rw *RWLock) wantedBeside(l *Lock) bool {
	for other := range rw.locks() {
		if other == l {
			continue
		}
		switch other.cur.Load().word.Load().Phase() {
		case state.Fetching, state.Retained:
			return true
		}
	}
	return false
}

// idleLeaves reports whether the node of a lock of the pair that was idle is about to be
// deleted, and l waits for that before it queues: otherwise a TryLock of l would find the
// lock held, by its own process, although no caller holds it. So the writer waits for the
// reader, and the upgradable for the writer. Readers enter beside a writer. The steps of
// the idle lock wake the waiting one: see idleLeft.
func (rw *RWLock) idleLeaves(l *Lock) bool {
	var idle *Lock
	switch l.kind {
	case queue.Write:
		idle = &rw.reader
	case queue.Upgradable:
		idle = rw.writer
	default:
		return false
	}
	r := idle.cur.Load()
	if r.word.Load().Phase() != state.Releasing {
		return false
	}
	// If the node may not be deleted, the future has settled.
	t := r.io()
	return t.endReason.Load() == releasedIdle && !t.released.Settled()
}

// idleLeft is called after a step that deletes the node of l, which was idle. The lock that
// waits for that is FETCHING before it looks at l's word; l's word and future are as they
// will be before we look at the word of the other: at least one sees the other.
func (rw *RWLock) idleLeft(l *Lock) {
	waits := rw.writer
	if l == rw.writer {
		waits = rw.third.Load()
	}
	if waits == nil {
		return
	}
	if r := waits.cur.Load(); r.word.Load().Phase() == state.Fetching && r.due() {
		r.io().wake()
	}
}

// idled is called when the caller's CAS has made the round idle. The round may be in use
// again by now, or over.
func (t *incumbent) idled() {
	if t.round.wanted() {
		//holdfast:reached linger: wanted at the very moment
		t.round.endIdle()
		return
	}
	if !t.events.Load().Has(state.BehindWatched) {
		//holdfast:reached linger: idle, and has to look
		t.io.wake()
	}
	t.timeIdle()
}

// endIdle ends the round if it is idle, and reports whether it did. If the caller wants
// the lock, it has said so before: see above.
func (s *share) endIdle() bool {
	_, e, lost := s.word.Apply(state.Word.EndIdle)
	s.lock.noteRaces(lost)
	if e != state.Ended {
		return false
	}
	//holdfast:reached linger: ended while idle
	t := s.promises().io
	s.lock.m.feed.once(t, EventYielded)
	t.endedIdle()
	return true
}

// endedIdle notes that the caller's CAS has ended the round while it was idle. What
// became of the lock since its last holder left is no concern of that holder, which
// had it until then.
func (t *roundIO) endedIdle() {
	t.settleGrant()
	t.end(releasedIdle)
}

// confirm reports whether the lock is still this process's, for a newcomer that has just
// entered a round that may linger; w was the word before. If the lease has lapsed, it
// takes the newcomer's count back. The round is over then, and the newcomer goes on to
// the next.
func (s *share) confirm(w state.Word) bool {
	t := s.promises().io
	if t.tenure.lease.InForce() {
		return true
	}
	switch _, e, lost := s.word.Apply(state.Word.Leave); {
	case e == state.Ended && w.Idle():
		s.lock.noteRaces(lost)
		s.lock.m.feed.lostIdle(t, s.lost("hold", leaseOver))
		t.endedIdle()
	case e == state.Left:
		s.lock.noteRaces(lost)
		s.fail(s.lost("hold", leaseOver))
	default: // a holder has left since, after the lease's end perhaps; or the round is over
		s.left(e, lost)
	}
	return false
}

// idleUnwatched reports whether the round is idle and the queue is to be listed at once.
func (t *incumbent) idleUnwatched() bool {
	return t.round.word.Load().Idle() && !t.events.Load().Has(state.BehindWatched)
}

// idleChanged is called by the dispatcher, after it has lowered BehindWatched, when it
// finds the round idle. It reports false if a newcomer has entered meanwhile.
func (t *incumbent) idleChanged(ev zkio.Event) bool {
	l := t.round.lock
	if ev.What == zkio.NodeChildrenChanged && l.kind != queue.Read && l.m.now()-t.tenure.lookedAt.Load() > int64(lateEvent) {
		// The list has shown no contender, so one has come, and this lock excludes
		// them all. There is no need to look which.
		//holdfast:reached linger: a contender came
		return t.round.endIdle()
	}
	t.io.wake() // at once, unlike a held round
	return true
}

// answerWatch makes a look due if the watch has fired and no look is: the round was idle
// then, and a newcomer has entered before this step.
func (t *incumbent) answerWatch() {
	if t.tenure.dirWatched && t.round.flags.Load().Has(state.Lingers) && (t.mayClose() || t.round.wantsContention()) && !t.events.Load().Has(state.BehindWatched) {
		t.lookSoon()
	}
}

// lookOverdue reports whether the rotation is to have the round look behind: it is held and
// has not looked yet, or it has not looked for long, so that a watch event may have been
// lost. at is when it has looked last; 0: never.
func (t *incumbent) lookOverdue() (at int64, overdue bool) {
	switch m, w := t.round.lock.m, t.round.word.Load(); {
	case w.Phase() != state.Retained:
		return 0, false
	case m.cfg.Tenure >= 0 && !t.events.Load().Has(state.FirstLookAsked):
		return 0, true
	default:
		return t.tenure.lookedAt.Load(), t.idleForLong() || t.heldForLong()
	}
}

// heldForLong reports whether the round is held and has not looked for long, and what a look
// shows could matter: newcomers have entered, and may keep the lock from others, or a holder
// has asked. A lock that is held and left alone costs nothing.
func (t *incumbent) heldForLong() bool {
	at := t.tenure.lookedAt.Load()
	relayed := t.mayClose() && t.round.flags.Load().Has(state.GrantTold) // see Lock.entered
	return at != 0 && !t.round.word.Load().Idle() && (relayed || t.round.wantsContention()) &&
		t.round.lock.m.now()-at >= int64(heldTimeout)
}

// idleForLong reports whether the round is idle, and has not looked for long.
func (t *incumbent) idleForLong() bool {
	return t.round.word.Load().Idle() && t.round.lock.m.now()-t.tenure.lookedAt.Load() >= int64(rotationTimeout)
}

// lookAgain makes a round look that has not looked for long, and reports whether it did.
func (t *incumbent) lookAgain() bool {
	switch {
	case t.idleForLong():
		t.events.Take(state.BehindWatched)
		t.io.wake()
	case t.heldForLong():
		t.io.raise(state.BehindDue)
	default:
		return false
	}
	return true
}

// An idleTimer ends a round that has been idle for its time. A round has one at most,
// however often it is entered and left, and no entry or departure writes for it: the
// timer sees by the number of entries whether the lock was used since its last look. So
// an idle lock ends between its time and a quarter more after its last Release.
type idleTimer struct {
	io *roundIO

	// Used by the goroutine that made it, and then by the present worker.
	entries uint64 // into the lock
	since   int64  // since when it is known to be idle with that many entries, on the manager's clock
}

// lateEvent is how late the dispatcher may tell an event. One that comes so soon after
// the list may be that of this process's own node, of the round before.
const lateEvent = 5 * time.Millisecond

const (
	idleLookLeast = 10 * time.Millisecond
	idleLookMost  = time.Minute
)

// timeIdle starts the timer of a round that is idle, unless it is running or none is
// needed.
func (t *incumbent) timeIdle() {
	l := t.round.lock
	if t.tenure.timer.Load() != nil || l.lingersFor() >= lingerForever {
		return
	}
	// The entries first: if a newcomer comes after that, the count shows it, or the
	// word, and its departure comes here again.
	e := &idleTimer{io: t.io, entries: l.entries(), since: l.m.now()}
	if t.round.word.Load().Idle() && t.tenure.timer.CompareAndSwap(nil, e) {
		e.lookLater()
	}
}

// lookLater has a worker run e when the round's time may be over, or earlier.
func (e *idleTimer) lookLater() {
	l := e.io.round.lock
	d := l.lingersFor()
	rest := d - time.Duration(l.m.now()-e.since)
	// A closed pool runs no timer, but Close ends the round.
	l.m.client.SubmitAfterFor(e, min(rest, max(d/4, idleLookLeast), idleLookMost), zkio.Fetches, e)
}

// dropTimer takes back the timer of an idle round, if it has one. One that is about to look
// finds that it is not the round's any more, and is void.
func (n *tenure) dropTimer(c *zkio.Client) {
	if e := n.timer.Swap(nil); e != nil {
		c.Drop(e)
	}
}

// Void is called before the task is queued. SetLinger may have replaced the timer.
func (e *idleTimer) Void() bool {
	return e.io.round.word.Load().Phase() != state.Retained || e.io.tenure.timer.Load() != e
}

// Run is called by the pool.
func (e *idleTimer) Run(*zkio.Session) {
	if e.Void() {
		return
	}
	t, r := e.io, e.io.round
	l := r.lock
	now, n := l.m.now(), l.entries() // before the look at the word, as in timeIdle
	switch {
	case !r.word.Load().Idle():
		// The last holder to leave starts another timer. It looks for this one after
		// its swap, and we look at the word after taking this one back: at least one
		// sees the other.
		if t.tenure.timer.CompareAndSwap(e, nil) && r.word.Load().Idle() {
			t.incumbent().timeIdle()
		}
		return
	case n != e.entries:
		e.entries, e.since = n, now
	case now-e.since >= int64(l.lingersFor()) && r.endIdle():
		//holdfast:reached linger: its time is over
		return
	}
	e.lookLater()
}
