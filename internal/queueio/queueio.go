// SPDX-License-Identifier: Apache-2.0

// Package queueio reads the queues of locks from ZooKeeper, for all that look at one: the locks
// themselves, package inspect and the tools. What the names in a list mean is for package queue
// to say.
package queueio

import (
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

// Of returns the queue that a list of a lock's directory shows: the names of its children, and its
// Stat. See [queue.List].
func Of(names []string, dir zkio.Stat, latch bool) queue.Queue {
	return queue.List(names, latch, queue.NextNumber(dir.Cversion, dir.NumChildren))
}

// List lists the directory at path, and returns its queue in the order of turns. A directory that
// is not there has no contenders. List blocks for one request, or for two if numbers have run out:
// see [Number].
func List(s *zkio.Session, path string, latch bool) (queue.Queue, error) {
	names, stat, err := s.Children(path)
	if errors.Is(err, zkio.ErrNoNode) {
		return queue.Queue{}, nil
	} else if err != nil {
		return queue.Queue{}, err
	}
	q := Of(names, stat, latch)
	if err := Number(s, path, &q); err != nil {
		return queue.Queue{}, err
	}
	q.Sort()
	return q, nil
}

// Number finds the transactions that created the contenders whose numbers do not order them. It
// takes the right to read them from ZooKeeper 3.8.4 and 3.9.2 on, and none before. Those that have gone since the list was made leave the queue: no
// process waits for them, and without a transaction they would be the first.
func Number(s *zkio.Session, path string, q *queue.Queue) error {
	if !q.Exhausted {
		return nil
	}
	var reads []*zkio.Read
	var at []int // among the contenders
	for i, c := range q.Contenders {
		if queue.Exhausted(c.Seq) {
			reads, at = append(reads, &zkio.Read{Path: path + "/" + c.Name, What: zkio.ReadStat}), append(at, i)
		}
	}
	s.Read(reads...)
	gone := make(map[string]bool)
	for i, read := range reads {
		c := &q.Contenders[at[i]]
		if errors.Is(read.Err, zkio.ErrNoNode) {
			gone[c.Name] = true
		} else if read.Err != nil {
			return read.Err
		}
		c.Czxid = read.Stat.Czxid
	}
	q.Contenders = slices.DeleteFunc(q.Contenders, func(c queue.Contender) bool { return gone[c.Name] })
	return nil
}

// First returns the place of the first contender that is still there. It calls look for one after
// the other, which asks for its node and fails with ErrNoNode if that is gone. The place is -1 if
// the queue has to be listed again.
//
// A node that has gone between the list and the look at it says nothing about the next in the
// list, but that no contender can have come in ahead of it. So the next can be the first, unless
// what may take the place of the one that is gone is missing in the list.
func First(list []queue.Contender, look func(queue.Contender) error) (place int, err error) {
	for i, c := range list {
		if err := look(c); !errors.Is(err, zkio.ErrNoNode) {
			return i, err
		}
		if Returns(c) {
			break
		}
	}
	return -1, nil
}

// Returns reports whether a list that has c may lack what comes in c's place when c is gone: a
// node of the same name, or the read of a writer that was downgraded.
func Returns(c queue.Contender) bool {
	return c.MayBeReplaced() || !c.GUID || queue.Exhausted(c.Seq)
}
