// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A Creation is one of the nodes that [Session.CreateAll] creates together.
type Creation struct {
	// Node is the node to create, as by [Node.CreateAndCount].
	Node *Node
	// Old, if not nil, is deleted in the same transaction. It is the session's and is
	// there, and Node is new: see [Node.Replace].
	Old *Node
	// Count has the transaction write Node's directory, too, whose Stat then tells how
	// many children it has. It takes the right to write the directory, and destroys its
	// data.
	Count bool

	// What CreateAll has found out.
	Children int   // how many children the directory had at that very moment, Node included; 0: not known
	Watched  bool  // the server has a watch for Node
	Err      error // why this creation made the transaction fail; nil if it did not
}

// ops appends the operations of c.
func (c *Creation) ops(ops []Op) []Op {
	if c.Old != nil {
		ops = append(ops, DeleteOp(c.Old.path, -1))
	}
	ops = append(ops, c.Node.op(c.Node.create.base(), jute.FlagEphemeralSequential))
	if c.Count {
		ops = append(ops, SetOp(c.Node.create.dir, nil, -1))
	}
	return ops
}

// CreateAll creates several nodes in one transaction: all of them or none, and no other
// client's node comes in between. If earlier attempts had an unknown outcome, CreateAll
// finds that out first. If it finds all nodes there, it creates none. If it finds some,
// another client has deleted the others: it deletes those, and creates all.
//
// The reads are sent right behind the transaction, as by [Node.CreateAndCount]. CreateAll
// leaves watches for the nodes if it had to read them: see Creation.Watched.
//
// After an error the nodes may be there or not, as after an error of [Node.Create], and no
// Czxid is known: call CreateAll again, or each node's Delete. If the transaction was
// refused, nothing was changed, and the Err of one Creation says why. Of an Old whose
// deletion was refused or never sent, the watch may be gone: read it. If the outcome is not
// known, call Old's Delete before anything else.
func (s *Session) CreateAll(all []*Creation, behind ...*Read) error {
	err := s.createAll(all, behind)
	if err != nil { // some of the nodes may be there, but not all by one transaction
		for _, c := range all {
			c.Node.czxid = 0
		}
	}
	return err
}

func (s *Session) createAll(all []*Creation, behind []*Read) error {
	notSent(behind)
	there := 0
	more := int64(0) // of the nodes before: see fits
	for _, c := range all {
		c.Children, c.Watched, c.Err = 0, false, nil
		if c.Old != nil && (c.Node.session != nil || c.Old.session != s || c.Old.state != nodeThere) {
			return badArguments("create", c.Node.where(), "it is not new, or the one that it replaces is not surely there")
		}
		if c.Old == nil {
			if err := c.Node.fits(s, more); err != nil {
				return err
			}
			more += c.Node.pathBytes()
		}
		found, err := c.Node.prepare(s)
		if err != nil {
			return err
		}
		if found {
			c.Watched = true // it was read
			there++
		}
	}
	if there == len(all) {
		return nil
	}
	var ops []Op
	for _, c := range all {
		if c.Watched {
			if err := c.Node.Delete(s); err != nil {
				return err
			}
			c.Watched = false
			if _, err := c.Node.prepare(s); err != nil { // it belongs to no session now
				return err
			}
		}
		if c.Old != nil {
			c.Old.release()
		}
		c.Node.send()
		ops = c.ops(ops)
	}
	results, err := s.multiAndRead("create", all[0].Node.where(), behind, ops...)
	var zxid int64 // of the transaction
	for _, c := range all {
		var own []OpResult
		if n := len(c.ops(nil)); len(results) >= n {
			own, results = results[:n], results[n:]
		}
		if stat := c.done(own, err); stat.Mzxid != 0 {
			zxid = stat.Mzxid
		}
	}
	if err != nil {
		return err
	}
	if zxid == 0 {
		return lookAtAll(s, all)
	}
	for _, c := range all {
		c.Node.czxid = zxid
	}
	return nil
}

// done notes the outcome of the transaction: err, and the results of c's operations, if
// there are any. It returns the directory's Stat, if that was counted.
func (c *Creation) done(results []OpResult, err error) (dir Stat) {
	c.Node.to(createEvent(err))
	for _, r := range results {
		if r.Err != nil {
			c.Err = r.Err
		}
	}
	if old := c.Old; old != nil {
		switch {
		case err == nil:
			old.Forget()
			results = results[1:]
		case mayHaveHappened(err):
			old.to(deleteLost)
		default:
			old.found(old.path)
		}
	}
	if err != nil {
		return dir
	}
	c.Node.found(results[0].Path)
	if c.Count {
		dir = results[1].Stat
		c.Children = int(dir.NumChildren)
	}
	return dir
}

// lookAtAll reads the nodes, which were created together, in one packet. That leaves
// watches for them, and tells which transaction created them.
func lookAtAll(s *Session, all []*Creation) error {
	reads := make([]*Read, len(all))
	for i, c := range all {
		reads[i] = &Read{Path: c.Node.path, What: ReadData}
	}
	s.Read(reads...)
	for i, c := range all {
		switch {
		case errors.Is(reads[i].Err, ErrNoAuth):
			if err := c.Node.look(); err != nil {
				return err
			}
		case errors.Is(reads[i].Err, ErrNoNode):
			c.Node.to(vanished)
			return reads[i].Err
		case reads[i].Err != nil:
			return reads[i].Err
		default:
			c.Watched = true
			c.Node.czxid = reads[i].Stat.Czxid
		}
	}
	return nil
}

// RemoveAll deletes nodes of this session in one transaction, and reports whether it did:
// each of them was there until then. Otherwise call each node's Remove, which finds out
// what became of it.
func (s *Session) RemoveAll(nodes ...*Node) bool {
	ops := make([]Op, len(nodes))
	for i, n := range nodes {
		if n.session != s || n.state != nodeThere {
			return false
		}
		ops[i] = DeleteOp(n.path, -1)
	}
	if len(nodes) == 0 || s.Err() != nil {
		return false
	}
	for _, n := range nodes {
		n.release()
	}
	_, err := s.multi("delete", nodes[0].path, ops...)
	for _, n := range nodes {
		switch {
		case err == nil:
			n.Forget()
		case mayHaveHappened(err):
			n.to(deleteLost)
		}
	}
	return err == nil
}
