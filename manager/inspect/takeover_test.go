// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// note returns a note, as put takes it, that the session with this number was closed at the second
// at, for a process that had nodes in these directories.
func note(t *testing.T, root string, at int64, session int64, process string, dirs ...string) string {
	t.Helper()
	var nodes []string
	for _, dir := range dirs {
		nodes = append(nodes, dir+"/lock-0000000007")
	}
	slices.Sort(nodes)
	text, err := json.Marshal(takeover.Record{
		Process: json.RawMessage(process), Session: session, Ended: time.Unix(at, 0).UTC(), After: 4 * time.Millisecond, Nodes: nodes,
	})
	must(t, err)
	return fmt.Sprintf("%s/note-%010d %s", takeover.Directory(root), at, text)
}

// takeoverText describes a takeover for a table of these tests.
func takeoverText(t *Takeover) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("%s %s %#x at %d after %v", brief(&t.From), t.From.Client, t.From.Session, t.Ended.Unix(), t.After)
}

// The queue tells of the last session that was closed for a process with a node in the lock's
// directory.
func TestTakeover(t *testing.T) {
	ours, theirs := says("billing", takeover.Kind), `"10.1.2.3"`
	for _, test := range []struct {
		what  string
		root  string // "": /holdfast
		notes func(t *testing.T, root string) []string
		want  string // of the lock jobs/x
	}{
		{what: "no notes"},
		{what: "one", notes: func(t *testing.T, root string) []string {
			return []string{note(t, root, 7, 0x17, ours, "/holdfast/jobs", "/holdfast/jobs/x")}
		}, want: "billing holdfast 0x17 at 7 after 4ms"},
		{what: "of other locks", notes: func(t *testing.T, root string) []string {
			return []string{note(t, root, 7, 0x17, ours, "/holdfast/jobs", "/holdfast/jobs/x/y", "/jobs/x", "/holdfast/jobs/x2")}
		}},
		{what: "of locks that are not known", notes: func(t *testing.T, root string) []string {
			return []string{note(t, root, 7, 0x17, ours)}
		}},
		{what: "the last that fits", notes: func(t *testing.T, root string) []string {
			return []string{
				note(t, root, 8, 0x18, says("report", takeover.Kind), "/holdfast/jobs/x"),
				note(t, root, 9, 0x19, ours, "/holdfast/jobs/y"),
				note(t, root, 7, 0x17, ours, "/holdfast/jobs/x"),
			}
		}, want: "report holdfast 0x18 at 8 after 4ms"},
		{what: "the root of the tree", root: "/", notes: func(t *testing.T, root string) []string {
			return []string{note(t, root, 7, 0x17, ours, "/jobs/x")}
		}, want: "billing holdfast 0x17 at 7 after 4ms"},
		{what: "what is no note", notes: func(t *testing.T, root string) []string {
			return []string{takeover.Directory(root) + "/zzz hello", note(t, root, 8, 0, ours, "/holdfast/jobs/x"), note(t, root, 7, 0x17, ours, "/holdfast/jobs/x")}
		}, want: "billing holdfast 0x17 at 7 after 4ms"},
		{what: "a process that says nothing of our form", notes: func(t *testing.T, root string) []string {
			return []string{note(t, root, 7, 0x17, theirs, "/holdfast/jobs/x")}
		}, want: `"\"10.1.2.3\""  0x17 at 7 after 4ms`},
		{what: "a process that says very much", notes: func(t *testing.T, root string) []string {
			return []string{note(t, root, 7, 0x17, `"`+strings.Repeat("x", 1000)+`"`, "/holdfast/jobs/x")}
		}, want: `"\"` + strings.Repeat("x", 127) + `…"  0x17 at 7 after 4ms`},
		{what: "a process that says nothing", notes: func(t *testing.T, root string) []string {
			return []string{takeover.Directory(root) + `/note-0000000007 {"session":23,"ended":"1970-01-01T00:00:07Z","nodes":["/holdfast/jobs/x/lock-0000000007"]}`}
		}, want: `?  0x17 at 7 after 0s`},
		{what: "too many notes", notes: func(t *testing.T, root string) (all []string) {
			all = append(all, note(t, root, 1, 0x17, ours, "/holdfast/jobs/x"))
			for i := range int64(takeover.Most) {
				all = append(all, note(t, root, i+2, 0x18, ours, "/holdfast/jobs/y"))
			}
			return all
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(t *testing.T, z *zktest.Server) {
				root := test.root
				if root == "" {
					root = "/holdfast"
				}
				if test.notes != nil {
					put(t, z, 0, test.notes(t, root)...)
				}
				r, err := NewReader(open(t, z), root)
				must(t, err)
				for _, there := range []bool{false, true} { // the lock's directory
					if there {
						put(t, z, 0, join(root, "jobs/x")+"/lock-0000000000")
					}
					q, err := r.Queue(t.Context(), "jobs/x", -1)
					must(t, err)
					if got := takeoverText(q.Takeover); got != test.want || q.Missing == there || len(q.Contenders) > 0 != there {
						t.Errorf("directory %t: %q, missing %t, %d contenders; want %q", there, got, q.Missing, len(q.Contenders), test.want)
					}
					if last := q.Takeover; last != nil {
						c := last.From
						c.Host, c.PID, c.Label, c.Endpoint, c.Identity, c.Session, c.Client = "", 0, "", "", "", 0, ""
						if c != (Contender{}) {
							t.Errorf("it is said to have a node: %+v", c)
						}
					}
				}
			})
		})
	}
}

