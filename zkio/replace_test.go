// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// queued makes a node in /d, which is first in line if nobody is there.
func queued(t *testing.T, s *Session, w Watcher) *Node {
	t.Helper()
	n := newNode("/d", w)
	_, err := n.CreateAndCount(s)
	must(t, err)
	return n
}

// TestReplace: one request takes a node away and makes another at the end of
// the queue, and tells who else is there.
func TestReplace(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		var r recorder
		old, n := queued(t, s, &r), newNode("/d", &r)
		before, gone := s.client.Stats().Sent["multi"], old.Path()
		children, err := n.Replace(s, old)
		must(t, err)
		if children != 1 {
			t.Errorf("%d children", children)
		}
		wantPlaced(t, z, n, s)
		if n.Path() <= gone {
			t.Errorf("%s after %s", n.Path(), gone)
		}
		if got := s.client.Stats().Sent["multi"] - before; got != 1 {
			t.Errorf("%d requests", got)
		}
		if old.Path() != "" || old.Session() != nil {
			t.Errorf("the old one is %q", old.Path())
		}
		if got := s.client.Stats().Watches; got != 1 {
			t.Errorf("%d paths are armed", got)
		}
		must(t, n.look()) // leaves the watch
		synctest.Wait()
		if r.has(gone) {
			t.Errorf("told of the old one: %v", r.lines())
		}
		must(t, z.Delete(n.Path()))
		synctest.Wait()
		if !r.has(n.Path() + " deleted") {
			t.Errorf("told: %v", r.lines())
		}
		must(t, n.Delete(s))
		wantClean(t, z, n, s.client)

		// Somebody else is there, and is first from then on.
		old, other := queued(t, s, nil), queued(t, s, nil)
		if children, err = n.Replace(s, old); err != nil || children != 2 {
			t.Errorf("%d children, %v", children, err)
		}
		if n.Name()[len(n.prefix):] <= other.Name()[len(other.prefix):] || n.Czxid() <= other.Czxid() {
			t.Errorf("%s, %d; %s, %d was there before", n.Name(), n.Czxid(), other.Name(), other.Czxid())
		}
		must(t, other.Delete(s))
		must(t, n.Delete(s))
		wantClean(t, z, n, s.client)
	})
}

// TestReplaceWhereNumbersRunOut: the number of the node says nothing there, and
// nothing depends on it.
func TestReplaceWhereNumbersRunOut(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		must(t, z.SetSequence("/d", 2147483646))
		n := queued(t, s, nil)
		for range 4 {
			old, before := n, n.Czxid()
			n = newNode("/d", nil)
			children, err := n.Replace(s, old)
			must(t, err)
			if children != 1 || n.Czxid() <= before {
				t.Errorf("%s: %d children, czxid %d after %d", n.Name(), children, n.Czxid(), before)
			}
			wantPlaced(t, z, n, s)
		}
		must(t, n.Delete(s))
		wantClean(t, z, n, s.client)
	})
}

// TestReplaceRefused: nothing is done if not all can be.
func TestReplaceRefused(t *testing.T) {
	for _, tt := range []struct {
		what string
		acl  []ACL
		spy  func(z *zktest.Server, old *Node)
		want error
		how  Removal // and so Remove says afterwards
	}{
		{"somebody has deleted the old one", nil, func(z *zktest.Server, old *Node) { _ = z.Delete(old.Path()) }, ErrNoNode, RemovedBefore},
		{"somebody has deleted the directory", nil, func(z *zktest.Server, _ *Node) { _ = z.DeleteAll("/d") }, ErrNoNode, RemovedBefore},
		{"the directory may not be written", []ACL{{PermAll &^ PermWrite, "world", "anyone"}}, func(*zktest.Server, *Node) {}, ErrNoAuth, RemovedByUs},
	} {
		t.Run(tt.what, func(t *testing.T) {
			bubble(t, func(t *testing.T, z *zktest.Server) {
				s := open(t, configure(z)).Session()
				must(t, s.Create("/d", nil, tt.acl))
				old, n := newNode("/d", nil), newNode("/d", nil)
				must(t, old.Create(s))
				tt.spy(z, old)
				before := fmt.Sprint(z.Children("/d"))
				_, err := n.Replace(s, old)
				wantErr(t, err, tt.want, Definite)
				if after := fmt.Sprint(z.Children("/d")); after != before {
					t.Errorf("/d has %s, had %s", after, before)
				}
				if n.Path() != "" || n.state != nodeAbsent {
					t.Errorf("the new one is %q", n.Path())
				}
				how, err := old.Remove(s)
				must(t, err)
				if how != tt.how {
					t.Errorf("removed %d, want %d", how, tt.how)
				}
				must(t, n.Delete(s))
				wantClean(t, z, n, s.client)
			})
		})
	}
}

