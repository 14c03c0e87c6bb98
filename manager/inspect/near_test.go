// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A lock without a directory is told apart from one that is free, also once a watch has told
// that the directory was made or removed.
func TestMissing(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		r := reader(t, z)
		put(t, z, 0, "/holdfast/free")
		for name, missing := range map[string]bool{"free": false, "fre": true, "free/below": true} {
			if q, err := r.Queue(t.Context(), name, -1); err != nil || q.Missing != missing || q.Holders != 0 {
				t.Errorf("%s: missing %t, %d holders, %v; want missing %t", name, q.Missing, q.Holders, err, missing)
			}
		}
		looks := 0
		for q, err := range r.Watch(t.Context(), "later") {
			must(t, err)
			if want := looks != 1; q.Missing != want {
				t.Errorf("look %d: missing %t, want %t", looks, q.Missing, want)
			}
			switch looks++; looks {
			case 1:
				put(t, z, 0, "/holdfast/later")
			case 2:
				must(t, z.DeleteAll("/holdfast/later"))
			case 3:
				return
			}
		}
	})
}

func TestNear(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		owner := open(t, z, zkio.Auth{Scheme: "digest", Data: []byte("user:password")}).Session()
		put(t, z, 0,
			"/holdfast/jobs/nightly",
			"/holdfast/jobs/nightly-eu",
			"/holdfast/jobs/Weekly",
			"/holdfast/job/nightly",
			"/holdfast/reports",
			"/holdfast/resorts",
			"/holdfast/a1", "/holdfast/a2", "/holdfast/a3", "/holdfast/a4", "/holdfast/a5", "/holdfast/a6", "/holdfast/a7",
			"/holdfast/größe",
			"/holdfast/_held_/nightly",
			"/holdfast/_taken_/nightly",
			"/holdfast/helt",
			"/holdfast/holdfast/odd",
			"/other/name",
		)
		put(t, z, owner.ID(), "/holdfast/jobs/nightly/_c_"+guid1+"-lock-0000000007 "+says("billing", "exclusive"))
		must(t, owner.Create("/holdfast/secret", nil, []zkio.ACL{{Perms: zkio.PermAll, Scheme: "auth"}}))
		must(t, owner.Create("/holdfast/secret/known", nil, []zkio.ACL{{Perms: zkio.PermAll, Scheme: "auth"}}))
		for _, test := range []struct{ root, name, want string }{
			{"/holdfast", "jobs/nightly", "jobs/nightly job/nightly"}, // the name itself comes first
			{"/holdfast", "/jobs/nightly", "jobs/nightly job/nightly"},
			{"/holdfast", "jobs/ngihtly", "jobs/nightly job/nightly"},                    // swapped
			{"/holdfast", "jbos/nightly", "jobs/nightly"},                                // and in a directory
			{"/holdfast", "jobs/weekly", "jobs/Weekly"},                                  // case
			{"/holdfast", "jobs/nightly_eu", "jobs/nightly-eu jobs/nightly job/nightly"}, //
			{"/holdfast", "report", "reports resorts"},                                   // the more alike first
			{"/holdfast", "grösse", "größe"},                                             // letters, not bytes
			{"/holdfast", "a8", "a1 a2 a3 a4 a5"},                                        // no more than five
			{"/holdfast", "/holdfast/jobs/nightly", "jobs/nightly job/nightly"},          // a path
			{"/holdfast", "/holdfast/jobs/nightli", "jobs/nightly job/nightly"},          //
			{"/holdfast", "/holdfast/odd", "holdfast/odd"},                               // which is a name, after all
			{"/holdfast", "_taked_", ""},                                                 //
			{"/holdfast", "_helt_", "helt"},                                              // what is reserved is no name
			{"/holdfast", "secret/known", "secret/known"},                                // there, and may not be listed
			{"/holdfast", "secret/knwon", ""},                                            //
			{"/holdfast", "something/else/altogether", ""},                               //
			{"/", "/other/naem", "other/name"},                                           //
			{"/missing", "jobs/nightly", ""},                                             //
			{"/holdfast", strings.Repeat("x/", 20) + "x", ""},                            //
		} {
			r, err := NewReader(open(t, z), test.root)
			must(t, err)
			names, err := r.Near(t.Context(), test.name)
			if got := strings.Join(names, " "); err != nil || got != test.want {
				t.Errorf("near %s in %s: %q, %v; want %q", test.name, test.root, got, err, test.want)
			}
		}
		if _, err := reader(t, z).Near(t.Context(), "a//b"); !errors.Is(err, manager.ErrBadName) {
			t.Errorf("a bad name: %v", err)
		}
	})
}

// Near lists few directories, however many there are.
func TestNearCost(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		r := reader(t, z)
		for a := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyz", "") {
			put(t, z, 0, "/holdfast/xx"+a+"/yy")
		}
		var asked []string
		z.OnRequest(func(_ int64, op zktest.Op, path string) { asked = append(asked, op.String()) })
		names, err := r.Near(t.Context(), "xx1/yz")
		must(t, err)
		if len(names) != mostNear || len(asked) != 1+mostTrails+mostTrails {
			t.Errorf("%d names by %d requests, %v", len(names), len(asked), asked)
		}
	})
}
