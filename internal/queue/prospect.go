// SPDX-License-Identifier: Apache-2.0

package queue

import "strings"

// A Prospect is what a waiter knows about the contenders ahead that exclude it. If
// it is Complete and has no Known, nothing is ahead.
//
// Only a downgraded read, at a write's number, can enter the queue ahead of a
// waiter, and what an upgradable puts there (see [Queue.Upgrade]). So a waiter that
// knows every contender ahead, and sees no upgradable among them, need not list the
// queue when its turn comes: once all of them are gone it owns the lock.
//
// A waiter with more than two ahead watches the two nearest, and lists the queue
// again when the next but one has gone: the nearest has just been granted the lock
// then, so there is time to list, and the nearest one's deletion is the grant.
type Prospect struct {
	Ahead int32 // how many there are; waiters are many, so this is small
	// Complete reports that when all of Known are gone, nothing is ahead. If it is
	// false, the queue must be listed when one of them goes.
	Complete bool

	// Known are those of them that the waiter watches, the nearest last: the two
	// nearest, or only one if the other's deletion would tell nothing.
	Known []Contender
}

// mayReturn reports whether c may be ahead of a contender of the given kind again
// after its node was deleted: as a read that a downgrade put in a write's place,
// or as a new node with the same name if names can recur.
func mayReturn(c Contender, kind Kind) bool { return c.Kind == Write && kind != Read || !c.GUID }

// Prospect returns what the queue says about the contenders ahead of the one
// called name, which is of the given kind. found is false if that one is not in
// the queue.
func (q Queue) Prospect(name string, kind Kind) (p Prospect, found bool) {
	own, found := q.Find(name)
	if !found {
		return p, false
	}
	var nearest, second Contender
	upgradable := false // one is ahead
	for _, c := range q.Contenders {
		if Compare(c, own) >= 0 {
			continue
		}
		upgradable = upgradable || c.Kind == Upgradable
		if !Excludes(c.Kind, kind) {
			continue
		}
		switch p.Ahead++; {
		case p.Ahead == 1 || Compare(c, nearest) > 0:
			nearest, second = c, nearest
		case p.Ahead == 2 || Compare(c, second) > 0:
			second = c
		}
	}
	switch orders := !q.Exhausted && !mayReturn(nearest, kind); {
	case p.Ahead == 0:
		p.Complete = true
	case p.Ahead == 1 || !orders || p.Ahead > 2 && !Excludes(second.Kind, nearest.Kind):
		// If the nearest may return, the queue must be listed when it has gone, whatever
		// else is known. And if the two hold the lock together, the next but one may well
		// go last.
		p.Known, p.Complete = []Contender{nearest}, p.Ahead == 1 && orders
	default:
		p.Known, p.Complete = []Contender{second, nearest}, p.Ahead == 2 && !mayReturn(second, kind)
	}
	// An upgradable ahead may by now have put a writer's node in the way, at the number of
	// one of those that are watched, or have readers beside it.
	p.Complete = p.Complete && (p.Ahead == 0 || !upgradable)
	return p, true
}

// A Tail is the end of a queue, as a contender at its head saw it. Its owner can
// leave the queue and enter it again at the end by one transaction, without
// listing it in between: the sequence numbers tell how many contenders, at most,
// have come since.
type Tail struct {
	last   Contender
	before Contender // the one before last; zero if there was none
	n      int32     // how many are behind the head and excluded by it
}

// Len returns how many contenders the tail has, those behind the head.
func (t *Tail) Len() int { return int(t.n) }

// Tail returns the end of the queue behind the contender called name, which is
// of the given kind; nil if no contender is behind it, if the numbers do not tell
// the order, or if another one is upgradable: see [Prospect].
func (q Queue) Tail(name string, kind Kind) *Tail {
	own, found := q.Find(name)
	if q.Exhausted || !found {
		return nil
	}
	var t Tail
	for _, c := range q.Contenders {
		if c.Kind == Upgradable && c.Name != name {
			return nil
		}
		if Compare(c, own) <= 0 {
			continue
		}
		if Excludes(kind, c.Kind) {
			t.n++
		}
		switch {
		case t.last.Name == "" || Compare(c, t.last) > 0:
			t.last, t.before = c, t.last
		case t.before.Name == "" || Compare(c, t.before) > 0:
			t.before = c
		}
	}
	// A child made by hand can carry a number that has not been given out yet.
	if t.last.Name == "" || t.last.Seq >= q.Next {
		return nil
	}
	t.last.Name, t.before.Name = strings.Clone(t.last.Name), strings.Clone(t.before.Name) // not the whole list
	return &t
}

// Prospect returns what the tail says about the contenders ahead of own, which
// entered the queue in the transaction that deleted the head. ok is false if it
// takes a list to find out.
//
// Each child that is created uses up one number, so own's number says how many
// have come since the tail was seen, at most: not every child is a contender, or
// still there.
func (t *Tail) Prospect(own Contender) (p Prospect, ok bool) {
	mutexes := own.Kind == Exclusive && t.last.Kind == Exclusive
	since := own.Seq - t.last.Seq - 1
	switch {
	case Exhausted(own.Seq) || !Excludes(t.last.Kind, own.Kind):
		return p, false
	case since == 0 && mutexes && t.n > 1 && t.before.Kind == Exclusive && !mayReturn(t.last, own.Kind):
		return Prospect{Ahead: t.n, Known: []Contender{t.before, t.last},
			Complete: t.n == 2 && !mayReturn(t.before, own.Kind)}, true
	case since == 0:
		return Prospect{Ahead: t.n, Known: []Contender{t.last},
			Complete: t.n == 1 && !mayReturn(t.last, own.Kind)}, true
	case since == 1 && mutexes:
		// If the one that came since is a contender, last is the next but one.
		return Prospect{Ahead: t.n + 1, Known: []Contender{t.last}}, true
	}
	return p, false
}
