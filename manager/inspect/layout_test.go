// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Sessions, containers and nodes with a time to live are told apart by the owner.
func TestEphemeral(t *testing.T) {
	for owner, want := range map[int64]bool{
		0:                    false,
		0x1a206b2b4220001:    true,
		-0x7000000000000000:  true, // of a server whose number is above 127
		-0x8000000000000000:  false,
		-0x00ffffffffffff9c:  false, // lives for 100 ms
		-0x0100000000000000:  false,
		-0x01000000000000001: true,
	} {
		if got := ephemeral(zkio.Stat{EphemeralOwner: owner}); got != want {
			t.Errorf("%#x: %v, want %v", owner, got, want)
		}
	}
}

// What is numbered is in the order of its creation, also when ZooKeeper's counter has passed
// its end.
func TestNumbered(t *testing.T) {
	names := []string{"qn--2147483648", "qn-0000000003", "x", "qn-2147483647", "_c_1-lease-0000000001", "qn-0000000001", "qn-one"}
	if got := elements(names); !slices.Equal(got, []string{"qn-0000000001", "qn-0000000003", "qn-2147483647", "qn--2147483648"}) {
		t.Errorf("%q", got)
	}
}

// A mutex of Curator's has an address as its data, and a selector the id that was set.
func TestSelector(t *testing.T) {
	const name = "/l/_c_" + curator + "-lock-0000000001"
	for _, test := range []struct {
		path, data string
		want       bool
	}{
		{name, "app-7", true},
		{name, "10.1.2.3", false},
		{name, "fe80::1%eth0", false},
		{name, "", false},
		{name, "__REVOKE__", false},
		{"/l/_c_" + guid1 + "-lock-0000000001", "app-7", false}, // not a name of Curator's
		{"/l/_c_" + curator + "-latch-0000000001", "10.1.2.3", false},
	} {
		c := FromManager(manager.DescribeNode(test.path, []byte(test.data), zkio.Stat{}))
		if got := isSelector(c); got != test.want {
			t.Errorf("%s, %q: %v, want %v", test.path, test.data, got, test.want)
		}
	}
}

// What looks like a recipe's directory by some names, and is none, is not taken for one: its
// locks show.
func TestLooksLikeARecipe(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		owner := open(t, z).Session()
		r, err := NewReader(open(t, z), "/holdfast")
		must(t, err)
		for _, lock := range []string{"a/leader", "a/record", "a/lock", "b/spec", "b/shards", "c/round", "c/members", "d/permits", "d/locks", "e/items", "f/members"} {
			must(t, z.CreateAll("/holdfast/"+lock, nil))
			must(t, owner.CreateEphemeral("/holdfast/"+lock+"/lock-0000000001", nil, nil))
		}
		must(t, z.CreateAll("/holdfast/g", []byte("a note")))
		s := r.Survey("")
		s.Recipes = true
		v, err := s.Look(t.Context())
		must(t, err)
		if len(v.Recipes) > 0 || len(v.Locks) != 11 || slices.ContainsFunc(v.Locks, func(l Lock) bool { return l.PartOf != "" }) {
			t.Errorf("%d locks, recipes %+v", len(v.Locks), v.Recipes)
		}
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "a/lock", "none"} {
			if roster, found, err := r.Recipe(t.Context(), name, -1); found || err != nil {
				t.Errorf("%s: %v, %+v, %v", name, found, roster, err)
			}
		}
		if _, _, err := r.Recipe(t.Context(), "a//b", -1); !errors.Is(err, manager.ErrBadName) || !strings.Contains(err.Error(), "empty segment") {
			t.Errorf("a bad name: %v", err)
		}
	})
}

// A survey that does not look for recipes takes no reads for them.
func TestSurveyWithoutRecipes(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		must(t, z.CreateAll("/holdfast/scheduler/leader", []byte(`{"token": 7, "id": "x"}`)))
		r, err := NewReader(open(t, z), "/holdfast")
		must(t, err)
		v, err := r.Survey("").Look(t.Context())
		must(t, err)
		if n := z.RequestCounts()[zktest.OpGetData]; v.Recipes != nil || n > 0 {
			t.Errorf("recipes %+v, %d reads of data", v.Recipes, n)
		}
	})
}
