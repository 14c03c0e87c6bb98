// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"testing"
)

// contenderOf returns a contender as a test writes it: x5 is a mutex with the
// number 5, r5 a read, w5 a write.
func contenderOf(t *testing.T, mark string) Contender {
	t.Helper()
	kind := map[byte]Kind{'x': Exclusive, 'r': Read, 'w': Write, 'u': Upgradable}[mark[0]]
	var seq int
	if _, err := fmt.Sscan(mark[1:], &seq); err != nil || kind == 0 {
		t.Fatalf("%q is no contender", mark)
	}
	guid := hex32
	if kind == Upgradable {
		guid = UpgradableGUID(hex32)
	}
	c, ok := ParseName(fmt.Sprintf("_c_%s-%s%010d", guid, kind.Mark(), seq))
	if !ok || c.Kind != kind {
		t.Fatalf("%q does not parse", mark)
	}
	return c
}

// describe writes a prospect as the tests do: how many are ahead, which ones are
// watched, and what comes when those are gone, or one of them.
func describe(p Prospect) string {
	if p.Ahead == 0 {
		return "enter"
	}
	s := fmt.Sprintf("%d ahead, watch", p.Ahead)
	for _, c := range p.Known {
		s += fmt.Sprintf(" %c%d", " xrwu"[c.Kind], c.Seq)
	}
	if p.Complete {
		return s + ", then enter"
	}
	return s + ", then look"
}

// What a waiter that has listed the queue watches, and what it does then.
func TestProspect(t *testing.T) {
	for _, test := range []struct {
		queue []string
		own   string
		want  string
	}{
		{[]string{"x1"}, "x1", "enter"},
		{[]string{"x1", "x2"}, "x1", "enter"},
		{[]string{"x1", "x2"}, "x2", "1 ahead, watch x1, then enter"},
		{[]string{"x1", "x2", "x3"}, "x3", "2 ahead, watch x1 x2, then enter"},
		{[]string{"x9", "x7", "x8"}, "x9", "2 ahead, watch x7 x8, then enter"},
		{[]string{"x1", "x2", "x3", "x4"}, "x4", "3 ahead, watch x2 x3, then look"},
		{[]string{"x1", "x2", "x3", "x4", "x5"}, "x3", "2 ahead, watch x1 x2, then enter"},
		{[]string{"x1", "x2", "x3", "x4", "x5"}, "x5", "4 ahead, watch x3 x4, then look"},

		// Readers wait for writers alone.
		{[]string{"r1", "r2"}, "r2", "enter"},
		{[]string{"w1", "r2"}, "r2", "1 ahead, watch w1, then enter"},
		{[]string{"w1", "r2", "w3", "r4"}, "r4", "2 ahead, watch w1 w3, then enter"},
		{[]string{"w1", "w2", "w3", "r4"}, "r4", "3 ahead, watch w2 w3, then look"},

		// A write may have been downgraded when its node goes: then a read stands
		// in its place, and excludes a writer.
		{[]string{"w1", "w2"}, "w2", "1 ahead, watch w1, then look"},
		{[]string{"r1", "w2"}, "w2", "1 ahead, watch r1, then enter"},
		{[]string{"r1", "r2", "w3"}, "w3", "2 ahead, watch r1 r2, then enter"},
		{[]string{"r1", "r2", "r3", "w4"}, "w4", "3 ahead, watch r3, then look"},
		{[]string{"w1", "r2", "w3"}, "w3", "2 ahead, watch w1 r2, then look"},
		{[]string{"r1", "w2", "w3"}, "w3", "2 ahead, watch w2, then look"},
		{[]string{"w1", "r1", "w2"}, "w2", "2 ahead, watch w1 r1, then look"},
		{[]string{"w1", "x2"}, "x2", "1 ahead, watch w1, then look"},

		// An upgradable waits for writers and upgradables.
		{[]string{"r1", "u2"}, "u2", "enter"},
		{[]string{"u1", "u2"}, "u2", "1 ahead, watch u1, then look"},
		{[]string{"w1", "u2"}, "u2", "1 ahead, watch w1, then look"},
		{[]string{"w1", "r2", "u3", "u4"}, "u4", "2 ahead, watch w1 u3, then look"},
		{[]string{"x1", "u2"}, "u2", "1 ahead, watch x1, then enter"},

		// Beside an upgradable readers may enter, and it may put a shield.
		{[]string{"u1", "r2"}, "r2", "enter"},
		{[]string{"u1", "w2", "r3"}, "r3", "1 ahead, watch w2, then look"},
		{[]string{"u1", "w2", "w3", "r4"}, "r4", "2 ahead, watch w2 w3, then look"},
		{[]string{"w2", "u3", "r4"}, "r4", "1 ahead, watch w2, then look"},
		{[]string{"w2", "r3", "u4"}, "r3", "1 ahead, watch w2, then enter"},
		{[]string{"u1", "w2"}, "w2", "1 ahead, watch u1, then look"},
		{[]string{"r1", "u2", "w3"}, "w3", "2 ahead, watch r1 u2, then look"},
		{[]string{"u1", "r2", "w3"}, "w3", "2 ahead, watch u1 r2, then look"},
		{[]string{"u1", "x2"}, "x2", "1 ahead, watch u1, then look"},

		// Numbers that do not order.
		{[]string{"x2147483646", "x2147483647"}, "x2147483647", "1 ahead, watch x2147483646, then look"},
	} {
		var names []string
		for _, mark := range test.queue {
			names = append(names, contenderOf(t, mark).Name)
		}
		q := List(names, false, 1<<31)
		own := contenderOf(t, test.own)
		p, found := q.Prospect(own.Name, own.Kind)
		if !found || describe(p) != test.want {
			t.Errorf("%s in %v: %s, want %s", test.own, test.queue, describe(p), test.want)
		}
		if _, found := q.Prospect(contenderOf(t, "x99").Name, Exclusive); found {
			t.Errorf("%v: found a contender that is not there", test.queue)
		}
	}
}

