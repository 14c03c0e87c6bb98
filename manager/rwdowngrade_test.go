// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A downgrade is a process that writes and asks for the read lock, with
// somebody else queued behind its writer. The write is released at some moment,
// and a rwReferee sees who is inside.
type downgrade struct {
	*barrier
	c     *cluster
	ref   *rwReferee
	p     *RWLock
	first Hold // of another process's writer, ahead of ours; zero if there is none
	write Hold
	read  Hold

	// Who queued behind our writer: one of ours, or a stranger's node, or nobody.
	next Hold
	node string

	leaveWrite, leaveRead, leaveNext func() // the rwReferee's; nil if not inside
}

// behind are those who may have queued behind the writer.
var behind = []struct {
	who  string
	join func(d *downgrade)
}{
	{"nobody", func(*downgrade) {}},
	{"a writer", func(d *downgrade) { d.next = d.c.rw("next").Writer().Acquire(d.c.t.Context()) }},
	{"a mutex", func(d *downgrade) { d.next = d.c.lock("next").Acquire(d.c.t.Context()) }},
	{"Curator's writer", func(d *downgrade) {
		number := len(d.c.nodes()) // none has gone yet
		d.node = d.c.crowd().node(fmt.Sprintf("_c_%s-__WRIT__%010d", dashed, number))
	}},
}

// sequenceOf returns the number at the end of a node's name.
func sequenceOf(path string) string { return path[len(path)-10:] }

// observe tells the rwReferee who is inside now. Strangers go by the rule that
// they are in when nobody has a lower number.
func (d *downgrade) observe() {
	d.c.t.Helper()
	synctest.Wait()
	in := func(h Hold) bool { return h != Hold{} && h.Err() == nil }
	if d.leaveWrite == nil && in(d.write) {
		d.leaveWrite = d.ref.enterHeld(d.write)
	}
	if d.leaveRead == nil && in(d.read) {
		d.leaveRead = d.ref.enterHeld(d.read)
	}
	if d.leaveNext == nil && in(d.next) {
		d.leaveNext = d.ref.enterHeld(d.next)
	}
	if d.leaveNext == nil && d.node != "" && d.c.srv.Exists(d.node) {
		for _, name := range d.c.nodes() {
			if sequenceOf(name) < sequenceOf(d.node) {
				return
			}
		}
		_, stat, _ := d.c.srv.Get(d.node)
		d.leaveNext = d.ref.enter("stranger", true, uint64(stat.Czxid))
	}
}

// ask asks for the read lock; or, if that has been done and our writer was still
// queued, lets our writer in.
func (d *downgrade) ask() {
	if d.first != (Hold{}) {
		d.first.Release()
	} else {
		d.read = d.p.Reader().Acquire(d.c.t.Context())
	}
}

// release releases the write lock.
func (d *downgrade) release() *futures.Future[struct{}] {
	if d.leaveWrite == nil {
		d.leaveWrite = d.ref.enterHeld(d.write)
	}
	d.leaveWrite()
	d.leaveWrite = nil
	return d.write.Release()
}

// finish has everybody get in and leave, in whichever order they come, and
// checks that nothing is left.
func (d *downgrade) finish() {
	d.c.t.Helper()
	later(5 * time.Second)
	for range 3 {
		d.observe()
		switch {
		case d.leaveRead != nil:
			d.leaveRead()
			d.leaveRead = nil
			mustRelease(d.c.t, d.read)
			d.read = Hold{}
		case d.leaveNext != nil:
			d.leaveNext()
			d.leaveNext = nil
			if d.node != "" {
				d.c.remove(d.node)
				d.node = ""
			} else {
				mustRelease(d.c.t, d.next)
				d.next = Hold{}
			}
		}
		later(time.Second)
	}
	if d.read != (Hold{}) || d.next != (Hold{}) || d.node != "" {
		d.c.t.Errorf("not everybody got in: %v", d.c.nodes())
	}
	d.c.wantNodes(0)
	wantPhase(d.c.t, d.p.Reader(), state.Free)
	wantPhase(d.c.t, d.p.Writer(), state.Free)
}

// newDowngrade makes a process write, with somebody queued behind it, and says
// when to ask for the read lock and when to release the write lock. If queued
// is set, the writer is still queued itself and the reader too, behind the
// other: asking then is letting the writer in.
func newDowngrade(c *cluster, queued bool, join func(*downgrade)) *downgrade {
	c.t.Helper()
	d := &downgrade{barrier: c.barrier(), c: c, ref: newRWReferee(c.t), p: c.rw("p")}
	if queued {
		d.first = mustLock(c.t, c.rw("first").Writer())
	}
	d.write = d.p.Writer().Acquire(c.t.Context())
	synctest.Wait()
	join(d)
	synctest.Wait()
	if queued {
		d.read = d.p.Reader().Acquire(c.t.Context())
		wantWaiting(c.t, "our writer", d.write)
		wantWaiting(c.t, "our reader", d.read)
	}
	return d
}

