// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/queue"
)

const (
	hex32  = "00112233445566778899aabbccddeeff"
	dashed = "00112233-4455-6677-8899-aabbccddeeff"
)

// What this package calls its nodes, it takes for contenders.
func TestOwnNodesAreContenders(t *testing.T) {
	m := &Manager{id: "fedcba9876543210"}
	for range 3 {
		name := fmt.Sprintf("_c_%s-%s%010d", m.guid(), queue.Exclusive.Mark(), 17)
		if c, ok := queue.ParseName(name); !ok || c.Kind != queue.Exclusive || c.Seq != 17 {
			t.Errorf("%q: got %+v, %t", name, c, ok)
		}
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
		{nil, "no contender"},
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
