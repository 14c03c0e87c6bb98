// SPDX-License-Identifier: Apache-2.0

package look_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/look"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

const (
	path = "/thing"
	dir  = "/things"
)

var errSome = errors.New("some error")

// A running Loop looks at a node, and at the children of another.
type running struct {
	*look.Loop
	m      *manager.Manager
	cancel context.CancelCauseFunc
	ended  chan error
	looks  atomic.Int32

	mu  sync.Mutex // protects end
	end func() (over bool, err error)
}

// run starts a Loop, which has looked once when run returns.
func run(c *recipetest.Cluster, again time.Duration) *running {
	c.T.Helper()
	recipetest.WantErr(c.T, "create", c.Srv.Create(path, nil), nil)
	recipetest.WantErr(c.T, "create", c.Srv.Create(dir, nil), nil)
	m := c.Open("p")
	synctest.Wait() // what is told of the session's beginning would have the Loop look once more
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &running{Loop: look.New(m.Access(), m.Access().Accepting()), m: m, cancel: cancel, ended: make(chan error, 1)}
	r.answer(func() (bool, error) { return false, nil })
	r.Again = again
	r.Watch(path)
	r.WatchChildren(dir)
	go func() {
		r.ended <- r.Run(ctx, func(s *zkio.Session) (bool, error) {
			r.looks.Add(1)
			s.Read(&zkio.Read{Path: path, What: zkio.ReadData}, &zkio.Read{Path: dir, What: zkio.ReadChildren})
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.end()
		})
	}()
	synctest.Wait()
	return r
}

// answer has the looks from now on end like this.
func (r *running) answer(end func() (over bool, err error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = end
}

// endWith has the Loop look, with this result.
func (r *running) endWith(over bool, err error) {
	r.answer(func() (bool, error) { return over, err })
	r.Bell.Ring()
}

func (r *running) wantLooks(c *recipetest.Cluster, want int32) {
	c.T.Helper()
	if n := r.looks.Load(); n != want {
		c.T.Errorf("it has looked %d times, want %d", n, want)
	}
}

// Whatever may have brought news has the Loop look again, once, and nothing else does.
func TestLooksAgain(t *testing.T) {
	recipetest.Bubbles(t, map[string]func(c *recipetest.Cluster, r *running) error{
		"the node's data": func(c *recipetest.Cluster, _ *running) error { return c.Srv.Set(path, []byte("new")) },
		"a child": func(c *recipetest.Cluster, r *running) error {
			return c.Srv.Create(fmt.Sprintf("%s/%d", dir, r.looks.Load()), nil)
		},
		"another session":   func(c *recipetest.Cluster, r *running) error { c.Expire(r.m); return nil },
		"another goroutine": func(_ *recipetest.Cluster, r *running) error { r.Bell.Ring(); return nil },
	}, func(t *testing.T, c *recipetest.Cluster, news func(c *recipetest.Cluster, r *running) error) {
		r := run(c, 0)
		for n := range int32(3) {
			recipetest.Later(time.Minute)
			r.wantLooks(c, 1+n)
			recipetest.WantErr(t, "news", news(c, r), nil)
		}
		synctest.Wait()
		r.endWith(true, nil)
		recipetest.WantErr(t, "run", <-r.ended, nil)
	})
}

// With Again a Loop looks without news as well. A look can change how soon.
func TestLooksAnyway(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		r := run(c, 10*time.Second)
		recipetest.Later(35 * time.Second)
		r.wantLooks(c, 4)
		r.answer(func() (bool, error) { r.Again = 0; return false, nil })
		recipetest.Later(time.Minute)
		r.wantLooks(c, 5)
		r.endWith(true, nil)
		recipetest.WantErr(t, "run", <-r.ended, nil)
	})
}

// In whichever way a Loop ends, no watch is left.
func TestEnds(t *testing.T) {
	type row struct {
		end  func(r *running)
		want error
	}
	recipetest.Bubbles(t, map[string]row{
		"over":    {func(r *running) { r.endWith(true, nil) }, nil},
		"refused": {func(r *running) { r.endWith(false, zkio.ErrNoAuth) }, zkio.ErrNoAuth},
		"verdict": {func(r *running) { r.endWith(false, access.Verdict(errSome)) }, errSome},
		"ctx":     {func(r *running) { r.cancel(errSome) }, errSome},
		"Shutdown": {func(r *running) {
			unlocked := make(chan struct{})
			r.m.Access().Finish(func() { <-unlocked }) // so that the Manager is not closed yet
			go func() { _ = r.m.Shutdown(context.Background()) }()
			synctest.Wait()
			close(unlocked)
		}, manager.ErrClosed},
		"Close": {func(r *running) { _ = r.m.Close() }, manager.ErrClosed},
	}, func(t *testing.T, c *recipetest.Cluster, tt row) {
		r := run(c, 0)
		tt.end(r)
		recipetest.WantErr(t, "run", <-r.ended, tt.want)
		synctest.Wait()
		c.WantNoWatches()
	})
}

// A look that is under way when the caller gives up is not cut short: its watch would be left.
func TestGivesUpDuringALook(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		r := run(c, 0)
		late := c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(r.m), Op: zktest.OpGetData, Times: 1}, time.Second)
		r.Bell.Ring()
		<-late.Hit()
		r.cancel(errSome)
		recipetest.WantErr(t, "run", <-r.ended, errSome)
		c.WantNoWatches()
	})
}

// To take a watch back at the server costs a request, and to forget it none.
func TestUnwatch(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("p")
		recipetest.WantErr(t, "create", c.Srv.Create(path, nil), nil)
		for _, forget := range []bool{false, true} {
			l := look.New(m.Access(), m.Access().Context())
			l.Watch(path)
			var cost map[zktest.Op]uint64
			err := l.Run(t.Context(), func(s *zkio.Session) (bool, error) {
				_, _, err := s.Get(path)
				cost = c.Count(func() {
					if l.Unwatch(s, dir); forget {
						l.Forget(path)
					} else {
						l.Unwatch(s, path)
					}
				})
				return true, err
			})
			recipetest.WantErr(t, "run", err, nil)
			if len(cost) > 0 == forget || c.Srv.Watches(path).Data > 0 != forget {
				t.Errorf("forget %v: it cost %v; watches: %+v", forget, cost, c.Srv.Watches(path))
			}
		}
	})
}