// TestF081_LostReplace: the answer is lost. The old one turns out to be gone,
// whoever it was that took it away; and there is one new one.
func TestF081_LostReplace(t *testing.T) {
	for _, tt := range []struct {
		what     string
		lose     func(*zktest.Faults, zktest.Match) *zktest.Fault
		how      Removal
		children int // the next Enter's
	}{
		{"carried out", (*zktest.Faults).DropReply, RemovedUnknown, 0},
		{"not carried out", (*zktest.Faults).DropRequest, RemovedByUs, 1},
	} {
		for _, wanted := range []bool{true, false} { // or does nobody wait any more?
			t.Run(fmt.Sprintf("%s/wanted=%t", tt.what, wanted), func(t *testing.T) {
				inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
					old, n := queued(t, s, &recorder{}), newNode("/d", &recorder{})
					lost := tt.lose(z.Faults(), zktest.Match{Op: zktest.OpMulti, Path: "/d"})
					_, err := n.Replace(s, old)
					wantErr(t, err, ErrUnknown, Unknown)
					if lost.Hits() != 1 {
						t.Fatal("nothing was lost")
					}
					how, err := old.Remove(s)
					must(t, err)
					if how != tt.how {
						t.Errorf("removed %d, want %d", how, tt.how)
					}
					if wanted {
						children, err := n.CreateAndCount(s)
						must(t, err)
						if children != tt.children {
							t.Errorf("%d children, want %d", children, tt.children)
						}
						wantPlaced(t, z, n, s)
					}
					must(t, n.Delete(s))
					wantClean(t, z, n, s.client)
				})
			})
		}
	}
}

// TestReplaceInASessionThatIsOver: both nodes go with it.
func TestReplaceInASessionThatIsOver(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		c := s.client
		old, n := queued(t, s, &recorder{}), newNode("/d", &recorder{})
		z.ExpireSession(s.ID())
		eventually(t, "a second session", func() bool { return c.Session() != s })
		_, err := n.Replace(s, old)
		wantErr(t, err, ErrSessionOver, SessionOver)
		how, err := old.Remove(c.Session())
		if how != RemovedUnknown || err != nil {
			t.Errorf("removed %d, %v", how, err)
		}
		_, err = n.CreateAndCount(c.Session())
		must(t, err)
		wantPlaced(t, z, n, c.Session())
		must(t, n.Delete(c.Session()))
		wantClean(t, z, n, c)
	})
}

// TestReplaceArguments: it is for a node that is new, beside one that is surely
// there, and anything else is refused before anything is sent.
func TestReplaceArguments(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		other := open(t, configure(z)).Session()
		there, theirs, tried := queued(t, s, nil), queued(t, other, nil), queued(t, s, nil)
		z.Faults().DropReply(zktest.Match{Op: zktest.OpDelete})
		_, err := tried.Remove(s)
		wantErr(t, err, ErrUnknown, Unknown)
		before := s.client.Stats().Sent["multi"]
		for _, tt := range []struct {
			what   string
			n, old *Node
		}{
			{"it is there already", queued(t, s, nil), there},
			{"the old one was never made", newNode("/d", nil), newNode("/d", nil)},
			{"the old one is another session's", newNode("/d", nil), theirs},
			{"the old one may be gone", newNode("/d", nil), tried},
		} {
			children := len(z.Children("/d"))
			_, err := tt.n.Replace(s, tt.old)
			if !is(err, ErrBadArguments) || len(z.Children("/d")) != children {
				t.Errorf("%s: %v, %d nodes, had %d", tt.what, err, len(z.Children("/d")), children)
			}
		}
		if got := s.client.Stats().Sent["multi"] - before; got != 1 { // which made the node of the first case
			t.Errorf("%d requests", got)
		}
		if got := s.client.Stats().Nodes; got != 2 { // there, and that one
			t.Errorf("%d nodes are kept alive", got)
		}
	})
}
