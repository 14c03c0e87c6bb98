// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// account is the node that the tests write under the lock's protection.
const account = "/account"

type ledger struct{ *cluster }

// account makes the node.
func (c *cluster) account() ledger {
	c.t.Helper()
	wantErr(c.t, "create", c.srv.Create(account, []byte("0")), nil)
	return ledger{c}
}

// want checks what is in the node, and how often it was written.
func (l ledger) want(what, data string, version int32) {
	l.t.Helper()
	got, stat, _ := l.srv.Get(account)
	if string(got) != data || stat.Version != version {
		l.t.Errorf("%s: the node has %q, version %d; want %q, version %d", what, got, stat.Version, data, version)
	}
}

// write is a guarded write of data.
func write(ctx context.Context, h Hold, data string) error {
	_, err := h.Guard(ctx, zkio.SetOp(account, []byte(data), -1))
	return err
}

// Holds of every kind guard what they write, in one request that also renews the
// lease.
func TestGuard(t *testing.T) {
	each(t, map[string]func(c *cluster) Hold{
		"exclusive": func(c *cluster) Hold { return mustLock(c.t, c.lock("a")) },
		"read":      func(c *cluster) Hold { return mustLock(c.t, c.rw("a").Reader()) },
		"write":     func(c *cluster) Hold { return mustLock(c.t, c.rw("a").Writer()) },
		"read beside write": func(c *cluster) Hold {
			rw := c.rw("a")
			w := mustLock(c.t, rw.Writer())
			defer w.Release()
			return mustLock(c.t, rw.Reader())
		},
	}, func(c *cluster, take func(c *cluster) Hold) {
		book := c.account()
		h := take(c)
		synctest.Wait()
		c.wantNodes(1)
		time.Sleep(time.Second)
		client := h.Lock().m.client
		n, proofs := c.tally(h.Lock().m), client.Stats().Proofs
		results, err := h.Guard(c.t.Context(),
			zkio.CreateOp("/made", []byte("x"), nil), zkio.SetOp(account, []byte("1"), 0), zkio.CheckOp(account, 1), zkio.DeleteOp("/made", -1))
		expect(c.t, err == nil && len(results) == 4 && results[0].Path == "/made" && results[1].Stat.Version == 1,
			"got %+v, %v", results, err)
		n.want("a guarded transaction", "multi=1")
		wantEq(c.t, "renewals of the lease", client.Stats().Proofs-proofs, 1)
		book.want("after it", "1", 1)
		nested, err := h.Reenter()
		wantErr(c.t, "reenter", err, nil)
		wantErr(c.t, "through another handle", write(c.t.Context(), nested, "2"), nil)
		nested.Release()
		mustRelease(c.t, h)
		wantErr(c.t, "after the release", write(c.t.Context(), h, "3"), ErrReleased)
		book.want("in the end", "2", 2)
	})
}

// What cannot be guarded is refused before anything is sent.
func TestGuardRefuses(t *testing.T) {
	bubble(t, func(c *cluster) {
		wantErr(c.t, "the zero Hold", write(c.t.Context(), Hold{}, "1"), ErrReleased)
		wantErr(c.t, "its release", Hold{}.Unlock(c.t.Context()), ErrReleased)
		h := mustLock(c.t, c.lock("a"))
		own := grantOf(c.t, h).Path
		n := c.tally(h.Lock().m)
		ended, cancel := context.WithCancel(c.t.Context())
		cancel()
		wantErr(c.t, "a context that has ended", write(ended, h, "1"), context.Canceled)
		good := zkio.SetOp(account, nil, -1)
		for _, test := range []struct {
			says string
			ops  []zkio.Op
		}{
			{"no operations", nil},
			{"operation 2: ", []zkio.Op{good, {}}},
			{"operation 1: ", []zkio.Op{zkio.SetOp("account", nil, -1)}},
			{"operation 1: ", []zkio.Op{zkio.SetOp("", nil, -1)}},
			{"operation 3: ", []zkio.Op{good, good, zkio.DeleteOp("/a//b", -1)}},
			{"operation 1: ", []zkio.Op{zkio.CreateOp("/a/", nil, nil)}},
			{"operation 1: ", []zkio.Op{zkio.CheckOp("/a/../b", -1)}},
			{"operation 1: ", []zkio.Op{zkio.CheckOp("/a/\x07", -1)}},
			{"operation 1: ", []zkio.Op{zkio.CheckOp("/a/\xff", -1)}},
			{"ZooKeeper's own", []zkio.Op{zkio.CreateOp("/zookeeper/quota/x", nil, nil)}},
			{"ZooKeeper's own", []zkio.Op{zkio.DeleteOp("/zookeeper", -1)}},
			{"belongs to the lock", []zkio.Op{good, zkio.DeleteOp(own, -1)}},
			{"belongs to the lock", []zkio.Op{zkio.DeleteOp(dir, -1)}},
			{"belongs to the lock", []zkio.Op{zkio.CreateOp(dir+"/lock-0000000001", nil, nil)}},
			{"more than the 1040384 that a server takes", []zkio.Op{zkio.SetOp(account, make([]byte, 1<<20), -1)}},
		} {
			results, err := h.Guard(c.t.Context(), test.ops...)
			var e *Error
			if !errors.Is(err, zkio.ErrBadArguments) || !errors.As(err, &e) || e.Op != "guard" || e.Name != "jobs" || !strings.Contains(err.Error(), test.says) || results != nil {
				c.t.Errorf("got %v, %v; want an error that says %q", results, err, test.says)
			}
		}
		n.want("refusing", "")
		for _, path := range []string{"/zookeepers", dir + "/data", dir + "s", "/holdfast"} {
			_, err := h.Guard(c.t.Context(), zkio.CheckOp(path, 77))
			expect(c.t, !errors.Is(err, zkio.ErrBadArguments), "%s: %v", path, err)
		}
		c.unlock(h)
	})
}

