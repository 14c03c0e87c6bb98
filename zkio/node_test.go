// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"fmt"
	"slices"
	"strings"
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
	if got, want := s.paths.bytes.Load(), int64(len(n.Path()))+4; got != want {
		t.Errorf("the paths of the session's nodes have %d bytes, want %d", got, want)
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
	if s := c.Session(); s.paths.bytes.Load() != 0 {
		t.Errorf("the paths of the session's nodes have %d bytes, want 0", s.paths.bytes.Load())
	}
}

// A node that has been slimmed is what it was, but cannot be made any more.
func TestDropCreateData(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		n := mustCreate(t, s, "/d", &recorder{})
		path, name, czxid := n.Path(), n.Name(), n.Czxid()
		n.DropCreateData()
		if n.Path() != path || n.Name() != name || n.Czxid() != czxid {
			t.Errorf("it is %s, %s, %d; it was %s, %s, %d", n.Path(), n.Name(), n.Czxid(), path, name, czxid)
		}
		wantErr(t, n.Create(s), ErrBadArguments, Definite)
		_, err := n.CreateAndCount(s)
		wantErr(t, err, ErrBadArguments, Definite)
		wantErr(t, n.CreateAtSequence(s, path), ErrBadArguments, Definite)
		wantPlaced(t, z, n, s)
		must(t, n.Delete(s))
		wantClean(t, z, n, c)
		_, err = n.Replace(s, newNode("/d", nil), nil)
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
			if !strings.HasPrefix(n.Name(), n.create.prefix) || !n.named(n.Name()) || path != "/d/"+n.Name() {
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
			wantRemoved(t, n, s, how)
			wantClean(t, z, n, c)

			n = newNode("/", nil)
			must(t, n.Create(s))
			if n.Path() != "/"+n.Name() || !z.Exists(n.Path()) {
				t.Errorf("path %q", n.Path())
			}
		})
	}
}

// A lose is a way of cutting the connection: after a request has been carried out,
// or before.
type lose = func(*zktest.Faults, zktest.Match) *zktest.Fault

var (
	loseReply   lose = (*zktest.Faults).DropReply
	loseRequest lose = (*zktest.Faults).DropRequest
)

// A lostReply is a way of cutting the connection while a node is made, looked
// for, and deleted.
type lostReply struct {
	name    string
	lose    lose
	ops     []zktest.Op // one after the other
	creates uint64      // how many are sent until one has succeeded
}

// TestF001_LostReplies: the connection is cut at a request that makes the node
// or looks at it for the first time, before it is carried out and after.
func TestF001_LostReplies(t *testing.T) {
	lostReplies(t,
		lostReply{"create, carried out", loseReply, []zktest.Op{zktest.OpCreate}, 1},
		lostReply{"create, not carried out", loseRequest, []zktest.Op{zktest.OpCreate}, 2},
		lostReply{"the first look", loseReply, []zktest.Op{zktest.OpGetData}, 1})
}

// TestF002_RecoveryIsLost: the answer to the create is lost, and then those to
// the requests that look for the node.
func TestF002_RecoveryIsLost(t *testing.T) {
	lostReplies(t,
		lostReply{"sync", loseReply, []zktest.Op{zktest.OpCreate, zktest.OpSync}, 1},
		lostReply{"the list", loseReply, []zktest.Op{zktest.OpCreate, zktest.OpGetChildren2}, 1},
		lostReply{"the first look", loseReply, []zktest.Op{zktest.OpCreate, zktest.OpGetData}, 1},
		lostReply{"everything", loseReply, []zktest.Op{zktest.OpCreate, zktest.OpSync, zktest.OpGetChildren2, zktest.OpGetData, zktest.OpGetData}, 1},
		lostReply{"the list, and nothing was created", loseRequest, []zktest.Op{zktest.OpCreate, zktest.OpGetChildren2}, 2})
}

// TestF081_LostReplies: the connection is cut at the deletion.
func TestF081_LostReplies(t *testing.T) {
	lostReplies(t,
		lostReply{"carried out", loseReply, []zktest.Op{zktest.OpDelete}, 1},
		lostReply{"not carried out", loseRequest, []zktest.Op{zktest.OpDelete}, 1})
}

