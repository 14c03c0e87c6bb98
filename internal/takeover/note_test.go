// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A note says which session was closed and where it had nodes. The last ones are kept.
func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := zktest.NewServer(zktest.Config{Logger: quiet})
		defer z.Close()
		dialer := func(cfg *zkio.Config) error { cfg.Dialer = z.Dial; return nil }
		client, err := zkio.Open(t.Context(), zkio.Config{Servers: []string{"zk"}, Dialer: z.Dial, Logger: quiet})
		must(t, err)
		defer client.Close(t.Context())
		s := client.Session()
		must(t, s.EnsureDir("/locks", nil))
		cfg := zkio.Config{Servers: []string{"zk"}, Dialer: z.Dial}
		leave := func(id int64, nodes []string) {
			o := New(cfg, zkio.Ticket{ID: id, Timeout: 10 * time.Second}, Note{Root: "/locks", Process: json.RawMessage(`{"pid":7}`)})
			must(t, o.Leave(t.Context(), dialer, time.Now().Add(-time.Duration(id)*time.Hour), time.Duration(id)*time.Millisecond, nodes))
			time.Sleep(time.Millisecond)
		}
		leave(100, []string{})
		leave(101, nil)
		leave(102, []string{"/other/n"})
		if z.Exists("/locks/_taken_") {
			t.Error("there is a note of a session without nodes of locks")
		}
		for id := int64(1); id <= Most+3; id++ {
			leave(id, []string{"/locks/a/n-1", "/locks/b/c/n-2", "/locks/a/n-3", "/n", "/other/n"})
		}
		names := Notes(append(z.Children("/locks/_taken_"), "other"))
		slices.Reverse(names)
		found, err := Read(s, "/locks", names)
		must(t, err)
		if len(found) != Most {
			t.Fatalf("%d notes, want the last %d", len(found), Most)
		}
		for i, r := range found {
			id := int64(i + 4)
			if r.Session != id || r.After != time.Duration(id)*time.Millisecond || string(r.Process) != `{"pid":7}` ||
				strings.Join(r.Nodes, " ") != "/locks/a/n-1 /locks/a/n-3 /locks/b/c/n-2" || r.More != 0 || r.Ended.IsZero() {
				t.Errorf("note %d: %+v", i, r)
			}
			if !r.HadNode("/locks/a/n-3") || r.HadNode("/locks/a/n-2") {
				t.Errorf("note %d knows of other nodes than it names", i)
			}
			for _, dir := range []string{"/locks/a", "/locks/b", "/locks/b/c", "/locks/c", "/lock"} {
				if had := r.HadNodeIn(dir); had != (dir == "/locks/a" || dir == "/locks/b/c") {
					t.Errorf("note %d had a node in %s: %t", i, dir, had)
				}
			}
		}

		// What is no note, or has gone, is left out.
		must(t, s.Create("/locks/_taken_/other", []byte("other"), nil))
		if found, err = Read(s, "/locks", []string{"other", "gone", names[0]}); err != nil || len(found) != 1 {
			t.Errorf("%d notes, %v", len(found), err)
		}
	})
}

// A process may have more nodes than a note takes.
func TestManyNodes(t *testing.T) {
	var nodes []string
	for i := range 20_000 {
		nodes = append(nodes, fmt.Sprintf("/locks/%05d/n", i))
	}
	fit, more := fitting("/locks", nodes)
	if len(fit)+more != len(nodes) || more == 0 || fit[0] != nodes[0] {
		t.Errorf("%d, and %d more", len(fit), more)
	}
	if text, err := json.Marshal(Record{Nodes: fit}); err != nil || len(text) > mostNodes*5/4 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

var quiet = slog.New(slog.DiscardHandler)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
