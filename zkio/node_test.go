// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// wantPlaced fails the test unless n is the only node in /d, and s's.
func wantPlaced(t *testing.T, z *zktest.Server, n *Node, s *Session) {
	t.Helper()
	if left := z.Children("/d"); len(left) != 1 || left[0] != n.Name() {
		t.Errorf("/d has %v, want %q only", left, n.Name())
	}
	_, st, ok := z.Get(n.Path())
	if !ok || st.EphemeralOwner != s.ID() || st.Czxid != n.Czxid() || n.Session() != s {
		t.Errorf("node %q, czxid %d, in %p; the server has %+v, %v", n.Path(), n.Czxid(), n.Session(), st, ok)
	}
	if got := s.client.Stats().Nodes; got != 1 {
		t.Errorf("%d nodes are kept alive, want 1", got)
	}
}

// wantClean fails the test if n left anything behind.
func wantClean(t *testing.T, z *zktest.Server, n *Node, c *Client) {
	t.Helper()
	if left := z.Children("/d"); len(left) != 0 {
		t.Errorf("/d has %v", left)
	}
	if st := c.Stats(); st.Nodes != 0 || st.Watches != 0 {
		t.Errorf("%d nodes are kept alive, %d paths armed", st.Nodes, st.Watches)
	}
	if n.Path() != "" || n.Session() != nil || n.Czxid() != 0 {
		t.Errorf("the node is %q of %p", n.Path(), n.Session())
	}
}

// A node that has been slimmed is what it was, but cannot be made any more.
func TestDropCreateData(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		must(t, s.EnsureDir("/d", nil))
		var r recorder
		n := newNode("/d", &r)
		must(t, n.Create(s))
		path, name, czxid := n.Path(), n.Name(), n.Czxid()
		n.DropCreateData()
		if n.Path() != path || n.Name() != name || n.Czxid() != czxid || !n.named(name) {
			t.Errorf("it is %s, %s, %d; it was %s, %s, %d", n.Path(), n.Name(), n.Czxid(), path, name, czxid)
		}
		wantErr(t, n.Create(s), ErrBadArguments, Definite)
		_, err := n.CreateAndCount(s)
		wantErr(t, err, ErrBadArguments, Definite)
		wantErr(t, n.CreateAtSequence(s, path), ErrBadArguments, Definite)
		wantPlaced(t, z, n, s)
		must(t, n.Delete(s))
		wantClean(t, z, n, c)
		_, err = n.Replace(s, newNode("/d", nil))
		wantErr(t, err, ErrBadArguments, Definite)
	})
}

func TestNodeLife(t *testing.T) {
	for _, how := range []Removal{RemovedByUs, RemovedBefore} {
		connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
			var r recorder
			n := newNode("/d", &r)
			if n.Path() != "" || n.Name() != "" || n.Session() != nil {
				t.Errorf("before: %q %q %p", n.Path(), n.Name(), n.Session())
			}
			must(t, n.Delete(s)) // nothing was ever there
			wantErr(t, n.Create(s), ErrNoNode, Definite)
			must(t, s.EnsureDir("/d", nil))
			for range 2 { // once more changes nothing
				must(t, n.Create(s))
				wantPlaced(t, z, n, s)
			}
			path, news := n.Path(), " data changed"
			if !strings.HasPrefix(n.Name(), n.prefix) || !n.named(n.Name()) || path != "/d/"+n.Name() {
				t.Errorf("name %q, path %q", n.Name(), path)
			}
			if how == RemovedByUs {
				_, err := s.Set(path, []byte("x"), -1)
				must(t, err)
			} else {
				must(t, z.Delete(path))
				news = " deleted"
			}
			synctest.Wait()
			if !r.has(path + news) {
				t.Errorf("told: %v", r.lines())
			}
			if got, err := n.Remove(s); got != how || err != nil {
				t.Errorf("removed %d, %v; want %d", got, err, how)
			}
			wantClean(t, z, n, c)

			n = newNode("/", nil)
			must(t, n.Create(s))
			if n.Path() != "/"+n.Name() || !z.Exists(n.Path()) {
				t.Errorf("path %q", n.Path())
			}
		})
	}
}

// A lostReply is a way of cutting the connection while a node is made, looked
// for, and deleted.
type lostReply struct {
	name  string
	cut   func(*zktest.Faults, zktest.Match) *zktest.Fault
	match []zktest.Match // one after the other
	// creates is how many creates are sent until it has succeeded.
	creates uint64
}

