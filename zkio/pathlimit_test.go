// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// limited runs fn with a client whose session may have as many nodes in /d as have that many
// bytes of paths.
func limited(t *testing.T, most int, fn func(t *testing.T, z *zktest.Server, s *Session, log *lockedBuffer)) {
	t.Helper()
	bubble(t, func(t *testing.T, z *zktest.Server) {
		cfg := configure(z)
		cfg.MaxPathBytes = most
		log := logTo(&cfg)
		s := open(t, cfg).Session()
		must(t, s.EnsureDir("/d", nil))
		fn(t, z, s, log)
	})
}

// Each way to create a node is refused when the session has as many as it may, before
// anything is sent. A node that goes makes room, and one that replaces another needs none.
func TestF367_TooManyNodes(t *testing.T) {
	ways := map[string]func(n *Node, s *Session, first *Node) error{
		"create":             func(n *Node, s *Session, _ *Node) error { return n.Create(s) },
		"create and count":   func(n *Node, s *Session, _ *Node) error { _, err := n.CreateAndCount(s); return err },
		"create at sequence": func(n *Node, s *Session, first *Node) error { return n.CreateAtSequence(s, first.Path()) },
		"create if":          func(n *Node, s *Session, first *Node) error { return n.CreateIf(s, first.Path()) },
		"create all":         func(n *Node, s *Session, _ *Node) error { return s.CreateAll([]*Creation{{Node: n}}) },
	}
	size := int(newNode("/d", nil).pathBytes())
	for name, create := range ways {
		t.Run(name, func(t *testing.T) {
			limited(t, 4*size, func(t *testing.T, z *zktest.Server, s *Session, log *lockedBuffer) {
				first := mustCreate(t, s, "/d", nil)
				wantErr(t, create(newNode("/e", nil), s, first), ErrNoNode, Definite) // was refused, so it does not count
				second := mustCreate(t, s, "/d", nil)
				third := mustCreate(t, s, "/d", nil)
				fourth := newNode("/d", nil)
				must(t, create(fourth, s, first)) // the last that fits
				more := newNode("/d", nil)
				before := made(z)
				err := create(more, s, first)
				wantErr(t, err, ErrTooManyNodes, Definite)
				if !strings.Contains(err.Error(), "MaxPathBytes") {
					t.Errorf("the error does not say what to do: %v", err)
				}
				if got := made(z); got != before || len(z.Children("/d")) != 4 {
					t.Errorf("%d requests to create nodes, want %d; /d has %v", got, before, z.Children("/d"))
				}

				must(t, create(fourth, s, first)) // it is there
				other := newNode("/d", nil)
				if _, err := other.Replace(s, second, nil); err != nil {
					t.Errorf("to replace a node: %v", err)
				}
				must(t, third.Delete(s))
				must(t, create(more, s, first))
				for _, n := range []*Node{first, fourth, other, more} {
					must(t, n.Delete(s))
				}
				wantClean(t, z, more, s.client)
				if n := strings.Count(log.String(), "near Config.MaxPathBytes"); n != 1 {
					t.Errorf("%d warnings that the limit is near, want 1: %s", n, log.String())
				}
			})
		})
	}
}

// Nodes that are created together are refused together.
func TestF367_ManyTogether(t *testing.T) {
	size := int(newNode("/d", nil).pathBytes())
	limited(t, 2*size, func(t *testing.T, z *zktest.Server, s *Session, _ *lockedBuffer) {
		var all []*Creation
		for range 3 {
			all = append(all, &Creation{Node: newNode("/d", nil)})
		}
		wantErr(t, s.CreateAll(all), ErrTooManyNodes, Definite)
		must(t, s.CreateAll(all[:2]))
	})
}

// What a node counts is the length of its path, also of one in the root.
func TestPathBytes(t *testing.T) {
	limited(t, -1, func(t *testing.T, z *zktest.Server, s *Session, _ *lockedBuffer) {
		for _, dir := range []string{"/", "/d"} {
			n := mustCreate(t, s, dir, nil)
			if got, want := n.pathBytes(), int64(len(n.Path()))+4; got != want {
				t.Errorf("%s counts %d bytes, want %d", n.Path(), got, want)
			}
			n.DropCreateData()
			must(t, n.Delete(s))
		}
		if got := s.paths.bytes.Load(); got != 0 {
			t.Errorf("%d bytes are left", got)
		}
	})
}

// made returns how many requests that create nodes the server has seen.
func made(z *zktest.Server) uint64 { return z.Requests(zktest.OpCreate) + z.Requests(zktest.OpMulti) }

// The next session begins with nothing, and a node of an adopted path counts.
func TestF367_NextSession(t *testing.T) {
	size := int(newNode("/d", nil).pathBytes())
	limited(t, size, func(t *testing.T, z *zktest.Server, s *Session, _ *lockedBuffer) {
		n := mustCreate(t, s, "/d", nil)
		wantErr(t, newNode("/d", nil).Create(s), ErrTooManyNodes, Definite)
		z.ExpireSession(s.ID())
		eventually(t, "the next session", func() bool { return s.client.Session() != s })
		next := s.client.Session()
		must(t, n.Create(next))
		path, czxid := n.Path(), n.Czxid()
		n.Forget()
		if got := next.paths.bytes.Load(); got != 0 {
			t.Errorf("%d bytes are counted for a node that was forgotten", got)
		}
		adopted := Adopt(next, path, czxid, nil)
		wantErr(t, n.Create(next), ErrTooManyNodes, Definite)
		must(t, adopted.Delete(next))
		must(t, n.Create(next))
	})
}

// Below 0 there is no limit, and 0 is the default.
func TestMaxPathBytes(t *testing.T) {
	limited(t, -1, func(t *testing.T, z *zktest.Server, s *Session, _ *lockedBuffer) {
		for range 3 {
			mustCreate(t, s, "/d", nil)
		}
	})
	cfg, err := Config{Servers: []string{"a"}}.resolve("open")
	if err != nil || cfg.MaxPathBytes != 1<<20 {
		t.Errorf("the default is %d, error %v", cfg.MaxPathBytes, err)
	}
}