// lostReplies makes a node and deletes it while the faults strike. Whatever
// happens, trying again leads to exactly one node, and then to none.
func lostReplies(t *testing.T, losses ...lostReply) {
	t.Helper()
	for _, tt := range losses {
		t.Run(tt.name, func(t *testing.T) {
			inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
				n := newNode("/d", &recorder{})
				var faults []*zktest.Fault
				for i, op := range tt.ops {
					nth := 1
					if i > 0 && tt.ops[i-1] == op {
						nth = 2
					}
					faults = append(faults, tt.lose(z.Faults(), zktest.Match{Op: op, Nth: nth}))
				}
				failed := 0
				again := func(do func(*Session) error) {
					t.Helper()
					for err := do(s); err != nil; err = do(s) {
						if failed++; ClassOf(err) != Unknown || failed > 10 {
							t.Fatalf("error %d is %v, of class %v", failed, err, ClassOf(err))
						}
					}
				}
				again(n.Create)
				wantPlaced(t, z, n, s)
				if got := s.client.Stats().Sent["create"]; got != tt.creates {
					t.Errorf("%d creates, want %d", got, tt.creates)
				}
				again(n.Delete)
				wantClean(t, z, n, s.client)
				for i, f := range faults {
					if f.Hits() != 1 || failed == 0 {
						t.Errorf("fault %d, %s, has hit %d times; %d calls have failed", i, f.Kind(), f.Hits(), failed)
					}
				}
			})
		})
	}
}

// createUnanswered asks for a node and gets no answer, whether it is carried out or not.
func createUnanswered(t *testing.T, z *zktest.Server, n *Node, s *Session, carriedOut bool) {
	t.Helper()
	map[bool]lose{true: loseReply, false: loseRequest}[carriedOut](z.Faults(), zktest.Match{Op: zktest.OpCreate, Times: 1})
	wantErr(t, n.Create(s), ErrUnknown, Unknown)
}

// wantRemoved fails the test unless n is removed that way.
func wantRemoved(t *testing.T, n *Node, s *Session, want Removal) {
	t.Helper()
	if how, err := n.Remove(s); how != want || err != nil {
		t.Errorf("removed %d, %v; want %d", how, err, want)
	}
}

// wantCount fails the test unless CreateAndCount counts as many children.
func wantCount(t *testing.T, n *Node, s *Session, want int) {
	t.Helper()
	if children, err := n.CreateAndCount(s); children != want || err != nil {
		t.Errorf("%d children, %v; want %d", children, err, want)
	}
}

// TestF003_SyncBeforeTheList: the server that is asked for a node of unknown
// fate may lag behind. It is made to catch up first; and as long as it does
// not answer that, nothing is concluded from what it knows.
func TestF003_SyncBeforeTheList(t *testing.T) {
	for _, happened := range []bool{true, false} {
		inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
			n := newNode("/d", nil)
			createUnanswered(t, z, n, s, happened)
			var asked recorder
			z.OnRequest(func(_ int64, op zktest.Op, _ string) {
				if op != zktest.OpPing && op != zktest.OpConnect && op != zktest.OpMulti { // which is the heartbeat's
					asked.add("%v", op)
				}
			})
			silent := z.Faults().SwallowReply(zktest.Match{Op: zktest.OpSync, Times: 1})
			go func() {
				<-silent.Hit()
				time.Sleep(time.Second)
				z.Faults().CutAll()
			}()
			wantErr(t, n.Create(s), ErrUnknown, Unknown)
			if got := asked.lines(); !slices.Equal(got, []string{"sync"}) {
				t.Fatalf("asked %q while the server does not catch up", got)
			}
			must(t, n.Create(s))
			want := map[bool]string{true: "sync sync getChildren2 getData getData", false: "sync sync getChildren2 create getData"}[happened]
			if got := strings.Join(asked.lines(), " "); got != want {
				t.Errorf("carried out %t: asked %q, want %q", happened, got, want)
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
			wantRemoved(t, n, s, want)
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
		old := "/d/" + n.create.prefix + "0000000000"
		must(t, z.CreateEphemeral(other.ID(), old, nil))
		createUnanswered(t, z, n, s, false)
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
	for _, cut := range []zktest.Match{{}, {Op: zktest.OpDelete, Nth: 1}, {Op: zktest.OpGetData, Nth: 2}} {
		for _, remove := range []bool{false, true} {
			inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
				n := newNode("/d", nil)
				createUnanswered(t, z, n, s, true)
				must(t, z.CreateEphemeral(s.ID(), "/d/"+n.create.prefix+"0000000007", nil))
				if cut.Op != 0 {
					cut := z.Faults().DropRequest(cut)
					wantErr(t, n.Create(s), ErrUnknown, Unknown)
					n.DropCreateData() // does nothing: there may be another
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
				wantRemoved(t, n, s, RemovedByUs)
				wantClean(t, z, n, s.client)
			})
		}
	}
}

// TestCreateAndCount: one request makes the node and counts the contenders.
func TestCreateAndCount(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		n, second := newNode("/d", &recorder{}), newNode("/d", nil)
		wantCount(t, n, s, 1)
		wantPlaced(t, z, n, s)
		wantCount(t, second, s, 2)
		if second.Czxid() <= n.Czxid() {
			t.Errorf("czxid %d after %d", second.Czxid(), n.Czxid())
		}
		must(t, second.Delete(s))
		wantCount(t, n, s, 0) // it is there already
		wantPlaced(t, z, n, s)
		must(t, n.Delete(s))
		wantClean(t, z, n, s.client)

		for want, lose := range []lose{loseReply, loseRequest} { // found, not made: 0
			lost := lose(z.Faults(), zktest.Match{Op: zktest.OpMulti, Times: 1})
			_, err := n.CreateAndCount(s)
			wantErr(t, err, ErrUnknown, Unknown)
			wantCount(t, n, s, want)
			if lost.Hits() != 1 {
				t.Errorf("%s: %d hits", lost.Kind(), lost.Hits())
			}
			wantPlaced(t, z, n, s)
			must(t, n.Delete(s))
		}

		must(t, z.DeleteAll("/d"))
		_, err := n.CreateAndCount(s)
		wantErr(t, err, ErrNoNode, Definite)
		must(t, s.EnsureDir("/d", nil))
		wantCount(t, n, s, 1)
		wantPlaced(t, z, n, s)
	})
}

