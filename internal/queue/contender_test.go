// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const (
	hex32  = "00112233445566778899aabbccddeeff"
	hex32b = "ffeeddccbbaa99887766554433221100"
	dashed = "00112233-4455-6677-8899-aabbccddeeff"
)

func TestParseName(t *testing.T) {
	for _, test := range []struct {
		name string
		kind Kind // 0 for no contender
		seq  int64
	}{
		// Ours, go-zookeeper's.
		{"_c_" + hex32 + "-lock-0000000000", Exclusive, 0},
		{"_c_" + hex32 + "-lock-0000000042", Exclusive, 42},
		{"_c_" + hex32 + "-__READ__0000000042", Read, 42},
		{"_c_" + hex32[:16] + "-" + hex32[16:] + "-__READ__0000000042", Upgradable, 42},
		{"_c_" + hex32[:15] + "-" + hex32[15:] + "-__READ__0000000042", Read, 42}, // the dash is elsewhere
		{"_c_" + hex32[:16] + "--" + hex32[16:] + "-__READ__0000000042", Read, 42},
		{"_c_" + hex32[:16] + "-" + hex32[16:] + "-__WRIT__0000000042", Write, 42},
		{"_c_" + hex32[:16] + "-" + hex32[16:] + "-lock-0000000042", Exclusive, 42},
		{"_c_" + hex32 + "-__WRIT__2147483647", Write, 2147483647},
		// Curator's.
		{"_c_" + dashed + "-lock-0000000007", Exclusive, 7},
		{"_c_" + dashed + "-__READ__0000000007", Read, 7},
		{"_c_" + dashed + "-__WRIT__0000000007", Write, 7},
		{"_c_" + strings.ToUpper(dashed) + "-lock-0000000007", Exclusive, 7},
		// Without the protection of the create.
		{"lock-0000000007", Exclusive, 7},
		{"__READ__0000000007", Read, 7},
		{"__WRIT__0000000007", Write, 7},
		// kazoo's.
		{hex32 + "__lock__0000000007", Exclusive, 7},
		{hex32 + "__rlock__0000000007", Read, 7},
		// After the counter has overflowed, as ZooKeeper writes it: a sign and
		// at least nine digits, ten characters in all.
		{"_c_" + hex32 + "-lock--2147483648", Exclusive, -2147483648},
		{"_c_" + hex32 + "-__READ__-2147483648", Read, -2147483648},
		{"_c_" + hex32 + "-__WRIT__-1000000000", Write, -1000000000},
		{"_c_" + hex32 + "-lock--999999999", Exclusive, -999999999},
		{"_c_" + hex32 + "-lock--000000001", Exclusive, -1},
		{"_c_" + hex32 + "-__READ__-000000001", Read, -1},
		{hex32 + "__lock__-2147483648", Exclusive, -2147483648},
		{hex32 + "__rlock__-000000001", Read, -1},
		{"lock--2147483648", Exclusive, -2147483648},

		// No contenders.
		{"", 0, 0},
		{"README", 0, 0},
		{"0000000007", 0, 0},
		{"lock-", 0, 0},
		{"lock", 0, 0},
		{"_c_short", 0, 0},
		{"_c_", 0, 0},
		{"_c_-lock-0000000007", 0, 0},
		{"_c_" + hex32 + "-0000000007", 0, 0},
		{"_c_" + hex32 + "lock-0000000007", 0, 0},       // no dash after the guid
		{"_c_" + hex32[1:] + "-lock-0000000007", 0, 0},  // 31 digits
		{"_c_" + hex32 + "0-lock-0000000007", 0, 0},     // 33 digits
		{"_c_" + hex32[1:] + "g-lock-0000000007", 0, 0}, // not hexadecimal
		{"_C_" + hex32 + "-lock-0000000007", 0, 0},      // another prefix
		{"x_c_" + hex32 + "-lock-0000000007", 0, 0},     // something in front
		{"_c_" + hex32 + "-lock-0000000007x", 0, 0},     // something behind
		{"_c_" + hex32 + "-lock-000000007", 0, 0},       // nine digits
		{"_c_" + hex32 + "-lock-00000000007", 0, 0},     // eleven
		{"_c_" + hex32 + "-lock-+000000007", 0, 0},      // a sign that ZooKeeper does not write
		{"_c_" + hex32 + "-lock---000000007", 0, 0},     // two signs
		{"_c_" + hex32 + "-lock--0000000000", 0, 0},     // there is no negative zero
		{"_c_" + hex32 + "-lock--000000000", 0, 0},
		{"_c_" + hex32 + "-lock- 000000007", 0, 0},                     // a space
		{"_c_" + hex32 + "-lock-00000_0007", 0, 0},                     // what Go would read as a number
		{"_c_" + hex32 + "-lock-\u0661\u0661\u0661\u0661\u0661", 0, 0}, // digits, but not ours
		{"_c_" + hex32 + "-__read__0000000007", 0, 0},
		{"_c_" + hex32 + "-__READ_0000000007", 0, 0},
		{"_c_" + hex32 + "-__lock__0000000007", 0, 0}, // kazoo's, but with Curator's prefix
		{"_c_" + hex32 + "-lease-0000000007", 0, 0},   // Curator's semaphore
		{hex32 + "latch-0000000007", 0, 0},            // a leader latch, but for the prefix
		{hex32 + "__lease__0000000007", 0, 0},         // kazoo's semaphore
		{dashed + "__lock__0000000007", 0, 0},         // kazoo writes no dashes
		{hex32[1:] + "__lock__0000000007", 0, 0},
		{"__lock__0000000007", 0, 0},
		{hex32 + "lock-0000000007", 0, 0},
		{"x-94583729384-lock-0000000007", 0, 0}, // ZooKeeper's own recipe in C and Java
		{"probe-0000000007", 0, 0},
		{"lock-99999999999999999999", 0, 0},
	} {
		got, ok := ParseName(test.name)
		want := Contender{Name: test.name, Kind: test.kind, GUID: len(test.name) > 32, Seq: test.seq}
		if test.kind == 0 {
			if ok {
				t.Errorf("%q: taken for a contender, %+v", test.name, got)
			}
		} else if !ok || got != want {
			t.Errorf("%q: got %+v, %t; want %+v", test.name, got, ok, want)
		}
	}
}

