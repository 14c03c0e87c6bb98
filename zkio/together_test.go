// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestCreateIf: the node is made only if the other one exists, and a lost answer is found
// out.
func TestCreateIf(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		other := queued(t, s, nil)
		n := newNode("/d", nil)
		z.Faults().DropReply(zktest.Match{Op: zktest.OpMulti, Session: s.ID(), Times: 1})
		for n.CreateIf(s, other.Path()) != nil { // not before there is a connection again
			<-time.After(10 * time.Millisecond)
		}
		if !z.Exists(n.Path()) || len(z.Children("/d")) != 2 {
			t.Errorf("%q in %v", n.Path(), z.Children("/d"))
		}
		must(t, n.Delete(s))
		must(t, other.Delete(s))
		if err := newNode("/d", nil).CreateIf(s, "/d/gone"); !errors.Is(err, ErrNoNode) {
			t.Errorf("beside nothing: %v", err)
		}
		wantClean(t, z, n, s.client)
	})
}

// TestReplaceAtSequence: one request replaces a node by one with another's number, if
// both that one and a third exist.
func TestReplaceAtSequence(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		third, beside, old := queued(t, s, nil), queued(t, s, nil), queued(t, s, nil)
		for _, missing := range [][2]string{{"/d/gone-0000000001", third.Path()}, {beside.Path(), "/d/gone"}} {
			n := newNode("/d", nil)
			if err := n.ReplaceAtSequence(s, old, missing[0], missing[1]); !errors.Is(err, ErrNoNode) || n.Path() != "" || !z.Exists(old.Path()) {
				t.Errorf("without %v: %v, %q in %v", missing, err, n.Path(), z.Children("/d"))
			}
		}
		gone, n := old.Path(), newNode("/d", nil)
		must(t, n.ReplaceAtSequence(s, old, beside.Path(), third.Path()))
		if old.Path() != "" || z.Exists(gone) || !z.Exists(n.Path()) || n.Beside() != beside.Path() {
			t.Errorf("%q beside %q in %v", n.Path(), n.Beside(), z.Children("/d"))
		}
		must(t, beside.Delete(s))
		must(t, third.Delete(s))
		must(t, n.Delete(s))
		wantClean(t, z, n, s.client)
	})
}

// TestRemoveWith: both nodes go in one request, and each has its own end if that is not
// possible.
func TestRemoveWith(t *testing.T) {
	for what, spoil := range map[string]func(z *zktest.Server, a, b *Node){
		"both are there":     func(*zktest.Server, *Node, *Node) {},
		"the first is gone":  func(z *zktest.Server, a, _ *Node) { must(t, z.Delete(a.Path())) },
		"the second is gone": func(z *zktest.Server, _, b *Node) { must(t, z.Delete(b.Path())) },
	} {
		t.Run(what, func(t *testing.T) {
			inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
				a, b := queued(t, s, nil), queued(t, s, nil)
				spoil(z, a, b)
				wantA, wantB := RemovedByUs, RemovedByUs
				if !z.Exists(a.Path()) {
					wantA = RemovedBefore
				}
				if !z.Exists(b.Path()) {
					wantB = RemovedBefore
				}
				if gotA, gotB, err := a.RemoveWith(s, b); gotA != wantA || gotB != wantB || err != nil {
					t.Errorf("%v, %v, %v; want %v, %v", gotA, gotB, err, wantA, wantB)
				}
				wantClean(t, z, a, s.client)
			})
		})
	}
}
