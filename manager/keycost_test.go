// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A cost is what something makes the servers do: exactly so many writes, and at most so many
// reads, since one look may find what two would have. A write that fails is one, too: the
// servers agree on it all the same.
type cost struct{ writes, reads int64 }

// wantCost checks what do costs.
func (c *cluster) wantCost(what string, want cost, do func()) {
	c.t.Helper()
	count := func() cost {
		synctest.Wait()
		n := c.srv.RequestCounts()
		return cost{c.srv.Zxid(), int64(n[zktest.OpGetData] + n[zktest.OpGetChildren2] + n[zktest.OpExists])}
	}
	before := count()
	do()
	after := count()
	if got := (cost{after.writes - before.writes, after.reads - before.reads}); got.writes != want.writes || got.reads > want.reads {
		c.t.Errorf("%s: %+v, want %+v at most", what, got, want)
	}
}

// docs/operating.md says what keys cost that come and go: the lock's directory is made, and
// the server removes it when it has been empty for a while.
func TestCostOfKeysThatComeAndGo(t *testing.T) {
	bubble(t, func(c *cluster) {
		wantErr(c.t, "create", c.srv.CreateAll("/holdfast/other", nil), nil) // the root stays
		m := c.open("a")
		c.cycle(exclusive(c.t, m, "other")) // the first request of a session costs more
		l := exclusive(c.t, m, "jobs")
		use := func() { c.cycle(l) }
		c.wantCost("the key is new", cost{writes: 3, reads: 2}, use)
		c.wantCost("it is used again", cost{writes: 2}, use)
		c.wantCost("it is not used for a while", cost{writes: 1}, func() { later(3 * time.Minute) })
		c.wantCost("it is used again after that", cost{writes: 4, reads: 2}, use)
	})
}

// docs/variants.md says what it costs that a lock moves between processes that let it linger.
func TestCostOfAMove(t *testing.T) {
	for _, linger := range []time.Duration{0, always} {
		bubble(t, func(c *cluster) {
			var locks []*Lock
			use := func(l *Lock) { wantErr(c.t, "unlock", mustLock(c.t, l).Unlock(c.t.Context()), nil) }
			for _, label := range []string{"a", "b"} {
				l := c.lock(label, func(cfg *Config) { cfg.Linger = linger })
				use(l)
				locks = append(locks, l)
			}
			use(locks[0])
			use(locks[1])
			want := cost{writes: 2}
			if linger > 0 {
				want.reads = 4
			}
			for i := range 10 {
				c.wantCost("the lock moves", want, func() { use(locks[i%2]) })
			}
			if linger > 0 {
				want = cost{}
			}
			c.wantCost("the lock stays", want, func() { use(locks[1]) })
		})
	}
}
