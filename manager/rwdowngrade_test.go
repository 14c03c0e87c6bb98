// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"fmt"
	"strings"
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
	expect(d.t, d.srv.ExpireSession(session(d.p.writer.m)), "no session to end")
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
	expect(d.t, d.read == (Hold{}) && d.next == (Hold{}) && d.node == "",
		"not all of them got in: %v", d.nodes())
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

// do does what a history says, step after step, separated by commas. A step is something
// that the process does (ask, keep, release), the end of its session (expire), or of what
// happens to its next request of a kind:
//
//	stop multi                  the server stops before it, and goes on when the history
//	                            says go; reached waits until it has stopped
//	slow multi                  the answer is slow
//	lose multi, unanswer multi  it is lost, or the answer to it is
//	struck                      waits until the last of these has happened
//
// Between refuse and heal the server is out of reach for new connections; cut ends the
// connection. wait waits until nothing moves any more.
func (d *downgrade) do(history string) {
	d.t.Helper()
	m := d.p.writer.m
	var stopped *stop
	var refused, last *zktest.Fault
	for step := range strings.SplitSeq(history, ", ") {
		what, request, _ := strings.Cut(step, " ")
		op := opNamed(d.t, cmp.Or(request, "any"))
		switch what {
		case "ask":
			d.ask()
		case "keep":
			d.keep()
		case "release":
			d.release()
		case "expire":
			d.expire()
		case "stop":
			stopped = d.stopAt(m, op, 1)
		case "reached":
			stopped.reached()
		case "go":
			stopped.goOn()
		case "slow":
			last = d.srv.Faults().DelayReply(zktest.Match{Op: op, Session: session(m), Path: dir, Times: 1}, 50*time.Millisecond)
		case "lose":
			last = d.lossAt(dropRequest, m, op)
		case "unanswer":
			last = d.lossAt(dropReply, m, op)
		case "struck":
			<-last.Hit()
		case "refuse":
			refused = d.srv.Faults().Refuse()
		case "cut":
			d.srv.Faults().Cut(session(m))
		case "heal":
			refused.Remove()
		case "wait":
			synctest.Wait()
		case "observe":
			d.observe()
		default:
			d.t.Fatalf("there is no step %q", step)
		}
	}
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
		anywhere = iota // where the read node is made: it depends,
		beside          // at the writer's place,
		last            // at the end of the queue
	)
	const (
		both   = iota // the order makes sense for a reader that is queued behind our writer and one that is not,
		queued        // only for the one,
		anew          // only for the other
	)
	for _, order := range []struct {
		what    string
		who     int
		where   int
		history string
	}{
		{"the write is kept", both, beside, "ask, keep"},
		{"released as soon as granted", both, beside, "ask, wait, release"},
		{"released while the transaction is on its way", both, beside, "stop multi, ask, reached, release, wait, go"},
		{"released while the transaction's answer is on its way", both, beside, "slow multi, ask, struck, release"},
		{"the transaction's answer is lost, and the write kept", both, beside, "unanswer multi, ask, struck, keep"},
		{"the transaction's answer is lost, and the write released", both, beside, "unanswer multi, ask, struck, release"},
		{
			"the transaction's answer and the deletion behind it are lost", both, beside,
			"stop multi, unanswer multi, ask, reached, release, wait, go",
		},
		{"the transaction is lost, and the write kept", both, beside, "lose multi, ask, struck, keep"},
		{"the transaction is lost, and the write released", both, anywhere, "lose multi, ask, struck, release"},
		{"asked while the deletion is on its way", anew, last, "stop delete, release, reached, ask, wait, go"},
		{"asked while the deletion's answer is on its way", anew, last, "slow delete, release, struck, ask"},
		{"asked when the deletion's answer is lost", anew, last, "unanswer delete, release, struck, ask"},
		{"asked when the deletion is lost", anew, anywhere, "lose delete, release, struck, ask"},
		{
			"asked when the server is out of reach, and the write released", anew, anywhere,
			"refuse, cut, wait, ask, wait, release, wait, heal",
		},
		{"asked and released at once", anew, anywhere, "ask, release"},
		{"released and asked at once", anew, anywhere, "release, ask"},

		// A queued reader leaves its place before it takes the other.
		{"released while it leaves its place", queued, last, "stop delete, ask, reached, release, wait, go"},
		{"the answer to its leaving is lost, and the write kept", queued, beside, "unanswer delete, ask, struck, keep"},
		{"the answer to its leaving is lost, and the write released", queued, anywhere, "unanswer delete, ask, struck, release"},
		{"its leaving is lost, and the write released", queued, anywhere, "lose delete, ask, struck, release"},
	} {
		eachDowngrade(t, order.what, order.who != queued, order.who != anew, func(d *downgrade) {
			d.do(order.history)
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
				expect(d.t, (!at || order.where != last) && (at || order.where != beside && alone),
					"the reader is in at %s; the writer was at %s", g.Path, w.Path)
				expect(d.t, !at || g.Token == w.Token,
					"the reader's token is %d, its writer's %d", g.Token, w.Token)
			}
			d.finish()
		})
	}
}

// eachDowngrade runs test for a reader that asks anew, for one that is queued, and
// for each contender that may be behind the writer.
func eachDowngrade(t *testing.T, what string, anew, queued bool, test func(d *downgrade)) {
	for who, join := range behind {
		for suffix, isQueued := range map[string]bool{"": false, ", the reader queued": true} {
			if isQueued && queued || !isQueued && anew {
				subtest(t, what+"/"+who+" behind"+suffix, func(c *cluster) { test(newDowngrade(c, isQueued, join)) })
			}
		}
	}
}

// The session ends while the downgrade is under way: the write is lost, and the
// readers queue again, behind the contender that was behind the writer.
func TestSessionEndsDuringDowngrade(t *testing.T) {
	for what, history := range map[string]string{
		"before the transaction":                   "stop multi, ask, reached, expire, go",
		"after the transaction, before its answer": "slow multi, ask, struck, wait, expire",
		"while the answer is lost":                 "unanswer multi, refuse, ask, struck, wait, expire, heal",
		"after the grant":                          "ask, observe, expire",
		"while the write is being released":        "stop multi, ask, reached, release, expire, go",
	} {
		eachDowngrade(t, what, true, true, func(d *downgrade) {
			d.do(history)
			later(time.Second)
			if isClosed(d.read.Lost()) { // it had been granted
				wantErr(d.t, "the reader", d.read.Err(), ErrLost)
				d.read.Release()
				d.read = d.p.Reader().Acquire(d.t.Context())
				later(time.Second)
			}
			d.write.Release()
			g, err := d.read.Grant()
			expect(d.t, err != nil || d.next == Hold{} && d.node == "",
				"the reader is in at %s, ahead of the contender that was behind its writer", g.Path)
			d.finish()
		})
	}
}