// What the notes cost, and that a Watch and a recipe have none.
func TestTakeoverCost(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		put(t, z, 0, "/holdfast/x")
		r := reader(t, z)
		reads := func() (n uint64) {
			for _, op := range []zktest.Op{zktest.OpGetData, zktest.OpGetChildren2, zktest.OpMultiRead, zktest.OpExists} {
				n += z.RequestCounts()[op]
			}
			return n
		}
		for _, test := range []struct {
			what  string
			notes []string
			want  uint64 // with the read of the queue
		}{
			{"no directory", nil, 2},
			{"an empty directory", []string{"/holdfast/_taken_"}, 2},
			{"many notes", []string{
				note(t, "/holdfast", 7, 7, says("a", takeover.Kind), "/holdfast/x"),
				note(t, "/holdfast", 8, 8, says("b", takeover.Kind), "/holdfast/y"),
				note(t, "/holdfast", 9, 9, says("c", takeover.Kind), "/holdfast/z"),
			}, 3},
		} {
			put(t, z, 0, test.notes...)
			before := reads()
			if _, err := r.Queue(t.Context(), "x", -1); err != nil || reads()-before != test.want {
				t.Errorf("%s: %d reads, %v; want %d", test.what, reads()-before, err, test.want)
			}
		}
		var asked []string
		z.OnRequest(func(_ int64, _ zktest.Op, path string) { asked = append(asked, path) })
		for q, err := range r.Watch(t.Context(), "x") {
			if must(t, err); q.Takeover != nil {
				t.Errorf("a watch shows %s", takeoverText(q.Takeover))
			}
			break
		}
		_, _, err := r.Recipe(t.Context(), "x", -1)
		must(t, err)
		for _, path := range asked {
			if strings.Contains(path, takeover.Segment) {
				t.Errorf("a watch or a recipe reads %s", path)
			}
		}
	})
}

// A client that may not read the notes sees the queue all the same.
func TestTakeoverIsDenied(t *testing.T) {
	private := []zkio.ACL{{Perms: zkio.PermAll, Scheme: "auth"}}
	for _, test := range []struct {
		what string
		acl  []zkio.ACL // of the directory
		want string
	}{
		{"the directory", private, ""},
		{"a note", nil, "billing holdfast 0x17 at 7 after 4ms"},
	} {
		bubble(t, func(t *testing.T, z *zktest.Server) {
			owner := open(t, z, zkio.Auth{Scheme: "digest", Data: []byte("user:password")}).Session()
			put(t, z, 0, "/holdfast/x/lock-0000000000")
			must(t, owner.Create("/holdfast/_taken_", nil, test.acl))
			path, data, _ := strings.Cut(note(t, "/holdfast", 7, 0x17, says("billing", takeover.Kind), "/holdfast/x"), " ")
			must(t, owner.Create(path, []byte(data), nil))
			path, data, _ = strings.Cut(note(t, "/holdfast", 8, 0x18, says("secret", takeover.Kind), "/holdfast/x"), " ")
			must(t, owner.Create(path, []byte(data), private))
			q, err := reader(t, z).Queue(t.Context(), "x", -1)
			if got := takeoverText(q.Takeover); got != test.want || err != nil || len(q.Contenders) != 1 {
				t.Errorf("%s may not be read: %q, %d contenders, %v; want %q", test.what, got, len(q.Contenders), err, test.want)
			}
		})
	}
}

// In an outage between the queue and the notes, Queue asks again, or fails as if it had begun before.
func TestTakeoverInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		put(t, z, 0, "/holdfast/x/lock-0000000000", note(t, "/holdfast", 7, 0x17, says("billing", takeover.Kind), "/holdfast/x"))
		r := reader(t, z)
		z.Faults().DropReply(zktest.Match{Op: zktest.OpMultiRead, Times: 2})
		q, err := r.Queue(t.Context(), "x", 0)
		if got := takeoverText(q.Takeover); err != nil || got != "billing holdfast 0x17 at 7 after 4ms" {
			t.Errorf("%q, %v", got, err)
		}
		z.Faults().DropRequest(zktest.Match{Op: zktest.OpMultiRead, Times: zktest.Every})
		defer z.Faults().Clear()
		if q, err := r.Queue(t.Context(), "x", 0); !errors.Is(err, ErrOutage) {
			t.Errorf("without an answer: %+v, %v", q, err)
		}
	})
}
