// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// An element that was returned with a delay stays among the items. It has a claim that is
// persistent, so that it is taken for consumers of any kind, and an entry in the directory
// delayed/, whose name says when it is due. One transaction makes both, and one deletes both, by
// whichever consumer sees first that the time has come.
//
// The time is that of the clock of ZooKeeper's leader, which stamps every transaction. What
// this machine's wall clock shows does not matter.

const (
	// longestDelay keeps the times in the names of entries within their digits.
	longestDelay = 100 * 365 * 24 * time.Hour

	wakeTogether = 50 // elements whose time has come are woken by one consumer at most
)

// ReturnAfter gives the element back, as Return does, and no consumer can take it before d has
// passed, whatever becomes of this process. Then it is where it was in the queue, and counts as
// one that was taken once more. Until then it counts for Options.MaxLength.
//
// ZooKeeper's clock decides, which is that of its leader. An element is not taken before its
// time, and is free within a moment after it if a consumer waits, or within a second if all
// have work; if none is there, when one comes. If ZooKeeper's clock is set, or another server
// becomes the leader whose clock shows another time, the delay differs by as much. With a d
// that is not positive ReturnAfter is Return. It blocks, and fails, as Ack does.
func (e *Element) ReturnAfter(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return e.Return(ctx)
	}
	due := e.q.clock.latest().Add(min(d, longestDelay))
	return e.settle(ctx, opDelay, func(s *zkio.Session) ([]zkio.Op, error) {
		// What is made and deleted beside a claim is no attempt.
		uncount, err := uncounted(s, e.path)
		entry := e.q.dirs.delayed + "/" + entryName(due, e.name)
		acl := e.q.access.ACL()
		return append(e.q.giveBack(e.path),
			zkio.CreateOp(e.path+claimName, nil, acl), zkio.CreateOp(entry, nil, acl), uncount), err
	})
}

// entryName returns the name of the entry of an element that is due then.
func entryName(due time.Time, name string) string {
	return fmt.Sprintf("%014d-%s", due.UnixMilli(), name)
}

// An entry of an element that was returned with a delay.
type entry struct {
	name    string // of the entry
	element string
	due     time.Time // by ZooKeeper's clock
}

// entriesIn returns the entries among names, the first due first.
func entriesIn(names []string) (entries []entry) {
	slices.Sort(names)
	for _, name := range names {
		ms, element, _ := strings.Cut(name, "-")
		due, err := strconv.ParseInt(ms, 10, 64)
		if _, ok := numberOf(element); ok && err == nil {
			entries = append(entries, entry{name, element, time.UnixMilli(due)})
		}
	}
	return entries
}

// wake makes the elements free whose time has come, and returns those that are delayed yet, and
// when the first of them is due by this process's clock: the zero time if there is none.
func (q *consumer) wake(s *zkio.Session, seat string, names []string) (delayed map[string]bool, due time.Time, err error) {
	entries := entriesIn(names)
	if len(entries) == 0 {
		return nil, time.Time{}, nil
	}
	if q.clock.old() { // any write will do
		sent := time.Now()
		stat, err := s.Set(seat, q.access.Describe("consumer"), -1)
		if errors.Is(err, zkio.ErrNoNode) {
			err = errHindered
		}
		if err != nil {
			return nil, time.Time{}, err
		}
		q.clock.set(stat.Mtime, sent)
	}
	now := q.clock.earliest()
	at := slices.IndexFunc(entries, func(e entry) bool { return e.due.After(now) })
	if at < 0 {
		at = len(entries)
	}
	woken := entries[:min(at, wakeTogether)]
	if err := q.wakeAll(s, woken); err != nil {
		return nil, time.Time{}, err
	}
	delayed = make(map[string]bool)
	for _, e := range entries[len(woken):] {
		delayed[e.element] = true
	}
	if len(woken) < len(entries) {
		due = time.Now().Add(entries[len(woken)].due.Sub(now))
	}
	return delayed, due, nil
}

// wakeAll wakes all of them together, or one by one if another consumer has woken some.
func (q *consumer) wakeAll(s *zkio.Session, entries []entry) error {
	if len(entries) == 0 {
		return nil
	}
	var ops []zkio.Op
	for _, e := range entries {
		ops = append(ops, zkio.DeleteOp(q.dirs.delayed+"/"+e.name, -1), q.wakes(e.element))
	}
	_, err := s.Multi(append(ops, q.tells())...)
	if zkio.ClassOf(err) != zkio.Definite {
		return err
	}
	for i := range entries {
		results, err := s.Multi(ops[2*i], ops[2*i+1], q.tells())
		if err != nil && failed(results) == 1 { // an administrator has been here
			err = s.Delete(q.dirs.delayed+"/"+entries[i].name, -1)
		}
		if zkio.ClassOf(err) != zkio.Definite && err != nil {
			return err
		}
	}
	return nil
}

// wakeOrphans makes the elements free whose claims are persistent and belong to no entry: an
// administrator has deleted it, or another client has made the claim. The next list has them.
func (q *consumer) wakeOrphans(s *zkio.Session, names []string) error {
	for _, name := range names {
		_, err := s.Multi(q.wakes(name), q.tells())
		if err != nil && zkio.ClassOf(err) != zkio.Definite {
			return err
		}
	}
	return nil
}
