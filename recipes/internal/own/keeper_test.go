// SPDX-License-Identifier: Apache-2.0

package own_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

var errGone = errors.New("the thing is lost")

const path = "/holdfast/thing"

// keep creates the node, and has k keep it.
func keep(c *recipetest.Cluster, m *manager.Manager, k *own.Keeper) *own.Node {
	c.T.Helper()
	var n *own.Node
	err := m.Access().Call(context.Background(), func(s *zkio.Session) error {
		if err := s.CreateEphemeral(path, nil, nil); err != nil && !errors.Is(err, zkio.ErrNodeExists) {
			return err
		}
		stat, _, err := s.Exists(path)
		if err == nil {
			n, err = k.Keep(s, path, stat.Czxid)
		}
		return err
	}, nil)
	if err != nil {
		c.T.Fatal(err)
	}
	return n
}

// A node is lost in whichever way, and its owner learns of it before another session can
// make a node at its place.
func TestLost(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(c *recipetest.Cluster, m *manager.Manager)
		want error
	}{
		"the session expires": {func(c *recipetest.Cluster, m *manager.Manager) { c.Expire(m) }, errGone},
		"it is deleted":       {func(c *recipetest.Cluster, _ *manager.Manager) { c.Remove(path) }, errGone},
		"it is deleted after a change of its data": {func(c *recipetest.Cluster, _ *manager.Manager) {
			recipetest.WantErr(c.T, "set", c.Srv.Set(path, []byte("changed")), nil)
			recipetest.Later(time.Minute)
			c.Remove(path)
		}, errGone},
		"the manager closes": {func(_ *recipetest.Cluster, m *manager.Manager) { _ = m.Close() }, manager.ErrClosed},
		"the connection is silent": {func(c *recipetest.Cluster, m *manager.Manager) {
			defer c.Silence(m)()
			for c.Srv.Exists(path) {
				<-time.After(10 * time.Millisecond)
			}
		}, errGone},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
				m := c.Open("a")
				n := keep(c, m, own.NewKeeper(m.Access(), errGone))
				ctx, done := n.Context(t.Context())
				defer done()
				recipetest.Later(time.Minute) // the lease is kept, and the node watched
				recipetest.WantErr(t, "kept", n.Err(), nil)
				if ctx.Err() != nil {
					t.Error("its context has ended")
				}
				tt.end(c, m)
				if strings.HasPrefix(name, "it is deleted") {
					synctest.Wait() // the news are on their way
				}
				if !recipetest.IsClosed(n.Lost()) {
					t.Error("not lost, and the node is gone")
				}
				synctest.Wait()
				recipetest.WantErr(t, "lost", n.Err(), tt.want)
				recipetest.WantErr(t, "its context", context.Cause(ctx), tt.want)
				c.WantNoWatches()
			})
		})
	}
}

// What its owner deletes is not lost, and nothing is kept of it.
func TestDelete(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		n := keep(c, m, own.NewKeeper(m.Access(), errGone))
		recipetest.WantErr(t, "delete", n.Delete(m.Access().Session()), nil)
		if c.Srv.Exists(path) {
			t.Error("the node is there")
		}
		recipetest.Later(time.Minute)
		recipetest.WantErr(t, "deleted", n.Err(), nil)
		c.WantNoWatches()
		recipetest.WantErr(t, "again", n.Delete(m.Access().Session()), nil)
	})
}

// The owner forgets a node, which another client has deleted, while the question whether it is
// there is under way: the watch that the question leaves is taken back.
func TestForgetDuringALook(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		n := keep(c, m, own.NewKeeper(m.Access(), errGone))
		look := c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpExists, Times: 1}, time.Second)
		c.Remove(path) // the server has no watch of it yet
		<-look.Hit()
		if !n.Forget() {
			t.Error("the node was lost before the answer")
		}
		recipetest.Later(time.Minute)
		c.WantNoWatches()
	})
}

// The answer to a delete is lost, and the last watcher of the path ends while the question whether
// the node is there is under way: the watch that the question leaves is taken back.
func TestF222_UnwatchedDuringADelete(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		n := keep(c, m, own.NewKeeper(m.Access(), errGone))
		s := m.Access().Session()
		other := make(slow)
		close(other)
		m.Access().Watch(path, other)
		c.Srv.Faults().DropReply(zktest.Match{Session: s.ID(), Op: zktest.OpDelete, Times: 1})
		if err := n.Delete(s); err == nil {
			t.Fatal("the answer was not lost")
		}
		question := c.Srv.Faults().DelayReply(zktest.Match{Session: s.ID(), Op: zktest.OpExists, Times: 1}, time.Second)
		again := recipetest.BeginErr(t, func() error { return n.Delete(s) })
		<-question.Hit()
		s.Unwatch(path, other)
		again.WantErr("again", nil)
		synctest.Wait()
		c.WantNoWatches()
	})
}

