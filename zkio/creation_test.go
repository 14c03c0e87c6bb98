// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// creations describes a new node in each of the directories.
func creations(count bool, dirs ...string) (all []*Creation) {
	for _, dir := range dirs {
		all = append(all, &Creation{Node: newNode(dir, &recorder{}), Count: count})
	}
	return all
}

// nodesOf returns the nodes of all.
func nodesOf(all []*Creation) (nodes []*Node) {
	for _, c := range all {
		nodes = append(nodes, c.Node)
	}
	return nodes
}

// inDirs is connected with the directories /d and /e.
func inDirs(t *testing.T, fn func(t *testing.T, z *zktest.Server, s *Session)) {
	t.Helper()
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		must(t, s.EnsureDir("/e", nil))
		fn(t, z, s)
	})
}

// wantCreated fails the test unless all nodes are there, made by one transaction, and
// the only ones of the session.
func wantCreated(t *testing.T, s *Session, all []*Creation) {
	t.Helper()
	for _, c := range all {
		_, st, err := s.Get(c.Node.Path())
		if err != nil || st.EphemeralOwner != s.ID() || st.Czxid != c.Node.Czxid() || st.Czxid != all[0].Node.Czxid() {
			t.Errorf("%q, czxid %d: %+v, %v; the first one's czxid is %d", c.Node.Path(), c.Node.Czxid(), st, err, all[0].Node.Czxid())
		}
	}
	if got := s.client.Stats().Nodes; got != len(all) {
		t.Errorf("%d nodes are kept alive, want %d", got, len(all))
	}
	var paths int64
	for _, c := range all {
		paths += int64(len(c.Node.Path())) + 4
	}
	if got := s.paths.bytes.Load(); got != paths {
		t.Errorf("the paths of the session's nodes have %d bytes, want %d", got, paths)
	}
}

// wantNone fails the test if a node or a watch of all is left.
func wantNone(t *testing.T, z *zktest.Server, s *Session, all []*Creation) {
	t.Helper()
	for _, dir := range []string{"/d", "/e"} {
		if left := z.Children(dir); len(left) > 0 {
			t.Errorf("%s has %v", dir, left)
		}
	}
	if st := s.client.Stats(); st.Nodes != 0 || st.Watches != 0 {
		t.Errorf("%d nodes are kept alive, %d paths armed", st.Nodes, st.Watches)
	}
	for _, c := range all {
		if c.Node.Path() != "" || c.Node.Session() != nil {
			t.Errorf("the node is %q of %p", c.Node.Path(), c.Node.Session())
		}
	}
}

// TestCreateAll: one request creates all nodes and counts their neighbours, and another
// deletes them.
func TestCreateAll(t *testing.T) {
	inDirs(t, func(t *testing.T, z *zktest.Server, s *Session) {
		for range 3 {
			all := creations(true, "/d", "/e")
			list := &Read{Path: "/e", What: ReadChildren}
			before := s.client.Stats().Sent["multi"]
			must(t, s.CreateAll(all, list))
			if list.Err != nil || len(list.Names) != 1 || list.Names[0] != all[1].Node.Name() {
				t.Errorf("the list behind it: %v, %v", list.Names, list.Err)
			}
			if sent := s.client.Stats().Sent["multi"] - before; sent != 1 || all[0].Children != 1 || all[1].Children != 1 || all[0].Watched {
				t.Errorf("%d requests; %+v, %+v", sent, all[0], all[1])
			}
			wantCreated(t, s, all)
			must(t, s.CreateAll(all)) // finds them there
			wantCreated(t, s, all)
			if !all[0].Watched || all[0].Children != 0 {
				t.Errorf("found: %+v", all[0])
			}
			if !s.RemoveAll(nodesOf(all)...) {
				t.Error("not removed")
			}
			wantNone(t, z, s, all)
		}
	})
}

