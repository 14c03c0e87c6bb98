// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestAlong: ops go along with the deletion of a node, in one request.
func TestAlong(t *testing.T) {
	inDir(t, func(t *testing.T, _ *zktest.Server, s *Session) { checkAlong(t, s, "/d") })
}

// TestRealAlong is TestAlong with a real server.
func TestRealAlong(t *testing.T) {
	t.Parallel()
	cfg, dir := setUp(t, realzk.Shared(t))
	s := open(t, cfg).Session()
	must(t, s.EnsureDir(dir, nil))
	checkAlong(t, s, dir)
}

func checkAlong(t *testing.T, s *Session, dir string) {
	mark := dir + "/mark"
	along := []Op{DeleteOp(mark, -1)}
	node := func() *Node {
		t.Helper()
		n := newNode(dir, nil)
		_, err := n.CreateAndCount(s)
		must(t, err)
		return n
	}
	children := func(want int) {
		t.Helper()
		if names, _, err := s.Children(dir); err != nil || len(names) != want {
			t.Errorf("%v, %v; want %d", names, err, want)
		}
	}
	sent := func(what string, want uint64, do func()) {
		t.Helper()
		count := func() uint64 { st := s.client.Stats().Sent; return st["multi"] + st["delete"] }
		before := count()
		do()
		if n := count() - before; n != want {
			t.Errorf("%s: %d requests, want %d", what, n, want)
		}
	}
	remove := func(n *Node, want Removal) {
		t.Helper()
		if how, err := n.Remove(s, along...); how != want || err != nil {
			t.Errorf("removed %d, %v; want %d", how, err, want)
		}
	}

	must(t, s.Create(mark, nil, nil))
	n := node()
	sent("both", 1, func() { remove(n, RemovedByUs) })
	children(0)

	n = node()
	sent("the op is refused", 2, func() { remove(n, RemovedAlone) })
	children(0)

	must(t, s.Create(mark, nil, nil))
	n = node()
	must(t, s.Delete(n.Path(), -1))
	sent("the node is gone", 1, func() { remove(n, RemovedBefore) })
	children(1)

	old, n := node(), newNode(dir, nil)
	sent("replaced", 1, func() {
		if got, err := n.Replace(s, old, along); got != 1 || err != nil {
			t.Errorf("%d children, %v", got, err)
		}
	})
	children(1)

	old, n = n, newNode(dir, nil)
	_, err := n.Replace(s, old, along)
	wantErr(t, err, ErrNoNode, Definite)
	if n.Path() != "" {
		t.Errorf("there is %s", n.Path())
	}
	remove(old, RemovedAlone)
	children(0)
}

// TestF136_AlongOnce: if the answer is lost, the ops are performed once, with the
// deletion, however often Remove is called.
func TestF136_AlongOnce(t *testing.T) {
	for _, carriedOut := range []bool{true, false} {
		for _, replaces := range []bool{true, false} {
			t.Run(fmt.Sprintf("carried out=%t/replaces=%t", carriedOut, replaces), func(t *testing.T) {
				inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
					must(t, s.Create("/mark", nil, nil))
					along := []Op{DeleteOp("/mark", -1)}
					old, next := queued(t, s, nil), newNode("/d", nil)
					m, how := zktest.Match{Op: zktest.OpMulti, Times: 1}, RemovedByUs
					if carriedOut {
						z.Faults().DropReply(m)
						how = RemovedUnknown
					} else {
						z.Faults().DropRequest(m)
					}
					var err error
					if replaces {
						_, err = next.Replace(s, old, along)
					} else {
						_, err = old.Remove(s, along...)
					}
					wantErr(t, err, ErrUnknown, Unknown)
					if z.Exists("/mark") == carriedOut {
						t.Fatalf("carried out: %t", !carriedOut)
					}
					if carriedOut {
						must(t, z.Create("/mark", nil)) // by the next holder
					}
					if got, err := old.Remove(s, along...); got != how || err != nil {
						t.Errorf("removed %d, %v; want %d", got, err, how)
					}
					if z.Exists("/mark") != carriedOut {
						t.Errorf("there is a mark: %t, want %t", !carriedOut, carriedOut)
					}
					must(t, next.Delete(s))
					wantClean(t, z, next, s.client)
				})
			})
		}
	}
}
