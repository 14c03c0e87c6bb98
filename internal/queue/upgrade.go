// SPDX-License-Identifier: Apache-2.0

package queue

import "math"

// An Upgrade is what an upgradable that is inside, and has put a writer's node at the
// end of the queue, learns from a list: how to become exclusive.
//
// It must wait for the readers before the first writer behind it: they are inside, or
// will be. Readers behind that writer wait for the writer. But if the writer is another
// contender, and gives up, they come in. So a writer's node of the upgradable's own, the
// shield, has to stand before them: beside that writer, with the same number.
//
// Upgradables further back do not count: they wait for this one.
type Upgrade struct {
	Upgradable, Writer bool   // whether the two nodes are in the queue
	Shield             string // the writer beside which the shield is to be put first; "" if none is needed
	Wait               string // the last of the readers that are in the way; "" if none is
}

// Upgrade returns what the queue says about the upgradable that has the nodes of these
// names. The number of its writer's node must not be exhausted; then that of no node
// before it is.
func (q Queue) Upgrade(upgradable, writer string) (u Upgrade) {
	own, found := q.Find(upgradable)
	u.Upgradable = found
	x, found := q.Find(writer)
	u.Writer = found
	if !u.Upgradable || !u.Writer {
		return u
	}
	first := x // of the writers; of several with one number, the upgradable's own
	for _, c := range q.Contenders {
		if !c.Kind.reads() && before(own, c) && before(c, first) {
			first = c
		}
	}
	var last Contender
	for _, c := range q.Contenders {
		switch {
		case !c.Kind.reads(), c.Name == upgradable, c.Kind == Upgradable && before(own, c):
		case before(c, first):
			if u.Wait == "" || Compare(c, last) > 0 {
				u.Wait, last = c.Name, c
			}
		case before(c, x):
			u.Shield = first.Name
		}
	}
	return u
}

// before reports whether a's number comes before b's. Contenders may share one.
func before(a, b Contender) bool { return place(a) < place(b) }

// place returns a contender's number, or, if that is exhausted, one behind all others.
func place(c Contender) int64 {
	if Exhausted(c.Seq) {
		return math.MaxInt64
	}
	return c.Seq
}
