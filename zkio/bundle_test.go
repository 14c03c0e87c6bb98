// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// crowded runs fn with a session whose pool always has a backlog, and the directories /0 to
// /19.
func crowded(t *testing.T, fn func(t *testing.T, z *zktest.Server, s *Session)) {
	t.Helper()
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		for i := range dirs {
			must(t, s.EnsureDir(dirName(i), nil))
		}
		defer crowd(c)()
		fn(t, z, s)
	})
}

// crowd has tasks of all kinds wait because as many run as may, until end.
func crowd(c *Client) (end func()) {
	fetches := crowdOf(c, Fetches, c.pool.fetchers)
	releases := crowdOf(c, Releases, c.pool.workers-c.pool.fetchers)
	return func() { fetches(); releases() }
}

// crowdOf has n tasks of a kind run, and one more wait, until end.
func crowdOf(c *Client, q Queue, n int) (end func()) {
	stop := make(chan struct{})
	running := make(chan struct{}, n+1)
	block := func() { c.Submit(q, task(func(*Session) { running <- struct{}{}; <-stop })) }
	for range n {
		block()
	}
	for range n {
		<-running
	}
	block()
	return func() { close(stop) }
}

const dirs = 20

func dirName(i int) string { return fmt.Sprintf("/%d", i) }

// together runs calls at the same time, and returns when all have ended. The server is
// silent until all have been made, so that bundles form.
func together(t *testing.T, z *zktest.Server, s *Session, n int, call func(i int)) {
	t.Helper()
	block := z.Faults().BlockRequests(s.ID())
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { call(i) })
	}
	synctest.Wait()
	block.Remove()
	wg.Wait()
}

// wantMade checks that the server has n, made by the transaction that n names.
func wantMade(t *testing.T, z *zktest.Server, n *Node) {
	t.Helper()
	if _, st, ok := z.Get(n.Path()); !ok || st.Czxid != n.Czxid() {
		t.Errorf("%q: %+v, %t; want czxid %d", n.Path(), st, ok, n.Czxid())
	}
}

// TestBundle: while tasks wait for a worker, the requests of those that run go together. Each
// gets its own answer, and two nodes of one directory get different tokens.
func TestBundle(t *testing.T) {
	crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
		nodes := make([]*Node, 2*dirs)
		before := s.client.Stats().Sent["multi"]
		together(t, z, s, len(nodes), func(i int) {
			nodes[i] = newNode(dirName(i%dirs), nil)
			list := &Read{Path: dirName(i % dirs), What: ReadChildren}
			children, err := nodes[i].CreateAndCount(s, list)
			if err != nil || children < 1 || children > 2 || len(list.Names) < children || list.Stat.Pzxid < nodes[i].Czxid() {
				t.Errorf("%d: %d children, %v; list %q, %v", i, children, err, list.Names, list.Err)
			}
		})
		if n := s.client.Stats().Sent["multi"] - before; n > 6 {
			t.Errorf("%d requests to create %d nodes", n, len(nodes))
		}
		for i, n := range nodes {
			wantMade(t, z, n)
			if j := (i + dirs) % len(nodes); n.Czxid() == nodes[j].Czxid() {
				t.Errorf("%s and %s have one token: %d", n.Path(), nodes[j].Path(), n.Czxid())
			}
		}

		before = s.client.Stats().Answered
		together(t, z, s, len(nodes), func(i int) {
			data, st, err := s.Get(nodes[i].Path())
			if string(data) != "data" || st.Czxid != nodes[i].Czxid() || err != nil {
				t.Errorf("%d: %q, %+v, %v", i, data, st, err)
			}
		})
		if n := s.client.Stats().Answered - before; n > 6 {
			t.Errorf("%d requests to read %d nodes", n, len(nodes))
		}

		before = s.client.Stats().Answered
		together(t, z, s, len(nodes), func(i int) {
			if how, err := nodes[i].Remove(s); how != RemovedByUs || err != nil {
				t.Errorf("%d: %v, %v", i, how, err)
			}
		})
		if n := s.client.Stats().Answered - before; n > 6 {
			t.Errorf("%d requests to delete %d nodes", n, len(nodes))
		}
		for i := range dirs {
			if names := z.Children(dirName(i)); len(names) != 0 {
				t.Errorf("%s has %q", dirName(i), names)
			}
		}
	})
}

