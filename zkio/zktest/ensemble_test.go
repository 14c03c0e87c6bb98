// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// An ensemble is a leader and a follower, of a real ensemble or imitated.
type ensemble struct {
	leader, follower func() (net.Conn, error) // connect to them
	lag, catchUp     func()                   // the follower falls behind from now on; learns of everything
	change           func()                   // another server leads; connections to both may break
}

// TestConformanceEnsemble plays the scripts about several servers with a Lag and
// a Restart.
func TestConformanceEnsemble(t *testing.T) {
	for _, sc := range ensembleScripts {
		t.Run(sc.name, func(t *testing.T) {
			srv := newServer(t, zktest.Config{TickTime: 500 * time.Millisecond})
			to := func(addr string) func() (net.Conn, error) {
				return func() (net.Conn, error) { return srv.Dial(context.Background(), "tcp", addr) }
			}
			var lag *zktest.Lag
			playEnsemble(t, sc, ensemble{
				leader:   to("leader"),
				follower: to("follower"),
				lag:      func() { lag = srv.Faults().LagServer(-1, "follower") },
				catchUp:  func() { lag.Remove() },
				change:   srv.Restart,
			})
		})
	}
}

// TestConformanceRealEnsemble plays them on three real servers. The follower is
// cut off from the others; it goes on serving reads for a while.
func TestConformanceRealEnsemble(t *testing.T) {
	e := realzk.StartEnsemble(t, 3, realzk.TickTime(500*time.Millisecond), realzk.SessionTimeouts(time.Second, 10*time.Second))
	for _, sc := range ensembleScripts {
		t.Run(sc.name, func(t *testing.T) {
			leader, follower := e.Settled(), e.Follower()
			to := func(s **realzk.Server) func() (net.Conn, error) {
				return func() (net.Conn, error) { return net.Dial("tcp", (*s).Addr()) }
			}
			playEnsemble(t, sc, ensemble{
				leader:   to(&leader),
				follower: to(&follower),
				lag:      func() { e.Isolate(follower) },
				catchUp:  e.Heal,
				change: func() {
					leader.Kill()
					leader.Restart()
					leader = e.Settled()
					follower = e.Follower()
				},
			})
		})
	}
}

// An ensembleScript is a dialogue with both servers. The node /zt is there.
type ensembleScript struct {
	name string
	play func(e ensemble, l, f *dialogue) // connected to leader and follower
}

func playEnsemble(t *testing.T, sc ensembleScript, e ensemble) {
	setUp := newDialogue(t, "setup", e.leader).start()
	setUp.removeAll("/zt")
	setUp.create("/zt", "", 0)
	setUp.close()
	l := newDialogue(t, "leader", e.leader).start()
	f := l.other("follower")
	f.dial = e.follower
	f.reconnect()
	f.start() // which the follower has learned of when it answers
	sc.play(e, l, f)
	got := l.text.String()
	l.dial = e.leader
	l.closeAll()
	keepOrCompare(t, sc.name, got)
}

var ensembleScripts = []ensembleScript{
	{"a follower that lags", func(e ensemble, l, f *dialogue) {
		l.create("/zt/a", "old", 0)
		l.create("/zt/b", "", 0)
		f.call(jute.OpSync, "sync", jute.AppendString(nil, "/zt"), showPath)
		f.get("/zt/a", true)
		f.exists("/zt/new", true)
		f.children(jute.OpGetChildren, "/zt", true)
		e.lag()
		seen := f.last
		f.comment("what happens without it")
		l.get("/zt/a", true)
		l.set("/zt/a", []byte("newer"), -1)
		l.create("/zt/new", "", 0)
		l.multi(mDelete("/zt/b", -1), mCreate("/zt/c", 0), mSet("/zt/a", -1))
		l.setACL("/zt/a", []entry{{1, "world", "anyone"}}, -1)
		l.set("/zt/a", nil, 77) // refused
		ahead := l.last
		f.comment("it knows nothing of that")
		f.get("/zt/a", false)
		f.exists("/zt/new", false)
		f.exists("/zt/b", false)
		f.exists("/zt/c", false)
		f.children(jute.OpGetChildren2, "/zt", false)
		f.getACL("/zt/a")
		f.ping()
		f.comment("watches are compared with what it knows")
		f.setWatches(seen, []string{"/zt/b", "/zt/c"}, []string{"/zt/c"}, nil)
		f.setWatches(seen-1, nil, nil, []string{"/zt"})
		f.ping()
		f.comment("it refuses who has seen more")
		o := f.other("new")
		o.connect(10*time.Second, 0, make([]byte, 16), ahead, 0)
		o.reconnect()
		o.connect(10*time.Second, l.session, l.password, ahead, 0)
		f.comment("and learns of everything, in order")
		e.catchUp()
		f.expectEvents(5) // the rest may be still on its way
		f.call(jute.OpSync, "sync", jute.AppendString(nil, "/zt"), showPath)
		f.get("/zt/a", false)
		f.children(jute.OpGetChildren2, "/zt", false)
		f.create("/zt/mine", "", 1)
		f.exists("/zt/mine", false)
		o.reconnect()
		o.connect(10*time.Second, l.session, l.password, ahead, 0)
		o.exists("/zt/mine", false)
	}},
	{"a new leader", func(e ensemble, l, f *dialogue) {
		l.create("/zt/p", "", 0)
		f.create("/zt/p/s-", "", 3)
		l.create("/zt/p/s-", "", 2)
		before := l.base >> 32
		// The leader may not have carried out yet what a follower has, and then the
		// answer to sync bears an older number; but what comes after it does not.
		caughtUp := func() {
			l.quietly(func() { l.call(jute.OpSync, "sync", jute.AppendString(nil, "/zt"), showPath) })
		}
		e.change()
		l.comment("sessions go on, and zxids in a new epoch")
		for _, d := range []*dialogue{l, f} {
			id, password := d.session, d.password
			d.reconnect()
			d.connect(10*time.Second, id, password, 0, 0)
		}
		l.quietly(func() { l.ping() })
		l.note("the epoch is higher: %v, and nothing has happened in it: %v", l.last>>32 > before, l.last&0xffffffff == 0)
		f.quietly(func() { f.set("/zt/p", nil, -1) }) // the first of it
		f.base = f.last &^ 0xffffffff
		f.comment("numbers are counted from its beginning now")
		f.create("/zt/p/s-", "", 3)
		f.call(jute.OpExists, "exists, what is of before", jute.AppendBool(jute.AppendString(nil, "/zt/p/s-0000000000"), false), func(r *jute.Reader) string {
			czxid := r.Int64()
			skip(r)
			return fmt.Sprintf("made in an earlier epoch: %v", czxid < f.base)
		})
		f.exists("/zt/p/s-0000000002", false)
		caughtUp()
		l.children(jute.OpGetChildren, "/zt/p", false)
		f.close()
		caughtUp()
		l.children(jute.OpGetChildren, "/zt/p", false)
	}},
}
