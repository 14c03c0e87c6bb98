// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

// A trait is what a round does besides that of a plain exclusive lock. The engine's
// steps call it at certain moments of the round's life, and know none by name:
//
//	paired   a lock of an [RWLock]: readers enter beside their own writer, and each lets the others' turn come (paired.go)
//	raised   an upgradable read lock: a held round may become exclusive (upgrade.go)
//	robust   a lock that reports abandonment: a node beside its own says that it is held (abandoned.go)
//	idling   a lock that lingers when its last holder has left (linger.go)
//	heir     a lock that was waited for: its last holder may have been killed (takeover.go)
//	placed   a round of a [Manager.LockAll], whose group does its I/O (place.go)
//
// A trait has no state of its own, so one value serves all rounds. It is called by the round's
// steps, where nothing else is said, and embeds plain for the moments that it leaves alone.
//
// A lock of a new kind needs a row of the kinds in package queue, with a mark for the names of its
// nodes or a form of their guids (whose first half must stay as it is: see identity.owns); a row in
// abilities; a function of Manager that opens it; and a trait. What the engine takes for granted:
// contenders of two kinds exclude each other or not, whatever stands between them
// (queue.Excludes), and a round waits for two contenders at most (maxWatched). So a lock that
// several processes can hold at a time is no trait: the gate and the outlook would have to know
// which of the contenders behind stand beside the round. Package semaphore has that, without rounds.
type trait interface {
	// guid returns what makes the unique part of the name of a node of the round, or nil.
	guid(t *roundIO) func() string

	// before is called when the turn of a pending round has come. The result goOn has it queue,
	// and atFront says that no contender is ahead of its node.
	before(t *roundIO, s *zkio.Session) next

	// listed is called with a list of the queue of a pending round, and with what that says of
	// the contenders ahead. The round waits until those are gone that listed returns.
	listed(t *roundIO, q queue.Queue, p queue.Prospect) queue.Prospect

	// first is called when nothing is ahead of the round's node. n is the tenure that is to
	// begin, and goOn has it begin. Otherwise first is called again in a later step.
	first(t *roundIO, s *zkio.Session, n *tenure) next

	// granted is called when the round was granted, and its callers can know it.
	granted(t *roundIO)

	// held is called in each step of a granted round, with its node's session. The result
	// sleep leaves the gate as it is.
	held(t *roundIO, s *zkio.Session) next

	// outlook returns v, or what else a look at the contenders behind the round takes into
	// account.
	outlook(t *roundIO, v outlook) outlook

	// keepsOut reports whether there is a reason to keep the gate closed.
	keepsOut(t *roundIO) bool

	// ended is called by the goroutine that has ended the round by force, with err.
	ended(t *roundIO, err *Error)

	// last is called when the round's node is to be deleted, until it is gone. It returns f, or
	// how else that is done.
	last(t *roundIO, s *zkio.Session, f farewell) (farewell, error)

	// over is called when the round's release has settled. The round has no node any more,
	// unless ZooKeeper refuses to delete it: then over is called for each refusal, and in the
	// end.
	over(t *roundIO)

	// wake wakes the round by way of queue q and returns true, or leaves that to the engine.
	// Any goroutine may call it. It must not block.
	wake(t *roundIO, q zkio.Queue) bool
}

// traits returns the traits of the round.
func (t *roundIO) traits() []trait {
	if t.place() != nil {
		return traitsOfPlace
	}
	return abilities[t.round.lock.kind].traits
}

// An outlook is what a look at the contenders behind a round takes into account.
type outlook struct {
	kind queue.Kind // a contender waits for the round if this kind excludes it …
	own  bool       // … even if it belongs to this process
	open bool       // the gate stays open, whichever contender waits
}

func (t *roundIO) outlook() outlook {
	v := outlook{kind: t.round.lock.kind}
	for _, tr := range t.traits() {
		v = tr.outlook(t, v)
	}
	return v
}

// passesOver reports whether the contender called name is of no interest. It is if it belongs to
// this process, whose readers and writer make way for each other by themselves.
func (v outlook) passesOver(l *Lock, name string) bool { return !v.own && l.m.shares(name) }

// A farewell is how a round deletes its node.
type farewell struct {
	along   []zkio.Op // in the same transaction …
	refused func()    // … unless ZooKeeper refuses that, and deletes the node alone; called then

	alone   bool                                        // the same request does not create the next round's node
	instead func(s *zkio.Session) (zkio.Removal, error) // deletes the node in another way; nil: does not
}

func (t *roundIO) farewell(s *zkio.Session) (f farewell, err error) {
	for _, tr := range t.traits() {
		if f, err = tr.last(t, s, f); err != nil {
			return f, err
		}
	}
	return f, nil
}

// plain does nothing at any moment.
type plain struct{}

func (plain) guid(*roundIO) func() string                                       { return nil }
func (plain) before(*roundIO, *zkio.Session) next                               { return goOn }
func (plain) listed(_ *roundIO, _ queue.Queue, p queue.Prospect) queue.Prospect { return p }
func (plain) first(*roundIO, *zkio.Session, *tenure) next                       { return goOn }
func (plain) granted(*roundIO)                                                  {}
func (plain) held(*roundIO, *zkio.Session) next                                 { return goOn }
func (plain) outlook(_ *roundIO, v outlook) outlook                             { return v }
func (plain) keepsOut(*roundIO) bool                                            { return false }
func (plain) ended(*roundIO, *Error)                                            {}
func (plain) last(_ *roundIO, _ *zkio.Session, f farewell) (farewell, error)    { return f, nil }
func (plain) over(*roundIO)                                                     {}
func (plain) wake(*roundIO, zkio.Queue) bool                                    { return false }