// TestNoBundle: while no task waits for a worker, a request waits for no other's answer.
func TestNoBundle(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, _ *Client, s *Session) {
		block := z.Faults().BlockReplies(s.ID())
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { _, _, _ = s.Get("/") })
		}
		synctest.Wait()
		if n := z.Requests(zktest.OpGetData); n != 10 {
			t.Errorf("%d of 10 requests were sent", n)
		}
		block.Remove()
		wg.Wait()
	})
}

// TestIdleWorkersDoNotBundle: tasks that find idle workers do not wait for the answers to each
// other's requests, however many come at once.
func TestIdleWorkersDoNotBundle(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, _ *Session) {
		for _, n := range []int{3, c.pool.fetchers} {
			block := z.Faults().BlockRequests(c.Session().ID())
			before := c.Stats().Sent["getData"]
			var tasks sync.WaitGroup
			for range n {
				tasks.Add(1)
				c.Submit(Fetches, task(func(s *Session) { defer tasks.Done(); _, _, _ = s.Get("/") }))
			}
			synctest.Wait()
			if got := c.Stats().Sent["getData"] - before; got != uint64(n) {
				t.Errorf("of %d requests %d have left", n, got)
			}
			block.Remove()
			tasks.Wait()
		}
	})
}

// TestReleasesDoNotWaitForFetches: a deletion leaves at once while fetches wait for a worker and
// bundles of theirs are under way, as long as no releases wait.
func TestReleasesDoNotWaitForFetches(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		for i := range dirs {
			must(t, s.EnsureDir(dirName(i), nil))
		}
		n := newNode("/1", nil)
		must(t, n.Create(s))
		defer crowdOf(c, Fetches, c.pool.fetchers)()
		block := z.Faults().BlockRequests(s.ID())
		var calls sync.WaitGroup
		for i := range dirs {
			calls.Go(func() { _, _, _ = s.Get(dirName(i)) })
		}
		synctest.Wait()
		before := c.Stats().Sent["delete"]
		calls.Go(func() {
			if how, err := n.Remove(s); how != RemovedByUs || err != nil {
				t.Errorf("%v, %v", how, err)
			}
		})
		synctest.Wait()
		if got := c.Stats().Sent["delete"] - before; got != 1 {
			t.Errorf("%d deletions have left", got)
		}
		block.Remove()
		calls.Wait()
	})
}

// TestBundledDataIsItsOwn: a caller that keeps a node's data does not keep those of the others of
// its bundle.
func TestBundledDataIsItsOwn(t *testing.T) {
	crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
		for i := range dirs {
			must(t, z.Set(dirName(i), make([]byte, 100))) // the runtime puts what is tiny together
		}
		got := make([][]byte, dirs)
		asked := s.client.Stats().Sent["multiRead"]
		together(t, z, s, dirs, func(i int) { got[i], _, _ = s.Get(dirName(i)) })
		if s.client.Stats().Sent["multiRead"] == asked {
			t.Fatal("no bundle")
		}
		kept := slices.Clone(got[:dirs/2])
		others := make([]weak.Pointer[byte], dirs/2)
		for i := range others {
			others[i] = weak.Make(&got[dirs/2+i][0])
		}
		clear(got)
		runtime.GC()
		for i, other := range others {
			if other.Value() != nil {
				t.Errorf("the data of node %d are still there", dirs/2+i)
			}
		}
		runtime.KeepAlive(kept)
	})
}

// TestBundleEndsBeforeItsWatchesAreTakenBack: the next bundle leaves as soon as one is answered,
// before the server has forgotten the watches that nothing wants any more.
func TestBundleEndsBeforeItsWatchesAreTakenBack(t *testing.T) {
	crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
		var r recorder
		block := z.Faults().BlockReplies(s.ID())
		var calls sync.WaitGroup
		for i := range s.bundler.most { // each is a bundle of its own
			s.client.Watch(dirName(i), &r)
			calls.Go(func() { _, _, _ = s.Get(dirName(i)) })
		}
		synctest.Wait()
		calls.Go(func() { _, _, _ = s.Get(dirName(10)) })
		synctest.Wait()
		for i := range s.bundler.most {
			s.client.Unwatch(dirName(i), &r)
		}
		before := s.client.Stats().Sent["getData"]
		block.Let(s.bundler.most)
		synctest.Wait()
		if got := s.client.Stats().Sent["getData"] - before; got != 1 {
			t.Errorf("%d requests have left behind the first bundles, while %d watches are taken back", got, s.client.Stats().Sent["removeWatches"])
		}
		block.Remove()
		calls.Wait()
	})
}

