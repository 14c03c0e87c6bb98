// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// queued makes a node in /d by CreateAndCount.
func queued(t *testing.T, s *Session, w Watcher) *Node {
	t.Helper()
	n := newNode("/d", w)
	_, err := n.CreateAndCount(s)
	must(t, err)
	return n
}

// TestReplace: one request takes a node away, makes another at the end of the
// queue, and counts the contenders, even where sequence numbers run out.
func TestReplace(t *testing.T) {
	for _, first := range []int32{0, 2147483646} {
		inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
			must(t, z.SetSequence("/d", first))
			var r recorder
			n := queued(t, s, &r)
			for range 4 {
				old, gone, czxid, before := n, n.Path(), n.Czxid(), s.client.Stats().Sent["multi"]
				n = newNode("/d", &r)
				if children, err := n.Replace(s, old, nil); children != 1 || err != nil {
					t.Errorf("%d children, %v", children, err)
				}
				wantPlaced(t, z, n, s)
				if st := s.client.Stats(); st.Sent["multi"]-before != 1 || st.Watches != 1 {
					t.Errorf("%d requests, %d paths armed", st.Sent["multi"]-before, st.Watches)
				}
				if old.Path() != "" || old.Session() != nil || n.Czxid() <= czxid || first == 0 && n.Path() <= gone {
					t.Errorf("%s, %d after %s, %d; the old one is %q", n.Path(), n.Czxid(), gone, czxid, old.Path())
				}
				must(t, n.look()) // leaves the watch
				synctest.Wait()
				if r.has(gone) {
					t.Errorf("told of the old one: %v", r.lines())
				}
			}
			must(t, z.Delete(n.Path()))
			synctest.Wait()
			if !r.has(n.Path() + " deleted") {
				t.Errorf("told: %v", r.lines())
			}
			must(t, n.Delete(s))

			old, other := queued(t, s, nil), queued(t, s, nil) // which is first from then on
			if children, err := n.Replace(s, old, nil); err != nil || children != 2 || n.Czxid() <= other.Czxid() {
				t.Errorf("%d children, %v; czxid %d after %d", children, err, n.Czxid(), other.Czxid())
			}
			must(t, other.Delete(s))
			must(t, n.Delete(s))
			wantClean(t, z, n, s.client)
		})
	}
}

// TestReplaceRefused: nothing is done if not all can be.
func TestReplaceRefused(t *testing.T) {
	for _, tt := range []struct {
		what  string
		acl   []ACL
		spoil func(z *zktest.Server, old *Node)
		want  error
		how   Removal // and so Remove says afterwards
	}{
		{"the old node is gone", nil, func(z *zktest.Server, old *Node) { _ = z.Delete(old.Path()) }, ErrNoNode, RemovedBefore},
		{"the directory is gone", nil, func(z *zktest.Server, _ *Node) { _ = z.DeleteAll("/d") }, ErrNoNode, RemovedBefore},
		{"the directory may not be written", []ACL{{PermAll &^ PermWrite, "world", "anyone"}}, func(*zktest.Server, *Node) {}, ErrNoAuth, RemovedByUs},
	} {
		t.Run(tt.what, func(t *testing.T) {
			connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
				must(t, s.Create("/d", nil, tt.acl))
				old, n := newNode("/d", nil), newNode("/d", nil)
				must(t, old.Create(s))
				tt.spoil(z, old)
				before := fmt.Sprint(z.Children("/d"))
				_, err := n.Replace(s, old, nil)
				wantErr(t, err, tt.want, Definite)
				if after := fmt.Sprint(z.Children("/d")); after != before || n.Path() != "" || n.state != nodeAbsent {
					t.Errorf("/d has %s, had %s; the new node is %q", after, before, n.Path())
				}
				wantRemoved(t, old, s, tt.how)
				must(t, n.Delete(s))
				wantClean(t, z, n, c)
			})
		})
	}
}

// TestF081_LostReplace: the answer is lost, or the session has ended. Remove says
// what it can about the old node, and there is one new one, or none.
func TestF081_LostReplace(t *testing.T) {
	multi := zktest.Match{Op: zktest.OpMulti, Path: "/d", Times: 1}
	for _, tt := range []struct {
		what     string
		lose     func(z *zktest.Server, s *Session)
		want     error
		how      Removal
		children int // as the next CreateAndCount says
	}{
		{"carried out", func(z *zktest.Server, _ *Session) { z.Faults().DropReply(multi) }, ErrUnknown, RemovedUnknown, 0},
		{"not carried out", func(z *zktest.Server, _ *Session) { z.Faults().DropRequest(multi) }, ErrUnknown, RemovedByUs, 1},
		{"session over", func(z *zktest.Server, s *Session) {
			z.ExpireSession(s.ID())
			<-s.over
		}, ErrSessionOver, RemovedUnknown, 1},
	} {
		for _, wanted := range []bool{true, false} { // does anyone still wait?
			t.Run(fmt.Sprintf("%s/wanted=%t", tt.what, wanted), func(t *testing.T) {
				inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
					c := s.client
					old, n := queued(t, s, &recorder{}), newNode("/d", &recorder{})
					tt.lose(z, s)
					_, err := n.Replace(s, old, nil)
					wantErr(t, err, tt.want, ClassOf(tt.want))
					eventually(t, "a live session", func() bool { return c.Session().Err() == nil })
					wantRemoved(t, old, c.Session(), tt.how)
					if wanted {
						wantCount(t, n, c.Session(), tt.children)
						wantPlaced(t, z, n, c.Session())
					}
					must(t, n.Delete(c.Session()))
					wantClean(t, z, n, c)
				})
			})
		}
	}
}

// TestReplaceArguments: Replace is for a new node, and for an old one that is
// surely there; anything else is refused before a request is sent.
func TestReplaceArguments(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		other := open(t, configure(z)).Session()
		there, theirs, tried := queued(t, s, nil), queued(t, other, nil), queued(t, s, nil)
		z.Faults().DropReply(zktest.Match{Op: zktest.OpDelete, Times: 1})
		_, err := tried.Remove(s)
		wantErr(t, err, ErrUnknown, Unknown)
		made := queued(t, s, nil)
		before, children := s.client.Stats(), len(z.Children("/d"))
		for _, tt := range []struct {
			what   string
			n, old *Node
		}{
			{"it is there already", made, there},
			{"the old one was never made", newNode("/d", nil), newNode("/d", nil)},
			{"the old one is another session's", newNode("/d", nil), theirs},
			{"the old one may be gone", newNode("/d", nil), tried},
		} {
			if _, err := tt.n.Replace(s, tt.old, nil); !is(err, ErrBadArguments) {
				t.Errorf("%s: %v", tt.what, err)
			}
		}
		after := s.client.Stats()
		if after.Sent["multi"] != before.Sent["multi"] || after.Nodes != before.Nodes || len(z.Children("/d")) != children {
			t.Errorf("before %+v, after %+v; %v", before, after, z.Children("/d"))
		}
	})
}
