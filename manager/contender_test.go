// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

const (
	hex32  = "00112233445566778899aabbccddeeff"
	dashed = "00112233-4455-6677-8899-aabbccddeeff"
)

// What this package calls its nodes, it takes for contenders.
func TestOwnNodesAreContenders(t *testing.T) {
	m := &Manager{identity: identity{id: "fedcba9876543210"}}
	for range 3 {
		name := fmt.Sprintf("_c_%s-%s%010d", m.guid(), queue.Exclusive.Mark(), 17)
		c, ok := queue.ParseName(name)
		expect(t, ok && c.Kind == queue.Exclusive && c.Seq == 17, "%q: got %+v, %t", name, c, ok)
	}
	if name := "_c_" + m.guid() + "-lock-0000000001"; !m.owns(name) || m.owns("_c_"+hex32+"-lock-0000000001") {
		t.Error("a manager does not know its own nodes from others'")
	}
}

func TestContenderString(t *testing.T) {
	since := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		c    *Contender
		want string
	}{
		{&Contender{Path: "/holdfast/jobs/x"}, "/holdfast/jobs/x"},
		{&Contender{Path: "/p", Host: "db7", PID: 4711, Label: "billing", Since: since}, "billing@db7, pid 4711, since 2026-01-02T15:04:05Z"},
		{&Contender{Path: "/p", Host: "db7", PID: 4711, Since: since}, "db7, pid 4711, since 2026-01-02T15:04:05Z"},
		{&Contender{Path: "/p", Host: "db7", PID: 4711, Endpoint: "10.0.0.7:8080"}, "db7, pid 4711, at 10.0.0.7:8080"},
		{&Contender{Path: "/p", Host: "a b", PID: 1, Label: "new\nline"}, `"new\nline"@"a b", pid 1`},
		{&Contender{Path: "/p", Identity: "10.0.0.8", Since: since}, `/p, which says "10.0.0.8", since 2026-01-02T15:04:05Z`},
		{&Contender{Path: "/p", Identity: "a\x1b[31mb"}, `/p, which says "a\x1b[31mb"`},
		{&Contender{Path: "/p", Label: strings.Repeat("x", 200), Host: "h"}, strings.Repeat("x", 128) + "…@h, pid 0"},
		{&Contender{Path: "/p", Persistent: true}, "/p; its node /p is not ephemeral: delete it if its owner is gone"},
	} {
		expect(t, test.c.String() == test.want, "got %q, want %q", test.c.String(), test.want)
	}
}

// The data of a stranger's node is whatever it is.
func TestDescribe(t *testing.T) {
	stat := zkio.Stat{Czxid: 7, Ctime: 1_767_366_245_000, EphemeralOwner: 9}
	known := Contender{Path: "/p", Since: time.UnixMilli(stat.Ctime), Token: 7, Session: 9}
	ours := &Manager{identity: identity{patterns: patterns("db7", "billing", "db7:80", false)}}
	c := known
	want := known
	want.Host, want.Label, want.PID, want.Endpoint = "db7", "billing", os.Getpid(), "db7:80"
	want.asks = true
	ok := c.describe(ours.nodeData(KindExclusive.String()), stat)
	expect(t, ok && c == want, "our own data reads %+v, %t, want %+v", c, ok, want)
	for _, data := range []string{"", "10.0.0.1", "{", "[]", "null", "12", `{"pid":"no number"}`, `{"host":7}`, `{"other":1}`} {
		c, want := Contender{Path: "/p"}, known
		want.Identity = data
		ok := c.describe([]byte(data), stat)
		expect(t, !ok && c == want, "data %q reads %+v, %t", data, c, ok)
	}
	c = Contender{}
	c.describe([]byte(strings.Repeat("ä", 100)+"\x00\xff"), zkio.Stat{Czxid: 1})
	expect(t, c.Identity == strings.Repeat("ä", 64)+"…" && c.Persistent, "a long text reads %+v", c)
	c = Contender{}
	c.describe(nil, zkio.Stat{})
	expect(t, c == Contender{}, "a node of which nothing is told reads %+v", c)
}

// DescribeNode tells what a node's name, its data and ZooKeeper say.
func TestDescribeNode(t *testing.T) {
	stat := zkio.Stat{Czxid: 7, Ctime: 1_000, EphemeralOwner: 5}
	ours := []byte(`{"host":"db7","pid":4711,"label":"billing","endpoint":"db7:8080","kind":"write","since":"2026-01-02T03:04:05Z"}`)
	since := time.Unix(1, 0)
	for _, test := range []struct {
		path string
		data []byte
		stat zkio.Stat
		want Contender
	}{
		{"/l/__WRIT__0000000042", ours, stat,
			Contender{Kind: KindWrite, Sequence: 42, Host: "db7", PID: 4711, Label: "billing", Endpoint: "db7:8080", Since: since, Token: 7, Session: 5}},
		{"/l/lock-0000000001", []byte("10.1.2.3"), zkio.Stat{Czxid: 8, Ctime: 1_000},
			Contender{Kind: KindExclusive, Sequence: 1, Identity: "10.1.2.3", Since: since, Token: 8, Persistent: true}},
		{"/_asks_/a/question", ours, stat, Contender{Host: "db7", PID: 4711, Label: "billing", Endpoint: "db7:8080", Since: since, Token: 7, Session: 5}},
	} {
		test.want.Path = test.path
		got := DescribeNode(test.path, test.data, test.stat)
		got.asks = false
		expect(t, got == test.want, "%s: %+v, want %+v", test.path, got, test.want)
	}
}
