// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager/internal/queue"
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

	mu      sync.Mutex                 // protects what follows; held for a few instructions
	holds   map[upgraded]func()        // upgraded, or waiting for it; the function forgets Hold.onRelease's
	outcome *futures.Promise[struct{}] // of what they wait for; nil: nothing

	// exclusive is the writer's node while the process is exclusive; otherwise nil. Steps
	// write it, with mu held.
	exclusive atomic.Pointer[writerNode]

	listedAt atomic.Int64 // when the queue was last listed, on the manager's clock; see overdue
	again    atomic.Bool  // it must be listed, whatever is known

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
	if ev != zkio.NodeDeleted {
		x.touched.Store(true)
	} else {
		// A step makes the node the exclusive one before it looks for gone. At least one
		// of us sees the other.
		x.gone.Store(true)
		if x.u.exclusive.Load() == x {
			x.u.lost()
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
// context.Cause(ctx); those of [Hold.Grant]; [ErrUpgrade] if the Hold is not one of an
// upgradable read lock, or ctx carries a Hold of the read lock; [ErrSequenceExhausted];
// and what ZooKeeper refused. If the Hold is upgraded already, Upgrade returns nil. During
// [Manager.Shutdown] it goes on waiting: the Hold is still held.
func (h Hold) Upgrade(ctx context.Context) error {
	const op = "upgrade"
	if h.round == nil {
		return errZeroHold
	}
	l, t := h.round.lock, h.round.io()
	if l.kind != queue.Upgradable {
		return h.error(op, fmt.Errorf("%w: this is a Hold of the %s lock; use RWLock.Upgradable", ErrUpgrade, l.kind))
	}
	if err := h.check(op); err != nil {
		return err
	}
	if _, reads := l.rw.reader.heldIn(ctx); reads {
		return h.error(op, ErrUpgrade)
	}
	if ctx.Err() != nil {
		return t.error(op, ctxerr.Of(ctx))
	}

	u, key := t.upgrade(), upgraded{h.slot.handle, h.gen}
	outcome := u.join(key)
	released := make(chan struct{})
	forget := h.slot.onRelease(h.gen, sync.OnceFunc(func() {
		close(released)
		u.leave(key, byRelease)
	}))
	if !u.keep(key, forget) {
		defer forget() // another call of this Hold has kept its own, or it is over
	}
	if outcome == nil {
		return h.check(op)
	}
	t.wake()
	select {
	case <-outcome.Future().Done():
		if _, err, _ := outcome.Future().Poll(); err != nil {
			return h.wrap(op, err)
		}
	case <-released:
	case <-h.Lost():
	case <-ctx.Done():
		u.leave(key, byCaller)
		return t.error(op, ctxerr.Of(ctx))
	}
	return h.check(op)
}

// Downgrade ends what [Hold.Upgrade] of this Hold has begun. The Hold holds the lock as
// before, and other readers can come in again, unless another Hold of this process is
// still upgraded.
//
// Downgrade does not block; a worker of the Manager tells ZooKeeper. It returns nil if the
// process was exclusive until now, [ErrNotGranted] if this Hold is not upgraded, and
// otherwise the error of [Hold.Err].
func (h Hold) Downgrade() error {
	const op = "downgrade"
	if err := h.check(op); err != nil {
		return err
	}
	if u := h.round.io().raised(); u == nil || !u.leave(upgraded{h.slot.handle, h.gen}, byCaller) {
		return h.error(op, fmt.Errorf("%w: this Hold is not upgraded", ErrNotGranted))
	}
	return nil
}

// upgrade returns the round's upgrade, and makes it on first use. The round has been
// granted.
func (t *roundIO) upgrade() *upgrade {
	for {
		if u := t.raised(); u != nil {
			return u
		}
		t.signals().upgrade.CompareAndSwap(nil, &upgrade{io: t, holds: make(map[upgraded]func())})
	}
}

// join adds a hold. It returns what that is to wait for; nil if the process is exclusive.
func (u *upgrade) join(key upgraded) *futures.Promise[struct{}] {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.holds[key]; !known {
		u.holds[key] = nil
	}
	if u.exclusive.Load() != nil {
		return nil
	}
	if u.outcome == nil {
		u.outcome = new(futures.Promise[struct{}])
	}
	return u.outcome
}

// keep notes how a hold that has joined takes back what tells of its release. It reports
// false if that is known already, or the hold has left.
func (u *upgrade) keep(key upgraded, forget func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if known, joined := u.holds[key]; !joined || known != nil {
		return false
	}
	u.holds[key] = forget
	return true
}

// The ways in which a hold leaves an upgrade.
const (
	byCaller  = iota // the round's steps are to see it now
	byRelease        // the hold was released, so the round may end right after
)

// leave takes a hold out, and reports whether it was in.
func (u *upgrade) leave(key upgraded, how int) bool {
	u.mu.Lock()
	forget, joined := u.holds[key]
	delete(u.holds, key)
	u.mu.Unlock()
	switch {
	case !joined:
		return false
	case forget != nil:
		forget()
	}
	if how == byRelease {
		// If this was the round's last hold, one request deletes both nodes in a moment.
		u.io.wakeAfter(releasePause, state.UpgradeTimer, 0)
	} else {
		u.io.wake()
	}
	return true
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
	if u.outcome != nil {
		u.outcome.Settle(struct{}{}, ErrNotGranted)
		u.outcome = nil
	}
	return false
}

// refuse fails all holds that wait.
func (u *upgrade) refuse(err error) {
	u.mu.Lock()
	holds, outcome := u.holds, u.outcome
	u.holds, u.outcome = make(map[upgraded]func()), nil
	u.mu.Unlock()
	for _, forget := range holds {
		if forget != nil {
			forget()
		}
	}
	if outcome != nil {
		outcome.Settle(struct{}{}, u.io.error("upgrade", err))
	}
}

// lost ends the round, because one of the nodes is gone.
func (u *upgrade) lost() { u.io.round.fail(u.io.error("hold", errNodeDeleted)) }

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
// session s. It reports false if a request failed and is to be repeated.
func (u *upgrade) step(s *zkio.Session) (ok bool) {
	t := u.io
	for {
		switch {
		case !u.wanted():
			if u.own == nil && u.unclear == nil {
				return true
			}
			// If a hold wants it again by the time the node is gone, it begins anew.
			if u.clear(s) != nil {
				return false
			}
		case u.exclusive.Load() != nil:
			return u.watchOwn(s)
		case u.unclear != nil || u.own != nil && u.own.gone.Load():
			//holdfast:reached upgrade: begins anew
			if u.clear(s) != nil {
				return false
			}
		case u.exhausted():
			// No shield would work. The numbers of all nodes before it are in order.
			//holdfast:reached numbers run out: an upgrade is refused
			u.refuse(fmt.Errorf("%w: no upgrade is possible", ErrSequenceExhausted))
			if u.clear(s) != nil {
				return false
			}
		case u.own == nil || u.own.node.Path() == "":
			t.round.lock.rw.closeGate(&t.round.lock.rw.reader)
			if !u.create(s) {
				return false
			}
		default:
			if a := u.inTheWay; a != nil && !a.gone.Load() && !a.changed.Load() && !u.own.touched.Load() && !u.again.Load() {
				return true // the watch will tell
			}
			if !u.look(s) {
				return false
			}
		}
		if w := t.round.word.Load(); w.Phase() != state.Retained {
			return true // lost
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
func (u *upgrade) create(s *zkio.Session) (ok bool) {
	if u.own == nil {
		u.own = u.newNode()
	}
	switch err := u.own.node.CreateIf(s, u.io.node.Path()); {
	case errors.Is(err, zkio.ErrNoNode):
		u.lost()
	case zkio.ClassOf(err) == zkio.Definite:
		u.refuse(err)
	case err != nil:
		return false
	}
	return true
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
func (u *upgrade) look(s *zkio.Session) (ok bool) {
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
			return true
		case err != nil && !errors.Is(err, zkio.ErrNoAuth):
			u.own.touched.Store(true)
			return false
		}
	}
	q := queue.List(list.Names, false, queue.NextNumber(list.Stat.Cversion, list.Stat.NumChildren))
	defer q.Free()
	next := q.Upgrade(t.node.Name(), u.own.node.Name())
	switch {
	case !next.Upgradable:
		u.lost()
	case !next.Writer:
		u.own.gone.Store(true)
	case next.Shield != "":
		return u.shield(s, l.path+"/"+next.Shield)
	case next.Wait != "":
		return u.waitFor(s, l.path+"/"+next.Wait)
	default:
		u.enter()
	}
	return true
}

// shield puts the shield beside the writer at path, in place of the writer's node.
func (u *upgrade) shield(s *zkio.Session, path string) (ok bool) {
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
		return false
	default:
		//holdfast:reached upgrade: a shield without an answer
		u.unclear = x.node
		return false
	}
	return true
}

// waitFor watches a reader that is in the way.
func (u *upgrade) waitFor(s *zkio.Session, path string) (ok bool) {
	a := &ahead{io: u.io, path: path}
	u.inTheWay = a
	u.io.round.lock.m.client.Watch(path, a)
	_, _, err := s.Get(path)
	if errors.Is(err, zkio.ErrNoAuth) {
		_, err = a.watchUnreadable(s)
	}
	if errors.Is(err, zkio.ErrNoNode) {
		a.gone.Store(true)
	} else if err != nil {
		u.stopWaiting()
		return false
	}
	return true
}

// stopWaiting takes back what waitFor has registered.
func (u *upgrade) stopWaiting() {
	if u.inTheWay != nil {
		u.io.unwatch(&watching{ahead: [maxWatched]*ahead{u.inTheWay}})
		u.inTheWay = nil
	}
}

// enter makes the process exclusive, because no reader is in the way.
func (u *upgrade) enter() {
	t := u.io
	if !t.tenure.lease.InForce() {
		t.round.fail(t.error("hold", t.lossCause()))
		return
	}
	u.own.path = u.own.node.Path()
	u.mu.Lock()
	if len(u.holds) == 0 {
		u.mu.Unlock()
		return
	}
	u.exclusive.Store(u.own)
	outcome := u.outcome
	u.outcome = nil
	u.mu.Unlock()
	if u.own.gone.Load() {
		u.lost() // see PathChanged
		return
	}
	if outcome != nil {
		outcome.Settle(struct{}{}, nil)
	}
	l := t.round.lock
	l.rw.letReadersIn()
	if l.m.debugs() {
		l.m.cfg.Logger.Debug("holdfast: upgraded a lock", "lock", l.Name(), "node", u.own.path)
	}
}

// watchOwn restores the watch of the writer's node of an exclusive process, if that has
// fired.
func (u *upgrade) watchOwn(s *zkio.Session) (ok bool) {
	if !u.own.touched.Swap(false) {
		return true
	}
	_, _, err := s.Get(u.own.path)
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		u.lost()
	case err != nil:
		u.own.touched.Store(true)
		return false
	}
	return true
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

// raised returns the upgrade of the round; nil if there is none.
func (t *roundIO) raised() *upgrade {
	if s := t.signalled.Load(); s != nil {
		return s.upgrade.Load()
	}
	return nil
}