func TestList(t *testing.T) {
	node := func(mark string, seq int) string { return fmt.Sprintf("_c_%s-%s%010d", hex32, mark, seq) }
	other := func(mark string, seq int) string { return fmt.Sprintf("_c_%s-%s%010d", hex32b, mark, seq) }
	kazoo := func(seq int) string { return fmt.Sprintf("%s__lock__%010d", hex32, seq) }

	for _, test := range []struct {
		what    string
		order   []string // in the order of their turns
		foreign []string
	}{
		{"empty", nil, nil},
		{"only strangers", nil, []string{"README", "_c_short", "x-1-lock-0000000001"}},
		{"one", []string{node("lock-", 5)}, nil},
		{"by number, not by name", []string{other("lock-", 9), kazoo(10), node("lock-", 11), other("lock-", 100)}, []string{"README"}},
		{"all kinds in one queue", []string{node("__WRIT__", 1), node("__READ__", 2), node("lock-", 3), kazoo(4), other("__READ__", 5)}, nil},
		{"a write before the read that came out of it", []string{node("__WRIT__", 1), other("__READ__", 1), other("lock-", 2)}, nil},
		{"up to the last number that orders", []string{node("lock-", LastSafeSequence-1), node("lock-", LastSafeSequence)}, nil},
	} {
		for range 10 {
			children := append(append([]string(nil), test.order...), test.foreign...)
			rand.Shuffle(len(children), func(i, j int) { children[i], children[j] = children[j], children[i] })
			q := List(children, false, 1<<31)
			if q.Exhausted {
				t.Fatalf("%s: exhausted", test.what)
			}
			var got []string
			for _, c := range slices.SortedFunc(slices.Values(q.Contenders), Compare) {
				got = append(got, c.Name)
			}
			if strings.Join(got, " ") != strings.Join(test.order, " ") || q.Strangers != len(test.foreign) {
				t.Fatalf("%s: got %v and %d strangers; want %v and %d", test.what, got, q.Strangers, test.order, len(test.foreign))
			}
			for i, name := range test.order {
				p, found := q.Prospect(name, Exclusive)
				if !found || p.Ahead != int32(i) || i > 0 && p.Known[len(p.Known)-1].Name != test.order[i-1] {
					t.Errorf("%s: ahead of %s: got %+v, %t", test.what, name, p, found)
				}
			}
			if _, found := q.Prospect(node("lock-", 4711), Exclusive); found {
				t.Errorf("%s: found a node that is not there", test.what)
			}
		}
	}
}

