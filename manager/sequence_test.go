// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// lastSafe is the last number that orders a queue by itself.
const lastSafe = 1<<31 - 1<<20

// countFrom makes the directory of the lock "jobs", in which the next node gets the
// number next.
func (c *cluster) countFrom(next int32) {
	c.t.Helper()
	wantErr(c.t, "create", c.srv.CreateAll(dir, nil), nil)
	wantErr(c.t, "set the number", c.srv.SetSequence(dir, next), nil)
}

// A number below zero came after the highest: it is behind the contenders that were
// there before it, and ahead of those that come after it.
func TestNegativeNumbers(t *testing.T) {
	bubble(t, func(c *cluster) {
		c.countFrom(math.MaxInt32)
		other := c.rw("other")
		first := mustLock(c.t, other.Writer())
		name := c.nodes()[0]
		data, _, _ := c.srv.Get(dir + "/" + name)
		second := c.acquire(c.rw("b").Writer())
		// A node of this package, with a number that simultaneous creates get.
		negative := fmt.Sprintf("%s/%s%010d", dir, strings.TrimSuffix(name, sequenceOf(name)), math.MinInt32)
		wantErr(c.t, "create", c.srv.CreateEphemeral(session(other.writer.m), negative, data), nil)
		third := c.acquire(c.rw("d").Writer())
		c.waiting(second, third)
		c.unlock(first)
		c.held(second)
		c.unlock(second)
		c.waiting(third)
		c.remove(negative)
		c.held(third)
		c.unlock(third)
	})
}

// Other clients order the queue by numbers that mean nothing here. With a node of
// theirs there is no order to agree on: waiters fail with that error instead of
// waiting for ever. Holders stay.
func TestOthersWhereNumbersRunOut(t *testing.T) {
	each(t, map[string][2]string{
		"go-zookeeper's":                      {"_c_" + hex32 + "-lock-2147483647", ""},
		"Curator's":                           {"_c_" + dashed + "-__WRIT__2147483647", "10.0.0.1"},
		"Curator's, negative":                 {"_c_" + dashed + "-__READ__-2147483648", "10.0.0.1"},
		"kazoo's":                             {hex32 + "__lock__2147483647", "{}"},
		"kazoo's, with a number that is safe": {hex32 + "__lock__0000000001", "some identifier"},
	}, func(c *cluster, node [2]string) {
		c.countFrom(math.MaxInt32)
		a, b := c.rw("a"), c.rw("b")
		inside := mustLock(c.t, a.Writer())
		waits := b.Reader().Acquire(c.t.Context())
		c.waiting(waits)
		path := c.crowd().node(node[0], []byte(node[1])...)
		wantErr(c.t, "a newcomer", errOf(c.rw("d").Reader().Lock(c.t.Context())), ErrSequenceExhausted)
		c.held(inside)
		c.waiting(waits)
		c.unlock(inside)
		wantErr(c.t, "the waiter, when it lists again", settled(c.t, "its grant", waits.Granted()), ErrSequenceExhausted)
		c.wantNodes(1)

		// Deleted when it is empty, the directory is as good as new.
		c.remove(path)
		c.remove(dir)
		w := mustLock(c.t, a.Writer())
		g := grantOf(c.t, w)
		expect(c.t, sequenceOf(g.Path) == "0000000000", "granted at %s", g.Path)
		c.unlock(mustLock(c.t, a.Reader()), w)
	})
}

// A process makes way after its tenure there, too.
func TestTenureWhereNumbersAreFrozen(t *testing.T) {
	for i := range 8 { // names with the same number sort at random
		subtest(t, fmt.Sprint(i), func(c *cluster) {
			c.countFrom(math.MaxInt32)
			a, b := c.lock("a"), c.lock("b")
			s := newStream(c, a)
			start := time.Now()
			h := mustLock(c.t, b)
			waited := time.Since(start)
			expect(c.t, waited <= time.Second, "waited %v", waited)
			mustRelease(c.t, h)
			s.end()
		})
	}
}
