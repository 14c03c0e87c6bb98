// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// An upgrade is how a round that holds the upgradable read lock becomes exclusive, and
// stops being so. The first call of Hold.Upgrade makes it; it ends with the round.
//
// Beside the round's own node, a reader's to other clients, the process puts a writer's
// node, and waits until no reader is in the way: see [queue.Upgrade]. It is exclusive
// while both nodes exist. If either is deleted by another client, the round is lost, and
// the other one deleted. To read on, the process deletes the writer's node.
//
// The holds of the process that are upgraded, or wait for it, are counted here; the
// round's steps look at the count, and bring the nodes in line with it. So a hold that
// is upgraded again before they have noticed that none was finds the process still
// exclusive.
type upgrade struct {
	io *roundIO

	mu    sync.Mutex             // protects what follows, and the upgraders; held for a few instructions
	holds map[upgraded]*upgrader // upgraded, or waiting for it

	// exclusive is the writer's node while the process is exclusive; otherwise nil. Steps
	// write it, with mu held.
	exclusive atomic.Pointer[writerNode]

	reader   atomic.Pointer[ahead] // the reader that it waits for, once its node was read; nil: none is known
	listedAt atomic.Int64          // when the queue was last listed, on the manager's clock; see overdue
	again    atomic.Bool           // it must be listed, whatever is known

	// Used by steps only.
	own      *writerNode // the writer's node; nil: there is none
	unclear  *zkio.Node  // a shield that was to be made, when the answer was lost; usually nil
	inTheWay *ahead      // the reader that it waits for; nil: the queue is to be listed
	broken   bool        // the writer's node was found gone at the end of the round
}

// An upgraded identifies a Hold's handle. It must not lead to the slot: see withdrawal.
type upgraded struct {
	handle *handle
	gen    uint64
}

// An upgrader is what an upgrade knows of one Hold. Goroutines that share the Hold share
// its upgrade: each may call Hold.Upgrade, and the Hold stays in the upgrade for as long
// as one of them waits.
type upgrader struct {
	calls  int    // of Hold.Upgrade that wait; of no meaning once up is set
	up     bool   // the Hold is upgraded
	forget func() // takes back what tells of the Hold's release

	// outcome settles, after mu was released, when the calls are to look what has become of
	// the Hold; with an error if its upgrade was refused.
	outcome futures.Promise[struct{}]
}

// A writerNode is the writer's node of an upgrade, and its watcher.
type writerNode struct {
	u    *upgrade
	node *zkio.Node // used by steps only
	path string     // written before the node is put into upgrade.exclusive

	gone    atomic.Bool // the node was deleted
	touched atomic.Bool // it must be read: it is new, or something else happened to it
}

// PathChanged is called by the dispatcher when something happened to the writer's node.
// It does not block.
func (x *writerNode) PathChanged(_ string, ev zkio.Event) {
	if ev.What != zkio.NodeDeleted {
		x.touched.Store(true)
	} else {
		// A step makes the node the exclusive one before it looks for gone. At least one
		// of us sees the other.
		x.gone.Store(true)
		if x.u.exclusive.Load() == x {
			x.u.lost(nodeGone)
		}
	}
	x.u.io.wake()
}

