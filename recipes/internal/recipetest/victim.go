// SPDX-License-Identifier: Apache-2.0

package recipetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A Victim is a process at one of whose requests a [Fault] strikes.
type Victim struct {
	*Cluster
	M   *manager.Manager
	Ctx context.Context //nolint:containedctx // what its callers wait with: GiveUp ends it

	giveUp context.CancelCauseFunc
	over   chan struct{} // closed by Calm
	calm   func()
	after  sync.WaitGroup // what happens after the Fault
}

// ErrTired is the cause with which GiveUp ends the Ctx of a Victim.
var ErrTired = errors.New("the caller is tired")

// EachRequest runs test again and again, each time in a bubble of its own: first with a fault at
// the first request of the victim, then with one at the second, until it makes no more. Test
// uses a recipe by the victim, calls [Victim.Calm], and checks what has become of it. Of the
// requests it may take a sample (see [racing.Stride]), another one for each fault.
func EachRequest(t *testing.T, faults map[string]Fault, test func(t *testing.T, v *Victim)) {
	const fewest = 4 // no use of a recipe does with less
	for i, name := range slices.Sorted(maps.Keys(faults)) {
		fault := faults[name]
		for n := 1 + i%racing.Stride(); ; n += racing.Stride() {
			struck := false
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				Bubble(t, func(t *testing.T, c *Cluster) {
					ctx, giveUp := context.WithCancelCause(t.Context())
					v := &Victim{Cluster: c, M: c.Open("victim"), Ctx: ctx, giveUp: giveUp, over: make(chan struct{})}
					v.calm = sync.OnceFunc(func() {
						close(v.over)
						BeginErr(t, func() error { v.after.Wait(); return nil }).WantErr("what happens after the fault", nil)
						c.Srv.Faults().Clear()
					})
					defer v.Calm()
					f := fault(v, zktest.Match{Session: SessionOf(v.M), Nth: n})
					test(t, v)
					struck = f.Hits() > 0
				})
			})
			if t.Failed() {
				return
			}
			if !struck {
				if n <= fewest {
					t.Errorf("%s: nothing happened at request %d", name, n)
				}
				break
			}
		}
	}
}

// Calm returns when the fault is over, and what happens after it. It strikes no more then.
func (v *Victim) Calm() { v.calm() }

// GiveUp has the callers of the victim give up.
func (v *Victim) GiveUp() { v.giveUp(ErrTired) }

// A Fault arranges that something goes wrong with the request at of a process.
type Fault func(v *Victim, at zktest.Match) *zktest.Fault

// Lost are the faults by which a request does not get to the server, or the answer to it does not
// get back: the connection ends, or it falls silent.
var Lost = map[string]Fault{
	"request dropped":   lose((*zktest.Faults).DropRequest),
	"request swallowed": lose((*zktest.Faults).SwallowRequest),
	"reply dropped":     lose((*zktest.Faults).DropReply),
	"reply swallowed":   lose((*zktest.Faults).SwallowReply),
}

func lose(how func(*zktest.Faults, zktest.Match) *zktest.Fault) Fault {
	return func(v *Victim, at zktest.Match) *zktest.Fault { return how(v.Srv.Faults(), at) }
}

// Slow is the fault that the answer takes d.
func Slow(d time.Duration) Fault {
	return func(v *Victim, at zktest.Match) *zktest.Fault { return v.Srv.Faults().DelayReply(at, d) }
}

// Then is the fault f, after which something happens to the victim.
func (f Fault) Then(happen func(v *Victim)) Fault {
	return func(v *Victim, at zktest.Match) *zktest.Fault {
		fault := f(v, at)
		v.after.Go(func() {
			select {
			case <-fault.Hit():
			case <-v.over:
			}
			select {
			case <-fault.Hit(): // perhaps just before the use has ended
				happen(v)
			default:
			}
		})
		return fault
	}
}

// Then returns faults after each of which one of the things happens.
func Then(faults map[string]Fault, things map[string]func(v *Victim)) map[string]Fault {
	all := make(map[string]Fault)
	for fault, f := range faults {
		for thing, happen := range things {
			all[fault+", "+thing] = f.Then(happen)
		}
	}
	return all
}

// Ends end what a victim does.
var Ends = map[string]func(v *Victim){
	"its callers give up": (*Victim).GiveUp,
	"its session ends":    func(v *Victim) { v.Srv.ExpireSession(SessionOf(v.M)) },
	"Shutdown":            func(v *Victim) { _ = v.M.Shutdown(context.Background()) },
	"Close":               func(v *Victim) { _ = v.M.Close() },
}
