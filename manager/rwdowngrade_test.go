// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A downgrade is a process that holds the write lock and asks for the read lock,
// with another contender queued behind its writer. The write is released at some
// moment, and a referee watches who is inside.
type downgrade struct {
	*cluster
	ref   *referee
	p     *RWLock
	first Hold // of another process's writer, ahead of ours; zero if there is none
	write Hold
	read  Hold

	// Who queued behind our writer: one of ours, or another client's node, or neither.
	next Hold
	node string

	leaveWrite, leaveRead, leaveNext func() // the referee's; nil for who is not inside
}

// behind are the contenders that may have queued behind the writer.
var behind = map[string]func(d *downgrade){
	"nothing":  func(*downgrade) {},
	"a writer": func(d *downgrade) { d.next = d.acquire(d.rw("next").Writer()) },
	"a mutex":  func(d *downgrade) { d.next = d.acquire(d.lock("next")) },
	"Curator's writer": func(d *downgrade) {
		number := len(d.nodes()) // none has gone yet
		d.node = d.crowd().node(fmt.Sprintf("_c_%s-__WRIT__%010d", dashed, number))
	},
}

// observe tells the referee who is inside now. Another client's writer is inside
// when no node has a lower number.
func (d *downgrade) observe() {
	d.t.Helper()
	synctest.Wait()
	for _, v := range []struct {
		h     Hold
		leave *func()
	}{{d.write, &d.leaveWrite}, {d.read, &d.leaveRead}, {d.next, &d.leaveNext}} {
		if *v.leave == nil && v.h != (Hold{}) && v.h.Err() == nil {
			*v.leave = d.ref.enter(v.h.Lock().m, v.h)
		}
	}
	if d.leaveNext == nil && d.node != "" && d.srv.Exists(d.node) {
		for _, name := range d.nodes() {
			if sequenceOf(name) < sequenceOf(d.node) {
				return
			}
		}
		d.leaveNext = d.ref.enterStranger("Curator", true, d.czxid(d.node))
	}
}

// ask asks for the read lock. If the reader is queued already, behind our queued
// writer, ask lets our writer in.
func (d *downgrade) ask() {
	if d.first != (Hold{}) {
		d.first.Release()
	} else {
		d.read = d.p.Reader().Acquire(d.t.Context())
	}
}

// askUntil asks for the read lock, and waits until the fault happens.
func (d *downgrade) askUntil(f *zktest.Fault) {
	d.ask()
	<-f.Hit()
}

// keep lets the write lock be held for a while before it is released.
func (d *downgrade) keep() {
	later(time.Second)
	d.observe()
	d.release()
}

// release releases the write lock.
func (d *downgrade) release() {
	if d.leaveWrite == nil {
		d.leaveWrite = d.ref.enter(d.p.writer.m, d.write)
	}
	d.leaveWrite()
	d.leaveWrite = nil
	d.write.Release()
}

// expire ends the session of the process that downgrades, which puts its holders
// outside at that moment.
func (d *downgrade) expire() {
	for _, leave := range []*func(){&d.leaveWrite, &d.leaveRead} {
		if *leave != nil {
			(*leave)()
			*leave = nil
		}
	}
	if !d.srv.ExpireSession(session(d.p.writer.m)) {
		d.t.Error("no session to end")
	}
}

// finish lets everyone get in and leave, in whichever order they come, and checks
// that nothing is left.
func (d *downgrade) finish() {
	d.t.Helper()
	later(5 * time.Second)
	for range 3 {
		d.observe()
		switch {
		case d.leaveRead != nil:
			d.leaveRead()
			mustRelease(d.t, d.read)
			d.leaveRead, d.read = nil, Hold{}
		case d.leaveNext != nil && d.node != "":
			d.leaveNext()
			d.remove(d.node)
			d.leaveNext, d.node = nil, ""
		case d.leaveNext != nil:
			d.leaveNext()
			mustRelease(d.t, d.next)
			d.leaveNext, d.next = nil, Hold{}
		}
		later(time.Second)
	}
	if d.read != (Hold{}) || d.next != (Hold{}) || d.node != "" {
		d.t.Errorf("not all of them got in: %v", d.nodes())
	}
	d.wantNodes(0)
	wantPhase(d.t, d.p.Reader(), state.Free)
	wantPhase(d.t, d.p.Writer(), state.Free)
}

