// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestAdministration: the Server's own methods change nodes, refuse what a client's
// requests would be refused, and show the result.
func TestAdministration(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubbleClient(t, srv, 10*time.Second)
		id := c.SessionID()
		for _, step := range []struct {
			name string
			do   func() error
			err  error
		}{
			{"CreateAll", func() error { return srv.CreateAll("/a/b/c", []byte("data")) }, nil},
			{"CreateAll again", func() error { return srv.CreateAll("/a/b/c", nil) }, zktest.CodeNodeExists},
			{"CreateEphemeral", func() error { return srv.CreateEphemeral(id, "/e", nil) }, nil},
			{"CreateAll below an ephemeral", func() error { return srv.CreateAll("/e/x/y", nil) }, zktest.CodeNoChildrenForEphemerals},
			{"CreateAll of a bad path", func() error { return srv.CreateAll("relative/x", nil) }, zktest.CodeBadArguments},
			{"Create below nothing", func() error { return srv.Create("/x/y", nil) }, zktest.CodeNoNode},
			{"Create a bad path", func() error { return srv.Create("/x/../y", nil) }, zktest.CodeNoNode},
			{"Create without a path", func() error { return srv.Create("", nil) }, zktest.CodeBadArguments},
			{"CreateEphemeral of no session", func() error { return srv.CreateEphemeral(99, "/f", nil) }, zktest.CodeSessionExpired},
			{"Set", func() error { return srv.Set("/a", []byte("new")) }, nil},
			{"Set nothing", func() error { return srv.Set("/x", nil) }, zktest.CodeNoNode},
			{"Delete one with children", func() error { return srv.Delete("/a") }, zktest.CodeNotEmpty},
			{"Delete nothing", func() error { return srv.Delete("/x") }, zktest.CodeNoNode},
			{"Delete the root", func() error { return srv.Delete("/") }, zktest.CodeBadArguments},
			{"DeleteAll of nothing", func() error { return srv.DeleteAll("/x") }, nil},
			{"DeleteAll", func() error { return srv.DeleteAll("/a/b") }, nil},
			{"SetSequence of nothing", func() error { return srv.SetSequence("/x", 5) }, zktest.CodeNoNode},
			{"SetSequence back", func() error { return srv.SetSequence("/a", 0) }, zktest.CodeBadArguments},
			{"SetSequence", func() error { return srv.SetSequence("/a", 5) }, nil},
		} {
			err := step.do()
			if !errors.Is(err, step.err) || step.err == nil && err != nil {
				t.Errorf("%s: error %v, want %v", step.name, err, step.err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "zktest: ") {
				t.Errorf("%s: error %q does not say where it comes from", step.name, err)
			}
		}
		if got, want := srv.Nodes(), []string{"/a", "/e"}; !slices.Equal(got, want) {
			t.Errorf("Nodes = %v, want %v", got, want)
		}
		data, stat, ok := srv.Get("/a")
		if !ok || string(data) != "new" || stat.Version != 1 || stat.DataLength != 3 || stat.EphemeralOwner != 0 {
			t.Errorf("Get = %q, %+v, %v", data, stat, ok)
		}
		data[0] = 'X'
		if again, _, _ := srv.Get("/a"); string(again) != "new" {
			t.Error("Get gives the server's own data away")
		}
		if _, stat, _ := srv.Get("/e"); stat.EphemeralOwner != id {
			t.Errorf("ephemeral owner %x, want %x", stat.EphemeralOwner, id)
		}
		if _, _, ok := srv.Get("/x"); ok || srv.Exists("/x") || srv.Children("/x") != nil {
			t.Error("something was found at /x")
		}
		if got, want := srv.Children("/"), []string{"a", "e", "zookeeper"}; !slices.Equal(got, want) {
			t.Errorf("Children = %v, want %v", got, want)
		}
		if got := srv.Sessions(); len(got) != 1 || !slices.Equal(got[0].Ephemerals, []string{"/e"}) {
			t.Errorf("Sessions = %+v", got)
		}
	})
}

func TestRequestCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubbleClient(t, srv, 10*time.Second)
		for range 3 {
			_, _, _ = c.Get("/x")
		}
		srv.Faults().SwallowRequest(zktest.Match{Op: zktest.OpSync, Times: 1})
		go func() { _, _ = c.Sync("/") }()
		synctest.Wait()
		want := map[zktest.Op]uint64{zktest.OpConnect: 1, zktest.OpGetData: 3}
		if got := srv.RequestCounts(); !maps.Equal(got, want) {
			t.Errorf("RequestCounts = %v, want %v", got, want)
		}
		if srv.Requests(zktest.OpGetData) != 3 || srv.Requests(zktest.OpSync) != 0 {
			t.Error("Requests differs from RequestCounts")
		}
	})
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		zktest.OpGetChildren2.String(): "getChildren2",
		zktest.OpConnect.String():      "connect",
		zktest.Op(77).String():         "op(77)",
		zktest.CodeNoNode.Error():      "no node (-101)",
		zktest.Code(-999).Error():      "code -999",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSmallBuffer: Config.MaxBuffer limits frames.
func TestSmallBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, zktest.Config{MaxBuffer: 100})
		c := bubbleClient(t, srv, 10*time.Second)
		if _, err := c.Create("/a", make([]byte, 20), 0, open); err != nil {
			t.Errorf("Create within the limit: %v", err)
		}
		if _, err := c.Create("/b", make([]byte, 100), 0, open); err != zk.ErrConnectionClosed {
			t.Errorf("Create beyond the limit: %v", err)
		}
	})
}
