// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestF370_ResumedAtTheLastMoment: the leader has begun to end the sessions of a tick when a
// client comes back, whose turn has not come. It resumes its session and makes changes, and then
// its network fails, so that it does not hear that the session is ended. Its lease is over by
// then, or has not begun.
func TestF370_ResumedAtTheLastMoment(t *testing.T) {
	const (
		timeout = 4 * time.Second
		tick    = timeout / 4
		between = timeout / 16 // long, and less than a twelfth
		moment  = timeout / 1000
	)
	network, server, moves := "the client's network", "its server's", "its server's, and the client moves to another"
	aways := map[string]func(e *zktest.Ensemble, reach func(server int)) (back func()){
		network: func(e *zktest.Ensemble, _ func(int)) func() {
			var refused []*zktest.Fault
			for i := range e.Addresses() {
				f := e.Server(i + 1).Faults()
				refused = append(refused, f.Refuse())
				f.CutAll()
			}
			return func() {
				for _, f := range refused {
					f.Remove()
				}
			}
		},
		server: func(e *zktest.Ensemble, _ func(int)) func() {
			e.Isolate(1)
			return e.Heal
		},
		moves: func(e *zktest.Ensemble, reach func(server int)) func() {
			e.Isolate(1)
			return func() {
				reach(2)
				e.Server(1).Faults().CutAll()
			}
		},
	}
	for _, test := range []struct {
		fails string // the client has no way to the leader
		keeps bool   // it has a node to keep alive; without one it notices nothing of its server's network
	}{{network, true}, {network, false}, {server, true}, {moves, true}, {moves, false}} {
		t.Run(fmt.Sprintf("%s, with a node: %t", test.fails, test.keeps), func(t *testing.T) {
			var due time.Duration // after the beginning, if the client does not come back
			ended, proved := 0, 0 // of those that came back
			trial := func(comes time.Duration) {
				synctest.Test(t, func(t *testing.T) {
					e := zktest.NewEnsemble(zktest.EnsembleConfig{
						Config:    zktest.Config{TickTime: tick, BetweenEnds: between, Logger: quiet},
						SyncLimit: 20,
					})
					t.Cleanup(func() { e.Close() })
					silence := func() {
						for i := range e.Addresses() {
							e.Server(i + 1).Faults().BlackholeAll()
						}
					}
					began := time.Now()
					cfg := configure(e.Server(1))
					var reached atomic.Int64 // index of the server that the clients reach
					cfg.Servers = e.Addresses()[:2]
					cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
						if address != e.Addresses()[reached.Load()] {
							return nil, syscall.ECONNREFUSED
						}
						return e.Dial(ctx, network, address)
					}
					other, c := open(t, cfg), open(t, cfg) // the other's session ends first
					s := c.Session()
					must(t, s.EnsureDir("/d", nil))
					if test.keeps {
						mustCreate(t, other.Session(), "/d", nil)
						mustCreate(t, s, "/d", nil)
					}
					var answered atomic.Int64 // when, after the beginning
					e.OnExpire(func(x zktest.Expiry) {
						if x.Session != s.ID() {
							return
						}
						if due == 0 {
							due = time.Since(began)
						}
						if at := answered.Load(); at > 0 && time.Since(began)-time.Duration(at) < timeout/2 {
							ended++
						}
						if left := s.Lease().Remaining(); left > 0 {
							t.Errorf("back %v before it is due: the session has ended, and its lease is in force for another %v", due-comes, left)
						}
					})
					time.Sleep(3*timeout - time.Since(began))
					back := aways[test.fails](e, func(server int) { reached.Store(int64(server - 1)) })
					time.Sleep(comes - time.Since(began))
					back()
					go func() {
						for s.Prove("/d") != nil {
							if s.Err() != nil {
								return
							}
							time.Sleep(moment)
						}
						proved++
						answered.Store(int64(time.Since(began)))
						silence()
					}()
					time.Sleep(3 * timeout)
					for i := range e.Addresses() {
						e.Server(i + 1).Faults().Clear()
					}
					c.Close(t.Context())
					synctest.Wait()
				})
			}
			trial(10 * timeout)
			cases, tried := 0, 0
			for before := -between / 2; before < timeout/2; before += timeout / 200 {
				if cases++; racing.Some(cases) {
					tried++
					trial(due - before)
				}
			}
			// One in twenty ends at the least: none need be in a sample.
			if proved < tried/2 || tried == cases && ended < cases/20 {
				t.Errorf("of %d sessions that were resumed and written in %d ended: want some of many, of %d", proved, ended, tried)
			}
		})
	}
}