// TestCreateAtSequence: a node takes another's place in the queue.
func TestCreateAtSequence(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		writer, later := newNode("/d", nil), newNode("/d", nil)
		must(t, writer.Create(s))
		must(t, later.Create(s))
		sequence := func(n *Node) string { return n.Name()[len(n.create.prefix):] }

		n := newNode("/d", nil)
		must(t, n.CreateAtSequence(s, writer.Path()))
		if sequence(n) != sequence(writer) || n.Beside() != writer.Path() || !z.Exists(n.Path()) {
			t.Errorf("%q beside %q", n.Path(), n.Beside())
		}
		must(t, n.Delete(s))
		if n.Beside() != "" {
			t.Errorf("deleted, and beside %q", n.Beside())
		}

		z.Faults().DropReply(zktest.Match{Op: zktest.OpMulti, Times: 1})
		wantErr(t, n.CreateAtSequence(s, writer.Path()), ErrUnknown, Unknown)
		must(t, n.Create(s)) // finds the one that there is
		if n.Beside() != writer.Path() {
			t.Errorf("%q beside %q", n.Path(), n.Beside())
		}
		must(t, n.Delete(s))

		createUnanswered(t, z, n, s, true)
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
				_ = z.Delete(path)
			}
		})
		for i, create := range []func(n *Node) error{
			func(n *Node) error { return n.Create(s) },
			func(n *Node) error { return n.CreateAtSequence(s, writer.Path()) },
		} {
			n := newNode("/d", nil)
			times.Store(2)
			for range 2 {
				must(t, create(n))
				seen[n.Path()]++
				must(t, n.Delete(s))
			}
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
		z.Faults().DropReply(zktest.Match{Op: zktest.OpMulti, Path: "/d", Times: 1})
		wantErr(t, n.CreateAtSequence(s, writer.Path()), ErrUnknown, Unknown)
		first := n.pathBeside(writer.Path())
		must(t, z.Delete(first))
		must(t, n.CreateAtSequence(s, writer.Path()))
		if n.Path() == first || n.Beside() != writer.Path() {
			t.Errorf("%s beside %s; it was %s before", n.Path(), n.Beside(), first)
		}
		must(t, n.Delete(s))
		first = n.create.base()
		wantErr(t, n.CreateAtSequence(s, "/d/none-0000000000"), ErrNoNode, Definite)
		if n.spent || n.create.prefix == "" || strings.HasPrefix(first, "/d/"+n.create.prefix) {
			t.Errorf("a name that no node has had is given away: %s", n.create.prefix)
		}
	})
}

// TestCreateAfterALostDelete: what is being deleted is deleted before a node is
// made anew.
func TestCreateAfterALostDelete(t *testing.T) {
	for _, lose := range []lose{loseReply, loseRequest} {
		inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
			n := newNode("/d", nil)
			must(t, n.Create(s))
			before := n.Path()
			lose(z.Faults(), zktest.Match{Op: zktest.OpDelete, Times: 1})
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
				wantRemoved(t, first, c.Session(), want)
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
		n, other := mustCreate(t, s, "/d", nil), open(t, configure(z)).Session()
		wantErr(t, n.Create(other), ErrBadArguments, Definite)
		wantErr(t, n.Delete(other), ErrBadArguments, Definite)
		if !z.Exists(n.Path()) {
			t.Error("not there any more")
		}
	})
}

