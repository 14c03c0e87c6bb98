// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

// nodes are a queue's nodes in ZooKeeper, and the way to them: all that its producer and its
// consumer share.
type nodes struct {
	name    string // of the queue
	options Options
	access  manager.Access
	dirs    dirs
}

// dirs are the directories of a queue.
type dirs struct{ queue, items, consumers, producers, dead, delayed string }

const (
	prefix     = "qn-" // of an element's name, as ZooKeeper's own recipe has it
	highNumber = 1 << 30
)

func (n *nodes) error(op string, err error) error { return access.Error(n.access, op, n.name, err) }

// makeDirs makes the directories. They remain: an empty queue keeps its numbers.
func (n *nodes) makeDirs(s *zkio.Session) error {
	for _, dir := range []string{n.dirs.items, n.dirs.consumers, n.dirs.producers, n.dirs.dead, n.dirs.delayed} {
		err := access.InDir(n.access, s, n.dirs.queue, func() error { return s.Create(dir, nil, n.access.ACL()) })
		if err := access.Unless(err, zkio.ErrNodeExists); err != nil {
			return err
		}
	}
	return nil
}

// numberOf returns the number of the element at path.
func numberOf(path string) (int, bool) {
	digits, ok := strings.CutPrefix(path[strings.LastIndexByte(path, '/')+1:], prefix)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}

// inOrder returns the elements among names, the first one first.
func inOrder(names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool {
		_, ok := numberOf(name)
		return !ok
	})
	slices.Sort(names) // all have ten digits
	return names
}

// claimName is what the path of an element's claim ends in.
const claimName = "/claim"

// The versions of a claim tell what it is of.
const (
	ofDelay    = 0 // it keeps consumers from an element that is delayed
	ofConsumer = 1 // its data were set as it was made
)

// unclaim returns the operation that deletes a consumer's claim of the element at path. If
// that is gone, and the element is delayed by now, it spares the claim that is there.
func unclaim(path string) zkio.Op { return zkio.DeleteOp(path+claimName, ofConsumer) }

// giveBack returns the operations that delete the claim of the element at path. The
// directory's data change with it: a claim's end does not show among the elements.
func (n *nodes) giveBack(path string) []zkio.Op {
	return []zkio.Op{unclaim(path), n.tells()}
}

// wakes returns the operation that ends the delay of the element of this name: it spares the
// claim of a consumer, which is of another version.
func (n *nodes) wakes(name string) zkio.Op {
	return zkio.DeleteOp(n.dirs.items+"/"+name+claimName, ofDelay)
}

// tells returns the operation that tells those who wait that an element is free.
func (n *nodes) tells() zkio.Op { return zkio.SetOp(n.dirs.items, nil, -1) }

// attempts returns how often the element of this Stat was taken. Cversion counts creations and
// deletions of children. Each change of the element's data says that one claim, or what else
// was made and deleted in place of a claim, was no attempt.
func attempts(st zkio.Stat) int {
	return max(int(uint32(st.Cversion+st.NumChildren)/2)-int(st.Version), 1)
}

// uncounted returns the operation that has one claim of the element at path be no attempt.
func uncounted(s *zkio.Session, path string) (zkio.Op, error) {
	data, stat, err := s.Get(path)
	return zkio.SetOp(path, data, stat.Version), err
}

// burial returns the operations that move the element at path, which this process has
// claimed, to dead/.
func (n *nodes) burial(s *zkio.Session, path string, data []byte) ([]zkio.Op, error) {
	stat, _, err := s.Exists(n.dirs.dead)
	switch {
	case err != nil:
		return nil, err
	case stat.NumChildren >= maxLength:
		return nil, fmt.Errorf("%w: %s has %d elements: requeue or drop some", ErrFull, n.dirs.dead, stat.NumChildren)
	}
	return []zkio.Op{
		unclaim(path), zkio.DeleteOp(path, -1),
		zkio.CreateOp(n.dirs.dead+"/"+prefix, data, n.access.ACL()).Sequential(),
	}, nil
}

// transact carries out operations, of which only the first can be the deletion of a claim. If
// the error wraps ErrNoNode, what the first one is for is not there. What else is in their way it
// removes.
func (n *nodes) transact(s *zkio.Session, ops []zkio.Op) error {
	results, err := s.Multi(ops...)
	which := failed(results)
	switch {
	case errors.Is(err, zkio.ErrNoNode) && which > 0: // a directory was deleted, or never made
		return cmp.Or(n.makeDirs(s), errHindered)
	case errors.Is(err, zkio.ErrBadVersion) && which == 0 && strings.HasSuffix(ops[0].Path(), claimName): // it is delayed, or another client has written to the claim
		stat, there, err := s.Exists(ops[0].Path())
		if err == nil && (!there || stat.EphemeralOwner == 0) {
			err = fmt.Errorf("%w: the element is delayed", zkio.ErrNoNode)
		}
		if err != nil {
			return err
		}
		return n.transact(s, append([]zkio.Op{zkio.DeleteOp(ops[0].Path(), stat.Version)}, ops[1:]...))
	case errors.Is(err, zkio.ErrBadVersion): // another client has changed the element just now
		return errHindered
	case errors.Is(err, zkio.ErrNotEmpty) && which > 0: // other clients' nodes, which nothing protects
		return cmp.Or(removeBelow(s, ops[which].Path(), ops[0].Path()), errHindered)
	}
	return err
}

// removeBelow deletes what is below the node at path, but for the child that is spared.
func removeBelow(s *zkio.Session, path, spared string) error {
	names, _, err := s.Children(path)
	if err != nil {
		return access.Unless(err, zkio.ErrNoNode)
	}
	for _, name := range names {
		child := path + "/" + name
		if child == spared {
			continue
		}
		if err := removeBelow(s, child, ""); err != nil {
			return err
		}
		// If it has got a child just now, the next try sees to that.
		if err := access.Unless(s.Delete(child, -1), zkio.ErrNoNode, zkio.ErrNotEmpty); err != nil {
			return err
		}
	}
	return nil
}

// failed returns which operation of a transaction has made it fail, or -1.
func failed(results []zkio.OpResult) int {
	return slices.IndexFunc(results, func(r zkio.OpResult) bool { return r.Err != nil })
}