// TestBundlesUnansweredInARow: that connections end while bundles are under way does not make the
// client think that the server does not know such requests, unless it happens many times.
func TestBundlesUnansweredInARow(t *testing.T) {
	crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
		for cuts := 1; cuts <= owedBusy; cuts++ {
			block := z.Faults().BlockRequests(s.ID())
			var calls sync.WaitGroup
			for i := range dirs {
				calls.Go(func() { _, _, _ = s.Get(dirName(i)) })
			}
			synctest.Wait()
			block.Let(s.bundler.most) // the first requests, which are not put together
			synctest.Wait()
			z.Faults().Cut(s.ID())
			calls.Wait()
			block.Remove()
			time.Sleep(time.Second)
			if got, want := s.client.Stats().Basic, cuts == owedBusy; got != want {
				t.Fatalf("after %d connections: it makes do with the basics: %t; sent %v", cuts, got, s.client.Stats().Sent)
			}
		}
	})
}

// TestF342_BundleWatches: a read in a bundle leaves the watch that it asks for, and none of a node
// that is missing.
func TestF342_BundleWatches(t *testing.T) {
	crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
		must(t, z.DeleteAll(dirName(3)))
		var r recorder
		before := s.client.Stats()
		together(t, z, s, 2*dirs, func(i int) {
			path := dirName(i % dirs)
			var err error
			if s.client.Watch(path, &r); i < dirs {
				_, _, err = s.Get(path)
			} else {
				_, _, err = s.Children(path)
			}
			if path == dirName(3) {
				wantErr(t, err, ErrNoNode, Definite)
			} else if err != nil {
				t.Error(err)
			}
		})
		if now := s.client.Stats(); now.Sent["getData"]-before.Sent["getData"] > uint64(s.bundler.most) || now.Sent["multiRead"] == 0 {
			t.Errorf("sent: %v", now.Sent)
		}
		synctest.Wait()
		if got := r.lines(); len(got) != 0 {
			t.Errorf("told %q, although nothing has happened", got)
		}
		// The server has the watches that the client believes it to have, of both kinds.
		s.client.watches.each(func(path string, k watchKind) {
			if has := z.Watches(path); k != dataWatch|childWatch || has.Data != 1 || has.Child != 1 {
				t.Errorf("%s: %b; the server has %+v", path, k, has)
			}
		})
		if all := z.AllWatches(); all.Data != dirs-1 || all.Child != dirs-1 {
			t.Errorf("the server has %+v", all)
		}
		for i := range dirs {
			if i != 3 {
				must(t, z.Create(dirName(i)+"/x", nil))
				must(t, z.DeleteAll(dirName(i)))
			}
		}
		synctest.Wait()
		for i := range dirs {
			if i != 3 && (!r.has(dirName(i)+" children changed") || !r.has(dirName(i)+" deleted")) {
				t.Errorf("%s: told %q", dirName(i), r.lines())
			}
		}
	})
}

// TestF342_BundleWatchesChange: a node is missing when a bundle asks for its watch, and there when it is
// read; or it goes in between. Its watcher is told, and looks again.
func TestF342_BundleWatchesChange(t *testing.T) {
	type change func(z *zktest.Server) error
	var (
		nothing change = func(*zktest.Server) error { return nil }
		remove  change = func(z *zktest.Server) error { return z.DeleteAll("/3") }
		create  change = func(z *zktest.Server) error { return z.Create("/3", nil) }
		set     change = func(z *zktest.Server) error { return z.Set("/3", []byte("x")) }
	)
	for _, tt := range []struct {
		what, told string
		watched    bool   // by an earlier read
		before     change // the server gets the bundle
		between    change // the watches and the read
	}{
		{"made", "/3 created", false, remove, create},
		{"deleted", "/3 deleted", false, nothing, remove},
		{"set", "/3 data changed", false, nothing, set},
		{"deleted with an earlier watch", "/3 deleted", true, remove, nothing},
	} {
		t.Run(tt.what, func(t *testing.T) {
			crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
				var r recorder
				s.client.Watch("/3", &r)
				if tt.watched {
					_, _, err := s.Get("/3")
					must(t, err)
				}
				answers := z.Faults().BlockReplies(s.ID())
				var wg sync.WaitGroup
				for range s.bundler.most {
					wg.Go(func() { _, _, _ = s.Get("/1") })
				}
				synctest.Wait()
				for _, path := range []string{"/3", "/2"} {
					wg.Go(func() { _, _, _ = s.Get(path) })
				}
				synctest.Wait()
				requests := z.Faults().BlockRequests(s.ID())
				answers.Remove()
				synctest.Wait()
				must(t, tt.before(z))
				synctest.Wait()
				requests.Let(1) // the watches
				synctest.Wait()
				must(t, tt.between(z))
				requests.Remove()
				wg.Wait()
				synctest.Wait()
				if got := r.lines(); len(got) != 1 || !strings.HasPrefix(got[0], tt.told) {
					t.Errorf("told %q, want %s", got, tt.told)
				}
				if n := z.Requests(zktest.OpSetWatches); n != 1 || z.AllWatches().Data != 0 {
					t.Errorf("%d bundles with watches; the server has %+v", n, z.AllWatches())
				}
				s.client.watches.each(func(path string, k watchKind) { t.Errorf("%s: %b is noted", path, k) })
			})
		})
	}
}