// Where ZooKeeper's numbers no longer order the queue, there is no answer.
func TestListExhausted(t *testing.T) {
	for _, name := range []string{
		fmt.Sprintf("_c_%s-lock-%010d", hex32, LastSafeSequence+1),
		"_c_" + hex32 + "-lock-2147483647",
		"_c_" + hex32 + "-lock--2147483648",
		"_c_" + hex32 + "-lock--000000001",
		hex32 + "__rlock__2147483647",
		"lock-9999999999",
	} {
		for _, children := range [][]string{
			{name},
			{"_c_" + hex32b + "-lock-0000000001", name},
			{name, "_c_" + hex32b + "-lock-0000000001"},
		} {
			if !List(children, false, 1<<31).Exhausted {
				t.Errorf("%v: not noticed", children)
			}
		}
	}
}

// Latches and the others are no contenders to each other.
func TestListFamilies(t *testing.T) {
	latch, lock := "_c_"+hex32+"-latch-0000000007", "_c_"+hex32b+"-lock-0000000008"
	for _, test := range []struct {
		names  []string
		latch  bool
		want   string // the contender
		recipe string // of the stranger
	}{
		{[]string{latch, lock}, true, latch, "a lock"},
		{[]string{latch, lock}, false, lock, "Curator's LeaderLatch"},
		{[]string{latch}, true, latch, ""},
	} {
		q := List(test.names, test.latch, 9)
		if len(q.Contenders) != 1 || q.Contenders[0].Name != test.want || q.Contenders[0].Kind != Exclusive || q.Strangers != len(test.names)-1 {
			t.Errorf("%v, latch %t: %+v", test.names, test.latch, q)
		}
		if got := Recipe(q.Recipe); got != test.recipe {
			t.Errorf("%v, latch %t: the stranger is of %q, want %q", test.names, test.latch, got, test.recipe)
		}
	}
	for _, test := range []struct {
		names []string
		want  bool
	}{
		{nil, false},
		{[]string{"README"}, false},
		{[]string{lock}, false},
		{[]string{latch, lock}, false},
		{[]string{lock, latch}, false},
		{[]string{"README", latch, "latch-0000000009"}, true},
	} {
		if OnlyLatches(test.names) != test.want {
			t.Errorf("%v: want %t", test.names, test.want)
		}
	}
}

