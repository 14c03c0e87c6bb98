// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	hex32  = "00112233445566778899aabbccddeeff"
	hex32b = "ffeeddccbbaa99887766554433221100"
	dashed = "00112233-4455-6677-8899-aabbccddeeff"
)

func TestParseContender(t *testing.T) {
	for _, test := range []struct {
		name string
		kind Kind // 0 for no contender
		seq  int64
	}{
		// Ours, go-zookeeper's.
		{"_c_" + hex32 + "-lock-0000000000", KindExclusive, 0},
		{"_c_" + hex32 + "-lock-0000000042", KindExclusive, 42},
		{"_c_" + hex32 + "-__READ__0000000042", KindRead, 42},
		{"_c_" + hex32 + "-__WRIT__2147483647", KindWrite, 2147483647},
		// Curator's.
		{"_c_" + dashed + "-lock-0000000007", KindExclusive, 7},
		{"_c_" + dashed + "-__READ__0000000007", KindRead, 7},
		{"_c_" + dashed + "-__WRIT__0000000007", KindWrite, 7},
		{"_c_" + strings.ToUpper(dashed) + "-lock-0000000007", KindExclusive, 7},
		// Without the protection of the create.
		{"lock-0000000007", KindExclusive, 7},
		{"__READ__0000000007", KindRead, 7},
		{"__WRIT__0000000007", KindWrite, 7},
		// kazoo's.
		{hex32 + "__lock__0000000007", KindExclusive, 7},
		{hex32 + "__rlock__0000000007", KindRead, 7},
		// After the counter has overflowed, as ZooKeeper writes it: a sign and
		// at least nine digits, ten characters in all.
		{"_c_" + hex32 + "-lock--2147483648", KindExclusive, -2147483648},
		{"_c_" + hex32 + "-__READ__-2147483648", KindRead, -2147483648},
		{"_c_" + hex32 + "-__WRIT__-1000000000", KindWrite, -1000000000},
		{"_c_" + hex32 + "-lock--999999999", KindExclusive, -999999999},
		{"_c_" + hex32 + "-lock--000000001", KindExclusive, -1},
		{"_c_" + hex32 + "-__READ__-000000001", KindRead, -1},
		{hex32 + "__lock__-2147483648", KindExclusive, -2147483648},
		{hex32 + "__rlock__-000000001", KindRead, -1},
		{"lock--2147483648", KindExclusive, -2147483648},

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
		{"_c_" + hex32 + "-latch-0000000007", 0, 0},   // Curator's leader latch
		{hex32 + "__lease__0000000007", 0, 0},         // kazoo's semaphore
		{dashed + "__lock__0000000007", 0, 0},         // kazoo writes no dashes
		{hex32[1:] + "__lock__0000000007", 0, 0},
		{"__lock__0000000007", 0, 0},
		{hex32 + "lock-0000000007", 0, 0},
		{"x-94583729384-lock-0000000007", 0, 0}, // ZooKeeper's own recipe in C and Java
		{"probe-0000000007", 0, 0},
		{"lock-99999999999999999999", 0, 0},
	} {
		got, ok := parseContender(test.name)
		want := contender{name: test.name, kind: test.kind, seq: test.seq}
		if test.kind == 0 {
			if ok {
				t.Errorf("%q: taken for a contender, %+v", test.name, got)
			}
		} else if !ok || got != want {
			t.Errorf("%q: got %+v, %t; want %+v", test.name, got, ok, want)
		}
	}
}

// What this package calls its nodes, it takes for contenders.
func TestOwnNodesAreContenders(t *testing.T) {
	m := &Manager{id: "fedcba9876543210"}
	for range 3 {
		name := fmt.Sprintf("_c_%s-%s%010d", m.guid(), KindExclusive.mark(), 17)
		if c, ok := parseContender(name); !ok || c.kind != KindExclusive || c.seq != 17 {
			t.Errorf("%q: got %+v, %t", name, c, ok)
		}
	}
	if name := "_c_" + m.guid() + "-lock-0000000001"; !m.owns(name) || m.owns("_c_"+hex32+"-lock-0000000001") {
		t.Error("a manager does not know its own nodes from others'")
	}
}