// TestF342_BundleWatchesUnwanted: the server keeps no watch of a node that the watcher has left while
// the bundle was under way.
func TestF342_BundleWatchesUnwanted(t *testing.T) {
	crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
		var r recorder
		block := z.Faults().BlockReplies(s.ID())
		var wg sync.WaitGroup
		for i := range dirs {
			s.client.Watch(dirName(i), &r)
			wg.Go(func() { _, _, _ = s.Get(dirName(i)) })
		}
		synctest.Wait()
		block.Let(s.bundler.most) // the bundle is sent
		synctest.Wait()
		for i := range dirs {
			wg.Go(func() { s.Unwatch(dirName(i), &r) })
		}
		synctest.Wait()
		block.Remove()
		wg.Wait()
		synctest.Wait()
		if all := z.AllWatches(); all.Data != 0 {
			t.Errorf("the server has %+v", all)
		}
	})
}

// TestF339_BundleRefused: ZooKeeper refuses a transaction because of one operation, and changes
// nothing. The others do not suffer from that.
func TestF339_BundleRefused(t *testing.T) {
	crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
		must(t, z.DeleteAll(dirName(7)))
		nodes := make([]*Node, dirs)
		together(t, z, s, dirs, func(i int) {
			nodes[i] = newNode(dirName(i), nil)
			switch children, err := nodes[i].CreateAndCount(s, &Read{Path: dirName(i), What: ReadChildren}); {
			case i == 7 && (!errors.Is(err, ErrNoNode) || ClassOf(err) != Definite):
				t.Errorf("%d: %v", i, err)
			case i != 7 && (children != 1 || err != nil):
				t.Errorf("%d: %d children, %v", i, children, err)
			}
		})
		for i, n := range nodes {
			if i != 7 {
				wantMade(t, z, n)
			}
		}
		must(t, z.Delete(nodes[3].Path()))
		together(t, z, s, dirs, func(i int) {
			want := RemovedByUs
			switch i {
			case 3:
				want = RemovedBefore
			case 7:
				want = RemovedUnknown
			}
			if how, err := nodes[i].Remove(s); how != want || err != nil {
				t.Errorf("%d: %v, %v; want %v", i, how, err, want)
			}
		})
	})
}

