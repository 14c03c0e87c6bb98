// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestF369_LinkFailsOneWayThenTheOther: for a while the holder's server hears nothing of
// its leader, which therefore learns nothing of the holder, although a write of the
// holder's goes up and is answered later. Then the leader hears nothing of the server. The
// holder's lease is over before the leader ends the session, whether the holder was busy
// before, kept its session alive, or has only pinged.
func TestF369_LinkFailsOneWayThenTheOther(t *testing.T) {
	const (
		timeout = 4 * time.Second
		tick    = timeout / 2 // the longest
		moment  = 50 * time.Millisecond
		before  = 2 * timeout
	)
	for name, holder := range map[string]struct {
		keeps bool          // it has a node to keep alive
		every time.Duration // between its writes, before; 0: it makes none
	}{
		"busy":           {true, 50 * time.Millisecond},
		"at work":        {true, 900 * time.Millisecond},
		"idle":           {true, 0},
		"without a node": {false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cases, tried, ends := 0, 0, 0
			for phase := range 16 {
				for deaf := timeout / 4; deaf < timeout/2; deaf += timeout / 32 {
					if cases++; !racing.Some(cases) {
						continue
					}
					tried++
					synctest.Test(t, func(t *testing.T) {
						e := zktest.NewEnsemble(zktest.EnsembleConfig{Config: zktest.Config{TickTime: tick, Logger: quiet}})
						t.Cleanup(func() { e.Close() })
						time.Sleep(time.Duration(phase) * tick / 16)
						e.Server(3).Restart() // another leader, which pings at other times than sessions end
						cfg := configure(e.Server(1))
						cfg.Servers = e.Addresses()[:1]
						c := open(t, cfg)
						s := c.Session()
						must(t, s.EnsureDir("/d", nil))
						if holder.keeps {
							mustCreate(t, s, "/d", nil)
						}
						e.OnExpire(func(x zktest.Expiry) {
							if x.Session != s.ID() {
								return
							}
							ends++
							if left := s.Lease().Remaining(); left > 0 {
								t.Errorf("phase %d, deaf for %v: the session has ended, and its lease is in force for another %v", phase, deaf, left)
							}
						})
						idle := before
						if holder.every > 0 {
							for ; idle > 0; idle -= holder.every {
								time.Sleep(holder.every)
								must(t, s.Prove("/d"))
							}
						}
						time.Sleep(idle)
						leader := e.Leader()
						e.Deafen(1, leader)
						time.Sleep(deaf)
						go s.Prove("/d") // which returns later, or fails
						time.Sleep(moment)
						e.Deafen(leader, 1)
						time.Sleep(10 * time.Second)
						e.Heal()
						synctest.Wait()
					})
				}
			}
			if ends < tried*4/5 {
				t.Errorf("the leader has ended %d of %d sessions: most should not survive", ends, tried)
			}
		})
	}
}