func FuzzContenderName(f *testing.F) {
	for _, name := range []string{
		"", "lock-", "_c_", "_c_short", "lock-0000000001", "lock--2147483648", "__READ__-000000001", "README",
		"_c_" + hex32 + "-lock-0000000001", "_c_" + dashed + "-__WRIT__0000000001",
		hex32 + "__lock__0000000001", hex32 + "__rlock__-2147483648",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		c, ok := ParseName(name)
		if !ok {
			if c != (Contender{}) {
				t.Errorf("%q: no contender, but %+v", name, c)
			}
			if q := List([]string{name}, false, 0); q.Strangers != 1 || len(q.Contenders) != 0 {
				t.Errorf("%q: no contender, but the queue is %+v", name, q)
			}
			return
		}
		// The name can be put together again from what was read, but for the guid.
		var mark string
		for _, m := range marks {
			if m.kind == c.Kind && strings.HasSuffix(name, fmt.Sprintf("%s%010d", m.mark, c.Seq)) {
				mark = m.mark
			}
		}
		prefix, found := strings.CutSuffix(name, fmt.Sprintf("%s%010d", mark, c.Seq))
		guid := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(prefix, "_c_"), "-"), "-", "")
		if mark == "" || !found || c.Name != name || len(guid) != 32 && prefix != "" {
			t.Errorf("%q: read as %+v", name, c)
		}
	})
}

// Sort orders by turns, whatever the order of the list, and counts those whose turn
// has come.
func TestSort(t *testing.T) {
	for _, test := range []struct {
		name  string
		names []string
		want  []string
		holds int
	}{
		{"empty", nil, nil, 0},
		{"mutexes", []string{"lock-0000000012", "lock-0000000009", "lock-0000000010"}, []string{"lock-0000000009", "lock-0000000010", "lock-0000000012"}, 1},
		{"readers ahead of a writer", []string{"__WRIT__0000000003", "__READ__0000000004", "__READ__0000000002", "__READ__0000000001"},
			[]string{"__READ__0000000001", "__READ__0000000002", "__WRIT__0000000003", "__READ__0000000004"}, 2},
		{"only readers", []string{"__READ__0000000002", "__READ__0000000001"}, []string{"__READ__0000000001", "__READ__0000000002"}, 2},
		{"a writer", []string{"__READ__0000000002", "__WRIT__0000000001"}, []string{"__WRIT__0000000001", "__READ__0000000002"}, 1},
		{"a writer that goes to the read lock", []string{"__READ__0000000002", "__READ__0000000001", "__WRIT__0000000001"},
			[]string{"__WRIT__0000000001", "__READ__0000000001", "__READ__0000000002"}, 2},
		{"a mutex among readers", []string{"__READ__0000000001", "lock-0000000000"}, []string{"lock-0000000000", "__READ__0000000001"}, 1},
		{"numbers that ran out", []string{"__READ__2147483647", "__WRIT__2147483647"}, []string{"__WRIT__2147483647", "__READ__2147483647"}, 1},
	} {
		q := List(test.names, false, 20)
		q.Sort()
		var got []string
		holds := 0
		for i, c := range q.Contenders {
			got = append(got, c.Name)
			if c.Turn {
				holds++
			}
			if c.Turn && i >= test.holds {
				t.Errorf("%s: it is the turn of %s", test.name, c.Name)
			}
		}
		if !slices.Equal(got, test.want) || holds != test.holds {
			t.Errorf("%s: got %v, of which %d hold, want %v, %d", test.name, got, holds, test.want, test.holds)
		}
	}
}

// Of the upgradables among the readers, it is the first one's turn; it is the readers'
// turn as well.
func TestSortUpgradables(t *testing.T) {
	names := func(marks ...string) (names []string) {
		for _, mark := range marks {
			names = append(names, contenderOf(t, mark).Name)
		}
		return names
	}
	for _, test := range []struct{ queue, want string }{
		{"u1", "u1"},
		{"r1 u2 r3 u4 r5 w6 r7", "r1 u2 r3 r5"},
		{"r1 u1 w3", "u1 r1"}, // a reader beside it
		{"w1 u2", "w1"},
		{"w1 r1 u2", "w1 r1"},
		{"u1 u2 w3", "u1"},
	} {
		q := List(names(strings.Fields(test.queue)...), false, 20)
		q.Sort()
		var got []string
		for _, c := range q.Contenders {
			if c.Turn {
				got = append(got, fmt.Sprintf("%c%d", " xrwu"[c.Kind], c.Seq))
			}
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s: it is the turn of %s, want %s", test.queue, s, test.want)
		}
	}
}