// TestCreateAllReplaces: one transaction moves a node to the end of its queue.
func TestCreateAllReplaces(t *testing.T) {
	for _, count := range []bool{true, false} {
		inDirs(t, func(t *testing.T, z *zktest.Server, s *Session) {
			var r recorder
			old := queued(t, s, &r)
			gone := old.Path()
			all := creations(count, "/d")
			all[0].Old = old
			must(t, s.CreateAll(all))
			synctest.Wait()
			if r.has(gone + " deleted") {
				t.Errorf("told of the old one: %v", r.lines())
			}
			wantPlaced(t, z, all[0].Node, s)
			must(t, all[0].Node.Delete(s))
			wantNone(t, z, s, all)
		})
	}
}

// TestCreateAllWithoutCounting: the nodes are read in one packet, for their transaction,
// which also leaves watches.
func TestCreateAllWithoutCounting(t *testing.T) {
	inDirs(t, func(t *testing.T, z *zktest.Server, s *Session) {
		all := creations(false, "/d", "/e")
		must(t, s.CreateAll(all))
		if !all[0].Watched || !all[1].Watched {
			t.Errorf("%+v, %+v", all[0], all[1])
		}
		wantCreated(t, s, all)
		must(t, z.Delete(all[1].Node.Path()))
		synctest.Wait()
		if r, ok := all[1].Node.watcher.(*recorder); !ok || !r.has(all[1].Node.Path()+" deleted") {
			t.Error("not told of the deletion")
		}
		if s.RemoveAll(nodesOf(all)...) {
			t.Error("removed what was gone")
		}
		wantRemoved(t, all[0].Node, s, RemovedByUs)
		wantRemoved(t, all[1].Node, s, RemovedBefore)
		wantNone(t, z, s, all)
	})
}

// TestCreateAllRefused: nothing is done if not all can be, and one Creation says why.
func TestCreateAllRefused(t *testing.T) {
	noWrite, noCreate := []ACL{{PermAll &^ PermWrite, "world", "anyone"}}, []ACL{{PermAll &^ PermCreate, "world", "anyone"}}
	for _, tt := range []struct {
		what  string
		count bool
		spoil func(t *testing.T, z *zktest.Server, s *Session)
		want  error
	}{
		{"no directory", true, func(*testing.T, *zktest.Server, *Session) {}, ErrNoNode},
		{"may not be written", true, func(t *testing.T, _ *zktest.Server, s *Session) { must(t, s.Create("/e", nil, noWrite)) }, ErrNoAuth},
		{"no node may be made", false, func(t *testing.T, _ *zktest.Server, s *Session) { must(t, s.Create("/e", nil, noCreate)) }, ErrNoAuth},
	} {
		t.Run(tt.what, func(t *testing.T) {
			inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
				tt.spoil(t, z, s)
				all := creations(tt.count, "/d", "/e", "/d")
				wantErr(t, s.CreateAll(all), tt.want, Definite)
				if all[0].Err != nil || !errors.Is(all[1].Err, tt.want) || all[2].Err != nil {
					t.Errorf("%v, %v, %v", all[0].Err, all[1].Err, all[2].Err)
				}
				for _, c := range all {
					must(t, c.Node.Delete(s))
				}
				wantNone(t, z, s, all)
			})
		})
	}
}

// TestCreateAllReplacesNothing: if the old node is gone nothing is created; if the
// directory may not be written the old node stays.
func TestCreateAllReplacesNothing(t *testing.T) {
	for _, gone := range []bool{true, false} {
		connected(t, func(t *testing.T, z *zktest.Server, _ *Client, s *Session) {
			must(t, s.Create("/d", nil, []ACL{{PermAll &^ PermWrite, "world", "anyone"}}))
			old := newNode("/d", nil)
			must(t, old.Create(s))
			want, how := ErrNoAuth, RemovedByUs
			if gone {
				want, how = ErrNoNode, RemovedBefore
				must(t, z.Delete(old.Path()))
			}
			all := creations(true, "/d")
			all[0].Old = old
			wantErr(t, s.CreateAll(all), want, Definite)
			must(t, all[0].Node.Delete(s))
			wantRemoved(t, old, s, how)
			wantNone(t, z, s, all)
		})
	}
}