// ZooKeeper refuses one of the operations: the error says which, and why. Nothing is
// changed, and the lock is held on.
func TestGuardedOperationFails(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		h := mustLock(c.t, c.lock("a"))
		for _, test := range []struct {
			op   zkio.Op
			want error
		}{
			{zkio.SetOp(account, []byte("x"), 7), zkio.ErrBadVersion},
			{zkio.SetOp("/none", nil, -1), zkio.ErrNoNode},
			{zkio.CheckOp("/none", -1), zkio.ErrNoNode},
			{zkio.CreateOp(account, nil, nil), zkio.ErrNodeExists},
			{zkio.DeleteOp("/holdfast", -1), zkio.ErrNotEmpty},
		} {
			for at := range 3 {
				ops := slices.Insert([]zkio.Op{zkio.SetOp(account, []byte("1"), 0), zkio.CheckOp(account, -1)}, at, test.op)
				results, err := h.Guard(c.t.Context(), ops...)
				wantErr(c.t, test.op.Path(), err, test.want)
				if errors.Is(err, ErrLost) || errors.Is(err, ErrUnknownOutcome) || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("operation %d: ", at+1)) {
					c.t.Errorf("operation %d: got %v", at, err)
				}
				expect(c.t, len(results) == len(ops), "operation %d: %d results", at, len(results))
				for i, res := range results {
					if (res.Err != nil) != (i == at) || i == at && !errors.Is(res.Err, test.want) {
						c.t.Errorf("operation %d: results %+v", at, results)
					}
				}
			}
		}
		book.want("in the end", "0", 0)
		c.held(h)
		c.unlock(h)
	})
}

// A write belongs to the session in which the lock was granted. It fails if that is
// over, even if the process has not noticed yet.
func TestGuardStaysInItsSession(t *testing.T) {
	bubble(t, func(c *cluster) {
		book, l := c.account(), c.lock("a")
		before := l.m.client.Session()
		c.expire(l.m)
		h := mustLock(c.t, l)
		g := &guarded{hold: h, ops: []zkio.Op{zkio.CheckOp("/", -1), zkio.SetOp(account, []byte("1"), -1)}, done: make(chan struct{})}
		now := &h.share.promises().tenure.session
		*now = before
		g.Run(l.m.client.Session())
		*now = l.m.client.Session()
		wantErr(c.t, "in a session that is over", g.err, ErrLost)
		book.want("in the end", "0", 0)
		c.unlock(h)
	})
}