// TestF001_LostReplies: the connection is cut at a request that makes the node
// or looks at it for the first time, before it is carried out and after.
func TestF001_LostReplies(t *testing.T) {
	lostReplies(t,
		lostReply{"create, carried out", (*zktest.Faults).DropReply, []zktest.Match{{Op: zktest.OpCreate}}, 1},
		lostReply{"create, not carried out", (*zktest.Faults).DropRequest, []zktest.Match{{Op: zktest.OpCreate}}, 2},
		lostReply{"the first look", (*zktest.Faults).DropReply, []zktest.Match{{Op: zktest.OpGetData}}, 1})
}

// TestF002_RecoveryIsLost: the answer to the create is lost, and then those to
// the requests that look for the node.
func TestF002_RecoveryIsLost(t *testing.T) {
	lostReplies(t,
		lostReply{"sync", (*zktest.Faults).DropReply, []zktest.Match{{Op: zktest.OpCreate}, {Op: zktest.OpSync}}, 1},
		lostReply{"the list", (*zktest.Faults).DropReply, []zktest.Match{{Op: zktest.OpCreate}, {Op: zktest.OpGetChildren2}}, 1},
		lostReply{"the first look", (*zktest.Faults).DropReply, []zktest.Match{{Op: zktest.OpCreate}, {Op: zktest.OpGetData}}, 1},
		lostReply{"everything", (*zktest.Faults).DropReply, []zktest.Match{{Op: zktest.OpCreate}, {Op: zktest.OpSync},
			{Op: zktest.OpGetChildren2}, {Op: zktest.OpGetData}, {Op: zktest.OpGetData, Nth: 2}}, 1},
		lostReply{"the list, and nothing was created", (*zktest.Faults).DropRequest, []zktest.Match{{Op: zktest.OpCreate}, {Op: zktest.OpGetChildren2}}, 2})
}

// TestF081_LostReplies: the connection is cut at the deletion.
func TestF081_LostReplies(t *testing.T) {
	lostReplies(t,
		lostReply{"carried out", (*zktest.Faults).DropReply, []zktest.Match{{Op: zktest.OpDelete}}, 1},
		lostReply{"not carried out", (*zktest.Faults).DropRequest, []zktest.Match{{Op: zktest.OpDelete}}, 1})
}

// lostReplies makes a node and deletes it while the faults strike. Whatever
// happens, trying again leads to exactly one node, and then to none.
func lostReplies(t *testing.T, losses ...lostReply) {
	t.Helper()
	for _, tt := range losses {
		t.Run(tt.name, func(t *testing.T) {
			inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
				var r recorder
				n := newNode("/d", &r)
				faults := make([]*zktest.Fault, 0, len(tt.match))
				for _, m := range tt.match {
					faults = append(faults, tt.cut(z.Faults(), m))
				}
				failed := 0
				again := func(what string, do func() error) {
					t.Helper()
					for err := do(); err != nil; err = do() {
						failed++
						if ClassOf(err) != Unknown {
							t.Fatalf("%s: %v is of class %v", what, err, ClassOf(err))
						}
						if failed > 10 {
							t.Fatalf("%s still fails: %v", what, err)
						}
					}
				}
				again("create", func() error { return n.Create(s) })
				wantPlaced(t, z, n, s)
				if got := s.client.Stats().Sent["create"]; got != tt.creates {
					t.Errorf("%d creates, want %d", got, tt.creates)
				}
				again("delete", func() error { return n.Delete(s) })
				wantClean(t, z, n, s.client)
				for i, f := range faults {
					if f.Hits() != 1 {
						t.Errorf("fault %d, %s, has hit %d times", i, f.Kind(), f.Hits())
					}
				}
				if failed == 0 {
					t.Error("nothing has failed")
				}
			})
		})
	}
}

// createUnanswered asks for a node and gets no answer, whether it is carried out or not.
func createUnanswered(t *testing.T, z *zktest.Server, n *Node, s *Session, carriedOut bool) {
	t.Helper()
	lose := z.Faults().DropRequest
	if carriedOut {
		lose = z.Faults().DropReply
	}
	lose(zktest.Match{Op: zktest.OpCreate})
	wantErr(t, n.Create(s), ErrUnknown, Unknown)
}

