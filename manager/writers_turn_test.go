// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// A writer that waits behind the readers of its own process ends their round when
// that has lasted a tenure, and not before.
func TestOwnWriterGetsItsTurn(t *testing.T) {
	const tenure = time.Second
	tests := []struct {
		name   string
		tenure time.Duration
		held   time.Duration // by readers, when the writer comes
		after  time.Duration // from then
		leaves bool          // the writer gives up meanwhile, another one begins
		tries  bool          // it only tried
		closed bool
	}{
		{name: "at once", tenure: tenure},
		{name: "just before", tenure: tenure, held: tenure / 4, after: tenure/2 + tenure/8},
		{name: "just after", tenure: tenure, held: tenure / 4, after: tenure/2 + tenure/4, closed: true},
		{name: "into a round that is older", tenure: tenure, held: 2 * tenure, closed: true},
		{name: "a TryLock that passes by", tenure: tenure, held: tenure / 4, after: 2 * tenure, tries: true},
		{name: "a writer that came in for one that left", tenure: tenure, held: tenure / 4, after: tenure, leaves: true, closed: true},
		{name: "never", tenure: -1, held: tenure, after: 10 * tenure},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				t := c.t // that of the bubble
				m := c.open("a", func(cfg *Config) { cfg.Tenure = tt.tenure })
				rw, err := m.ReadWrite("jobs")
				if err != nil {
					t.Fatal(err)
				}
				first := mustLock(t, rw.Reader())
				later(tt.held)
				var write Hold
				switch {
				case tt.tries:
					_, err := rw.Writer().TryLock(t.Context())
					wantErr(t, "TryLock", err, ErrLocked)
				case tt.leaves:
					ctx, cancel := context.WithTimeout(t.Context(), tenure/8)
					_, err := rw.Writer().Lock(ctx)
					cancel()
					wantErr(t, "Lock", err, context.DeadlineExceeded)
					fallthrough
				default:
					write = rw.Writer().Acquire(t.Context())
					synctest.Wait()
				}
				later(tt.after)

				second := rw.Reader().Acquire(t.Context())
				if closed := first.round.flags.Load().Has(state.GateClosed); closed != tt.closed || closed != (second.round != first.round) {
					t.Errorf("the gate is closed: %v, want %v; the newcomer is in another round: %v", closed, tt.closed, second.round != first.round)
				}
				// Whatever became of it, all get in, one after the other.
				first.Release()
				if !tt.closed {
					second.Release()
				}
				if !tt.tries {
					synctest.Wait()
					wantErr(t, "the writer's grant", settled(t, "the writer's grant", write.Granted()), nil)
					write.Release()
				}
				if tt.closed {
					synctest.Wait()
					wantErr(t, "the newcomer's grant", settled(t, "the newcomer's grant", second.Granted()), nil)
					second.Release()
				}
				synctest.Wait()
				c.wantNodes(0)
			})
		})
	}
}
