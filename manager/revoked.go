// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// revoke closes the gate to newcomers and tells the holders. Holders hear of the first
// revocation only. For a round that waits, only a step calls it. The caller gives what revoke
// returns to revokerLeft when the process that revokes does not wait any longer.
func (t *incumbent) revoke(r Revocation) *revoking {
	now := &revoking{Revocation: r}
	t.signals().latest.Store(now)
	t.signals().revokers.Add(1) // before the gate is closed: see openGate
	// Before the holders learn of it: none of them may see a newcomer enter then. The
	// grant closes the gate of a round that waits: callers that come until then are in
	// line with it, and a TryLock in a later round would not learn what is ahead.
	t.round.flags.Clear(state.GateOpening)
	if t.round.word.Load().Phase() != state.Fetching {
		t.round.flags.Set(state.GateClosed)
	}
	if t.signals().revoked.Settle(&r, nil) {
		//holdfast:reached hold: revoked
		l := t.round.lock
		l.m.cfg.Logger.Info("holdfast: another process asks for the lock; its holders are told",
			"lock", l.Name(), "from", r.From.String(), "reason", fmt.Sprintf("%q", cut(r.Reason)))
		l.m.feed.revoked(t.io, r)
		t.tellMerged(func(n *share) { n.promises().signals().revoked.Settle(&r, nil) })
		t.tellMutex()
	}
	t.round.endIdle()
	return now
}

// Revoked returns a channel that closes when a process asks this one to give the lock
// up, by [Lock.Revoke] or by Apache Curator's Revoker. [Hold.Revocation] then says which
// process asks, why, and how long it waits.
//
// A revocation takes nothing away. The holders keep the lock, Lost stays open, and no
// context ends: each holder decides whether to release its Hold, and when. But newcomers
// of this process now wait for the next grant, behind the processes that are waiting:
// see [ErrYielding]. They enter again if Lock.Revoke returns before the lock was given up.
// Curator's Revoker does not wait, and closes the lock to them for Config.Tenure, at least
// 100 ms.
//
// All holders of the lock in this process share the channel. It does not close once the
// lock was released or lost. It is nil for the zero Hold. Revoked does not block.
func (h Hold) Revoked() <-chan struct{} {
	if h.share == nil {
		return nil
	}
	return h.promises().signals().revoked.Future().Done()
}

// Revocation returns the revocation that closed [Hold.Revoked], and true. If the lock was
// revoked more than once under this grant, that is the first. If Revoked is open, it
// returns false. Revocation does not block.
func (h Hold) Revocation() (Revocation, bool) {
	if h.share == nil {
		return Revocation{}, false
	}
	return h.promises().revocation()
}

// curatorRevokes is what Apache Curator's Revoker writes into the node of a holder.
const curatorRevokes = "__REVOKE__"

// revokedByCurator takes the data of the round's own node. If Curator's Revoker wrote
// them, it revokes the round and restores what the node said: otherwise other processes
// could no longer read there who holds the lock.
func (t *incumbent) revokedByCurator(s *zkio.Session, data []byte, stat zkio.Stat) error {
	if string(data) != curatorRevokes {
		return nil
	}
	l := t.round.lock
	r := t.revoke(Revocation{Reason: "revoked by Apache Curator's Revoker"})
	// It does not say whether it waits. If it does, its contender closes the gate again.
	t.revokerLeavesAfter(max(l.m.cfg.Tenure, defaultTenure), r)
	_, err := s.Set(t.node.Path(), l.m.nodeDataAt(l.kind.String(), time.Unix(0, stat.Ctime*int64(time.Millisecond))), stat.Version)
	if class := zkio.ClassOf(err); err == nil || class == zkio.Definite {
		return nil // refused, or the node has changed again, which the watch will report
	}
	return err
}

// revokerLeft notes that the process that has asked for r does not wait any longer.
func (t *incumbent) revokerLeft(r *revoking) {
	r.left.Store(max(1, t.round.lock.m.now()))
	t.signals().revokers.Add(-1)
	t.io.wake()
}

// revokerLeavesAfter is for a revoker that does not say how long it waits.
func (t *incumbent) revokerLeavesAfter(d time.Duration, r *revoking) {
	t.round.lock.m.client.SubmitAfter(d, zkio.Fetches, task(func(*zkio.Session) { t.revokerLeft(r) }))
}