// TestF003_SyncBeforeTheList: the server that is asked for a node of unknown
// fate may lag behind. It is made to catch up first; and as long as it does
// not answer that, nothing is concluded from what it knows.
func TestF003_SyncBeforeTheList(t *testing.T) {
	for _, happened := range []bool{true, false} {
		inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
			n := newNode("/d", nil)
			createUnanswered(t, z, n, s, happened)
			var mu sync.Mutex
			var asked []string
			z.OnRequest(func(_ int64, op zktest.Op, _ string) {
				mu.Lock()
				defer mu.Unlock()
				if op != zktest.OpPing && op != zktest.OpConnect && op != zktest.OpMulti { // which is the heartbeat's
					asked = append(asked, op.String())
				}
			})
			wantAsked := func(want string) {
				t.Helper()
				mu.Lock()
				defer mu.Unlock()
				if got := strings.Join(asked, " "); got != want {
					t.Errorf("carried out %t: asked %q, want %q", happened, got, want)
				}
				asked = nil
			}
			silent := z.Faults().SwallowReply(zktest.Match{Op: zktest.OpSync})
			go func() {
				<-silent.Hit()
				time.Sleep(time.Second)
				z.Faults().CutAll()
			}()
			wantErr(t, n.Create(s), ErrUnknown, Unknown)
			if silent.Hits() != 1 {
				t.Fatal("the server was not asked to catch up")
			}
			wantAsked("sync")
			must(t, n.Create(s))
			if happened {
				wantAsked("sync getChildren2 getData getData")
			} else {
				wantAsked("sync getChildren2 create getData")
			}
			wantPlaced(t, z, n, s)
		})
	}
}

// TestDeleteAfterUnknownCreate: Remove finds and deletes a node that may be there.
func TestDeleteAfterUnknownCreate(t *testing.T) {
	for happened, want := range map[bool]Removal{true: RemovedByUs, false: RemovedUnknown} {
		inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
			n := newNode("/d", nil)
			createUnanswered(t, z, n, s, happened)
			if got := len(z.Children("/d")) == 1; got != happened {
				t.Fatalf("node there: %v, want %v", got, happened)
			}
			if how, err := n.Remove(s); how != want || err != nil {
				t.Errorf("removed %d, %v; want %d", how, err, want)
			}
			wantClean(t, z, n, s.client)

			createUnanswered(t, z, n, s, happened)
			must(t, z.DeleteAll("/d")) // and everything in it
			wantErr(t, n.Create(s), ErrNoNode, Definite)
			must(t, s.EnsureDir("/d", nil))
			must(t, n.Create(s))
			wantPlaced(t, z, n, s)
		})
	}
}

// TestF004_AnotherSessionsNodeIsNotAdopted: a node of our name that an earlier
// session owns is about to go with that session.
func TestF004_AnotherSessionsNodeIsNotAdopted(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		other := open(t, configure(z)).Session()
		n := newNode("/d", nil)
		old := "/d/" + n.prefix + "0000000000"
		must(t, z.CreateEphemeral(other.ID(), old, nil))
		z.Faults().DropRequest(zktest.Match{Op: zktest.OpCreate})
		wantErr(t, n.Create(s), ErrUnknown, Unknown)
		must(t, n.Create(s))
		if n.Path() == old {
			t.Fatal("adopted")
		}
		must(t, z.Delete(old))
		wantPlaced(t, z, n, s)
	})
}

// TestF003_SurplusIsDeleted: should two nodes of our name ever exist, one goes,
// even if the connection breaks before it is deleted.
func TestF003_SurplusIsDeleted(t *testing.T) {
	for _, cut := range []zktest.Match{{}, {Op: zktest.OpDelete}, {Op: zktest.OpGetData, Nth: 2}} {
		for _, remove := range []bool{false, true} {
			inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
				n := newNode("/d", nil)
				createUnanswered(t, z, n, s, true)
				must(t, z.CreateEphemeral(s.ID(), "/d/"+n.prefix+"0000000007", nil))
				if cut.Op != 0 {
					cut := z.Faults().DropRequest(cut)
					wantErr(t, n.Create(s), ErrUnknown, Unknown)
					if cut.Hits() != 1 || len(z.Children("/d")) != 2 || n.state != nodeThereAndMaybe {
						t.Fatalf("%d hits, %v, state %d", cut.Hits(), z.Children("/d"), n.state)
					}
				}
				if !remove {
					must(t, n.Create(s))
					wantPlaced(t, z, n, s)
					if !strings.HasSuffix(n.Path(), "0000000000") {
						t.Errorf("kept %q, which is not the first", n.Path())
					}
					return
				}
				z.Faults().DropRequest(zktest.Match{Op: zktest.OpDelete, Nth: 2})
				_, err := n.Remove(s)
				wantErr(t, err, ErrUnknown, Unknown)
				if left := len(z.Children("/d")); left != 1 {
					t.Fatalf("%d nodes are left", left)
				}
				if how, err := n.Remove(s); how != RemovedByUs || err != nil {
					t.Errorf("removed %d, %v", how, err)
				}
				wantClean(t, z, n, s.client)
			})
		}
	}
}

