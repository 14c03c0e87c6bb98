// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A queuer is a roundIO in the role of one that has a node, or is to have one. It gets the node in
// one of three ways: at the end of the queue (createNode), beside this process's own write node
// (paired.enterBeside), or from the round before it, which has created it in the request that
// deleted its own (see handed).
type queuer roundIO

func (t *roundIO) queuer() *queuer { return (*queuer)(t) }

// A nodeStage is how far a round is with its node. The last column says what a step of a pending
// round does at each stage, and which stage comes of it:
//
//	none      it has asked for none, or the last one is surely gone   creates one: unsure, then queued
//	unsure    it has asked for one, and has no answer                 creates it again, which finds out
//	queued    it was there when last seen                             waits, and is granted the lock
//	leaving   it has gone, or is at the wrong place                   deletes it, until it is surely gone: none
//	orphaned  its session is over, and it goes with that              forgets it: none
//	later     its session is a later one than the worker's            leaves it to another worker
//
// A round that is granted has a node that is queued, orphaned or later. One that is over
// deletes its node at any stage: see release.
type nodeStage uint8

const (
	nodeNone nodeStage = iota
	nodeUnsure
	nodeQueued
	nodeLeaving
	nodeOrphaned
	nodeLater
)

// stage returns the stage of the round's node, for a worker with session s.
func (t *queuer) stage(s *zkio.Session) nodeStage {
	if t.node == nil {
		return nodeNone
	}
	switch in := t.node.Session(); {
	case in != nil && in != s && in.Err() == nil:
		return nodeLater
	case in != nil && in != s:
		return nodeOrphaned
	case t.leaving:
		return nodeLeaving
	case t.node.Czxid() == 0:
		return nodeUnsure
	}
	return nodeQueued
}

// newNode describes a node for the round; nothing is sent.
func (t *queuer) newNode() *zkio.Node {
	l := t.round.lock
	guid := l.m.newGUID
	for _, tr := range t.io.traits() {
		if own := tr.guid(t.io); own != nil {
			guid = own
		}
	}
	mark := l.kind.Mark()
	if l.latch {
		mark = queue.LatchMark
	}
	return zkio.NewNode(l.path, mark, guid, l.m.nodeData(l.kind.String()), l.m.cfg.ACL, t.io)
}

// hasNode makes n the round's node, which exists or is about to.
func (t *queuer) hasNode(n *zkio.Node) {
	// Before the round waits for anything: what ends sessions must find it.
	t.round.lock.m.active.add(t.io)
	t.node = n
}

// createNode creates the round's node at the end of the queue, and the directory
// if there is none.
func (t *queuer) createNode(s *zkio.Session) next {
	l := t.round.lock
	l.m.box.arm(s)
	if t.node == nil {
		t.hasNode(t.newNode())
	}
	switch l.directory.Load() {
	case dirUnknown:
		return t.lookAtDirectory(s)
	case dirEmpty, dirShared:
		along := l.listAlong(s, nil)
		children, err := t.node.CreateAndCount(s, along.reads()...)
		switch {
		case errors.Is(err, zkio.ErrNoNode):
			l.directory.Store(dirUnknown)
			return again
		case errors.Is(err, zkio.ErrNoAuth):
			l.directory.Store(dirPlain)
			return again
		case err != nil:
			return t.io.failed(err)
		}
		t.attempts = 0
		t.io.teller().queued()
		t.watched, t.seenAt = children == 0, l.m.now()
		if children == 0 {
			return again // an earlier attempt has made it
		}
		l.counted(children)
		if children == 1 {
			return goOn
		}
		if shown := along.listed(t.seenAt); shown != nil {
			t.io.meet().listed = shown
		}
		return again
	}
	err := t.node.Create(s)
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		l.directory.Store(dirUnknown)
		return again
	case err != nil:
		return t.io.failed(err)
	}
	t.attempts = 0
	t.io.teller().queued()
	t.watched = true
	return again
}

// lookAtDirectory finds out whether the lock's directory is there and empty, and
// creates it if it is missing.
func (t *queuer) lookAtDirectory(s *zkio.Session) next {
	data, _, err := s.Get(t.round.lock.path)
	return t.sawDirectory(s, data, err)
}

// sawDirectory is lookAtDirectory after the directory was read, with this result.
func (t *queuer) sawDirectory(s *zkio.Session, data []byte, err error) next {
	l := t.round.lock
	if err == nil {
		l.m.checkDirectory(s, l.path)
	}
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		if err := s.EnsureDir(l.path, l.m.cfg.ACL); err != nil {
			return t.io.failed(err)
		}
		if t.attempts.More() > 3 {
			return retry // an empty container can go as soon as it is made
		}
	case err == nil && len(data) == 0:
		l.directory.Store(dirEmpty)
	case err == nil, errors.Is(err, zkio.ErrNoAuth):
		l.directory.Store(dirPlain)
	default:
		return t.io.failed(err)
	}
	return again
}

// leaveQueue makes sure that the round's node is gone: it has gone while the round waited, or
// another place in the queue is better. Then the round queues again.
//
// It may take several tries to learn that the node is gone. Meanwhile it must not
// be used for anything else: a deletion whose answer was lost may be on its way.
func (t *queuer) leaveQueue(s *zkio.Session) next {
	if err := t.node.Delete(s); err != nil {
		return t.io.failed(err)
	}
	t.nodeGone()
	if t.requeues.More() > 3 {
		return retry // it is deleted as soon as it is made
	}
	return again
}

// nodeGone notes that the round no longer has a node, nor a place in the queue.
func (t *queuer) nodeGone() {
	t.io.waiter().unwatchAhead()
	t.io.whereabouts().clear()
	t.node = nil
	if t.neighbours != nil {
		t.neighbours.tail, t.neighbours.listed = nil, nil
	}
	t.leaving, t.watched = false, false
	t.events.Take(state.OwnTouched | state.OwnDue)
}