// newDowngrade returns a process that writes, with a contender queued behind it. If
// queued is set, the writer is still queued itself, and the reader, too, behind the
// other contender.
func newDowngrade(c *cluster, queued bool, join func(*downgrade)) *downgrade {
	c.t.Helper()
	d := &downgrade{cluster: c, ref: newReferee(c.t), p: c.rw("p")}
	if queued {
		d.first = mustLock(c.t, c.rw("first").Writer())
	}
	d.write = c.acquire(d.p.Writer())
	join(d)
	if queued {
		d.read = d.p.Reader().Acquire(c.t.Context())
		c.waiting(d.write, d.read)
	} else {
		d.observe()
	}
	return d
}

// stop makes the server stop before the process's next request of kind op.
func (d *downgrade) stop(op zktest.Op) *stop { return d.stopAt(d.p.writer.m, op, 1) }

// lose has the server lose that request, or the answer to it.
func (d *downgrade) lose(lose func(*zktest.Faults, zktest.Match) *zktest.Fault, op zktest.Op) *zktest.Fault {
	return d.lossAt(lose, d.p.writer.m, op)
}

// slow delays the answer to that request.
func (d *downgrade) slow(op zktest.Op) *zktest.Fault {
	return d.srv.Faults().DelayReply(zktest.Match{Op: op, Session: session(d.p.writer.m), Path: dir, Times: 1}, 50*time.Millisecond)
}

var (
	dropReply   = (*zktest.Faults).DropReply
	dropRequest = (*zktest.Faults).DropRequest
)

// The orders in which the request for the read lock and the release of the write
// lock can meet, on the way to the server and back. In some of them the read node
// stands at the writer's place, in others the readers have to queue; in all of them
// exclusion holds, and everyone gets in.
func TestF078_DowngradeMeetsRelease(t *testing.T) {
	const (
		either = iota // where the read node is made: it depends,
		beside        // at the writer's place,
		last          // at the end of the queue
	)
	const (
		both   = iota // the order makes sense for a reader that is queued behind our writer and one that is not,
		queued        // only for the one,
		anew          // only for the other
	)
	for _, order := range []struct {
		what  string
		who   int
		where int
		run   func(d *downgrade)
	}{
		{"the write is kept", both, beside, func(d *downgrade) { d.ask(); d.keep() }},
		{"released as soon as granted", both, beside, func(d *downgrade) { d.ask(); synctest.Wait(); d.release() }},
		{"released while the transaction is on its way", both, beside, func(d *downgrade) {
			multi := d.stop(zktest.OpMulti)
			d.ask()
			multi.reached()
			d.release()
			synctest.Wait()
			multi.goOn()
		}},
		{"released while the transaction's answer is on its way", both, beside, func(d *downgrade) {
			d.askUntil(d.slow(zktest.OpMulti))
			d.release()
		}},
		{"the transaction's answer is lost, and the write kept", both, beside, func(d *downgrade) {
			d.askUntil(d.lose(dropReply, zktest.OpMulti))
			d.keep()
		}},
		{"the transaction's answer is lost, and the write released", both, beside, func(d *downgrade) {
			d.askUntil(d.lose(dropReply, zktest.OpMulti))
			d.release()
		}},
		{"the transaction's answer and the deletion behind it are lost", both, beside, func(d *downgrade) {
			multi := d.stop(zktest.OpMulti)
			d.lose(dropReply, zktest.OpMulti)
			d.ask()
			multi.reached()
			d.release()
			synctest.Wait()
			multi.goOn()
		}},
		{"the transaction is lost, and the write kept", both, beside, func(d *downgrade) {
			d.askUntil(d.lose(dropRequest, zktest.OpMulti))
			d.keep()
		}},
		{"the transaction is lost, and the write released", both, either, func(d *downgrade) {
			d.askUntil(d.lose(dropRequest, zktest.OpMulti))
			d.release()
		}},
		{"asked while the deletion is on its way", anew, last, func(d *downgrade) {
			del := d.stop(zktest.OpDelete)
			d.release()
			del.reached()
			d.ask()
			synctest.Wait()
			del.goOn()
		}},
		{"asked while the deletion's answer is on its way", anew, last, func(d *downgrade) {
			slow := d.slow(zktest.OpDelete)
			d.release()
			<-slow.Hit()
			d.ask()
		}},
		{"asked when the deletion's answer is lost", anew, last, func(d *downgrade) {
			lost := d.lose(dropReply, zktest.OpDelete)
			d.release()
			<-lost.Hit()
			d.ask()
		}},
		{"asked when the deletion is lost", anew, either, func(d *downgrade) {
			lost := d.lose(dropRequest, zktest.OpDelete)
			d.release()
			<-lost.Hit()
			d.ask()
		}},
		{"asked when the server is out of reach, and the write released", anew, either, func(d *downgrade) {
			refuse := d.srv.Faults().Refuse()
			d.srv.Faults().Cut(session(d.p.writer.m))
			synctest.Wait()
			d.ask()
			synctest.Wait()
			d.release()
			synctest.Wait()
			refuse.Remove()
		}},
		{"asked and released at once", anew, either, func(d *downgrade) { d.ask(); d.release() }},
		{"released and asked at once", anew, either, func(d *downgrade) { d.release(); d.ask() }},

		// A queued reader leaves its place before it takes the other.
		{"released while it leaves its place", queued, last, func(d *downgrade) {
			del := d.stop(zktest.OpDelete)
			d.ask()
			del.reached()
			d.release()
			synctest.Wait()
			del.goOn()
		}},
		{"the answer to its leaving is lost, and the write kept", queued, beside, func(d *downgrade) {
			d.askUntil(d.lose(dropReply, zktest.OpDelete))
			d.keep()
		}},
		{"the answer to its leaving is lost, and the write released", queued, either, func(d *downgrade) {
			d.askUntil(d.lose(dropReply, zktest.OpDelete))
			d.release()
		}},
		{"its leaving is lost, and the write released", queued, either, func(d *downgrade) {
			d.askUntil(d.lose(dropRequest, zktest.OpDelete))
			d.release()
		}},
	} {
		eachDowngrade(t, order.what, order.who != queued, order.who != anew, func(d *downgrade) {
			order.run(d)
			later(500 * time.Millisecond)
			d.observe()
			alone := d.next == (Hold{}) && d.node == ""
			g, err := d.read.Grant()
			if err != nil && (alone || order.where == beside) {
				d.t.Fatalf("the reader is not in: %v", err)
			}
			if err == nil {
				w, _, _ := d.write.Granted().Poll()
				at := sequenceOf(g.Path) == sequenceOf(w.Path)
				if at && order.where == last || !at && (order.where == beside || !alone) {
					d.t.Errorf("the reader is in at %s; the writer was at %s", g.Path, w.Path)
				}
				if at && g.Token != w.Token {
					d.t.Errorf("the reader's token is %d, its writer's %d", g.Token, w.Token)
				}
			}
			d.finish()
		})
	}
}