// TestCreateAndCount: one request makes the node and counts the contenders.
func TestCreateAndCount(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		var r recorder
		n, second := newNode("/d", &r), newNode("/d", nil)
		children, err := n.CreateAndCount(s)
		must(t, err)
		if children != 1 {
			t.Errorf("%d children", children)
		}
		wantPlaced(t, z, n, s)
		if children, err = second.CreateAndCount(s); err != nil || children != 2 {
			t.Errorf("%d children, %v", children, err)
		}
		if second.Czxid() <= n.Czxid() {
			t.Errorf("czxid %d after %d", second.Czxid(), n.Czxid())
		}
		must(t, second.Delete(s))
		if children, err = n.CreateAndCount(s); err != nil || children != 0 { // there already
			t.Errorf("%d children, %v", children, err)
		}
		wantPlaced(t, z, n, s)
		must(t, n.Delete(s))
		wantClean(t, z, n, s.client)

		for _, tt := range []struct {
			lose func(*zktest.Faults, zktest.Match) *zktest.Fault
			want int
		}{
			{(*zktest.Faults).DropReply, 0}, // found, not made
			{(*zktest.Faults).DropRequest, 1},
		} {
			lost := tt.lose(z.Faults(), zktest.Match{Op: zktest.OpMulti})
			_, err = n.CreateAndCount(s)
			wantErr(t, err, ErrUnknown, Unknown)
			children, err = n.CreateAndCount(s)
			must(t, err)
			if lost.Hits() != 1 || children != tt.want {
				t.Errorf("%s: %d hits, %d children, want %d", lost.Kind(), lost.Hits(), children, tt.want)
			}
			wantPlaced(t, z, n, s)
			must(t, n.Delete(s))
		}

		must(t, z.DeleteAll("/d"))
		_, err = n.CreateAndCount(s)
		wantErr(t, err, ErrNoNode, Definite)
		must(t, s.EnsureDir("/d", nil))
		_, err = n.CreateAndCount(s)
		must(t, err)
		wantPlaced(t, z, n, s)
	})
}

// TestCreateAtSequence: a node takes another's place in the queue.
func TestCreateAtSequence(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		writer, later := newNode("/d", nil), newNode("/d", nil)
		must(t, writer.Create(s))
		must(t, later.Create(s))
		sequence := func(n *Node) string { return n.Name()[len(n.prefix):] }

		n := newNode("/d", nil)
		must(t, n.CreateAtSequence(s, writer.Path()))
		if sequence(n) != sequence(writer) || n.Beside() != writer.Path() || !z.Exists(n.Path()) {
			t.Errorf("%q beside %q", n.Path(), n.Beside())
		}
		must(t, n.Delete(s))
		if n.Beside() != "" {
			t.Errorf("deleted, and beside %q", n.Beside())
		}

		z.Faults().DropReply(zktest.Match{Op: zktest.OpMulti})
		wantErr(t, n.CreateAtSequence(s, writer.Path()), ErrUnknown, Unknown)
		must(t, n.Create(s)) // finds the one that there is
		if n.Beside() != writer.Path() {
			t.Errorf("%q beside %q", n.Path(), n.Beside())
		}
		must(t, n.Delete(s))

		z.Faults().DropReply(zktest.Match{Op: zktest.OpCreate})
		wantErr(t, n.Create(s), ErrUnknown, Unknown)
		must(t, n.CreateAtSequence(s, writer.Path())) // finds the one that there is, elsewhere
		if got := len(z.Children("/d")); got != 3 || sequence(n) == sequence(writer) || n.Beside() != "" {
			t.Errorf("%d nodes; %q beside %q", got, n.Path(), n.Beside())
		}
		must(t, n.Delete(s))

		must(t, writer.Delete(s))
		wantErr(t, n.CreateAtSequence(s, "/d/"+"x"), ErrBadArguments, Definite)
		wantErr(t, n.CreateAtSequence(s, later.Path()+"0"), ErrNoNode, Definite)
		if n.Path() != "" || n.Beside() != "" || len(z.Children("/d")) != 1 {
			t.Errorf("%q beside %q; %v", n.Path(), n.Beside(), z.Children("/d"))
		}
	})
}