// TestDeleteForbidden: the error says so, and the node is there still.
func TestDeleteForbidden(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		must(t, s.Create("/d", nil, []ACL{{PermAll &^ PermDelete, "world", "anyone"}}))
		n := newNode("/d", &recorder{})
		must(t, n.Create(s))
		wantErr(t, n.Delete(s), ErrNoAuth, Definite)
		if !z.Exists(n.Path()) {
			t.Error("not there any more")
		}
		mustClose(t, c)
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
		ahead := mustCreate(t, s, "/d", nil)
		for range 1000 {
			w := &recorder{}
			watchNode(t, s, ahead.Path(), w)
			s.client.Unwatch(ahead.Path(), w)
		}
		// The server keeps the one that it cannot be asked to drop.
		if armed, n := s.client.Stats().Watches, z.AllWatches(); armed != 0 || n.Data != 1 || n.Child != 0 {
			t.Errorf("%d paths are armed; the server has %+v", armed, n)
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
		for _, path := range []string{"/d/data", "/d/exists", "/d/unarmed"} {
			must(t, s.Create(path, nil, nil))
		}
		var r recorder
		for _, path := range []string{"/d", "/d/data", "/d/exists", "/d/missing"} {
			c.Watch(path, &r)
			c.Watch(path, &r) // once only
		}
		mustList(t, s, "/d")
		for path, there := range map[string]bool{"/d/data": true, "/d/unarmed": true, "/d/missing": false} {
			if _, _, err := s.Get(path); !is(err, map[bool]error{false: ErrNoNode}[there]) {
				t.Fatal(err)
			}
		}
		for _, path := range []string{"/d/exists", "/d/missing"} {
			_, _, err := s.Exists(path)
			must(t, err)
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

// TestLook: a node that may not be read is there all the same, also if the server does not
// tell its Stat.
func TestLook(t *testing.T) {
	for _, told := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			z := zktest.NewServer(zktest.Config{TickTime: 500 * time.Millisecond, Logger: quiet, Quirks: zktest.Quirks{ExistsTakesRead: !told}})
			t.Cleanup(func() { z.Close() })
			s := open(t, configure(z)).Session()
			must(t, s.EnsureDir("/d", nil))
			checkLook(t, z, s, told)
		})
	}
}

func checkLook(t *testing.T, z *zktest.Server, s *Session, told bool) {
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
		if string(data) != wantData || readable != wantReadable || !is(err, wantErr) || (err == nil && (told || readable)) != (st.Czxid != 0) {
			t.Errorf("%s: %q %+v %t %v", path, data, st, readable, err)
		}
		if asked := z.Requests(zktest.OpExists) - before; (asked == 1) != (path == "/d/secret" || path == "/d/going") {
			t.Errorf("%s: asked %d times whether it exists", path, asked)
		}
	}
	look("/d/open", "x", true, nil)
	look("/d/secret", "", false, nil)
	look("/d/none", "", false, ErrNoNode)
	// A server that does not tell the Stat sets no watch, either.
	if n := z.AllWatches(); n.Data != map[bool]int{true: 2, false: 1}[told] {
		t.Errorf("the server has %+v", n)
	}
	must(t, z.Delete("/d/secret"))
	// It goes between the two requests, and leaves the server with a watch
	// that is not set again.
	z.OnRequest(func(_ int64, op zktest.Op, path string) {
		if op == zktest.OpExists && path == "/d/going" {
			_ = z.Delete(path)
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
		mustList(t, s, "/d")
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
		mustList(t, c.Session(), "/d")
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
		mustList(t, s, "/d")
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

// A node that was made by other means is kept alive and watched, until it is forgotten.
func TestAdopt(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		c := open(t, configure(z))
		s := c.Session()
		must(t, s.CreateEphemeral("/a", nil, nil))
		stat, _, err := s.Exists("/a")
		must(t, err)
		told := new(recorder)
		n := Adopt(s, "/a", stat.Czxid, told)
		time.Sleep(time.Minute)
		if !s.Lease().InForce() || c.Stats().Proofs == 0 {
			t.Error("the lease is not kept for it")
		}
		n.WatchLater(0)
		time.Sleep(time.Second)
		must(t, z.Delete("/a"))
		synctest.Wait()
		if got := told.lines(); !slices.Equal(got, []string{"/a deleted"}) {
			t.Errorf("told %q", got)
		}
		n.Forget()
		if got := c.Stats(); got.Nodes != 0 || got.Watches != 0 {
			t.Errorf("%d nodes and %d watches are left", got.Nodes, got.Watches)
		}
	})
}