// Upgrade makes the process of this Hold, of an upgradable read lock, the only one that
// holds the lock: no other process reads or writes until [Hold.Downgrade], or the end of
// the Hold. What the process has read under the Hold is still true then. Any of its
// goroutines may upgrade a Hold of its own, and more than one; the process goes back to
// reading with the last of them. Goroutines that only read stay inside: see [Lock].
//
// Upgrade waits for the readers that are inside. That includes those of this process
// which hold the read lock, so a goroutine must not hold that when it upgrades. Readers
// of this process that come later enter at once, beside the upgraded Hold. It overtakes
// writers that wait already: they have to wait for this Hold in any case.
//
// Guarded writes ([Hold.Guard]) check then that the process is still exclusive. The
// fencing token stays that of the Hold's grant. So it can be lower than that of a reader
// that was inside beside it, but it is higher than those of all earlier writers, and
// lower than those of all later ones.
//
// Upgrade blocks until the process is exclusive or ctx ends. If it fails, the Hold holds
// the lock as before, unless that was lost. The errors are ctx.Err() and
// context.Cause(ctx), with a reader that is in the way in the field Holder of the
// [*Error]; those of [Hold.Grant]; [ErrUpgrade] if the Hold is not one of an
// upgradable read lock, or ctx carries a Hold of the read lock; [ErrSequenceExhausted];
// and what ZooKeeper refused. If the Hold is upgraded already, Upgrade returns nil. During
// [Manager.Shutdown] it goes on waiting: the Hold is still held.
//
// Goroutines that share a Hold share its upgrade. The Hold is upgraded for all of them, or
// for none: see [Hold.Upgraded]. A call whose ctx ends leaves the others waiting, and
// returns nil if the Hold is upgraded by then. A call returns [ErrNotGranted] if another
// goroutine has downgraded the Hold before it could return.
func (h Hold) Upgrade(ctx context.Context) error {
	const op = "upgrade"
	if h.share == nil {
		return zeroHold(op)
	}
	l, t := h.share.lock, h.promises().io
	if l.kind != queue.Upgradable {
		return h.error(op, fmt.Errorf("%w: this is a Hold of the %s lock; use RWLock.Upgradable", ErrUpgrade, l.kind))
	}
	if err := h.check(op); err != nil {
		return err
	}
	if _, reads := l.rw.reader.heldIn(ctx); reads {
		return h.error(op, fmt.Errorf("%w: ctx carries a Hold of the read lock; release that before", ErrUpgrade))
	}
	if ctx.Err() != nil {
		return t.round.error(op, ctxerr.Of(ctx))
	}

	u, key := upgradeOf(t), h.upgradeKey()
	x, first, up := u.join(key)
	if first {
		x.keep(u, key, h.slot.onReleaseDo(h.gen, func() { u.leave(key, byRelease, x.is) }))
	}
	ended, reader := false, (*ahead)(nil)
	if !up {
		t.wake()
		select {
		case <-x.outcome.Future().Done():
			if _, err, _ := x.outcome.Future().Poll(); err != nil {
				return h.wrap(op, err)
			}
		case <-h.Lost():
		case <-ctx.Done():
			ended = true
			reader = u.reader.Load() // before a step forgets it
			u.leave(key, byCaller, x.lastCall)
		}
	}
	// Whatever has woken the call: the answer is what the Hold is now.
	switch err := h.check(op); {
	case err != nil:
		return err
	case u.upgraded(key):
		return nil
	case ended:
		e := t.round.error(op, ctxerr.Of(ctx))
		if reader != nil {
			e.Holder = reader.contender()
			e.Holder.Holds = true
			blameOwn(l, e)
		}
		return e
	}
	return h.error(op, fmt.Errorf("%w: another goroutine has downgraded this Hold", ErrNotGranted))
}

// Upgraded reports whether this Hold is upgraded: [Hold.Upgrade] has succeeded, and neither
// [Hold.Downgrade] has ended that, nor a release or the loss of the lock. It does not block;
// it reads the clock.
func (h Hold) Upgraded() bool {
	if h.Err() != nil {
		return false
	}
	u := h.promises().raised()
	return u != nil && u.upgraded(h.upgradeKey())
}

func (h Hold) upgradeKey() upgraded { return upgraded{h.slot.handle, h.gen} }

// Downgrade ends what [Hold.Upgrade] of this Hold has begun. The Hold holds the lock as
// before, and other readers can come in again, unless another Hold of this process is
// still upgraded.
//
// Downgrade does not block; a worker of the Manager tells ZooKeeper. It returns nil if the
// process was exclusive until now, [ErrNotGranted] if this Hold is not upgraded, and
// otherwise the error of [Hold.Err]. Calls of Upgrade that still wait go on waiting: end
// their contexts instead.
func (h Hold) Downgrade() error {
	const op = "downgrade"
	if err := h.check(op); err != nil {
		return err
	}
	if u := h.promises().raised(); u == nil || !u.leave(h.upgradeKey(), byCaller, (*upgrader).isUp) {
		return h.error(op, fmt.Errorf("%w: this Hold is not upgraded", ErrNotGranted))
	}
	return nil
}

// upgradeOf returns the round's upgrade, and makes it on first use. The round has been
// granted.
func upgradeOf(t *roundIO) *upgrade {
	for {
		if u := t.raised(); u != nil {
			return u
		}
		t.signals().upgrade.CompareAndSwap(nil, &upgrade{io: t, holds: make(map[upgraded]*upgrader)})
	}
}