// TestF091_DeletedBetweenCreateAndLook: the node is made again, but not for ever, and
// never under the same path: its name and number may be all that others know.
func TestF091_DeletedBetweenCreateAndLook(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		writer := newNode("/d", nil)
		must(t, writer.Create(s))
		var times atomic.Int32
		seen := make(map[string]int)
		z.OnRequest(func(_ int64, op zktest.Op, path string) {
			if op == zktest.OpGetData && path != "/d" && times.Add(-1) >= 0 {
				seen[path]++
				if err := z.Delete(path); err != nil {
					t.Error(err)
				}
			}
		})
		for i, create := range []func(n *Node) error{
			func(n *Node) error { return n.Create(s) },
			func(n *Node) error { return n.CreateAtSequence(s, writer.Path()) },
		} {
			n := newNode("/d", nil)
			times.Store(2)
			must(t, create(n))
			seen[n.Path()]++
			must(t, n.Delete(s))
			must(t, create(n))
			seen[n.Path()]++
			must(t, n.Delete(s))
			times.Store(100)
			wantErr(t, create(n), ErrUnknown, Unknown)
			times.Store(0)
			must(t, n.Delete(s))
			if len(seen) != 7*(i+1) || n.Path() != "" {
				t.Errorf("%q; the nodes had the paths %v", n.Path(), seen)
			}
		}
		z.OnRequest(nil)
		must(t, writer.Delete(s))
		wantClean(t, z, writer, s.client)
	})
}

// TestLostCreateIsMadeAnew: a create whose answer is lost may have been carried
// out, and the node deleted, before the client looks. Another gets another name.
func TestLostCreateIsMadeAnew(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		writer, n := newNode("/d", nil), newNode("/d", nil)
		must(t, writer.Create(s))
		z.Faults().DropReply(zktest.Match{Op: zktest.OpMulti, Path: "/d"})
		wantErr(t, n.CreateAtSequence(s, writer.Path()), ErrUnknown, Unknown)
		first := n.pathBeside(writer.Path())
		must(t, z.Delete(first))
		must(t, n.CreateAtSequence(s, writer.Path()))
		if n.Path() == first || n.Beside() != writer.Path() {
			t.Errorf("%s beside %s; it was %s before", n.Path(), n.Beside(), first)
		}
		must(t, n.Delete(s))
		first = join(n.dir, n.prefix)
		wantErr(t, n.CreateAtSequence(s, "/d/none-0000000000"), ErrNoNode, Definite)
		if n.spent || n.prefix == "" || strings.HasPrefix(first, "/d/"+n.prefix) {
			t.Errorf("a name that no node has had is given away: %s", n.prefix)
		}
	})
}

// TestCreateAfterALostDelete: what is being deleted is deleted before a node is
// made anew.
func TestCreateAfterALostDelete(t *testing.T) {
	for _, lose := range []func(*zktest.Faults, zktest.Match) *zktest.Fault{(*zktest.Faults).DropReply, (*zktest.Faults).DropRequest} {
		inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
			n := newNode("/d", nil)
			must(t, n.Create(s))
			before := n.Path()
			lose(z.Faults(), zktest.Match{Op: zktest.OpDelete})
			wantErr(t, n.Delete(s), ErrUnknown, Unknown)
			must(t, n.Create(s))
			if n.Path() == before {
				t.Errorf("%s, which may yet be deleted", n.Path())
			}
			wantPlaced(t, z, n, s)
		})
	}
}

