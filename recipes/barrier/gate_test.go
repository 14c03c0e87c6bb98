// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

func gateOf(t *testing.T, m *manager.Manager) *Gate {
	t.Helper()
	g, err := NewGate(m, "start/gate")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func waitAt(t *testing.T, ctx context.Context, g *Gate) *recipetest.Pending[struct{}] { //nolint:revive // t comes first in tests
	return recipetest.BeginErr(t, func() error { return g.Wait(ctx) })
}

func shut(t *testing.T, g *Gate) {
	t.Helper()
	recipetest.WantErr(t, "shut", g.Shut(t.Context()), nil)
}

func open(t *testing.T, g *Gate) {
	t.Helper()
	recipetest.WantErr(t, "open", g.Open(t.Context()), nil)
}

func wantOpened(t *testing.T, p *recipetest.Pending[struct{}]) {
	t.Helper()
	p.WantErr("wait", nil)
}

func TestGate(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		ours, theirs := gateOf(t, c.Open("a")), gateOf(t, c.Open("b"))
		recipetest.WantErr(t, "open from the start", ours.Wait(t.Context()), nil)
		open(t, ours)
		for range 3 {
			shut(t, ours)
			shut(t, theirs)
			waits := waitAt(t, t.Context(), ours)
			waits2 := waitAt(t, t.Context(), theirs)
			wantWaiting(c, "shut", waits)
			wantWaiting(c, "shut", waits2)
			open(t, theirs)
			wantOpened(t, waits)
			wantOpened(t, waits2)
		}
		c.WantNoWatches()
	})
}

func TestGateCost(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		g := gateOf(t, c.Open("a"))
		shut(t, g)
		open(t, g)
		want := func(what string, got map[zktest.Op]uint64, want map[zktest.Op]uint64) {
			t.Helper()
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s costs %v, want %v", what, got, want)
			}
		}
		want("shut", c.Count(func() { shut(t, g) }), map[zktest.Op]uint64{zktest.OpCreate: 1})
		var p *recipetest.Pending[struct{}]
		want("wait", c.Count(func() { p = waitAt(t, t.Context(), g) }), map[zktest.Op]uint64{zktest.OpMulti: 1, zktest.OpGetData: 1})
		want("open", c.Count(func() { open(t, g); wantOpened(t, p) }), map[zktest.Op]uint64{zktest.OpDelete: 1, zktest.OpGetData: 1})
	})
}

// A gate is opened and shut at once. Who waited since before goes on.
func TestF267_OpenedAndShut(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		ours, theirs := gateOf(t, c.Open("a")), gateOf(t, c.Open("b"))
		shut(t, theirs)
		for range times(c, 20) {
			waits := waitAt(t, t.Context(), ours)
			wantWaiting(c, "shut", waits)
			open(t, theirs)
			shut(t, theirs)
			wantOpened(t, waits)
		}
		// Nor is it missed by a process whose session ends meanwhile.
		if c.Srv == nil {
			return
		}
		m := c.Open("c")
		waits := waitAt(t, t.Context(), gateOf(t, m))
		wantWaiting(c, "shut", waits)
		c.Expire(m)
		wantWaiting(c, "shut, in the next session", waits)
		c.Srv.Faults().Refuse()
		c.Srv.ExpireSession(recipetest.SessionOf(m))
		c.Remove("/holdfast/start/gate")
		recipetest.WantErr(t, "create", c.Srv.Create("/holdfast/start/gate", nil), nil)
		recipetest.Later(time.Minute)
		c.Srv.Faults().Clear()
		wantOpened(t, waits)
	})
}

// A server that lags behind shows a gate as open that was shut before Wait began.
func TestF267_LaggingServerAtAGate(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		ours, theirs := gateOf(t, m), gateOf(t, c.Open("b"))
		lag := c.Srv.Faults().Lag(-1, recipetest.SessionOf(m))
		shut(t, theirs)
		waits := waitAt(t, t.Context(), ours)
		wantWaiting(c, "shut, and the server does not know", waits)
		open(t, theirs)
		lag.Remove()
		wantOpened(t, waits)
	})
}

// Lost requests and answers cost time only.
func TestF260_LostRequestsAtAGate(t *testing.T) {
	recipetest.EachRequest(t, recipetest.Lost, func(t *testing.T, v *recipetest.Victim) {
		g := gateOf(t, v.M)
		for range 2 {
			shut(t, g)
			waits := waitAt(t, t.Context(), g)
			wantWaiting(v.Cluster, "shut", waits)
			open(t, g)
			wantOpened(t, waits)
		}
	})
}

// A caller that gives up, or whose Manager closes, returns at once, and its watch goes.
func TestF265_GivesUpAtAGate(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		g := gateOf(t, m)
		shut(t, g)
		why := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		waits := waitAt(t, ctx, g)
		synctest.Wait()
		cancel(why)
		_, err := waits.Wait()
		recipetest.WantErr(t, "given up", err, why)
		recipetest.WantErr(t, "given up", err, context.Canceled)
		synctest.Wait()
		c.WantNoWatches()
		recipetest.WantErr(t, "open", g.Open(ctx), why)
		if !c.Srv.Exists("/holdfast/start/gate") {
			t.Error("opened by a caller that had given up")
		}

		f := c.Srv.Faults().DelayReply(zktest.Match{Op: zktest.OpDelete, Times: 1}, time.Second)
		ctx, cancel = context.WithCancelCause(t.Context())
		opens := recipetest.BeginErr(t, func() error { return g.Open(ctx) })
		<-f.Hit()
		cancel(why)
		_, err = opens.Wait()
		recipetest.WantErr(t, "given up", err, manager.ErrUnknownOutcome)
		recipetest.WantErr(t, "given up", err, why)
		recipetest.Later(time.Minute)

		shut(t, g)
		waits = waitAt(t, t.Context(), g)
		synctest.Wait()
		recipetest.WantErr(t, "close", m.Close(), nil)
		waits.WantErr("closed", manager.ErrClosed)
		recipetest.WantErr(t, "closed", g.Wait(t.Context()), manager.ErrClosed)
		recipetest.WantErr(t, "closed", g.Shut(t.Context()), manager.ErrClosed)
		recipetest.WantErr(t, "closed", recipetest.ErrOf(NewGate(m, "start/gate")), manager.ErrClosed)
	})
}

// The Manager closes while a request that changes the gate is under way. It may have been
// carried out.
func TestF265_ClosedAsTheGateChanges(t *testing.T) {
	type row struct {
		op     zktest.Op
		change func(*Gate, context.Context) error
	}
	recipetest.Bubbles(t, map[string]row{
		"shut": {zktest.OpCreate, (*Gate).Shut},
		"open": {zktest.OpDelete, (*Gate).Open},
	}, func(t *testing.T, c *recipetest.Cluster, tt row) {
		m := c.Open("a")
		g := gateOf(t, m)
		shut(t, g)
		if tt.op == zktest.OpCreate {
			open(t, g)
		}
		f := c.Srv.Faults().SwallowReply(zktest.Match{Op: tt.op, Times: 1})
		changes := recipetest.BeginErr(t, func() error { return tt.change(g, t.Context()) })
		<-f.Hit()
		recipetest.WantErr(t, "close", m.Close(), nil)
		_, err := changes.Wait()
		recipetest.WantErr(t, "interrupted", err, manager.ErrClosed)
		recipetest.WantErr(t, "interrupted", err, manager.ErrUnknownOutcome)
		if err := tt.change(g, t.Context()); errors.Is(err, manager.ErrUnknownOutcome) {
			t.Errorf("closed from the start: %v", err)
		}
	})
}