// join adds a call for a hold, and the hold if it is the first. up reports that the hold is
// upgraded, since the process is exclusive; otherwise the call waits for the outcome.
func (u *upgrade) join(key upgraded) (x *upgrader, first, up bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if x = u.holds[key]; x == nil {
		x, first = new(upgrader), true
		u.holds[key] = x
	}
	x.up = u.exclusive.Load() != nil
	x.calls++
	return x, first, x.up
}

// keep notes how x takes back what tells of its release, or does so if it has left.
func (x *upgrader) keep(u *upgrade, key upgraded, forget func()) {
	u.mu.Lock()
	in := u.holds[key] == x
	if in {
		x.forget = forget
	}
	u.mu.Unlock()
	if !in {
		forget()
	}
}

// end ends x, which was taken out of the upgrade, with the error that its calls are to
// return; nil: they see for themselves.
func (x *upgrader) end(err error) {
	if x.forget != nil {
		x.forget()
	}
	x.outcome.Settle(struct{}{}, err)
}

// upgraded reports whether the hold is upgraded.
func (u *upgrade) upgraded(key upgraded) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	x := u.holds[key]
	return x != nil && x.up
}

// The ways in which a hold leaves an upgrade.
const (
	byCaller  = iota // the round's steps are to see it now
	byRelease        // the hold was released, so the round may end right after
)

// leave takes a hold out if it is in and may leave, and reports whether it has.
func (u *upgrade) leave(key upgraded, how int, may func(*upgrader) bool) bool {
	u.mu.Lock()
	x := u.holds[key]
	leaves := x != nil && may(x)
	if leaves {
		delete(u.holds, key)
	}
	u.mu.Unlock()
	if !leaves {
		return false
	}
	x.end(nil)
	if how == byRelease {
		// If this was the round's last hold, one request deletes both nodes in a moment.
		u.io.delays().after(releasePause, state.UpgradeTimer, 0)
	} else {
		u.io.wake()
	}
	return true
}

// The conditions of leave.

// is reports whether y is x: a hold that has left may have come back since.
func (x *upgrader) is(y *upgrader) bool { return x == y }

// isUp reports whether the hold is upgraded.
func (x *upgrader) isUp() bool { return x.up }

// lastCall takes back one call of x, and reports whether no other one waits and the hold is
// not upgraded: then it does not wait any more.
func (x *upgrader) lastCall(y *upgrader) bool {
	if x != y {
		return false
	}
	x.calls--
	return x.calls == 0 && !x.up
}

// releasePause is how long the writer's node stays when a hold was released, unless the
// round ends before.
const releasePause = time.Millisecond

// pending reports whether holds wait until the process is exclusive.
func (u *upgrade) pending() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.holds) > 0 && u.exclusive.Load() == nil
}

// wanted reports whether a hold is upgraded, or waits for it. If none does, the process
// is not exclusive from then on.
func (u *upgrade) wanted() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.holds) > 0 {
		return true
	}
	u.exclusive.Store(nil)
	return false
}

// refuse fails all holds, which wait.
func (u *upgrade) refuse(err error) {
	u.mu.Lock()
	holds := u.holds
	u.holds = make(map[upgraded]*upgrader)
	u.mu.Unlock()
	refused := u.io.round.error("upgrade", err)
	for _, x := range holds {
		x.end(refused)
	}
}

// lost ends the round, because one of the nodes is gone.
func (u *upgrade) lost(by noticed) { u.io.round.fail(u.io.round.lost("hold", by)) }

// recheck has the queue listed, in case a watch event was lost, if the upgrade has
// waited for long without a look.
func (u *upgrade) recheck() (due bool) {
	if now := u.io.round.lock.m.now(); !u.pending() || now-u.listedAt.Load() < int64(rotationTimeout) {
		return false
	}
	u.again.Store(true)
	u.io.wakeLater()
	return true
}

