// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func TestOpValidate(t *testing.T) {
	for _, tt := range []struct {
		op   Op
		says string // "" if it is valid
	}{
		{CheckOp("/", -1), ""},
		{SetOp("/a/b", nil, 7), ""},
		{CreateOp("/grüße/日本 x", []byte("x"), nil), ""},
		{DeleteOp("/a./.b/c..d/...", -1), ""},
		{Op{}, "zero Op"},
		{CheckOp("", -1), "begins with a slash"},
		{CheckOp("a/b", -1), "begins with a slash"},
		{CreateOp("/a/", nil, nil), "end with a slash"},
		{SetOp("/a//b", nil, -1), "empty segments"},
		{DeleteOp("/a/./b", -1), `segment "."`},
		{DeleteOp("/a/..", -1), `segment ".."`},
		{CheckOp("/a\x00", -1), "U+0000"},
		{CheckOp("/a\u0085", -1), "U+0085"},
		{CheckOp("/\ue000", -1), "U+E000"},
		{CheckOp("/😀", -1), "U+1F600"},
		{CheckOp("/\xff", -1), "U+FFFD"},
	} {
		err := tt.op.Validate()
		if tt.says == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.op.Path(), err)
			}
			continue
		}
		wantErr(t, err, ErrBadArguments, Definite)
		if !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: error %q, want one that says %q", tt.op.Path(), err, tt.says)
		}
	}
}

// An Op has copies of what it was given, which may be changed before it is sent.
func TestOpCopies(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		s := open(t, configure(z)).Session()
		data, acl := []byte("old"), []ACL{{PermRead | PermWrite, "world", "anyone"}}
		ops := []Op{CreateOp("/a", data, acl), SetOp("/b", data, -1)}
		copy(data, "new")
		acl[0].Perms = PermAll
		must(t, z.Create("/b", nil))
		_, err := s.Multi(ops...)
		must(t, err)
		for _, path := range []string{"/a", "/b"} {
			if got, _, _ := z.Get(path); string(got) != "old" {
				t.Errorf("%s has %q", path, got)
			}
		}
		if got, err := s.ACL("/a"); err != nil || len(got) != 1 || got[0].Perms != PermRead|PermWrite {
			t.Errorf("ACL %v, %v", got, err)
		}
	})
}

// A change whose session ends before its answer comes may have been made, and the
// error says so; one that was refused, or never sent, was not, nor is a read a
// change.
func TestSessionOverDuringAChange(t *testing.T) {
	multi := func(s *Session) error { _, err := s.Multi(SetOp("/a", nil, -1)); return err }
	for _, tt := range []struct {
		name  string
		call  func(s *Session) error
		match zktest.Match
		maybe bool
	}{
		{"transaction", multi, zktest.Match{Op: zktest.OpMulti, Times: 1}, true},
		{"set", func(s *Session) error { _, err := s.Set("/a", nil, -1); return err }, zktest.Match{Op: zktest.OpSetData, Times: 1}, true},
		{"create", func(s *Session) error { return s.Create("/b", nil, nil) }, zktest.Match{Op: zktest.OpCreate, Times: 1}, true},
		{"delete", func(s *Session) error { return s.Delete("/a", -1) }, zktest.Match{Op: zktest.OpDelete, Times: 1}, true},
		{"directory", func(s *Session) error { return s.EnsureDir("/c", nil) }, zktest.Match{Op: zktest.OpCreateContainer, Times: 1}, true},
		{"get", func(s *Session) error { _, _, err := s.Get("/a"); return err }, zktest.Match{Op: zktest.OpGetData, Times: 1}, false},
		{"sync", func(s *Session) error { return s.Sync("/a") }, zktest.Match{Op: zktest.OpSync, Times: 1}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, z *zktest.Server) {
				must(t, z.Create("/a", nil))
				c := open(t, configure(z))
				s := c.Session()
				z.Faults().SwallowReply(tt.match)
				got := make(chan error, 1)
				go func() { got <- tt.call(s) }()
				time.Sleep(time.Second)
				s.end(errSessionExpired, false)
				err := <-got
				wantErr(t, err, ErrSessionOver, SessionOver)
				if is(err, ErrUnknown) != tt.maybe || strings.Contains(err.Error(), "may have been carried out") != tt.maybe {
					t.Errorf("error %q: may have happened: %v, want %v", err, is(err, ErrUnknown), tt.maybe)
				}
				synctest.Wait()
				err = tt.call(s)
				wantErr(t, err, ErrSessionOver, SessionOver)
				if is(err, ErrUnknown) {
					t.Errorf("a call of a session that is over: error %q", err)
				}
			})
		})
	}
}

// The flags of a creation reach the server, and other operations stay as they are.
func TestOpEphemeralSequential(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		s := open(t, configure(z)).Session()
		must(t, z.Create("/a", nil))
		results, err := s.Multi(
			CreateOp("/a/e", nil, nil).Ephemeral(),
			CreateOp("/a/s-", nil, nil).Sequential(),
			CreateOp("/a/b-", nil, nil).Ephemeral().Sequential(),
			SetOp("/a", nil, -1).Ephemeral().Sequential(),
		)
		must(t, err)
		for i, want := range []struct {
			path string
			own  bool
		}{{"/a/e", true}, {"/a/s-0000000001", false}, {"/a/b-0000000002", true}} {
			_, stat, there := z.Get(want.path)
			if results[i].Path != want.path || !there || (stat.EphemeralOwner == s.ID()) != want.own {
				t.Errorf("%s: result %+v, there %v, of session %#x", want.path, results[i], there, stat.EphemeralOwner)
			}
			if stat.Czxid != results[3].Stat.Mzxid {
				t.Errorf("%s was created by %d, and the directory set by %d", want.path, stat.Czxid, results[3].Stat.Mzxid)
			}
		}
	})
}