// TestHeartbeatLeavesTheNextNode: the heartbeat finds a node gone that its owner
// has made anew meanwhile.
func TestHeartbeatLeavesTheNextNode(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		n := newNode("/d", nil)
		must(t, n.Create(s))
		picked, path := s.nodes.pick()
		must(t, n.Delete(s))
		must(t, n.Create(s))
		s.nodes.remove(picked, path)
		if picked != n || s.nodes.len() != 1 {
			t.Errorf("%d nodes are kept alive, want the new one", s.nodes.len())
		}
		s.nodes.remove(n, n.Path())
		if s.nodes.len() != 0 {
			t.Error("the node that was picked is kept alive")
		}
	})
}

// TestF005_NodeInTheNextSession: a node was made, or may have been, in a session
// that the server has ended, or that has ended for the client only.
func TestF005_NodeInTheNextSession(t *testing.T) {
	for _, made := range []bool{true, false} {
		for _, gone := range []bool{true, false} {
			inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
				c := s.client
				create := func() *Node {
					n := newNode("/d", &recorder{})
					if made {
						must(t, n.Create(s))
					} else {
						createUnanswered(t, z, n, s, true)
					}
					return n
				}
				first, again := create(), create()
				want := RemovedByUs
				if gone {
					want = RemovedUnknown
					z.ExpireSession(s.ID())
				} else {
					s.end(ErrSessionOver, false)
				}
				eventually(t, "a second session", func() bool { return c.Session() != s })
				if !gone {
					err := first.Delete(s)
					wantErr(t, err, ErrSessionOver, SessionOver)
					if !strings.Contains(err.Error(), "did not confirm the end of session") || len(z.Children("/d")) != 2 {
						t.Errorf("error %q; %v", err, z.Children("/d"))
					}
					must(t, again.Delete(c.Session()))
				}
				if how, err := first.Remove(c.Session()); how != want || err != nil {
					t.Errorf("removed %d, %v; want %d", how, err, want)
				}
				must(t, again.Create(c.Session()))
				wantPlaced(t, z, again, c.Session())
				must(t, again.Delete(c.Session()))
				wantClean(t, z, again, c)
			})
		}
	}
}

// TestNodeOfLiveSession: a node belongs to one session at a time.
func TestNodeOfLiveSession(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		other := open(t, configure(z)).Session()
		n := newNode("/d", nil)
		must(t, n.Create(s))
		wantErr(t, n.Create(other), ErrBadArguments, Definite)
		wantErr(t, n.Delete(other), ErrBadArguments, Definite)
		if !z.Exists(n.Path()) {
			t.Error("not there any more")
		}
		must(t, n.Delete(s))
	})
}

// TestDeleteForbidden: the error says so, and the node is there still.
func TestDeleteForbidden(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		s := open(t, configure(z)).Session()
		must(t, s.Create("/d", nil, []ACL{{PermAll &^ PermDelete, "world", "anyone"}}))
		n := newNode("/d", &recorder{})
		must(t, n.Create(s))
		wantErr(t, n.Delete(s), ErrNoAuth, Definite)
		if !z.Exists(n.Path()) {
			t.Error("not there any more")
		}
		mustClose(t, s.client)
		must(t, n.Delete(s)) // it went with the session
	})
}

func TestNamed(t *testing.T) {
	n := NewNode("/d", "lock-", func() string { return "0123" }, nil, nil, nil)
	for name, want := range map[string]bool{
		"_c_0123-lock-0000000000":  true,
		"_c_0123-lock-2147483647":  true,
		"_c_0123-lock--2147483648": true,
		"_c_0123-lock--000000005":  true, // %010d of -5
		"_c_0123-lock-":            false,
		"_c_0123-lock-00000":       false,
		"_c_0123-lock-00000000000": false,
		"_c_0123-lock-000000000x":  false,
		"_c_0124-lock-0000000000":  false,
		"_c_0123-read-0000000000":  false,
		"x_c_0123-lock-0000000000": false,
		"README":                   false,
		"":                         false,
	} {
		if got := n.named(name); got != want {
			t.Errorf("named(%q) = %v, want %v", name, got, want)
		}
	}
}