// TestF127_LostCreateAll: the request or its answer is lost, and perhaps another client
// deletes a node meanwhile. The next CreateAll makes one node in each directory, by one
// transaction; Delete leaves none.
func TestF127_LostCreateAll(t *testing.T) {
	multi := zktest.Match{Op: zktest.OpMulti, Path: "/d", Times: 1}
	for _, tt := range []struct {
		what string
		lose func(z *zktest.Server)
		then func(z *zktest.Server)
	}{
		{"carried out", func(z *zktest.Server) { z.Faults().DropReply(multi) }, func(*zktest.Server) {}},
		{"not carried out", func(z *zktest.Server) { z.Faults().DropRequest(multi) }, func(*zktest.Server) {}},
		{"carried out, one deleted", func(z *zktest.Server) { z.Faults().DropReply(multi) },
			func(z *zktest.Server) { _ = z.Delete("/e/" + z.Children("/e")[0]) }},
	} {
		for _, wanted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/wanted=%t", tt.what, wanted), func(t *testing.T) {
				inDirs(t, func(t *testing.T, z *zktest.Server, s *Session) {
					all := creations(true, "/d", "/e")
					tt.lose(z)
					wantErr(t, s.CreateAll(all), ErrUnknown, Unknown)
					tt.then(z)
					if wanted {
						must(t, s.CreateAll(all))
						wantCreated(t, s, all)
						if n := len(z.Children("/d")) + len(z.Children("/e")); n != 2 {
							t.Errorf("%d nodes", n)
						}
					}
					for _, c := range all {
						must(t, c.Node.Delete(s))
					}
					wantNone(t, z, s, all)
				})
			})
		}
	}
}

// TestF127_LostRemoveAll: the request or its answer is lost. Remove finds out.
func TestF127_LostRemoveAll(t *testing.T) {
	for _, carriedOut := range []bool{true, false} {
		inDirs(t, func(t *testing.T, z *zktest.Server, s *Session) {
			all := creations(true, "/d", "/e")
			must(t, s.CreateAll(all))
			how := RemovedByUs
			if carriedOut {
				how = RemovedUnknown
				z.Faults().DropReply(zktest.Match{Op: zktest.OpMulti, Times: 1})
			} else {
				z.Faults().DropRequest(zktest.Match{Op: zktest.OpMulti, Times: 1})
			}
			if s.RemoveAll(nodesOf(all)...) {
				t.Error("it says that it has removed them")
			}
			for _, n := range nodesOf(all) {
				wantRemoved(t, n, s, how)
			}
			wantNone(t, z, s, all)
		})
	}
}

// TestRealCreateAll: a real server does what the embedded one does.
func TestRealCreateAll(t *testing.T) {
	t.Parallel()
	cfg, dir := setUp(t, realzk.Shared(t))
	s := open(t, cfg).Session()
	for _, name := range []string{"/a", "/b"} {
		must(t, s.EnsureDir(dir+name, nil))
	}
	for _, count := range []bool{true, false} {
		all := creations(count, dir+"/a", dir+"/b")
		must(t, s.CreateAll(all))
		if count && (all[0].Children != 1 || all[1].Children != 1) {
			t.Errorf("%+v, %+v", all[0], all[1])
		}
		wantCreated(t, s, all)
		more := creations(count, dir+"/a")
		more[0].Old = all[0].Node
		must(t, s.CreateAll(more))
		all[0] = more[0]
		if names, _, err := s.Children(dir + "/a"); err != nil || len(names) != 1 || names[0] != all[0].Node.Name() {
			t.Errorf("%v, %v; want %s", names, err, all[0].Node.Name())
		}
		if !s.RemoveAll(nodesOf(all)...) {
			t.Error("not removed")
		}
		missing := creations(count, dir+"/a", dir+"/c")
		wantErr(t, s.CreateAll(missing), ErrNoNode, Definite)
		if !errors.Is(missing[1].Err, ErrNoNode) || missing[0].Err != nil {
			t.Errorf("%v, %v", missing[0].Err, missing[1].Err)
		}
		if names, _, err := s.Children(dir + "/a"); err != nil || len(names) != 0 {
			t.Errorf("left: %v, %v", names, err)
		}
	}
}
