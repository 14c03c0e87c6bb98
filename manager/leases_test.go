// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// The answers to a holder's writes arrive late. A lease counts from the time at
// which the request was sent, so it ends correspondingly early.
func TestF041_LateAnswers(t *testing.T) {
	const (
		timeout = 12 * time.Second
		late    = timeout / 6
	)
	// The holder is cut off at different points between two heartbeats.
	for step := range 8 {
		bubble(t, func(c *cluster) {
			l := c.lock("a", func(cfg *Config) { cfg.SessionTimeout = timeout })
			h := mustLock(c.t, l)
			later(time.Minute)
			id := session(l.m)
			delay := c.srv.Faults().DelayReply(zktest.Match{Op: zktest.OpMulti, Session: id, Times: zktest.Every}, late)
			later(time.Minute + time.Duration(step)*late/8)
			wantErr(c.t, "while answers are late", h.Err(), nil)
			hole := c.srv.Faults().Blackhole(id)
			start := time.Now()
			<-h.Lost()
			// The last proof that was answered had been sent that much earlier.
			if d, most := time.Since(start), timeout/2-late; d > most {
				c.t.Errorf("told %v after the cut, want at most %v", d, most)
			}
			delay.Remove()
			hole.Remove()
			wantErr(c.t, "unlock", h.Unlock(c.t.Context()), ErrLost)
		})
	}
}