// TestAbandonedWaits: a wait that is given up leaves no watch in the client.
func TestAbandonedWaits(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		c := s.client
		ahead := newNode("/d", nil)
		must(t, ahead.Create(s))
		for range 1000 {
			w := &recorder{}
			watchNode(t, s, ahead.Path(), w)
			c.Unwatch(ahead.Path(), w)
		}
		if n := c.Stats().Watches; n != 0 {
			t.Errorf("%d paths are armed", n)
		}
		if n := z.AllWatches(); n.Data != 1 || n.Child != 0 {
			t.Errorf("the server has %+v, want the one that it cannot be asked to drop", n)
		}
		must(t, ahead.Delete(s))
		if n := z.AllWatches(); n.Data+n.Child != 0 {
			t.Errorf("the server has %+v", n)
		}
	})
}

// TestWatchKinds: which reads leave which watches, and that they come back
// after a reconnect.
func TestWatchKinds(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		c := s.client
		must(t, s.Create("/d/data", nil, nil))
		must(t, s.Create("/d/exists", nil, nil))
		must(t, s.Create("/d/unarmed", nil, nil))
		var r recorder
		for _, path := range []string{"/d", "/d/data", "/d/exists", "/d/missing"} {
			c.Watch(path, &r)
			c.Watch(path, &r) // once only
		}
		_, _, err := s.Children("/d")
		must(t, err)
		_, _, err = s.Get("/d/data")
		must(t, err)
		_, _, err = s.Get("/d/unarmed")
		must(t, err)
		_, _, err = s.Exists("/d/exists")
		must(t, err)
		_, _, err = s.Exists("/d/missing")
		must(t, err)
		if _, _, err = s.Get("/d/missing"); !errors.Is(err, ErrNoNode) {
			t.Fatal(err)
		}
		check := func() {
			t.Helper()
			if n := z.AllWatches(); n.Data != 3 || n.Child != 1 {
				t.Fatalf("the server has %+v", n)
			}
		}
		check()
		for range 3 {
			time.Sleep(time.Second)
			z.Faults().CutAll()
			eventually(t, "set again", func() bool { n := z.AllWatches(); return n.Data+n.Child == 4 })
			check()
			if got := r.lines(); len(got) != 0 {
				t.Fatalf("told: %v", got)
			}
		}
		// What happens while there is no connection is told afterwards.
		refuse := z.Faults().Refuse()
		z.Faults().CutAll()
		must(t, z.Set("/d/data", []byte("x")))
		must(t, z.Delete("/d/exists"))
		must(t, z.Create("/d/missing", nil))
		refuse.Remove()
		for _, want := range []string{"/d children changed", "/d/data data changed", "/d/exists deleted", "/d/missing created"} {
			eventually(t, want, func() bool { return r.has(want) })
		}
		if got := r.lines(); len(got) != 4 {
			t.Errorf("told: %v", got)
		}
		c.Unwatch("/d", &recorder{}) // a stranger
		for _, path := range []string{"/d", "/d/data", "/d/exists", "/d/missing", "/d/missing"} {
			c.Unwatch(path, &r)
		}
		if n := c.Stats().Watches; n != 0 {
			t.Errorf("%d paths are armed", n)
		}
	})
}

// TestLook: a node that may not be read is there all the same.
func TestLook(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		c := s.client
		must(t, s.Create("/d/open", []byte("x"), nil))
		for _, path := range []string{"/d/secret", "/d/going"} {
			must(t, s.Create(path, []byte("x"), []ACL{{PermAll, "digest", "another:5w9W4eL3797Y4Wq8AcKUPPk8ha4="}}))
		}
		var r recorder
		look := func(path, wantData string, wantReadable bool, wantErr error) {
			t.Helper()
			c.Watch(path, &r)
			before := z.Requests(zktest.OpExists)
			data, st, readable, err := s.Look(path)
			if string(data) != wantData || readable != wantReadable || !is(err, wantErr) || (err == nil) != (st.Czxid != 0) {
				t.Errorf("%s: %q %+v %t %v", path, data, st, readable, err)
			}
			if asked := z.Requests(zktest.OpExists) - before; (asked == 1) != (path == "/d/secret" || path == "/d/going") {
				t.Errorf("%s: asked %d times whether it exists", path, asked)
			}
		}
		look("/d/open", "x", true, nil)
		look("/d/secret", "", false, nil)
		look("/d/none", "", false, ErrNoNode)
		if n := z.AllWatches(); n.Data != 2 {
			t.Errorf("the server has %+v", n)
		}
		must(t, z.Delete("/d/secret"))
		// It goes between the two requests, and leaves the server with a watch
		// that is not set again.
		z.OnRequest(func(_ int64, op zktest.Op, path string) {
			if op == zktest.OpExists && path == "/d/going" {
				if err := z.Delete(path); err != nil {
					t.Error(err)
				}
			}
		})
		look("/d/going", "", false, ErrNoNode)
		for _, path := range []string{"/d/open", "/d/secret", "/d/none", "/d/going"} {
			c.Unwatch(path, &r)
		}
		time.Sleep(time.Second)
		z.Faults().CutAll()
		must(t, settle(s, "/d"))
		if n := z.AllWatches(); n.Data+n.Child != 0 {
			t.Errorf("the server has %+v", n)
		}
	})
}

