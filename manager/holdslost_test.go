// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"time"
)

// lossesTold returns how many functions the round of h would call at its loss.
func lossesTold(h Hold) int {
	return h.promises().signals().losses.open().len()
}

// LockAll enters locks that the process holds, or keeps, for as long as the program runs, any
// number of times, and each caller listens for a loss, most of them in a loop. Nothing of it
// is left when a caller has released its Holds.
func TestF292_LostOfHoldsLeavesNothing(t *testing.T) {
	each(t, map[string]func(c *cluster, locks []*Lock){
		"all are held": func(c *cluster, locks []*Lock) {
			for _, l := range locks {
				h := mustLock(c.t, l)
				c.t.Cleanup(func() { h.Release() })
			}
		},
		"all linger": func(c *cluster, locks []*Lock) {
			for _, l := range locks {
				wantErr(c.t, "set", l.SetLinger(always), nil)
				c.cycle(l)
			}
		},
	}, func(c *cluster, keep func(*cluster, []*Lock)) {
		m := c.open("a")
		locks := several(c.t, m, "one", "two")
		keep(c, locks)
		for range 1000 {
			hs := mustLockAll(c.t, m, locks...)
			lost := hs.Lost()
			for range 3 {
				if hs.Lost() != lost {
					c.t.Fatal("the second call made another channel")
				}
			}
			if isClosed(lost) {
				c.t.Fatal("it is closed")
			}
			wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
		}
		hs := mustLockAll(c.t, m, locks...)
		for i, h := range hs {
			if n := lossesTold(h); n > 0 {
				c.t.Errorf("%d callers that have left would be told of a loss of lock %d", n, i)
			}
		}
		hs.Release()
	})
}

// Each of the Holds counts until it is released: of what is left, a loss is told, to each
// caller.
func TestHoldsLostAfterARelease(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		locks := several(c.t, m, "one", "two", "three")
		var mine []Hold
		for _, l := range locks {
			mine = append(mine, mustLock(c.t, l))
		}
		hs, others := mustLockAll(c.t, m, locks...), mustLockAll(c.t, m, locks...)
		lost, othersLost, two := hs.Lost(), others.Lost(), hs[1:].Lost()
		hs[0].Release()
		c.remove(grantOf(c.t, mine[0]).Path)
		later(time.Second)
		if isClosed(lost) || isClosed(two) || !isClosed(othersLost) {
			c.t.Errorf("the loss of a lock whose Hold was released was told %t and %t; to another caller, %t",
				isClosed(lost), isClosed(two), isClosed(othersLost))
		}
		c.remove(grantOf(c.t, mine[2]).Path)
		later(time.Second)
		if !isClosed(lost) || !isClosed(two) {
			c.t.Errorf("the loss of a lock that is held was told %t and %t", isClosed(lost), isClosed(two))
		}
		wantErr(c.t, "the one that is left", hs[1].Err(), nil)
		for _, h := range append(mine, append(hs, others...)...) {
			h.Release()
		}
	})
}