// TestF340_BundleUnanswered: the answer to a bundle is lost. All outcomes are unknown, and each
// worker finds out about its own.
func TestF340_BundleUnanswered(t *testing.T) {
	faults := map[string]func(f *zktest.Faults, m zktest.Match) *zktest.Fault{
		"the answer is lost":  (*zktest.Faults).DropReply,
		"the request is lost": (*zktest.Faults).DropRequest,
		// A server says so when it has carried a request out and cannot make the answer.
		"the answer says nothing": func(f *zktest.Faults, m zktest.Match) *zktest.Fault {
			return f.FailReply(m, zktest.Code(jute.ErrMarshalling))
		},
	}
	for what, fault := range faults {
		t.Run(what, func(t *testing.T) {
			crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
				nodes := make([]*Node, dirs)
				for i := range nodes {
					nodes[i] = newNode(dirName(i), nil)
				}
				// unanswered has all nodes go through do, which is tried again if its outcome is not
				// known, and loses the nth transaction.
				unanswered := func(nth int, what string, do func(n *Node) error) {
					hit := fault(z.Faults(), zktest.Match{Op: zktest.OpMulti, Nth: nth})
					var unknown atomic.Int32
					together(t, z, s, dirs, func(i int) {
						err := do(nodes[i])
						if err != nil {
							if own := "zkio: " + what + " " + dirName(i) + "/"; ClassOf(err) != Unknown || !strings.HasPrefix(err.Error(), own) {
								t.Errorf("%d: %v, want %s", i, err, own)
							}
							unknown.Add(1)
							err = do(nodes[i])
						}
						must(t, err)
					})
					if hit.Hits() != 1 || unknown.Load() < dirs-int32(s.bundler.most) {
						t.Errorf("%s: %d hits, %d unknown outcomes", what, hit.Hits(), unknown.Load())
					}
				}
				unanswered(s.bundler.most+1, "create", func(n *Node) error {
					_, err := n.CreateAndCount(s)
					return err
				})
				for i, n := range nodes {
					wantMade(t, z, n)
					if names := z.Children(dirName(i)); len(names) != 1 {
						t.Errorf("%s has %q", dirName(i), names)
					}
				}
				unanswered(1, "delete", func(n *Node) error { return n.Delete(s) })
				for i := range nodes {
					if names := z.Children(dirName(i)); len(names) != 0 {
						t.Errorf("%s has %q", dirName(i), names)
					}
				}
			})
		})
	}
}

// TestF341_BundleSessionOver: the session ends while a bundle is under way and others wait. All
// of them fail at once, and no request of one session is sent in the next.
func TestF341_BundleSessionOver(t *testing.T) {
	crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
		block := z.Faults().BlockRequests(s.ID())
		var (
			wg      sync.WaitGroup
			unknown atomic.Int32
		)
		for i := range 2 * dirs {
			wg.Go(func() {
				_, err := newNode(dirName(i%dirs), nil).CreateAndCount(s)
				switch ClassOf(err) {
				case Unknown: // it was sent
					unknown.Add(1)
				case SessionOver:
				default:
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		z.ExpireSession(s.ID())
		block.Remove()
		wg.Wait()
		if took := time.Since(began); took > time.Second || unknown.Load() > int32(s.bundler.most) {
			t.Errorf("it took %v; of %d the outcome is unknown", took, unknown.Load())
		}
		for i := range dirs {
			if names := z.Children(dirName(i)); len(names) != 0 {
				t.Errorf("%s has %q", dirName(i), names)
			}
		}
	})
}

// TestBundleOldServer: a server that cannot read several nodes at once is asked for each, and so
// is one whose answer would be too large.
func TestBundleOldServer(t *testing.T) {
	for _, code := range []zktest.Code{zktest.CodeUnimplemented, zktest.Code(codeTooLarge)} {
		crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
			z.Faults().FailRequest(zktest.Match{Op: zktest.OpMultiRead, Times: 1}, code)
			for i := range dirs {
				s.client.Watch(dirName(i), new(recorder))
			}
			for range 2 {
				together(t, z, s, dirs, func(i int) {
					_, st, err := s.Get(dirName(i))
					if err != nil || st.Czxid == 0 {
						t.Errorf("%d: %+v, %v", i, st, err)
					}
				})
			}
			noted := 0
			s.client.watches.each(func(string, watchKind) { noted++ })
			if all := z.AllWatches(); noted != dirs || all.Data != dirs {
				t.Errorf("code %v: %d watches are noted; the server has %+v", code, noted, all)
			}
			want := uint64(2)
			if code == zktest.CodeUnimplemented {
				want = 1 // it is not asked again
			}
			if n := z.Requests(zktest.OpMultiRead); n != want {
				t.Errorf("code %v: %d times asked for several, want %d", code, n, want)
			}
		})
	}
}

// TestBundleRefusesPath: a malformed path is refused by itself, and does not spoil a bundle.
func TestBundleRefusesPath(t *testing.T) {
	crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
		together(t, z, s, dirs, func(i int) {
			path := dirName(i)
			if i == 3 {
				path = "/a//b"
			}
			_, _, err := s.Get(path)
			if i == 3 {
				wantErr(t, err, ErrBadArguments, Definite)
			} else if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	})
}