// step brings the nodes in line with what the holds want, as far as it can without
// waiting for other contenders. The round's step calls it, of a round that is held in
// session s.
func (u *upgrade) step(s *zkio.Session) next {
	t := u.io
	for {
		switch {
		case !u.wanted():
			if u.own == nil && u.unclear == nil {
				t.round.lock.rw.stirGates(t.round.lock)
				return goOn
			}
			// If a hold wants it again by the time the node is gone, it begins anew.
			if u.clear(s) != nil {
				return retry
			}
		case u.exclusive.Load() != nil:
			return u.watchOwn(s)
		case u.unclear != nil || u.own != nil && u.own.gone.Load():
			//holdfast:reached upgrade: begins anew
			if u.clear(s) != nil {
				return retry
			}
		case u.exhausted():
			// No shield would work. The numbers of all nodes before it are in order.
			//holdfast:reached numbers run out: an upgrade is refused
			u.refuse(fmt.Errorf("%w: no upgrade is possible", ErrSequenceExhausted))
			if u.clear(s) != nil {
				return retry
			}
		case u.own == nil || u.own.node.Path() == "":
			t.round.lock.rw.closeGate(&t.round.lock.rw.reader)
			if n := u.create(s); n != goOn {
				return n
			}
		default:
			if a := u.inTheWay; a != nil && !a.isGone() && !a.changed.Load() && !u.own.touched.Load() && !u.again.Load() {
				return goOn // the watch will tell
			}
			if n := u.look(s); n != goOn {
				return n
			}
		}
		if w := t.round.word.Load(); w.Phase() != state.Retained {
			return goOn // lost
		}
	}
}

// newNode returns a writer's node that is not made yet.
func (u *upgrade) newNode() *writerNode {
	l := u.io.round.lock
	x := &writerNode{u: u}
	x.touched.Store(true)
	x.node = zkio.NewNode(l.path, queue.Write.Mark(), l.m.newGUID, l.m.nodeData(queue.Write.String()), l.m.cfg.ACL, x)
	return x
}

// create makes the writer's node at the end of the queue.
func (u *upgrade) create(s *zkio.Session) next {
	if u.own == nil {
		u.own = u.newNode()
	}
	switch err := u.own.node.CreateIf(s, u.io.node.Path()); {
	case errors.Is(err, zkio.ErrNoNode):
		u.lost(nodeMissed)
	case zkio.ClassOf(err) == zkio.Definite:
		u.refuse(err)
	case err != nil:
		return retry
	}
	return goOn
}

// exhausted reports whether the writer's node has a number that does not order it.
func (u *upgrade) exhausted() bool {
	if u.own == nil {
		return false
	}
	c, _ := queue.ParseName(u.own.node.Name())
	return queue.Exhausted(c.Seq)
}

// look lists the queue, and does what that shows to be the next thing.
func (u *upgrade) look(s *zkio.Session) next {
	t, l := u.io, u.io.round.lock
	u.stopWaiting()
	u.again.Store(false)
	u.listedAt.Store(l.m.now())
	list := &zkio.Read{Path: l.path, What: zkio.ReadChildren}
	own := &zkio.Read{Path: u.own.node.Path(), What: zkio.ReadData} // for its watch
	if u.own.touched.Swap(false) {
		s.Read(list, own)
	} else {
		s.Read(list)
	}
	for _, err := range []error{list.Err, own.Err} {
		switch {
		case errors.Is(err, zkio.ErrNoNode):
			u.own.gone.Store(true) // or the directory, with all nodes; the round's own watch tells
			return goOn
		case err != nil && !errors.Is(err, zkio.ErrNoAuth):
			u.own.touched.Store(true)
			return retry
		}
	}
	q := l.queueOf(list.Names, list.Stat)
	defer q.Free()
	next := q.Upgrade(t.node.Name(), u.own.node.Name())
	switch {
	case !next.Upgradable:
		u.lost(nodeMissed)
	case !next.Writer:
		u.own.gone.Store(true)
	case next.Shield != "":
		return u.shield(s, l.pathOf(next.Shield))
	case next.Wait != "":
		return u.waitFor(s, l.pathOf(next.Wait))
	default:
		u.enter()
	}
	return goOn
}

// shield puts the shield beside the writer at path, in place of the writer's node.
func (u *upgrade) shield(s *zkio.Session, path string) next {
	x := u.newNode()
	err := x.node.ReplaceAtSequence(s, u.own.node, path, u.io.node.Path())
	switch class := zkio.ClassOf(err); {
	case err == nil:
		//holdfast:reached upgrade: puts a shield
		u.own = x
	case errors.Is(err, zkio.ErrNoNode):
		//holdfast:reached upgrade: the writer has gone, no shield
		// Or one of our own nodes. The next list tells.
	case class == zkio.Definite:
		u.refuse(err)
	case class == zkio.NotSent:
		return retry
	default:
		//holdfast:reached upgrade: a shield without an answer
		u.unclear = x.node
		return retry
	}
	return goOn
}

// waitFor watches a reader that is in the way.
func (u *upgrade) waitFor(s *zkio.Session, path string) next {
	a := &ahead{io: u.io, path: path}
	u.inTheWay = a
	u.io.round.lock.m.client.Watch(path, a)
	if !a.arm(s) {
		u.stopWaiting()
		return retry
	}
	u.reader.Store(a)
	return goOn
}