func TestParseQueue(t *testing.T) {
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
		{"up to the last number that orders", []string{node("lock-", lastSafeSequence-1), node("lock-", lastSafeSequence)}, nil},
	} {
		for range 10 {
			children := append(append([]string(nil), test.order...), test.foreign...)
			rand.Shuffle(len(children), func(i, j int) { children[i], children[j] = children[j], children[i] })
			q := parseQueue(children)
			if q.exhausted {
				t.Fatalf("%s: exhausted", test.what)
			}
			var got []string
			for _, c := range slices.SortedFunc(slices.Values(q.contenders), compareTurns) {
				got = append(got, c.name)
			}
			if strings.Join(got, " ") != strings.Join(test.order, " ") || q.foreign != len(test.foreign) {
				t.Fatalf("%s: got %v and %d strangers; want %v and %d", test.what, got, q.foreign, test.order, len(test.foreign))
			}
			for i, name := range test.order {
				p, found := q.prospect(name, KindExclusive)
				nearest := p.watch
				if p.then != nil {
					nearest = *p.then
				}
				if !found || p.n != i || i > 0 && nearest.name != test.order[i-1] {
					t.Errorf("%s: ahead of %s: got %d, nearest %q, %t", test.what, name, p.n, nearest.name, found)
				}
			}
			if _, found := q.prospect(node("lock-", 4711), KindExclusive); found {
				t.Errorf("%s: found a node that is not there", test.what)
			}
		}
	}
}

// Where ZooKeeper's numbers no longer order the queue, there is no answer.
func TestParseQueueExhausted(t *testing.T) {
	for _, name := range []string{
		fmt.Sprintf("_c_%s-lock-%010d", hex32, lastSafeSequence+1),
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
			if !parseQueue(children).exhausted {
				t.Errorf("%v: not noticed", children)
			}
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
		c, ok := parseContender(name)
		if !ok {
			if c != (contender{}) {
				t.Errorf("%q: no contender, but %+v", name, c)
			}
			if q := parseQueue([]string{name}); q.foreign != 1 || len(q.contenders) != 0 {
				t.Errorf("%q: no contender, but the queue is %+v", name, q)
			}
			return
		}
		// The name can be put together again from what was read, but for the guid.
		var mark string
		for _, m := range kindMarks {
			if m.kind == c.kind && strings.HasSuffix(name, fmt.Sprintf("%s%010d", m.mark, c.seq)) {
				mark = m.mark
			}
		}
		prefix, found := strings.CutSuffix(name, fmt.Sprintf("%s%010d", mark, c.seq))
		guid := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(prefix, "_c_"), "-"), "-", "")
		if mark == "" || !found || c.name != name || len(guid) != 32 && prefix != "" {
			t.Errorf("%q: read as %+v", name, c)
		}
	})
}

func TestContenderString(t *testing.T) {
	since := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		c    *Contender
		want string
	}{
		{nil, "nobody"},
		{&Contender{Path: "/holdfast/jobs/x"}, "/holdfast/jobs/x"},
		{&Contender{Path: "/p", Host: "db7", PID: 4711, Label: "billing", Since: since}, "billing@db7, pid 4711, since 2026-01-02T15:04:05Z"},
		{&Contender{Path: "/p", Host: "db7", PID: 4711, Since: since}, "db7, pid 4711, since 2026-01-02T15:04:05Z"},
		{&Contender{Path: "/p", Persistent: true}, "/p; its node /p is not ephemeral: delete it if its owner is gone"},
	} {
		if got := test.c.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// The data of a stranger's node is whatever it is.
func TestDescribe(t *testing.T) {
	ours := &Manager{patterns: patterns("db7", "billing")}
	c := new(Contender)
	c.describe(ours.nodeData(KindExclusive.String()))
	if c.Host != "db7" || c.Label != "billing" || c.PID == 0 || c.Since.IsZero() {
		t.Errorf("our own data reads %+v", c)
	}
	for _, data := range []string{"", "10.0.0.1", "{", "[]", "null", "12", `{"pid":"no number"}`, `{"host":7}`, "\x00\xff", `{"other":1}`} {
		c := Contender{Path: "/p"}
		c.describe([]byte(data))
		if c != (Contender{Path: "/p"}) {
			t.Errorf("data %q reads %+v", data, c)
		}
	}
}