// The same for a waiter that has left the queue and entered it again at the end in
// one transaction. It goes by what it saw when it listed the queue; others may have
// come since, or gone.
func TestProspectBehindTheLast(t *testing.T) {
	for _, test := range []struct {
		seen []string
		own  string // the one that left
		now  string // its new node
		want string
	}{
		{[]string{"x1"}, "x1", "x2", "look"},
		{[]string{"x1", "x2"}, "x1", "x3", "1 ahead, watch x2, then enter"},
		{[]string{"x1", "x2"}, "x1", "x4", "2 ahead, watch x2, then look"},
		{[]string{"x1", "x2"}, "x1", "x5", "look"},
		{[]string{"x1", "x2", "x3"}, "x1", "x4", "2 ahead, watch x2 x3, then enter"},
		{[]string{"x1", "x5", "x3"}, "x1", "x6", "2 ahead, watch x3 x5, then enter"},
		{[]string{"x1", "x2", "x3"}, "x1", "x5", "3 ahead, watch x3, then look"},
		{[]string{"x1", "x2", "x3"}, "x1", "x6", "look"},
		{[]string{"x1", "x2", "x3", "x4"}, "x1", "x5", "3 ahead, watch x3 x4, then look"},
		{[]string{"x1", "x2", "x3", "x4"}, "x1", "x6", "4 ahead, watch x4, then look"},

		// It was not the head yet when it looked: who was ahead has gone since.
		{[]string{"x1", "x2", "x3"}, "x2", "x4", "1 ahead, watch x3, then enter"},
		{[]string{"x1", "x2", "x3"}, "x2", "x5", "2 ahead, watch x3, then look"},
		{[]string{"x1", "x2"}, "x2", "x4", "look"},

		// Readers and writers.
		{[]string{"w1", "r2"}, "w1", "w3", "1 ahead, watch r2, then enter"},
		{[]string{"w1", "w2"}, "w1", "w3", "1 ahead, watch w2, then look"},
		{[]string{"w1", "w2"}, "w1", "w4", "look"},
		{[]string{"w1", "r2", "r3"}, "w1", "w4", "2 ahead, watch r3, then look"},
		{[]string{"r1", "w2"}, "r1", "r3", "1 ahead, watch w2, then enter"},
		{[]string{"r1", "w2", "w3"}, "r1", "r4", "2 ahead, watch w3, then look"},
		{[]string{"r1", "w2", "r3"}, "r1", "r4", "look"},
		{[]string{"r1", "r2"}, "r1", "r3", "look"},
		{[]string{"x1", "w2", "x3"}, "x1", "x4", "2 ahead, watch x3, then look"},

		// Numbers that do not order.
		{[]string{"x2146435071", "x2146435072"}, "x2146435071", "x2146435073", "look"},
		{[]string{"x2146435071", "x2146435073"}, "x2146435071", "x2146435074", "look"},
	} {
		var names []string
		for _, mark := range test.seen {
			names = append(names, contenderOf(t, mark).Name)
		}
		old := contenderOf(t, test.own)
		got := "look"
		q := List(names, false, 1<<31)
		if tail := q.Tail(old.Name, old.Kind); tail != nil {
			if p, ok := tail.Prospect(contenderOf(t, test.now)); ok {
				got = describe(p)
			}
		}
		if got != test.want {
			t.Errorf("%s left %v and is %s now: %s, want %s", test.own, test.seen, test.now, got, test.want)
		}
	}
}

// A child made by hand can carry a number that has not been given out yet. Then
// the numbers do not tell how many have come since.
func TestNoTailBehindANumberNotGivenOut(t *testing.T) {
	head, last := contenderOf(t, "x1"), contenderOf(t, "x4")
	for next, want := range map[int64]bool{2: false, 4: false, 5: true, 9: true} {
		q := List([]string{head.Name, last.Name}, false, next)
		if got := q.Tail(head.Name, Exclusive) != nil; got != want {
			t.Errorf("next number %d: a tail %t, want %t", next, got, want)
		}
	}
}

// A name without a GUID can come back, so its deletion settles nothing.
func TestNamesThatRecurAreListedAgain(t *testing.T) {
	own := contenderOf(t, "x7")
	for _, test := range []struct{ names []string }{
		{[]string{"lock-0000000003"}},
		{[]string{"lock-0000000003", contenderOf(t, "x5").Name}},
		{[]string{contenderOf(t, "x3").Name, "lock-0000000005"}},
	} {
		q := List(append(test.names, own.Name), false, 1<<31)
		p, found := q.Prospect(own.Name, Exclusive)
		if !found || p.Complete {
			t.Errorf("behind %v: complete, although a name may recur", test.names)
		}
		head := List(append(test.names, contenderOf(t, "x1").Name), false, 1<<31)
		tail := head.Tail(contenderOf(t, "x1").Name, Exclusive)
		last := q.Contenders[len(test.names)-1].Seq
		if p, ok := tail.Prospect(contenderOf(t, fmt.Sprintf("x%d", last+1))); !ok || p.Complete {
			t.Errorf("a tail of %v: complete, although a name may recur", test.names)
		}
	}
}