// TestBundler: bundles have no more than they may, and no parcel is left behind for ever.
func TestBundler(t *testing.T) {
	bundler := &bundler{session: &Session{client: new(Client)}}
	parcelOf := func(op int32, dir string, size int) *parcel {
		return bundler.newParcel([]*call{(&call{path: "/", op: op, body: make([]byte, size)}).together(dir, 1)})
	}
	fill := func(n int, op int32, dir func(i int) string, size int) (all []*parcel) {
		for i := range n {
			all = append(all, parcelOf(op, dir(i), size))
		}
		return all
	}
	same, none := func(int) string { return "/d" }, func(int) string { return "" }
	listed := fill(6, jute.OpMulti, dirName, 20)
	for i, p := range listed {
		if i%2 > 0 { // it has a list behind its change
			p.calls = append(p.calls, &call{path: "/", op: jute.OpGetChildren2})
		}
	}
	for _, tt := range []struct {
		what  string
		sizes string // of the bundles
		all   []*parcel
	}{
		{"deletions", "[64 64 2]", fill(130, jute.OpDelete, none, 20)},
		{"reads", "[130]", fill(130, jute.OpGetData, none, 20)},
		{"one directory", "[1 1 1]", fill(3, jute.OpMulti, same, 20)},
		{"many directories", "[64 6]", fill(70, jute.OpMulti, dirName, 20)},
		{"every second with a list", "[3 3]", listed},
		{"large ones", "[3 3 1]", fill(7, jute.OpMulti, dirName, 20<<10)},
		{"the largest", "[1 1]", fill(2, jute.OpMulti, dirName, bundleBytes)},
	} {
		b := bundler
		b.waiting = tt.all
		var sizes []int
		for len(b.waiting) > 0 {
			first := b.waiting[0]
			next := b.takeLocked()
			if sizes = append(sizes, len(next)); next[0] != first {
				t.Errorf("%s: the oldest has to wait", tt.what)
			}
		}
		if got := fmt.Sprint(sizes); got != tt.sizes {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.sizes)
		}
	}
	if parcelOf(jute.OpMulti, "", bundleBytes+1) != nil {
		t.Error("a request larger than a bundle may be is put into one")
	}
}

// TestRealBundle: a real server understands bundles, and tells what happens to the nodes that
// they watch.
func TestRealBundle(t *testing.T) {
	t.Parallel()
	cfg, dir := setUp(t, realzk.Shared(t))
	c, admin := open(t, cfg), open(t, cfg).Session()
	s := c.Session()
	old := isOld(t, s)
	asked := c.Stats().Sent["multiRead"]
	defer crowd(c)()
	for i := range dirs {
		must(t, admin.EnsureDir(dir+dirName(i), nil))
	}
	var r recorder
	for range 20 { // until bundles have formed
		nodes := make([]*Node, dirs)
		var wg sync.WaitGroup
		for i := range nodes {
			wg.Go(func() {
				nodes[i] = newNode(dir+dirName(i), nil)
				children, err := nodes[i].CreateAndCount(s, &Read{Path: dir + dirName(i), What: ReadChildren})
				if children != 1 || err != nil {
					t.Errorf("%d children, %v", children, err)
				}
			})
		}
		wg.Wait()
		for _, n := range nodes {
			c.Watch(n.Path(), &r)
			wg.Go(func() {
				if data, st, err := s.Get(n.Path()); string(data) != "data" || st.Czxid != n.Czxid() || err != nil {
					t.Errorf("%q, %+v, %v; want czxid %d", data, st, err, n.Czxid())
				}
			})
		}
		wg.Wait()
		for i, n := range nodes {
			if path := n.Path(); i%2 == 0 {
				must(t, admin.Delete(path, -1))
				eventually(t, path+" told", func() bool { return r.has(path + " deleted") })
			}
		}
		for i, n := range nodes {
			wg.Go(func() {
				want := [...]Removal{RemovedBefore, RemovedByUs}[i%2]
				if how, err := n.Remove(s); how != want || err != nil {
					t.Errorf("%v, %v, want %v", how, err, want)
				}
			})
		}
		wg.Wait()
		if sent := c.Stats().Sent; old || sent["multiRead"] > asked && sent["setWatches"] > 0 {
			return
		}
	}
	t.Errorf("no bundles: sent %v", c.Stats().Sent)
}