// at selects the nth request of kind op of the process that downgrades.
func (d *downgrade) at(op zktest.Op) zktest.Match {
	return zktest.Match{Op: op, Session: session(d.p.writer.m), Path: dir}
}

// The orders in which the request for read and the release of write can meet,
// on the way to the server and back. In some of them the read node stands at the
// writer's place, in others the readers have to queue; in all of them nobody is
// inside with somebody whom he excludes, and everybody gets in.
func TestF078_DowngradeMeetsRelease(t *testing.T) {
	const (
		either = iota
		beside
		last
	)
	for _, order := range []struct {
		what   string
		queued bool // the order makes sense for a reader that is queued behind our writer …
		anew   bool // … or for one that asks
		where  int
		run    func(d *downgrade)
	}{
		{"the write is kept", true, true, beside, func(d *downgrade) {
			d.ask()
			later(time.Second)
			d.observe()
			d.release()
		}},
		{"released as soon as granted", true, true, beside, func(d *downgrade) {
			d.ask()
			synctest.Wait()
			d.release()
		}},
		{"released while the transaction is on its way", true, true, beside, func(d *downgrade) {
			multi := d.hold(d.p.writer.m, zktest.OpMulti, 1)
			d.ask()
			multi.await(d.c.t)
			d.release()
			synctest.Wait()
			multi.pass()
		}},
		{"released while the transaction's answer is on its way", true, true, beside, func(d *downgrade) {
			slow := d.c.srv.Faults().DelayReply(d.at(zktest.OpMulti), 50*time.Millisecond)
			d.ask()
			<-slow.Hit()
			d.release()
		}},
		{"the transaction's answer is lost, and the write kept", true, true, beside, func(d *downgrade) {
			lost := d.c.srv.Faults().DropReply(d.at(zktest.OpMulti))
			d.ask()
			<-lost.Hit()
			later(time.Second)
			d.observe()
			d.release()
		}},
		{"the transaction's answer is lost, and the write released", true, true, beside, func(d *downgrade) {
			lost := d.c.srv.Faults().DropReply(d.at(zktest.OpMulti))
			d.ask()
			<-lost.Hit()
			d.release()
		}},
		{"the transaction's answer and the deletion behind it are lost", true, true, beside, func(d *downgrade) {
			multi := d.hold(d.p.writer.m, zktest.OpMulti, 1)
			d.c.srv.Faults().DropReply(d.at(zktest.OpMulti))
			d.ask()
			multi.await(d.c.t)
			d.release()
			synctest.Wait()
			multi.pass()
		}},
		{"the transaction is lost, and the write kept", true, true, beside, func(d *downgrade) {
			lost := d.c.srv.Faults().DropRequest(d.at(zktest.OpMulti))
			d.ask()
			<-lost.Hit()
			later(time.Second)
			d.observe()
			d.release()
		}},
		{"the transaction is lost, and the write released", true, true, either, func(d *downgrade) {
			lost := d.c.srv.Faults().DropRequest(d.at(zktest.OpMulti))
			d.ask()
			<-lost.Hit()
			d.release()
		}},
		{"asked while the deletion is on its way", false, true, last, func(d *downgrade) {
			del := d.hold(d.p.writer.m, zktest.OpDelete, 1)
			d.release()
			del.await(d.c.t)
			d.ask()
			synctest.Wait()
			del.pass()
		}},
		{"asked while the deletion's answer is on its way", false, true, last, func(d *downgrade) {
			slow := d.c.srv.Faults().DelayReply(d.at(zktest.OpDelete), 50*time.Millisecond)
			d.release()
			<-slow.Hit()
			d.ask()
		}},
		{"asked when the deletion's answer is lost", false, true, last, func(d *downgrade) {
			lost := d.c.srv.Faults().DropReply(d.at(zktest.OpDelete))
			d.release()
			<-lost.Hit()
			d.ask()
		}},
		{"asked when the deletion is lost", false, true, either, func(d *downgrade) {
			lost := d.c.srv.Faults().DropRequest(d.at(zktest.OpDelete))
			d.release()
			<-lost.Hit()
			d.ask()
		}},
		{"asked when the server is out of reach, and the write released", false, true, either, func(d *downgrade) {
			refuse := d.c.srv.Faults().Refuse()
			d.c.srv.Faults().Cut(session(d.p.writer.m))
			synctest.Wait()
			d.ask()
			synctest.Wait()
			d.release()
			synctest.Wait()
			refuse.Remove()
		}},
		{"asked and released at once", false, true, either, func(d *downgrade) {
			d.ask()
			d.release()
		}},
		{"released and asked at once", false, true, either, func(d *downgrade) {
			d.release()
			d.ask()
		}},

		// A reader that is queued leaves its place before it takes the other.
		{"released while it leaves its place", true, false, last, func(d *downgrade) {
			del := d.hold(d.p.writer.m, zktest.OpDelete, 1)
			d.ask()
			del.await(d.c.t)
			d.release()
			synctest.Wait()
			del.pass()
		}},
		{"the answer to its leaving is lost, and the write kept", true, false, beside, func(d *downgrade) {
			lost := d.c.srv.Faults().DropReply(d.at(zktest.OpDelete))
			d.ask()
			<-lost.Hit()
			later(time.Second)
			d.observe()
			d.release()
		}},
		{"the answer to its leaving is lost, and the write released", true, false, either, func(d *downgrade) {
			lost := d.c.srv.Faults().DropReply(d.at(zktest.OpDelete))
			d.ask()
			<-lost.Hit()
			d.release()
		}},
		{"its leaving is lost, and the write released", true, false, either, func(d *downgrade) {
			lost := d.c.srv.Faults().DropRequest(d.at(zktest.OpDelete))
			d.ask()
			<-lost.Hit()
			d.release()
		}},
	} {
		for _, other := range behind {
			for _, queued := range []bool{false, true} {
				if queued && !order.queued || !queued && !order.anew {
					continue
				}
				what := order.what + "/" + other.who + " behind"
				if queued {
					what += ", the reader queued"
				}
				t.Run(what, func(t *testing.T) {
					bubble(t, func(c *cluster) {
						d := newDowngrade(c, queued, other.join)
						if !queued {
							d.observe()
						}
						order.run(d)
						later(500 * time.Millisecond)
						d.observe()
						nobody := d.next == (Hold{}) && d.node == ""
						g, err := d.read.Grant()
						if err != nil && (nobody || order.where == beside) {
							c.t.Fatalf("the reader is not in: %v", err)
						}
						if err == nil {
							at := sequenceOf(g.Path) == sequenceOf(d.write.round.io().tenure.grant.Path)
							if at && order.where == last || !at && (order.where == beside || !nobody) {
								c.t.Errorf("the reader is in at %s; the writer was at %s", g.Path, d.write.round.io().tenure.grant.Path)
							}
							if at && g.Token != d.write.round.io().tenure.grant.Token {
								c.t.Errorf("the reader's token is %d, its writer's %d", g.Token, d.write.round.io().tenure.grant.Token)
							}
						}
						d.finish()
					})
				})
			}
		}
	}
}