// eachDowngrade runs test for a reader that asks anew, for one that is queued, and
// for each contender that may be behind the writer.
func eachDowngrade(t *testing.T, what string, anew, queued bool, test func(d *downgrade)) {
	for who, join := range behind {
		if anew {
			t.Run(what+"/"+who+" behind", func(t *testing.T) {
				bubble(t, func(c *cluster) { test(newDowngrade(c, false, join)) })
			})
		}
		if queued {
			t.Run(what+"/"+who+" behind, the reader queued", func(t *testing.T) {
				bubble(t, func(c *cluster) { test(newDowngrade(c, true, join)) })
			})
		}
	}
}

// The session ends while the downgrade is under way: the write is lost, and the
// readers queue again, behind the contender that was behind the writer.
func TestSessionEndsDuringDowngrade(t *testing.T) {
	for what, run := range map[string]func(d *downgrade){
		"before the transaction": func(d *downgrade) {
			multi := d.stop(zktest.OpMulti)
			d.ask()
			multi.reached()
			d.expire()
			multi.goOn()
		},
		"after the transaction, before its answer": func(d *downgrade) {
			d.askUntil(d.slow(zktest.OpMulti))
			synctest.Wait()
			d.expire()
		},
		"while the answer is lost": func(d *downgrade) {
			lost := d.lose(dropReply, zktest.OpMulti)
			refuse := d.srv.Faults().Refuse()
			d.askUntil(lost)
			synctest.Wait()
			d.expire()
			refuse.Remove()
		},
		"after the grant": func(d *downgrade) { d.ask(); d.observe(); d.expire() },
		"while the write is being released": func(d *downgrade) {
			multi := d.stop(zktest.OpMulti)
			d.ask()
			multi.reached()
			d.release()
			d.expire()
			multi.goOn()
		},
	} {
		eachDowngrade(t, what, true, true, func(d *downgrade) {
			run(d)
			later(time.Second)
			if isClosed(d.read.Lost()) { // it had been granted
				wantErr(d.t, "the reader", d.read.Err(), ErrLost)
				d.read.Release()
				d.read = d.p.Reader().Acquire(d.t.Context())
				later(time.Second)
			}
			d.write.Release()
			if g, err := d.read.Grant(); err == nil && (d.next != Hold{} || d.node != "") {
				d.t.Errorf("the reader is in at %s, ahead of the contender that was behind its writer", g.Path)
			}
			d.finish()
		})
	}
}
