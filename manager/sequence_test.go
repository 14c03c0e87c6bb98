// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// countFrom makes the directory of the lock called "jobs", in which the next
// node gets the number next.
func (c *cluster) countFrom(next int32) {
	c.t.Helper()
	if err := c.srv.CreateAll(dir, nil); err != nil {
		c.t.Fatal(err)
	}
	if err := c.srv.SetSequence(dir, next); err != nil {
		c.t.Fatal(err)
	}
}

// The numbers from which the tests let ZooKeeper count: shortly before the last
// one that orders a queue, and shortly before the last one that there is.
var lastNumbers = []struct {
	what string
	from int32
}{
	{"where numbers become unsafe", queue.LastSafeSequence - 20},
	{"where numbers freeze", math.MaxInt32 - 20},
	{"where numbers are frozen", math.MaxInt32},
}

// Random histories as in TestReadWriteAtRandom, while the numbers run out.
func TestReadWriteAtRandomNearTheLastNumber(t *testing.T) {
	first := cmp.Or(*rwSeed, rand.Uint64N(1<<32))
	for _, test := range lastNumbers {
		t.Run(test.what, func(t *testing.T) {
			for i := range max(1, *rwSeeds/8) {
				seed := first + uint64(i)
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := newCluster(t, zktest.Config{TickTime: 500 * time.Millisecond})
						c.countFrom(test.from)
						runAtRandom(c, seed, true)
					})
				})
			}
		})
	}
}

// Where the numbers run out, the order is that of the nodes' making, whatever
// the numbers say: contenders enter in the order in which they came.
func TestOrderWhereNumbersRunOut(t *testing.T) {
	for _, test := range append(lastNumbers, struct {
		what string
		from int32
	}{"across the last safe number", queue.LastSafeSequence - 2}, struct {
		what string
		from int32
	}{"across the last number", math.MaxInt32 - 2}) {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				c.countFrom(test.from)
				ref := newRWReferee(c.t)
				var holds []Hold
				for i, kind := range "WWRRWRWRRW" {
					holds = append(holds, pick(c.rw(fmt.Sprint(i)), kind == 'W').Acquire(c.t.Context()))
					synctest.Wait()
				}
				for _, turn := range [][]int{{0}, {1}, {2, 3}, {4}, {5}, {6}, {7, 8}, {9}} {
					for _, i := range turn {
						ref.enterHeld(holds[i])
					}
					if last := turn[len(turn)-1]; last < 9 {
						wantWaiting(c.t, fmt.Sprintf("number %d", last+1), holds[last+1])
					}
					ref.allLeave()
					for _, i := range turn {
						mustRelease(c.t, holds[i])
					}
					synctest.Wait()
				}
			})
		})
	}
}

// Beyond the last safe number a queue is put in order with the help of every
// contender's node. A write that is gone when its node is read may have become a
// read at its place since the list was made, and whoever is behind it must not
// come in.
func TestDowngradeWhileTheQueueIsPutInOrder(t *testing.T) {
	bubble(t, func(c *cluster) {
		c.countFrom(queue.LastSafeSequence)
		ref := newRWReferee(c.t)
		a, b := c.rw("a"), c.rw("b")
		write := mustLock(c.t, a.Writer())
		// b reads the directory, queues, lists, and then reads a's node.
		look := c.barrier().hold(b.Writer().m, zktest.OpGetData, 2)
		waiting := b.Writer().Acquire(c.t.Context())
		look.await(c.t)
		read := mustLock(c.t, a.Reader())
		mustRelease(c.t, write)
		ref.enterHeld(read)
		look.pass()
		wantWaiting(c.t, "the writer behind the read that was a write", waiting)
		ref.allLeave()
		mustRelease(c.t, read)
		synctest.Wait()
		ref.enterHeld(waiting)
		mustRelease(c.t, waiting)
	})
}

// A number below zero is one that came after the highest: it is behind those
// that were there before it, and ahead of those that come after it.
func TestNegativeNumbers(t *testing.T) {
	bubble(t, func(c *cluster) {
		c.countFrom(math.MaxInt32)
		a, b, d := c.rw("a"), c.rw("b"), c.rw("d")
		first := mustLock(c.t, a.Writer())
		second := b.Writer().Acquire(c.t.Context())
		synctest.Wait()
		// One of another process of this package's, with a number that creates
		// which come at the same time get.
		other := c.open("other")
		negative := fmt.Sprintf("%s/_c_%s-%s%010d", dir, other.guid(), queue.Write.Mark(), math.MinInt32)
		if err := c.srv.CreateEphemeral(session(other), negative, other.nodeData(KindWrite.String())); err != nil {
			t.Fatal(err)
		}
		third := d.Writer().Acquire(c.t.Context())
		wantWaiting(c.t, "the second", second)
		mustRelease(c.t, first)
		synctest.Wait()
		wantHeld(c.t, "the second", second)
		mustRelease(c.t, second)
		wantWaiting(c.t, "who came behind the negative number", third)
		c.remove(negative)
		synctest.Wait()
		wantHeld(c.t, "who came behind the negative number", third)
		mustRelease(c.t, third)
	})
}

