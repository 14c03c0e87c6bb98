// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// GetAll gives every node's data and Stat, and every node that is missing or may not
// be read an error of its own.
func TestGetAll(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		connected(t, func(t *testing.T, _ *zktest.Server, _ *Client, s *Session) { checkGetAll(t, s, "/d") })
	})
	t.Run("real", func(t *testing.T) {
		cfg, dir := setUp(t, realzk.Shared(t))
		s := open(t, cfg).Session()
		isOld(t, s)
		checkGetAll(t, s, dir)
	})
	t.Run("old server", func(t *testing.T) {
		connected(t, func(t *testing.T, z *zktest.Server, _ *Client, s *Session) {
			z.Faults().FailRequest(zktest.Match{Op: zktest.OpMultiRead, Times: 1}, zktest.CodeUnimplemented)
			checkGetAll(t, s, "/d")
			if n := z.Requests(zktest.OpMultiRead); n != 1 {
				t.Errorf("%d requests to read several nodes, want 1: the server does not know them", n)
			}
		})
	})
}

func checkGetAll(t *testing.T, s *Session, dir string) {
	t.Helper()
	must(t, s.EnsureDir(dir, nil))
	const n = 2500 // more than one request's
	paths := make([]string, 0, n+2)
	for i := range n {
		path := fmt.Sprintf("%s/%0120d", dir, i)
		if i%500 == 0 {
			must(t, s.Create(path, []byte(path), nil))
		}
		paths = append(paths, path)
	}
	secret := dir + "/secret"
	must(t, s.Create(secret, nil, []ACL{{Perms: PermWrite, Scheme: "world", ID: "anyone"}}))
	paths = append(paths, secret)
	for i, r := range s.GetAll(paths...) {
		switch {
		case r.Path != paths[i]:
			t.Fatalf("result %d is of %s, want %s", i, r.Path, paths[i])
		case r.Path == secret:
			if !errors.Is(r.Err, ErrNoAuth) {
				t.Errorf("a node that may not be read: %v", r.Err)
			}
		case i%500 != 0:
			if !errors.Is(r.Err, ErrNoNode) {
				t.Fatalf("node %d: %v, want that it is missing", i, r.Err)
			}
		case r.Err != nil || string(r.Data) != r.Path || int(r.Stat.DataLength) != len(r.Path):
			t.Errorf("node %d: %q, %+v, %v", i, r.Data, r.Stat, r.Err)
		}
	}
	for _, r := range s.GetAll(dir, "no path") {
		if !errors.Is(r.Err, ErrBadArguments) {
			t.Errorf("with a bad path: %v for %s", r.Err, r.Path)
		}
	}
	if none := s.GetAll(); len(none) != 0 {
		t.Errorf("no paths give %v", none)
	}
}

// What is too large for one answer comes in several, and what does not come at all has an error
// of its own. The connection stays, and with it the locks.
func TestF328_AnswerTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		cfg := configure(z)
		cfg.largestFrame = 1 << 20
		s := open(t, cfg).Session()
		must(t, s.EnsureDir("/d", nil))
		paths := []string{"/d/small"}
		must(t, z.Create("/d/small", []byte("small")))
		for i := range 3 {
			path := fmt.Sprintf("/d/%d", i)
			must(t, z.Create(path, make([]byte, cfg.largestFrame/2)))
			paths = append(paths, path)
		}
		must(t, z.Create("/d/huge", make([]byte, cfg.largestFrame)))
		paths = append(paths, "/d/huge")
		before := s.Connection()
		for _, r := range s.GetAll(paths...) {
			switch {
			case r.Path == "/d/huge":
				wantErr(t, r.Err, ErrTooLarge, Definite)
			case r.Err != nil || len(r.Data) != int(r.Stat.DataLength):
				t.Fatalf("%s: %d bytes, %v", r.Path, len(r.Data), r.Err)
			}
		}
		_, _, err := s.Get("/d/huge")
		wantErr(t, err, ErrTooLarge, Definite)
		if data, _, err := s.Get("/d/small"); err != nil || string(data) != "small" {
			t.Errorf("a small node: %q, %v", data, err)
		}
		if after := s.Connection(); after != before {
			t.Errorf("the connection was cut: it is number %d, and was %d", after, before)
		}
	})
}

// What is asked for again in halves comes from another server, which does not know the request:
// each node is read all the same.
func TestF328_HalvesFromAnOldServer(t *testing.T) {
	inDir(t, func(t *testing.T, z *zktest.Server, s *Session) {
		var paths []string
		for i := range 5 {
			paths = append(paths, fmt.Sprintf("/d/%d", i))
			must(t, z.Create(paths[i], []byte("data")))
		}
		fail := z.Faults().FailRequest
		fail(zktest.Match{Op: zktest.OpMultiRead, Times: 1}, zktest.Code(codeTooLarge))
		fail(zktest.Match{Op: zktest.OpMultiRead, Nth: 2, Times: 1}, zktest.CodeUnimplemented)
		for _, r := range s.GetAll(paths...) {
			if r.Err != nil || string(r.Data) != "data" {
				t.Errorf("%s: %q, %v", r.Path, r.Data, r.Err)
			}
		}
		if n := z.Requests(zktest.OpMultiRead); n != 2 {
			t.Errorf("%d requests to read several nodes, want 2", n)
		}
	})
}

// An answer that breaks off costs those nodes an error, and panics nothing.
func TestGetAllBrokenOff(t *testing.T) {
	ok := jute.AppendBuffer(appendMultiHeader(nil, jute.OpGetData, false), []byte("data"))
	ok = append(ok, make([]byte, 68)...) // a Stat
	reply := appendMultiHeader(ok, -1, true)
	take := func(body []byte) (a answer, err error) {
		_, err = a.read(jute.OpMultiRead, jute.NewReader(body))
		return a, err
	}
	whole, err := take(reply)
	must(t, err)
	for n := range len(reply) {
		if _, err := take(reply[:n]); err == nil {
			t.Errorf("an answer of %d of %d bytes is taken", n, len(reply))
		}
	}
	if _, err := take(appendMultiHeader(nil, jute.OpSetData, false)); err == nil {
		t.Error("a result of another type is taken")
	}
	first, second := Read{Path: "/a", What: ReadData}, Read{Path: "/b", What: ReadData}
	first.takeFrom(&whole, 0)
	second.takeFrom(&whole, 1)
	if first.Err != nil || string(first.Data) != "data" || second.Err == nil {
		t.Errorf("got %+v and %+v of one result", first, second)
	}
}