// The session ends while the downgrade is under way: the write is lost, and the
// readers queue again, behind whoever was behind them.
func TestSessionEndsDuringDowngrade(t *testing.T) {
	for _, test := range []struct {
		what string
		run  func(d *downgrade)
	}{
		{"before the transaction", func(d *downgrade) {
			multi := d.hold(d.p.writer.m, zktest.OpMulti, 1)
			d.ask()
			multi.await(d.c.t)
			d.expire()
			multi.pass()
		}},
		{"after the transaction, before its answer", func(d *downgrade) {
			slow := d.c.srv.Faults().DelayReply(d.at(zktest.OpMulti), 50*time.Millisecond)
			d.ask()
			<-slow.Hit()
			synctest.Wait()
			d.expire()
		}},
		{"while the answer is lost", func(d *downgrade) {
			lost := d.c.srv.Faults().DropReply(d.at(zktest.OpMulti))
			refuse := d.c.srv.Faults().Refuse()
			d.ask()
			<-lost.Hit()
			synctest.Wait()
			d.expire()
			refuse.Remove()
		}},
		{"after the grant", func(d *downgrade) {
			d.ask()
			d.observe()
			d.expire()
		}},
		{"while the write is being released", func(d *downgrade) {
			multi := d.hold(d.p.writer.m, zktest.OpMulti, 1)
			d.ask()
			multi.await(d.c.t)
			d.release()
			d.expire()
			multi.pass()
		}},
	} {
		for _, other := range behind {
			for _, queued := range []bool{false, true} {
				what := test.what + "/" + other.who + " behind"
				if queued {
					what += ", the reader queued"
				}
				t.Run(what, func(t *testing.T) {
					bubble(t, func(c *cluster) {
						d := newDowngrade(c, queued, other.join)
						if !queued {
							d.observe()
						}
						test.run(d)
						later(time.Second)
						if isClosed(d.read.Lost()) { // it had been granted
							wantErr(c.t, "the reader", d.read.Err(), ErrLost)
							d.read.Release()
							d.read = d.p.Reader().Acquire(c.t.Context())
							later(time.Second)
						}
						d.write.Release()
						if g, err := d.read.Grant(); err == nil && (d.next != Hold{} || d.node != "") {
							c.t.Errorf("the reader is in at %s, ahead of who was behind its writer", g.Path)
						}
						d.finish()
					})
				})
			}
		}
	}
}