// A write that was not sent is tried again, as long as its caller waits and the lock
// is held.
func TestGuardTriesAgainWhatWasNotSent(t *testing.T) {
	type trial struct {
		away     time.Duration
		meantime func(g *guarded)
		want     error
		written  int32
	}
	each(t, map[string]trial{
		"the caller waits":     {3 * time.Second, func(*guarded) {}, nil, 1},
		"the caller has gone":  {3 * time.Second, func(g *guarded) { g.stage.Store(guardGivenUp) }, nil, 0},
		"the lock is released": {3 * time.Second, func(g *guarded) { g.hold.Release() }, ErrReleased, 0},
		"the lock is lost":     {20 * time.Second, func(*guarded) {}, ErrLost, 0},
	}, func(c *cluster, test trial) {
		book, l := c.account(), c.lock("a")
		h := mustLock(c.t, l)
		g := &guarded{hold: h, ops: []zkio.Op{zkio.CheckOp(grantOf(c.t, h).Path, -1), zkio.SetOp(account, []byte("0"), -1)}, done: make(chan struct{})}
		c.away("a", test.away)
		synctest.Wait()
		// As if the connection had broken when a worker had taken the task: while
		// there is none, workers take no tasks.
		ran := make(chan struct{})
		go func() {
			defer close(ran)
			g.Run(l.m.client.Session())
		}()
		for g.stage.Load() != guardSent {
			time.Sleep(time.Millisecond)
		}
		test.meantime(g)
		<-ran
		later(time.Minute)
		if g.stage.Load() != guardGivenUp {
			<-g.done
			wantErr(c.t, "guard", g.err, test.want)
		} else {
			expect(c.t, !isClosed(g.done), "it went on")
		}
		book.want("in the end", "0", test.written)
		h.Release()
	})
}

// No answer comes to a guarded write: the error says once that the outcome is unknown, and which
// nodes to read, and not that of the lock.
func TestGuardSaysWhatToRead(t *testing.T) {
	type test struct {
		ops  []zkio.Op
		cut  bool
		says string
	}
	each(t, map[string]test{
		"one write": {[]zkio.Op{zkio.SetOp(account, nil, -1)}, true, `guard "jobs": outcome unknown: the operations may have been carried out; read /account before going on: `},
		"the ctx ends": {[]zkio.Op{zkio.SetOp(account, nil, -1)}, false,
			`guard "jobs": outcome unknown: the operations may have been carried out, or may still be; read /account before going on: context deadline exceeded`},
		"many writes": {[]zkio.Op{zkio.SetOp(account, nil, -1), zkio.SetOp(account, nil, -1), zkio.CheckOp("/a", -1), zkio.CheckOp("/b", -1), zkio.CheckOp("/c", -1)}, true,
			"read /account, /a, /b and 1 more before going on: "},
	}, func(c *cluster, test test) {
		c.account()
		l := c.lock("a")
		h := mustLock(c.t, l)
		later(time.Second)
		match := zktest.Match{Session: session(l.m), Path: account, Times: 1}
		lose := c.srv.Faults().SwallowReply
		if test.cut {
			lose = c.srv.Faults().DropReply
		}
		f := lose(match)
		_, err := h.Guard(withTimeout(c.t, 100*time.Millisecond), test.ops...)
		wantErr(c.t, "guard", err, ErrUnknownOutcome)
		if test.cut {
			wantErr(c.t, "guard", err, zkio.ErrUnknown)
		}
		if text := err.Error(); !strings.Contains(text, test.says) || strings.Count(text, "outcome unknown") != 1 || strings.Contains(text, dir+"/") {
			c.t.Errorf("the error says %q, want %q", text, test.says)
		}
		f.Remove()
		h.Release()
	})
}