// stopWaiting takes back what waitFor has registered.
func (u *upgrade) stopWaiting() {
	if u.inTheWay != nil {
		u.io.round.lock.unwatch(&watching{ahead: [maxWatched]*ahead{u.inTheWay}})
		u.inTheWay = nil
		u.reader.Store(nil)
	}
}

// enter makes the process exclusive, because no reader is in the way.
func (u *upgrade) enter() {
	t := u.io
	if !t.tenure.lease.InForce() {
		t.round.fail(t.round.lost("hold", leaseOver))
		return
	}
	u.own.path = u.own.node.Path()
	u.mu.Lock()
	if len(u.holds) == 0 {
		u.mu.Unlock()
		return
	}
	u.exclusive.Store(u.own)
	holds := slices.Collect(maps.Values(u.holds))
	for _, x := range holds {
		x.up = true
	}
	u.mu.Unlock()
	if u.own.gone.Load() {
		u.lost(nodeGone) // see PathChanged
		return
	}
	for _, x := range holds {
		x.outcome.Settle(struct{}{}, nil)
	}
	l := t.round.lock
	l.rw.letReadersIn()
	if l.m.debugs() {
		l.m.cfg.Logger.Debug("holdfast: upgraded a lock", "lock", l.Name(), "node", u.own.path)
	}
}

// watchOwn restores the watch of the writer's node of an exclusive process, if that has
// fired.
func (u *upgrade) watchOwn(s *zkio.Session) next {
	if !u.own.touched.Swap(false) {
		return goOn
	}
	_, _, err := s.Get(u.own.path)
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		u.lost(nodeMissed)
	case err != nil:
		u.own.touched.Store(true)
		return retry
	}
	return goOn
}

// clear deletes the nodes that the upgrade has made, or may have made.
func (u *upgrade) clear(s *zkio.Session) error {
	u.stopWaiting()
	if u.unclear != nil {
		if err := u.unclear.Delete(s); err != nil {
			return err
		}
		u.unclear = nil
	}
	if u.own != nil {
		// From here on the node is of no use, even if this fails and a hold wants it again:
		// its watch is gone, and the request may yet be carried out.
		u.own.gone.Store(true)
		if err := u.own.node.Delete(s); err != nil {
			return err
		}
		u.own = nil
	}
	return nil
}

// hasNode reports whether there may be nodes that the upgrade has made.
func (u *upgrade) hasNode() bool { return u.own != nil || u.unclear != nil }

// release deletes the round's node and the upgrade's, at the end of the round. It
// reports how the round's went, or the writer's of an exclusive process.
func (u *upgrade) release(s *zkio.Session) (zkio.Removal, error) {
	u.stopWaiting()
	own := u.own
	if u.unclear != nil || own == nil {
		if err := u.clear(s); err != nil {
			return zkio.RemovedUnknown, err
		}
		return u.io.node.Remove(s)
	}
	how, writers, err := u.io.node.RemoveWith(s, own.node)
	u.broken = u.broken || writers == zkio.RemovedBefore && u.exclusive.Load() != nil
	if err == nil && u.broken {
		how = zkio.RemovedBefore
	}
	return how, err
}

// forget ends the upgrade, whose session is over or cannot be told.
func (u *upgrade) forget() {
	if u.unclear != nil {
		u.unclear.Forget()
	}
	if u.own != nil {
		u.own.node.Forget()
	}
}

// raised is the trait of an upgradable read lock, whose rounds may have an upgrade.
type raised struct{ plain }

func (raised) guid(t *roundIO) func() string {
	return func() string { return queue.UpgradableGUID(t.round.lock.m.newGUID()) }
}

func (raised) held(t *roundIO, s *zkio.Session) next {
	if u := t.raised(); u != nil {
		return u.step(s)
	}
	return goOn
}

func (raised) outlook(t *roundIO, v outlook) outlook {
	if u := t.raised(); u != nil && u.exclusive.Load() != nil {
		v.kind = queue.Write // readers wait, too
	}
	return v
}

func (raised) last(t *roundIO, _ *zkio.Session, f farewell) (farewell, error) {
	if u := t.raised(); u != nil && u.hasNode() {
		f.instead = u.release
	}
	return f, nil
}

func (raised) over(t *roundIO) {
	if u := t.raised(); u != nil && t.node == nil {
		u.forget()
	}
}