// expire ends the session of the process that downgrades: whoever of it is
// inside is out at that moment.
func (d *downgrade) expire() {
	for _, leave := range []*func(){&d.leaveWrite, &d.leaveRead} {
		if *leave != nil {
			(*leave)()
			*leave = nil
		}
	}
	if !d.c.srv.ExpireSession(session(d.p.writer.m)) {
		d.c.t.Error("no session to end")
	}
}

// A writer whose only contender ahead is a writer looks again when that goes: a
// downgraded read stands in its place. A reader need not, nor a writer behind a
// mutex or a read.
func TestWriterBehindAWriterListsAgain(t *testing.T) {
	for _, test := range []struct {
		ahead string
		take  func(c *cluster) *Lock
		lists int
	}{
		{"__WRIT__", func(c *cluster) *Lock { return c.rw("a").Writer() }, 1},
		{"__WRIT__", func(c *cluster) *Lock { return c.lock("a") }, 1},
		{"__WRIT__", func(c *cluster) *Lock { return c.rw("a").Reader() }, 0},
		{"__READ__", func(c *cluster) *Lock { return c.rw("a").Writer() }, 0},
		{"lock-", func(c *cluster) *Lock { return c.rw("a").Writer() }, 0},
		{"lock-", func(c *cluster) *Lock { return c.lock("a") }, 0},
	} {
		t.Run(test.ahead, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				path := c.crowd().node("_c_" + hex32 + "-" + test.ahead + "0000000000")
				h := test.take(c).Acquire(c.t.Context())
				wantWaiting(c.t, "behind "+test.ahead, h)
				count := c.countRequests(dir)
				c.remove(path)
				synctest.Wait()
				wantHeld(c.t, "behind "+test.ahead, h)
				if got := count.take(); got["getChildren2"] != test.lists || len(got) > test.lists {
					c.t.Errorf("%s behind %s: requests %v, want %d list", h.Lock().kind, test.ahead, got, test.lists)
				}
				mustRelease(c.t, h)
			})
		})
	}
}

// A read that came out of a write is in nobody's way but that of the writers
// behind it: other processes' readers enter beside it, their writers do not.
func TestWhoWaitsForADowngradedReader(t *testing.T) {
	bubble(t, func(c *cluster) {
		ref := newRWReferee(c.t)
		p := c.rw("p")
		write := mustLock(c.t, p.Writer())
		reader := c.rw("r").Reader().Acquire(c.t.Context())
		synctest.Wait()
		writer := c.rw("w").Writer().Acquire(c.t.Context())
		synctest.Wait()
		read := mustLock(c.t, p.Reader())
		leave := ref.enterHeld(read)
		wantWaiting(c.t, "another's reader beside the write", reader)
		mustRelease(c.t, write)
		synctest.Wait()
		leaveReader := ref.enterHeld(reader)
		wantWaiting(c.t, "another's writer", writer)

		// A second downgrade's reader of the same process goes by the first's
		// place, as long as its round takes newcomers.
		again := mustLock(c.t, p.Reader())
		if grantOf(c.t, again) != grantOf(c.t, read) {
			c.t.Errorf("two grants: %v and %v", grantOf(c.t, again), grantOf(c.t, read))
		}
		mustRelease(c.t, again)
		leave()
		mustRelease(c.t, read)
		leaveReader()
		mustRelease(c.t, reader)
		synctest.Wait()
		defer ref.enterHeld(writer)()
		mustRelease(c.t, writer)
	})
}

// Several downgrades out of one write stand beside each other at its place.
func TestDowngradesOneAfterTheOther(t *testing.T) {
	bubble(t, func(c *cluster) {
		p, other := c.rw("p"), c.rw("other")
		write := mustLock(c.t, p.Writer())
		writer := other.Writer().Acquire(c.t.Context())
		synctest.Wait()
		seen := make(map[string]bool)
		for range 5 {
			read := mustLock(c.t, p.Reader())
			g := grantOf(c.t, read)
			if seen[g.Path] || sequenceOf(g.Path) != sequenceOf(grantOf(c.t, write).Path) || !strings.Contains(g.Path, "__READ__") {
				c.t.Errorf("granted at %s", g.Path)
			}
			seen[g.Path] = true
			c.wantNodes(3)
			mustRelease(c.t, read)
			c.wantNodes(2)
		}
		mustRelease(c.t, write)
		synctest.Wait()
		wantHeld(c.t, "the next writer", writer)
		mustRelease(c.t, writer)
	})
}