// The last writer with a safe number goes to read, with a writer behind it whose
// number is not safe any more: that one waits for the reader.
func TestDowngradeAtTheLastSafeNumber(t *testing.T) {
	for from := int32(queue.LastSafeSequence - 2); from <= queue.LastSafeSequence; from++ {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				c.countFrom(from)
				ref := newRWReferee(c.t)
				p := c.rw("p")
				write := mustLock(c.t, p.Writer())
				var others []Hold
				for i := range 4 {
					others = append(others, pick(c.rw(fmt.Sprint(i)), i != 2).Acquire(c.t.Context()))
					synctest.Wait()
				}
				read := mustLock(c.t, p.Reader())
				leave := ref.enterHeld(read)
				mustRelease(c.t, write)
				for i, h := range others {
					wantWaiting(c.t, fmt.Sprintf("number %d behind the reader", i), h)
				}
				leave()
				mustRelease(c.t, read)
				for _, h := range others {
					synctest.Wait()
					leave := ref.enterHeld(h)
					leave()
					mustRelease(c.t, h)
				}
			})
		})
	}
}

// Beyond it there is no downgrade: the read is refused at once, and says why.
// The write goes on.
func TestNoDowngradeWithoutNumbers(t *testing.T) {
	bubble(t, func(c *cluster) {
		c.countFrom(queue.LastSafeSequence + 1)
		p := c.rw("p")
		write := mustLock(c.t, p.Writer())
		_, err := p.Reader().Lock(c.t.Context())
		wantErr(c.t, "lock", err, ErrSequenceExhausted)
		_, err = p.Reader().TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrSequenceExhausted)
		wantHeld(c.t, "the writer", write)
		c.wantNodes(1)
		mustRelease(c.t, write)
		read := mustLock(c.t, p.Reader()) // without a write it can be had
		mustRelease(c.t, read)
	})
}

// Other clients order their nodes by numbers that say nothing. With one of
// theirs in the queue there is no order to agree on: who waits is told so, not
// left to wait. Who is inside stays.
func TestOthersWhereNumbersRunOut(t *testing.T) {
	for _, test := range []struct {
		what string
		name string
		data string
	}{
		{"go-zookeeper's", "_c_" + hex32 + "-lock-2147483647", ""},
		{"Curator's", "_c_" + dashed + "-__WRIT__2147483647", "10.0.0.1"},
		{"Curator's, negative", "_c_" + dashed + "-__READ__-2147483648", "10.0.0.1"},
		{"kazoo's", hex32 + "__lock__2147483647", "{}"},
		{"kazoo's, with a number that is safe", hex32 + "__lock__0000000001", "some identifier"},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				c.countFrom(math.MaxInt32)
				a, b := c.rw("a"), c.rw("b")
				inside := mustLock(c.t, a.Writer())
				waits := b.Reader().Acquire(c.t.Context())
				wantWaiting(c.t, "ours behind ours", waits)
				strangers := c.crowd()
				path := dir + "/" + test.name
				if err := c.srv.CreateEphemeral(strangers.session, path, []byte(test.data)); err != nil {
					t.Fatal(err)
				}
				_, err := c.rw("d").Reader().Lock(c.t.Context())
				wantErr(c.t, "who comes", err, ErrSequenceExhausted)
				wantHeld(c.t, "who is inside", inside)
				pending(c.t, "who waited before", waits.Granted())
				mustRelease(c.t, inside)
				synctest.Wait()
				wantErr(c.t, "who waited before, when it is to look again", settled(c.t, "its grant", waits.Granted()), ErrSequenceExhausted)
				c.wantNodes(1)

				// Deleted when it is empty, the directory is as good as new.
				c.remove(path)
				if err := c.srv.Delete(dir); err != nil {
					t.Fatal(err)
				}
				w := mustLock(c.t, a.Writer())
				if g := grantOf(c.t, w); sequenceOf(g.Path) != "0000000000" {
					c.t.Errorf("granted at %s", g.Path)
				}
				r := mustLock(c.t, a.Reader())
				mustRelease(c.t, w)
				mustRelease(c.t, r)
			})
		})
	}
}

// A process gives way after its tenure there, too.
func TestTenureWhereNumbersAreFrozen(t *testing.T) {
	for i := range 8 { // the frozen names sort by chance
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				c.countFrom(math.MaxInt32)
				a, b := c.lock("a"), c.lock("b")
				s := newStream(c, a)
				start := time.Now()
				h := mustLock(c.t, b)
				if waited := time.Since(start); waited > time.Second {
					c.t.Errorf("waited %v", waited)
				}
				mustRelease(c.t, h)
				s.end()
			})
		})
	}
}