// deleteAgain deletes a node of its own once more, after a request that strike has left without an
// answer, when another process has made a node at its path, and checks that this one stays.
func deleteAgain(c *recipetest.Cluster, strike func(session int64), meanwhile func()) {
	t := c.T
	m, other := c.Open("a"), c.Open("b")
	n := keep(c, m, own.NewKeeper(m.Access(), errGone))
	s := m.Access().Session()
	strike(s.ID())
	if err := n.Delete(s); err == nil {
		t.Fatal("the first request has an answer")
	}
	meanwhile()
	keep(c, other, own.NewKeeper(other.Access(), errGone))
	recipetest.WantErr(t, "again", n.Delete(s), nil)
	if !c.Srv.Exists(path) {
		t.Error("the other's node is gone")
	}
}

// If the answer to a delete is lost, another process may have made a node at the same path
// by the time at which it is repeated. That one stays.
func TestDeleteSparesAnother(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		deleteAgain(c, func(session int64) {
			c.Srv.Faults().DropReply(zktest.Match{Session: session, Op: zktest.OpDelete, Times: 1})
		}, func() {})
	})
}

// The same if the request is lost, another client has deleted the node, and the server lags behind:
// it still shows that the node is there.
func TestF226_DeleteByALaggingServer(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		deleteAgain(c, func(session int64) {
			c.Srv.Faults().Lag(-1, session)
			c.Srv.Faults().DropRequest(zktest.Match{Session: session, Op: zktest.OpDelete, Times: 1})
		}, func() { c.Remove(path) })
	})
}

// The owner of a node that another client deleted leaves the one alone that another process
// has made at its place.
func TestDeleteOfALostNodeSparesAnother(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m, other := c.Open("a"), c.Open("b")
		n := keep(c, m, own.NewKeeper(m.Access(), errGone))
		recipetest.Later(time.Minute)
		c.Remove(path)
		synctest.Wait()
		recipetest.WantErr(t, "deleted", n.Err(), errGone)
		theirs := keep(c, other, own.NewKeeper(other.Access(), errGone))
		recipetest.WantErr(t, "delete", n.Delete(m.Access().Session()), nil)
		synctest.Wait()
		recipetest.WantErr(t, "the other's", theirs.Err(), nil)
		if !c.Srv.Exists(path) {
			t.Error("the other's node is gone")
		}
	})
}

// A node is lost, too, if another process has made one at its place before the server could
// tell of its deletion: during an outage, or before it was watched.
func TestReplacedUnseen(t *testing.T) {
	recipetest.Bubbles(t, map[string]bool{"during an outage": true, "before it is watched": false}, func(t *testing.T, c *recipetest.Cluster, outage bool) {
		m, other := c.Open("a"), c.Open("b")
		n := keep(c, m, own.NewKeeper(m.Access(), errGone))
		if outage {
			recipetest.Later(time.Minute)
			refuse := c.Srv.Faults().Refuse()
			defer refuse.Remove()
			c.Srv.Faults().Cut(recipetest.SessionOf(m))
		}
		synctest.Wait()
		c.Remove(path)
		theirs := keep(c, other, own.NewKeeper(other.Access(), errGone))
		c.Srv.Faults().Clear()
		recipetest.Later(100 * time.Millisecond)
		err := m.Access().Call(t.Context(), func(s *zkio.Session) error { _, _, err := s.Exists("/holdfast"); return err }, nil)
		recipetest.WantErr(t, "a request", err, nil)
		recipetest.Later(3 * time.Second)
		recipetest.WantErr(t, "the other's", theirs.Err(), nil)
		recipetest.WantErr(t, "the first", n.Err(), errGone)
	})
}

// A slow is a watcher that returns when it is closed.
type slow chan struct{}

func (s slow) PathChanged(string, zkio.Event) { <-s }

// The news of the deletion of an earlier node at the same path come late.
func TestNewsOfAnEarlierNode(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		k := own.NewKeeper(m.Access(), errGone)
		n := keep(c, m, k)
		recipetest.Later(time.Minute) // the node is watched
		w := make(slow)
		m.Access().Watch("/holdfast/other", w)
		_, _, err := m.Access().Session().Exists("/holdfast/other")
		recipetest.WantErr(t, "look", err, nil)
		recipetest.WantErr(t, "create", c.Srv.CreateAll("/holdfast/other", nil), nil)
		synctest.Wait() // a watcher is slow
		recipetest.WantErr(t, "delete", n.Delete(m.Access().Session()), nil)
		n = keep(c, m, k)
		close(w)
		synctest.Wait()
		recipetest.WantErr(t, "the new node", n.Err(), nil)
		c.Remove(path)
		recipetest.Later(time.Minute)
		recipetest.WantErr(t, "deleted", n.Err(), errGone)
	})
}