// TestNotifyDeleted: news of a deletion that come from an answer wait behind the
// events that came before it.
func TestNotifyDeleted(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		l := &slowWatcher{arrived: make(chan struct{}), free: make(chan struct{})}
		for _, path := range []string{"/d/0", "/d/1", "/d/2"} {
			must(t, s.Create(path, nil, nil))
			watchNode(t, s, path, l)
		}
		must(t, z.Delete("/d/0"))
		<-l.arrived
		must(t, z.Delete("/d/1"))
		s.client.Watch("/d/2", &l.recorder) // another
		_, _, err := s.Get("/d/1")
		wantErr(t, err, ErrNoNode, Definite)
		s.NotifyDeleted("/d/1")
		wantErr(t, s.Prove("/d/1"), ErrNoNode, Definite)
		must(t, z.Delete("/d/2"))
		close(l.free)
		synctest.Wait()
		want := []string{"/d/0 deleted", "/d/1 deleted", "/d/1 deleted", "/d/1 deleted", "/d/2 deleted", "/d/2 deleted"}
		if got := l.lines(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// slowWatcher is a recorder that does not take its first news until it is let.
type slowWatcher struct {
	recorder
	stood         atomic.Bool
	arrived, free chan struct{}
}

func (w *slowWatcher) PathChanged(path string, ev Event) {
	if w.stood.CompareAndSwap(false, true) {
		close(w.arrived)
		<-w.free
	}
	w.recorder.PathChanged(path, ev)
}

// TestWatchesEndWithTheSession: registrations stay, and the next session has no
// watches until the paths are read again.
func TestWatchesEndWithTheSession(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		c := s.client
		var r recorder
		c.Watch("/d", &r)
		_, _, err := s.Children("/d")
		must(t, err)
		z.ExpireSession(s.ID())
		eventually(t, "a second session", func() bool { return c.Session() != s })
		must(t, c.Session().Sync("/d"))
		time.Sleep(time.Second)
		z.Faults().CutAll()
		eventually(t, "reconnected", func() bool { return c.Stats().Reconnects == 1 })
		must(t, c.Session().Sync("/d"))
		if n := z.AllWatches(); n.Child != 0 || c.Stats().Watches != 1 {
			t.Errorf("the server has %+v, %d paths are armed", n, c.Stats().Watches)
		}
		_, _, err = c.Session().Children("/d")
		must(t, err)
		must(t, z.Create("/d/x", nil))
		eventually(t, "told", func() bool { return r.has("/d children changed") })
	})
}

// TestRearmFails: a server that refuses to set the watches again is left, and
// the next one asked.
func TestRearmFails(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		var r recorder
		s.client.Watch("/d", &r)
		_, _, err := s.Children("/d")
		must(t, err)
		f := z.Faults().DropReply(zktest.Match{Op: zktest.OpSetWatches, Times: 3})
		z.Faults().CutAll()
		eventually(t, "set again", func() bool { return f.Hits() == 3 && z.AllWatches().Child == 1 })
		must(t, z.Create("/d/x", nil))
		eventually(t, "told", func() bool { return r.has("/d children changed") })
	})
}

// TestManyWatches: more than one frame holds.
func TestManyWatches(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		var r recorder
		const want, long = 1500, 200
		for i := range want {
			path := fmt.Sprintf("/d/%0*d", long, i)
			must(t, s.Create(path, nil, nil))
			watchNode(t, s, path, &r)
		}
		z.Faults().CutAll()
		eventually(t, "set again", func() bool { return z.AllWatches().Data == want })
		if got := s.client.Stats().Sent["setWatches"]; got != want*(long+7)/rearmFrame+1 {
			t.Errorf("%d frames of %d bytes for %d paths of %d", got, rearmFrame, want, long)
		}
	})
}