// TestBundleAtRandom: bundles under random faults. Each caller gets its own answers, no node is
// left over, and the client knows which watches the server has.
func TestBundleAtRandom(t *testing.T) {
	for seed := range uint64(racing.Fewer(60)) {
		crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex // protects rng and tokens
			n := func(k int) int {
				mu.Lock()
				defer mu.Unlock()
				return rng.IntN(k)
			}
			z.Faults().DelayReply(zktest.Match{Times: zktest.Every}, 5*time.Millisecond)
			var r recorder
			tokens := make(map[string]map[int64]bool)
			var wg sync.WaitGroup
			for g := range 40 {
				wg.Go(func() {
					dir := dirName(g % 10)
					for range 8 {
						node := newNode(dir, nil)
						var err error
						for {
							list := &Read{Path: dir, What: ReadChildren}
							var children int
							children, err = node.CreateAndCount(s, list)
							if err == nil {
								if children > 0 && list.Err == nil && !slices.Contains(list.Names, node.Name()) {
									t.Errorf("the list behind %s lacks it", node.Path())
								}
								break
							}
							if c := ClassOf(err); c != Unknown && c != NotSent {
								t.Errorf("create: %v", err)
								return
							}
						}
						if !strings.HasPrefix(node.Path(), dir+"/") {
							t.Errorf("%s in %s", node.Path(), dir)
						}
						mu.Lock()
						if tokens[dir] == nil {
							tokens[dir] = make(map[int64]bool)
						}
						if tokens[dir][node.Czxid()] {
							t.Errorf("%s: token %d twice", dir, node.Czxid())
						}
						tokens[dir][node.Czxid()] = true
						mu.Unlock()
						watched := n(2) == 0
						if watched {
							s.client.Watch(node.Path(), &r)
						}
						for range n(3) {
							if n(2) == 0 {
								_, st, err := s.Get(node.Path())
								if err == nil && st.Czxid != node.Czxid() || err != nil && ClassOf(err) != Unknown && !errors.Is(err, ErrNoNode) {
									t.Errorf("get %s: %+v %v", node.Path(), st, err)
								}
							} else {
								a, b := &Read{Path: node.Path(), What: ReadData}, &Read{Path: dir, What: [...]Question{ReadStat, ReadData}[n(2)]}
								s.Read(a, b)
								if a.Err == nil && a.Stat.Czxid != node.Czxid() || b.Err == nil && b.Stat.Czxid == 0 {
									t.Errorf("read %+v %+v", a, b)
								}
							}
						}
						if watched && n(2) == 0 {
							s.Unwatch(node.Path(), &r)
						}
						gone := n(4) == 0 && z.Delete(node.Path()) == nil
						path := node.Path()
						for {
							how, err := node.Remove(s)
							if err == nil {
								if gone && how == RemovedByUs || !gone && how == RemovedBefore {
									t.Errorf("%s: %v, %t", path, how, gone)
								}
								break
							}
							if c := ClassOf(err); c != Unknown && c != NotSent {
								t.Errorf("remove: %v", err)
								return
							}
						}
					}
				})
			}
			wg.Go(func() {
				for range 6 {
					time.Sleep(time.Duration(n(60)) * time.Millisecond)
					switch n(4) {
					case 0:
						cut(s)
					case 1:
						z.Faults().DropReply(zktest.Match{Nth: 1 + n(5)})
					case 2:
						z.Faults().DropRequest(zktest.Match{Nth: 1 + n(5)})
					case 3:
						z.Faults().FailRequest(zktest.Match{Op: zktest.OpMultiRead, Times: 1}, zktest.Code(codeTooLarge))
					}
				}
			})
			wg.Wait()
			time.Sleep(time.Second)
			synctest.Wait()
			if err := s.Err(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for i := range dirs {
				if names := z.Children(dirName(i)); len(names) != 0 {
					t.Errorf("seed %d: %s has %q", seed, dirName(i), names)
				}
			}
			s.client.watches.each(func(path string, k watchKind) {
				if has := z.Watches(path); k&dataWatch != 0 && has.Data != 1 {
					t.Errorf("seed %d: %s: believed %b; the server has %+v", seed, path, k, has)
				}
			})
			if sent := s.client.Stats().Sent; sent["multiRead"] == 0 || sent["setWatches"] == 0 || sent["multi"] >= 40*8 {
				t.Errorf("seed %d: no bundles: sent %v", seed, sent)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// TestBundleAtClose: the client is closed while bundles are under way and others wait.
func TestBundleAtClose(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		for i := range dirs {
			must(t, s.EnsureDir(dirName(i), nil))
		}
		end := crowd(c)
		block := z.Faults().BlockReplies(s.ID())
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				if i%2 == 0 {
					_, err := newNode(dirName(i%dirs), nil).CreateAndCount(s)
					if err == nil || ClassOf(err) == Definite {
						t.Errorf("%v", err)
					}
				} else if _, _, err := s.Get(dirName(i % dirs)); err == nil || ClassOf(err) == Definite {
					t.Errorf("%v", err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		end()
		if err := s.client.Close(ctx); !errors.Is(err, ErrUnknown) {
			t.Errorf("Close: %v", err)
		}
		wg.Wait()
		block.Remove()
	})
}

// TestF342_BundleWatchesUnwantedBySome: each worker has the server forget its own watch. The others
// of the bundle have their answers and go on.
func TestF342_BundleWatchesUnwantedBySome(t *testing.T) {
	crowded(t, func(t *testing.T, z *zktest.Server, s *Session) {
		var r recorder
		block := z.Faults().BlockReplies(s.ID())
		var reads, creation sync.WaitGroup
		var answered atomic.Int32
		for i := range dirs - 1 {
			s.client.Watch(dirName(i), &r)
			reads.Go(func() {
				_, _, _ = s.Get(dirName(i))
				answered.Add(1)
			})
		}
		synctest.Wait()
		creation.Go(func() {
			_, err := newNode(dirName(dirs-1), nil).CreateAndCount(s) // which writes to the directory
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		block.Let(s.bundler.most) // the bundle is sent
		synctest.Wait()
		before := int(answered.Load())
		if before == 0 || before > s.bundler.most {
			t.Fatalf("%d reads were answered", before)
		}
		for i := range dirs - 1 {
			s.client.Unwatch(dirName(i), &r)
		}
		z.Faults().DelayReply(zktest.Match{Op: zktest.OpRemoveWatches, Times: zktest.Every}, time.Second)
		began := time.Now()
		block.Remove()
		if creation.Wait(); time.Since(began) > 0 {
			t.Errorf("the creation took %v", time.Since(began))
		}
		if reads.Wait(); time.Since(began) > 2*time.Second {
			t.Errorf("the reads took %v", time.Since(began))
		}
		synctest.Wait()
		// Those that had been answered before are left to fire.
		if all := z.AllWatches(); all.Data != before {
			t.Errorf("the server has %+v, want %d", all, before)
		}
	})
}

// An oldConn makes a real server one that does not know how to read several nodes at once. It
// refuses what it does not know as all versions do: at once, ahead of the answers to what came
// before, and with the end of the connection.
type oldConn struct{ net.Conn }

// Write changes the kind of such requests.
func (c oldConn) Write(packet []byte) (int, error) {
	packet = bytes.Clone(packet)
	for b := packet; len(b) >= 12; {
		if binary.BigEndian.Uint32(b[8:]) == uint32(jute.OpMultiRead) {
			binary.BigEndian.PutUint32(b[8:], 9999)
		}
		b = b[min(len(b), 4+int(binary.BigEndian.Uint32(b))):]
	}
	return c.Conn.Write(packet)
}

// TestRealBundleOldServer: such a server costs a few connections at most, until the client knows.
func TestRealBundleOldServer(t *testing.T) {
	t.Parallel()
	cfg, dir := setUp(t, realzk.Shared(t))
	admin := open(t, cfg).Session()
	var dials atomic.Int32
	cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return oldConn{c}, nil
	}
	c := open(t, cfg)
	s := c.Session()
	defer crowd(c)()
	for i := range dirs {
		must(t, admin.EnsureDir(dir+dirName(i), nil))
		c.Watch(dir+dirName(i), new(recorder))
	}
	for range 10 {
		var wg sync.WaitGroup
		for i := range dirs {
			wg.Go(func() {
				var err error
				if i%2 == 0 {
					_, err = newNode(dir+dirName(i), nil).CreateAndCount(s)
				} else {
					_, _, err = s.Get(dir + dirName(i))
				}
				if err != nil && ClassOf(err) != Unknown {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	// A bundle that is under way when the first is refused is refused, too.
	if n := dials.Load(); n > 3 || !s.noMultiRead.Load() {
		t.Errorf("%d connections; it knows that the server is old: %t", n, s.noMultiRead.Load())
	}
}