// Many goroutines write at the same time, through faults of all kinds: each write
// that is said to have happened did, and none that is said not to have.
func TestF055_GuardedWritesAreTrue(t *testing.T) {
	bubble(t, func(c *cluster) {
		seconds := max(racing.Fewer(300), 60)
		c.account()
		l := c.lock("a")
		var done, refused, unknown atomic.Int32
		ctx := withTimeout(c.t, time.Duration(seconds)*time.Second)
		var writers sync.WaitGroup
		for range 16 {
			writers.Go(func() {
				for ctx.Err() == nil {
					h, err := l.Lock(ctx)
					if err != nil {
						continue
					}
					for range 3 {
						bounded, stop := context.WithTimeout(ctx, 700*time.Millisecond)
						switch err := write(bounded, h, "x"); {
						case err == nil:
							done.Add(1)
						case errors.Is(err, ErrUnknownOutcome):
							unknown.Add(1)
						default:
							refused.Add(1)
						}
						stop()
						time.Sleep(50 * time.Millisecond)
					}
					h.Release()
				}
			})
		}
		faults := []func(){
			func() { c.srv.Faults().Cut(session(l.m)) },
			func() { c.srv.Faults().DropReply(zktest.Match{Session: session(l.m), Path: account, Times: 3}) },
			func() { c.srv.Faults().DropRequest(zktest.Match{Session: session(l.m), Path: account, Times: 3}) },
			func() { c.away("a", 2*time.Second) },
			func() {
				for _, name := range c.nodes() {
					_ = c.srv.Delete(dir + "/" + name) // it may have gone by itself
				}
			},
			func() { c.srv.ExpireSession(session(l.m)) },
		}
		for i := 0; ctx.Err() == nil; i++ {
			time.Sleep(time.Second)
			faults[i%len(faults)]()
		}
		writers.Wait()
		later(time.Minute)
		_, stat, _ := c.srv.Get(account)
		d, r, u := done.Load(), refused.Load(), unknown.Load()
		expect(c.t, stat.Version >= d && stat.Version <= d+u,
			"%d writes happened; %d are said to have, and of %d it is not known", stat.Version, d, u)
		least := int32(seconds / 30)
		expect(c.t, d >= 10*least && r >= least && u >= least, "too little happened: %d, %d refused, %d unknown", d, r, u)
	})
}

// A holder reads what the lock protects: what earlier holders have written, and what
// it has written itself.
func TestGet(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		c.account()
		get := func(h Hold, path string) error {
			_, _, err := h.Get(c.t.Context(), path)
			return err
		}
		for i := range 20 {
			h := mustLock(c.t, []*Lock{a, b}[i%2])
			data, stat, err := h.Get(c.t.Context(), account)
			if err != nil || string(data) != strconv.Itoa(i) || stat.Version != int32(i) {
				c.t.Fatalf("%q, version %d, %v; want %d", data, stat.Version, err, i)
			}
			guarded := errOf(h.Guard(c.t.Context(), zkio.SetOp(account, []byte(strconv.Itoa(i+1)), stat.Version)))
			wantErr(c.t, "guard", guarded, nil)
			mustRelease(c.t, h)
		}
		h := mustLock(c.t, a)
		wantErr(c.t, "missing", get(h, "/missing"), zkio.ErrNoNode)
		wantErr(c.t, "relative", get(h, "relative"), zkio.ErrBadArguments)
		wantErr(c.t, "the hold", h.Err(), nil)
		c.takeCounts()
		wantErr(c.t, "get", get(h, account), nil)
		c.wantCounts("get", map[verb]int{prove: 1, lookAtDir: 1})
		wantErr(c.t, "zero", get(Hold{}, account), ErrReleased)
		mustRelease(c.t, h)
		wantErr(c.t, "released", get(h, account), ErrReleased)
	})
}

// A holder that has lost the lock reads nothing, even if it has not been told yet.
func TestGetOfAStaleHolder(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		wantErr(c.t, "create", c.srv.CreateAll("/data", []byte("0")), nil)
		h := mustLock(c.t, a)
		c.remove(c.nodeOf(a.m)) // it has no watch yet
		data, _, err := h.Get(c.t.Context(), "/data")
		wantErr(c.t, "get", err, ErrLost)
		wantErr(c.t, "the hold", h.Err(), ErrLost)
		expect(c.t, data == nil, "it read %q", data)
	})
}

// If an answer to Get is lost, it asks again, as long as the lock is held and ctx
// has not ended; its outcome is never unknown.
func TestGetAsksAgain(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpMulti, zktest.OpGetData} {
		each(t, losses, func(c *cluster, loss func(*cluster, zktest.Match) *zktest.Fault) {
			a := c.lock("a")
			c.account()
			h := mustLock(c.t, a)
			later(time.Second)
			f := loss(c, zktest.Match{Op: op, Session: session(a.m), Times: 1})
			data, _, err := h.Get(c.t.Context(), account)
			expect(c.t, err == nil && string(data) == "0" && f.Hits() == 1, "%q, %v, after %d losses", data, err, f.Hits())
			refused := c.srv.Faults().Refuse()
			c.srv.Faults().CutAll()
			_, _, err = h.Get(withTimeout(c.t, time.Second), account)
			wantErr(c.t, "in an outage", err, context.DeadlineExceeded)
			saysOutage(c.t, "in an outage", err, "no connection for ")
			_, _, err = h.Get(c.t.Context(), account)
			wantErr(c.t, "in a long outage", err, ErrLost)
			refused.Remove()
			h.Release()
		})
	}
}
